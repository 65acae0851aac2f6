"""A folder of links to exactly the images a benchmark searches, so that nothing else is indexed.

Images are copied only where they are to be made smaller, or where the disk has no links.

`staged.json` beside it says which images these are. It is written first, so that a stopped run goes on, and another run
is refused before it changes anything.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wherein.errors import DataError

RECORD: Final = "staged.json"


@dataclass(frozen=True)
class Stage:
    """Which images a run searches, and the folder they are staged in; `longest_side` reduces them first."""

    files: Mapping[str, Path]
    folder: Path
    longest_side: int | None = None
    within: bool = False
    """Whether a folder that holds further images serves as well: nothing but these is looked at."""

    @property
    def record(self) -> dict[str, object]:
        """What `staged.json` holds, as a dictionary."""
        lines = "".join(f"{image_id}\0{path.absolute()}\n" for image_id, path in sorted(self.files.items()))
        digest = hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()
        return {"images": len(self.files), "longest_side": self.longest_side, "digest": digest}

    def check(self) -> bool:
        """Refuse missing files and a folder of other images; changes nothing. Whether images must be staged."""
        missing = [path for path in self.files.values() if not path.is_file()]
        if missing:
            named = f"{len(missing)} of {len(self.files)} images do not exist, first {missing[0]}"
            raise DataError(f"{named}; restore the files")
        path = self.folder.parent / RECORD
        if not path.is_file():
            return self._check_unrecorded()
        known = json.loads(path.read_text(encoding="utf-8"))
        if known == self.record:
            return True
        same_size = known.get("longest_side") == self.longest_side
        if self.within and same_size and all((self.folder / image_id).exists() for image_id in self.files):
            return False
        raise self._refused(known["images"] if same_size else f"{known['images']} otherwise reduced")

    def _check_unrecorded(self) -> bool:
        """A folder that was made before there were records holds nothing but images of this run."""
        there = {
            (Path(folder) / name).relative_to(self.folder).as_posix()
            for folder, _, names in os.walk(self.folder)
            for name in names
        }
        if there - set(self.files):
            raise self._refused(len(there))
        return True

    def _refused(self, found: object) -> DataError:
        return DataError(
            f"{self.folder} was made of {found} image files, and not of the {len(self.files)} of this benchmark: it "
            "belongs to another run, or the data changed since the run began; choose another --collection or --out, "
            f"or delete {self.folder.parent}"
        )

    def make(self) -> Path:
        """Make the folder hold a link per image_id, or a copy no longer than `longest_side`; what is there stays."""
        if not self.check():
            return self.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder.parent / RECORD).write_text(json.dumps(self.record) + "\n", encoding="utf-8")
        for image_id, path in self.files.items():
            link = self.folder / image_id
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                if self.longest_side is None:
                    _link(path.absolute(), link)
                else:
                    reduce(path, link, longest_side=self.longest_side)
        return self.folder


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
