"""Masks of pairs of images, made as in the paper on pixel retrieval (PROxford), their agreement, and files of them.

One person annotates a pair, two others refine and inspect what the one before drew.

A selection is a group of pairs: its first image is the query, the others are the images to label.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from wherein.arrays import Mask
from wherein.values.masks import from_rle, resized, to_polygons, to_rle

STAGES: Final = ("annotate", "refine and inspect", "refine and inspect again")
"""What is done with a pair, in order; each stage is done by another person, as by the paper's three annotators."""

Entry = dict[str, Any]
Labels = dict[str, dict[str, list[Entry]]]
"""selection → image_id → the entries of its stages, in order: author, mask as run lengths, seconds."""


def next_pair(groups: Mapping[str, Sequence[Entry]], labels: Labels, author: str) -> tuple[str, str, int] | None:
    """A pair that an author may work on: (selection, image_id, stage); those furthest on come first."""
    waiting = []
    for name, items in sorted(groups.items()):
        for number, item in enumerate(items[1:]):
            done = labels.get(name, {}).get(item["image_id"], [])
            if len(done) < len(STAGES) and all(entry["author"] != author for entry in done):
                waiting.append((-len(done), name, number, item["image_id"]))
    if not waiting:
        return None
    stage, name, _, image_id = min(waiting)
    return name, image_id, -stage


def agreement(labels: Labels) -> list[dict[str, Any]]:
    """IoU of each stage's mask with that of the stage before it, pair by pair."""
    rows = []
    for name, images in sorted(labels.items()):
        for image_id, entries in sorted(images.items()):
            masks = [from_rle(entry["mask"]) for entry in entries]
            ious = [_iou(before, after) for before, after in pairwise(masks)]
            authors = [entry["author"] for entry in entries]
            rows.append({"selection": name, "image_id": image_id, "authors": authors, "ious": ious})
    return rows


def _iou(one: Mask, other: Mask) -> float:
    if one.shape != other.shape:
        other = resized(other, size_wh=(one.shape[1], one.shape[0]))
    union = int(np.count_nonzero(one | other))
    return 1.0 if union == 0 else int(np.count_nonzero(one & other)) / union


def exported(groups: Mapping[str, Sequence[Entry]], labels: Labels, sizes: Mapping[str, tuple[int, int]]) -> bytes:
    """A zip that `wherein bench run proxford` reads: truth, outlines of pairs and of queries, as labelme files.

    `sizes` are widths and heights of the images; a pair without a mask is left out.
    """
    names = [name for name, items in sorted(groups.items()) if items and labels.get(name)]
    images = sorted({image for name in names for image, entries in labels[name].items() if entries and image in sizes})
    row_of = {image: row for row, image in enumerate(images)}
    buffer = io.BytesIO()
    truth, pairs = [], {}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, name in enumerate(names):
            query = groups[name][0]
            rows = sorted(row_of[image] for image in labels[name] if image in row_of)
            easy = [row for row in rows if from_rle(labels[name][images[row]][-1]["mask"]).any()]
            truth.append({"easy": easy, "hard": [], "junk": sorted(set(rows) - set(easy)), **_box(query, sizes)})
            if query.get("mask") and query["image_id"] in sizes:
                archive.writestr(f"query_masks/{number}.json", _labelme(query["mask"], sizes[query["image_id"]]))
            for row in easy:
                path = f"labels/{number}_{row}.json"
                archive.writestr(path, _labelme(labels[name][images[row]][-1]["mask"], sizes[images[row]]))
                pairs[f"{number}_{row}"] = path
        document = {"imlist": images, "qimlist": [groups[name][0]["image_id"] for name in names], "gnd": truth}
        archive.writestr("gnd_roxford5k.pkl", pickle.dumps(document, protocol=2))
        saved = io.BytesIO()
        np.save(saved, np.array(pairs, dtype=object), allow_pickle=True)
        archive.writestr("oxford_pair2labelpath.npy", saved.getvalue())
        archive.writestr("agreement.json", json.dumps(agreement(labels), indent=1))
    return buffer.getvalue()


def _box(query: Entry, sizes: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """The query's box in pixels, where it has one."""
    if not query.get("box") or query["image_id"] not in sizes:
        return {}
    width, height = sizes[query["image_id"]]
    x1, y1, x2, y2 = query["box"]
    return {"bbx": [x1 * width, y1 * height, x2 * width, y2 * height]}


def _labelme(rle: Any, size_wh: tuple[int, int]) -> str:
    """A mask as labelme writes one: polygons in pixels of the whole image."""
    width, height = size_wh
    mask = from_rle(rle)
    scale = np.array([width / mask.shape[1], height / mask.shape[0]])
    shapes = [
        {"label": "object", "shape_type": "polygon", "points": (np.asarray(loop) * scale).tolist(), "flags": {}}
        for loop in to_polygons(mask, tolerance=1.0)
    ]
    return json.dumps({"version": "5.0.0", "shapes": shapes, "imageWidth": width, "imageHeight": height})


def kept(mask: Mask) -> Any:
    """A mask as it is kept and told: run lengths that a page can read."""
    return to_rle(mask, compressed=False)
