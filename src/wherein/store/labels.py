"""What the rows of a shard are of, written into the shard itself: a lost catalogue is rebuilt from these labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from wherein.store.manifest import Layer
from wherein.values.records import FileRecord, ImageRecord
from wherein.values.region import Box


@dataclass(frozen=True, slots=True)
class Label:
    """One row of a shard: the image it is of, and the part of that image."""

    row: int
    file: FileRecord
    whole: bool
    """Whether the file was read to its end when the row was written."""
    image: ImageRecord
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a shard, with what else the manifest would say of it."""

    layer: Layer
    rows: tuple[Label, ...]
    roots: Mapping[str, str] = field(default_factory=dict)
    """The folders of its roots, as the manifest names them."""

    def to_document(self) -> dict[str, Any]:
        """As JSON: files and images once, rows by their numbers."""
        files, images, rows = dict[tuple[FileRecord, bool], int](), dict[tuple[int, ImageRecord], int](), list[Any]()
        for label in self.rows:
            file = files.setdefault((label.file, label.whole), len(files))
            image = images.setdefault((file, label.image), len(images))
            rows.append([label.row, image, None if label.box is None else str(label.box)])
        used = {label.file.root for label in self.rows}
        return {
            "layer": asdict(self.layer),
            "roots": {name: folder for name, folder in self.roots.items() if name in used},
            "files": [[f.root, f.path, f.size, f.mtime_ns, f.hash.hex(), whole] for f, whole in files],
            "images": [[file, i.image_id, *i.size_wh, i.taken, i.seconds] for file, i in images],
            "rows": rows,
        }

    @classmethod
    def of(cls, document: Any) -> Self | None:
        """What a shard says of itself; None where it says nothing that can be understood."""
        try:
            files = [
                (FileRecord(str(root), str(path), int(size), int(mtime), bytes.fromhex(hash_)), bool(whole))
                for root, path, size, mtime, hash_, whole in document["files"]
            ]
            images = [
                (files[file], ImageRecord(str(name), (int(w), int(h)), float(taken), seconds))
                for file, name, w, h, taken, seconds in document["images"]
            ]
            rows = []
            for row, image, box in document["rows"]:
                (file, whole), own = images[image]
                rows.append(Label(int(row), file, whole, own, None if box is None else Box.parse(box)))
            layer = Layer(**{**document["layer"], "shape": tuple(document["layer"]["shape"])})
            return cls(layer, tuple(rows), {str(name): str(folder) for name, folder in document["roots"].items()})
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            return None
