"""Hits for other programs: COCO JSON, a folder that FiftyOne reads, pictures with the hits outlined.

This is the only place where COCO is written. An annotation is one object (`iscrowd` 0) whose `segmentation` is COCO's
compressed run lengths at the size of its image: its mask, else its box, else everything. Programs that read COCO take
`score` for a confidence, so it is there only where a confidence was calibrated; the method's own is `raw_score`.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from wherein import plugins
from wherein.arrays import Mask
from wherein.errors import ImageError, InputError, UnreadableImage
from wherein.files import expanded, unwritable_told, write_durably
from wherein.images.image import ImageLike, Pixels, decode
from wherein.images.isolated import decode_given
from wherein.values.masks import box_mask, mask_box, resized, to_rle
from wherein.values.region import WHOLE, Box

if TYPE_CHECKING:
    from wherein.values.ranking import Hit, Ranking

ThumbOf = Callable[[str], bytes | None]
FileOf = Callable[[str], BinaryIO]

MARK: Final = (255, 122, 47)
"""The colour of outlines, an orange as on the page."""
DIMMED: Final = 0.35
"""How bright what is outside an outline stays."""
_OVERLAY_SIDE: Final = 1024
"""The longer side of a picture with an outline, in pixels."""


def export(ranking: Ranking, target: str, *, thumb_of: ThumbOf = lambda _: None, file_of: FileOf | None = None) -> Path:
    """Write a ranking as `coco:FILE`, `fiftyone:FOLDER` or `overlays:FOLDER`; returns what was written.

    Other packages add kinds through the entry-point group `wherein.exports`: functions like `write_coco`.

    `thumb_of` (a collection's `thumb`) shows hits whose file is a video, or not here; `file_of` (its `open_file`) opens
    the others as they were indexed, where a path may lead elsewhere by now.
    """
    kind, _, name = target.partition(":")
    if kind not in plugins.table("exports") or not name:
        others = "".join(f", {one}:FILE" for one in plugins.table("exports") if one not in plugins.BUILT_IN["exports"])
        raise InputError(f"export to {target!r}: write coco:FILE, fiftyone:FOLDER or overlays:FOLDER{others}.")
    path = expanded(name)
    with unwritable_told(path):
        plugins.load("exports", kind)(ranking, path, thumb_of=thumb_of, file_of=file_of)
    return path


def write_coco(
    ranking: Ranking,
    path: Path,
    *,
    thumb_of: ThumbOf = lambda _: None,  # noqa: ARG001 — every export is called alike
    file_of: FileOf | None = None,  # noqa: ARG001
) -> None:
    """One JSON document, as `coco` makes it."""
    write_durably(path, json.dumps(coco(ranking), ensure_ascii=False).encode())


@dataclass(frozen=True, slots=True)
class Labelled:
    """An image that bears a label, as it is written to a file: all of it, a box of it, or pixels of it."""

    file_name: str
    size_wh: tuple[int, int]
    label: str
    box: Box | None = None
    mask: Mask | None = None
    confidence: float | None = None
    """How likely the label is right, where that is calibrated."""
    raw_score: float | None = None
    """What the method gave, on a scale of its own."""


def coco(ranking: Ranking, *, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The hits as a COCO document: one category, what was looked for; files are called by their ids, or by `names`."""
    label = ranking.label or ranking.query
    files = names or [hit.image_id for hit in ranking]
    labelled = [
        Labelled(file, hit.size_wh, label, hit.box, hit.mask, hit.confidence, hit.score)
        for hit, file in zip(ranking, files, strict=True)
    ]
    return coco_document(labelled, description=f"wherein: {label}", labels=[label])


def coco_document(
    labelled: Sequence[Labelled], *, description: str, labels: Sequence[str] | None = None
) -> dict[str, Any]:
    """A COCO document; an image that bears several labels is listed once, and categories are sorted unless given."""
    categories = {one: number for number, one in enumerate(labels or sorted({one.label for one in labelled}), 1)}
    sizes = {one.file_name: one.size_wh for one in labelled}
    images = {file: number for number, file in enumerate(sizes, 1)}
    return {
        "info": {"description": description},
        "categories": [{"id": number, "name": name, "supercategory": ""} for name, number in categories.items()],
        "images": [
            {"id": number, "file_name": file, "width": sizes[file][0], "height": sizes[file][1]}
            for file, number in images.items()
        ],
        "annotations": [
            {"id": number, "image_id": images[one.file_name], "category_id": categories[one.label]} | _shape(one)
            for number, one in enumerate(labelled, 1)
        ],
    }


def _shape(one: Labelled) -> dict[str, Any]:
    """The region of an annotation, and how sure it is."""
    width, height = one.size_wh
    around = one.box if one.box is not None or one.mask is None else mask_box(one.mask)
    x1, y1, x2, y2 = (around or WHOLE).xyxy
    mask = _at_size(one.mask, one.box, size_wh=one.size_wh)
    sure = {"score": one.confidence, "raw_score": one.raw_score}
    return {
        "bbox": [x1 * width, y1 * height, (x2 - x1) * width, (y2 - y1) * height],
        "area": int(mask.sum()),
        "segmentation": to_rle(mask),
        "iscrowd": 0,
    } | {name: value for name, value in sure.items() if value is not None}


def _at_size(mask: Mask | None, box: Box | None, *, size_wh: tuple[int, int]) -> Mask:
    """The pixels of a region at a resolution: its mask, else its box, else everything."""
    return box_mask(box or WHOLE, size_wh=size_wh) if mask is None else resized(mask, size_wh=size_wh)


def write_fiftyone(ranking: Ranking, folder: Path, *, thumb_of: ThumbOf, file_of: FileOf | None = None) -> None:
    """A folder in FiftyOne's COCODetectionDataset layout: `data/` with the pictures, `labels.json`.

    Pictures are linked where the disk can, else copied; a keyframe or an image from memory is its thumb.
    """
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    names = []
    for number, hit in enumerate(ranking, 1):
        stem = f"{number:04d}-{_plain(hit.image_id)}"
        try:
            with _file(hit, file_of) as file:
                names.append(f"{stem}{hit.path.suffix if hit.path is not None else ''}")
                _link(file, data / names[-1])
        except ImageError:
            names.append(f"{stem}.jpg")
            black = np.zeros((*hit.size_wh[::-1], 3), np.uint8)
            write_durably(data / names[-1], thumb_of(hit.image_id) or _png(black))
    write_durably(folder / "labels.json", json.dumps(coco(ranking, names=names), ensure_ascii=False).encode())


def _plain(image_id: str) -> str:
    return re.sub(r"[^\w-]+", "_", Path(image_id).stem)[:80]


def _file(hit: Hit, file_of: FileOf | None) -> BinaryIO:
    """The picture's own file, opened; an ImageError where it has none, as a frame of a video and one from memory."""
    if hit.path is None or hit.seconds is not None:
        raise UnreadableImage(f"{hit.image_id}: has no file of its own.")
    try:
        if file_of is not None:
            return file_of(hit.image_id)
        if isinstance(hit.path, Path):
            return hit.path.open("rb")
    except OSError as error:
        raise UnreadableImage(f"{hit.path}: cannot be read ({error.strerror}).") from error
    raise UnreadableImage(f"{hit.path}: lies elsewhere, and nobody said how it is opened.")


def _link(source: BinaryIO, target: Path) -> None:
    """The open file under another name, linked where the disk can, else copied."""
    target.unlink(missing_ok=True)
    try:
        os.link(f"/proc/self/fd/{source.fileno()}", target, follow_symlinks=True)
    except OSError:
        with target.open("wb") as file:
            shutil.copyfileobj(source, file)


def write_overlays(ranking: Ranking, folder: Path, *, thumb_of: ThumbOf, file_of: FileOf | None = None) -> None:
    """One PNG a hit, named by its rank: its region outlined, the rest dimmed."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, hit in enumerate(ranking, 1):
        pixels = _picture(hit, thumb_of, file_of)
        if pixels is not None:
            mask = _at_size(hit.mask, hit.box, size_wh=(pixels.shape[1], pixels.shape[0]))
            write_durably(folder / f"{number:04d}-{_plain(hit.image_id)}.png", _png(overlay(pixels, mask)))


def write_overlay(source: ImageLike, mask: Mask, path: Path) -> None:
    """One image with a mask outlined and the rest dimmed, as PNG."""
    pixels = _small(source)
    with unwritable_told(path):
        write_durably(path, _png(overlay(pixels, resized(mask, size_wh=(pixels.shape[1], pixels.shape[0])))))


def _small(source: ImageLike) -> Pixels:
    """The image, at most 1024 pixels long."""
    image = decode_given(source)
    scale = min(1.0, _OVERLAY_SIDE / max(image.size_wh))
    return image.resized((max(1, round(image.size_wh[0] * scale)), max(1, round(image.size_wh[1] * scale))))


def _picture(hit: Hit, thumb_of: ThumbOf, file_of: FileOf | None) -> Pixels | None:
    """The image; its thumb where the file is a video or gone."""
    try:
        if hit.path is not None and hit.seconds is None:
            with _file(hit, file_of) as file:
                return _small(file.read())
    except ImageError:
        pass
    thumb = thumb_of(hit.image_id)
    return None if thumb is None else decode(thumb).pixels


def overlay(pixels: Pixels, mask: Mask) -> Pixels:
    """`pixels` (h, w, 3) with everything outside `mask` (h, w) dimmed and its outline drawn."""
    import cv2

    drawn = np.where(mask[..., None], pixels, (pixels * DIMMED).astype(np.uint8))
    if not mask.all():
        outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
        cv2.drawContours(drawn, outlines, -1, MARK, max(1, round(max(mask.shape) / 300)))
    return drawn


def _png(pixels: Pixels) -> bytes:
    import PIL.Image

    buffer = io.BytesIO()
    PIL.Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()
