"""A folder of links to exactly the images a benchmark searches: nothing else is indexed, nothing is copied."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from wherein.errors import DataError


def stage(files: Mapping[str, Path], folder: Path, *, longest_side: int | None = None) -> Path:
    """Make `folder` hold a link per image_id, or a copy no longer than `longest_side`.

    What a former sitting made stays; anything else in there is refused.
    """
    missing = [path for path in files.values() if not path.is_file()]
    if missing:
        raise DataError(f"{len(missing)} of {len(files)} images do not exist, first {missing[0]}; restore the files")
    folder.mkdir(parents=True, exist_ok=True)
    for image_id, path in files.items():
        link = folder / image_id
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            if longest_side is None:
                _link(path.absolute(), link)
            else:
                reduce(path, link, longest_side=longest_side)
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


def reduce(path: Path, copy: Path, *, longest_side: int) -> None:
    """Write an upright copy with at most that many pixels on its longest side; whole or not at all."""
    import PIL.Image
    import PIL.ImageOps

    rough = copy.with_name(f".{copy.name}.part")
    try:
        with PIL.Image.open(path) as picture:
            upright = PIL.ImageOps.exif_transpose(picture).convert("RGB")
            upright.thumbnail((longest_side, longest_side), PIL.Image.Resampling.LANCZOS)
            upright.save(rough, "PNG", compress_level=1)  # whatever its suffix says: no second loss
    except (OSError, ValueError, SyntaxError):
        _link(path.absolute(), copy)  # the engine says what is wrong with it
        return
    rough.replace(copy)
