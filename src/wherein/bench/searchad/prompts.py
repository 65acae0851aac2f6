"""How a detector's boxes depend on the words and the threshold: the SearchAD paper's Figure 10, counted."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

import PIL.Image
import PIL.ImageDraw

from wherein import Box, decode
from wherein.bench.boxes import clipped
from wherein.bench.html import html_table, page, section
from wherein.bench.searchad import dataset as searchad
from wherein.bench.searchad.localization import true_boxes
from wherein.bench.tables import Table
from wherein.errors import DataError
from wherein.models import Detection, Detector
from wherein.values.region import iou

THRESHOLDS: Final = (0.23, 0.3, 0.4, 0.5)
"""Scores from which a box counts; 0.23 is the threshold of the paper's figure."""

RIGHT: Final = 0.5
"""A box is right where it overlaps a true one by more than this: COCO's lowest threshold."""

COLUMNS: Final = ("found", "right", "wrong boxes_n")


@dataclass(frozen=True)
class Prompted:
    """What a detector found with one wording in one image, and the true boxes there."""

    words: str
    image: Path
    found: tuple[Detection, ...]
    true: tuple[Box, ...]


def wordings(support: searchad.SupportSet) -> tuple[str, ...]:
    """Each text of a support set alone, and all of them as one prompt."""
    texts = (*support.keywords, *support.descriptions)
    if not texts:
        raise DataError(f"the default query of {support.label} has no text")
    return (*texts, " ".join(text if text.endswith(".") else f"{text}." for text in texts))


def look(root: Path, label: str, detector: Detector, *, split: str = "val", most: int = 20) -> tuple[Prompted, ...]:
    """Let a detector look for a label in its own images with every wording of its default query."""
    support = next((one for one in searchad.load_queries(root) if one.label == label), None)
    if support is None:
        raise DataError(
            f"{root / 'default_queries'} has no query for {label!r}; labels are called like Object-Rollator"
        )
    boxes = true_boxes(searchad.read_annotations(root, split), label)
    if not boxes:
        raise DataError(f"no image of the {split} split shows {label}")
    seen = []
    for name in sorted(boxes)[:most]:
        image = decode(root / name)
        true = tuple(clipped(box, size_wh=image.size_wh) for box in boxes[name])
        seen += [
            Prompted(words, root / name, tuple(detector.find(image, [words])), true) for words in wordings(support)
        ]
    return tuple(seen)


def counted(seen: Sequence[Prompted], thresholds: Sequence[float] = THRESHOLDS) -> tuple[Table, ...]:
    """A table for each threshold: true boxes found, the share of boxes that are right, and wrong boxes, by wording."""
    made = []
    for threshold in thresholds:
        rows = []
        for words in dict.fromkeys(one.words for one in seen):
            mine = [one for one in seen if one.words == words]
            kept = [(one, [found for found in one.found if found.score >= threshold]) for one in mine]
            total = sum(len(found) for _, found in kept)
            right = sum(_is_right(found.box, one.true) for one, boxes in kept for found in boxes)
            true = sum(len(one.true) for one in mine)
            hit = sum(any(iou(found.box, box) > RIGHT for found in boxes) for one, boxes in kept for box in one.true)
            share = right / total if total else 0.0
            rows.append((words, {"found": hit / true, "right": share, "wrong boxes_n": float(total - right)}))
        made.append(Table(f"boxes that score {threshold:g} or more", COLUMNS, tuple(rows)))
    return tuple(made)


def _is_right(box: Box, true: Sequence[Box]) -> bool:
    return any(iou(box, one) > RIGHT for one in true)


def prompts_page(seen: Sequence[Prompted], *, label: str, detector: str, threshold: float = THRESHOLDS[0]) -> str:
    """The tables, and the first image with the boxes of every wording: green is right, red is wrong, white is true."""
    first = [one for one in seen if one.image == seen[0].image]
    pictures = "".join(
        f'<figure><img src="{_drawn(one, threshold)}" alt=""><figcaption>{escape(one.words)}</figcaption></figure>'
        for one in first
    )
    sections = [section(table.title, html_table(table)) for table in counted(seen)]
    grid = f'<div class="plots">{pictures}</div>'
    return page(
        title=label, subtitle=f"{detector}: what the wording changes", sections=[*sections, section("Seen", grid)]
    )


def _drawn(one: Prompted, threshold: float) -> str:
    with PIL.Image.open(one.image) as opened:
        picture = opened.convert("RGB")
    picture.thumbnail((480, 480))
    draw = PIL.ImageDraw.Draw(picture)
    for box in one.true:
        draw.rectangle(_corners(box, picture.size), outline="white", width=2)
    for found in one.found:
        if found.score >= threshold:
            colour = "lime" if _is_right(found.box, one.true) else "red"
            corners = _corners(found.box, picture.size)
            draw.rectangle(corners, outline=colour, width=2)
            draw.text(corners[:2], f"{found.score:.2f}", fill=colour)
    data = io.BytesIO()
    picture.save(data, "WEBP", quality=70)
    return "data:image/webp;base64," + base64.b64encode(data.getvalue()).decode("ascii")


def _corners(box: Box, size_wh: tuple[int, int]) -> tuple[float, float, float, float]:
    width, height = size_wh
    return box.x1 * width, box.y1 * height, box.x2 * width, box.y2 * height
