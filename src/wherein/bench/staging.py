"""A folder of links to exactly the images a benchmark searches: nothing else is indexed, nothing is copied."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from wherein.errors import DataError


def stage(files: Mapping[str, Path], folder: Path) -> Path:
    """Make `folder` hold a link per image_id; links of a former sitting stay, others are refused."""
    missing = [path for path in files.values() if not path.is_file()]
    if missing:
        raise DataError(f"{len(missing)} of {len(files)} images do not exist, first {missing[0]}; restore the files")
    folder.mkdir(parents=True, exist_ok=True)
    for image_id, path in files.items():
        link = folder / image_id
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            _link(path.absolute(), link)
    there = sum(len(names) for _, _, names in os.walk(folder))
    if there != len(files):
        raise DataError(
            f"{folder} holds {there} images but the benchmark has {len(files)}: the data changed since the run began; "
            "choose another --out, or delete the folder"
        )
    return folder


def _link(path: Path, link: Path) -> None:
    try:
        link.symlink_to(path)
    except OSError:  # no links on this disk or for this user
        shutil.copyfile(path, link)
