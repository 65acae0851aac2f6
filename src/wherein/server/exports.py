"""A selection for other programs: paths, CSV, COCO JSON, YOLO."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from wherein.arrays import Mask
from wherein.collection import Collection
from wherein.errors import ImageNotFound, RegionError
from wherein.output.exports import Labelled, coco_document
from wherein.output.labels import plain_cell
from wherein.server.places import file_name
from wherein.server.problems import Problem
from wherein.server.shapes import ItemIn
from wherein.values.masks import from_rle
from wherein.values.records import Details
from wherein.values.region import Box

Format = Literal["paths", "csv", "coco", "yolo"]
TYPES: Final = {
    "paths": ("text/plain; charset=utf-8", "txt"),
    "csv": ("text/csv; charset=utf-8", "csv"),
    "coco": ("application/json", "json"),
    "yolo": ("application/zip", "zip"),
}


@dataclass(frozen=True, slots=True)
class _Line:
    """A selected image with what is known of it."""

    item: ItemIn
    details: Details
    label: str

    @property
    def xyxy(self) -> tuple[float, float, float, float]:
        """Its box; the whole image where it has none."""
        return self.item.box or (0.0, 0.0, 1.0, 1.0)


def export(collection: Collection, items: Sequence[ItemIn], *, name: str, format_: Format) -> tuple[bytes, int]:
    """The file's bytes, and how many images are left out since they left the collection.

    What has no label is labelled with the selection's name.
    """
    lines = list[_Line]()
    for item in items:
        with suppress(ImageNotFound):
            lines.append(_Line(item, collection.details(item.image_id), item.label or name))
    write = {"paths": _paths, "csv": _csv, "coco": _coco, "yolo": _yolo}[format_]
    return write(lines), len(items) - len(lines)


def _paths(lines: Sequence[_Line]) -> bytes:
    return "".join(f"{file_name(line.item.image_id)}\n" for line in lines).encode("utf-8", "replace")


def _csv(lines: Sequence[_Line]) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["image_id", "path", "width", "height", "label", "x1", "y1", "x2", "y2", "tags"])
    for line in lines:
        box: Sequence[object] = line.item.box or ("", "", "", "")
        known = line.details
        row = [known.image_id, file_name(known.image_id), *known.size_wh, line.label, *box, ";".join(known.tags)]
        writer.writerow([plain_cell(value) for value in row])
    return buffer.getvalue().encode("utf-8", "replace")


def _coco(lines: Sequence[_Line]) -> bytes:
    labelled = [
        Labelled(
            line.item.image_id,
            line.details.size_wh,
            line.label,
            *_region(line.item),
        )
        for line in lines
    ]
    document = coco_document(labelled, description="exported by wherein")
    return json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def _region(item: ItemIn) -> tuple[Box | None, Mask | None]:
    """The box and the mask of a selected image; older versions have kept broken ones."""
    try:
        box = None if item.box is None else Box(*item.box)
        mask = None if item.mask is None else from_rle({"size": list(item.mask.size), "counts": item.mask.counts})
    except RegionError as error:
        raise Problem(422, f"{item.image_id}: its region is broken ({error}) Select it again.") from None
    return box, mask


def _yolo(lines: Sequence[_Line]) -> bytes:
    labels = sorted({line.label for line in lines})
    buffer, texts, taken = io.BytesIO(), dict[str, list[str]](), dict[str, str]()
    for line in lines:
        x1, y1, x2, y2 = line.xyxy
        numbers = ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1)
        row = f"{labels.index(line.label)} " + " ".join(f"{value:.6f}" for value in numbers)
        texts.setdefault(line.item.image_id, []).append(row)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        paths = []
        for line in lines:
            if line.item.image_id in taken:
                continue
            name = _label_name(line.item.image_id, set(taken.values()))
            taken[line.item.image_id] = name
            paths.append(file_name(line.item.image_id))
            archive.writestr(name, "\n".join(texts[line.item.image_id]) + "\n")
        archive.writestr("images.txt", "\n".join(paths) + "\n")
        archive.writestr("classes.txt", "\n".join(labels) + "\n")
        archive.writestr("data.yaml", f"train: images.txt\nnames: {json.dumps(labels, ensure_ascii=False)}\n")
    return buffer.getvalue()


def _label_name(image_id: str, taken: set[str]) -> str:
    """`a/b.jpg` → `labels/a/b.txt`, as YOLO looks for it; never outside labels/, never twice."""
    steps = [step for step in image_id.replace("\\", "/").split("/") if step not in ("", ".", "..")]
    stem = "/".join(steps).rsplit(".", 1)[0] if "#" not in image_id else "/".join(steps)
    name, number = f"labels/{stem}.txt", 1
    while name in taken:
        number += 1
        name = f"labels/{stem}-{number}.txt"
    return name
