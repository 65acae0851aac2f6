"""The regions of hits as benchmarks ask for them: a point, IoUs with a true mask, an outline in pixels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from wherein import Box, Hit, Query
from wherein.arrays import Mask
from wherein.bench.boxes import clipped
from wherein.bench.overlap import mask_iou
from wherein.bench.task import Search
from wherein.errors import DataError
from wherein.values.masks import box_mask, mask_box, resized
from wherein.values.region import iou

AT_ONCE: Final = 10
"""Images that are located by one search: as many as each step looks at, at least (`LEARNED_VERIFIED` of
`wherein.search.verification` is ten)."""


def located(search: Search, query: Query, hits: Sequence[Hit], wanted: Sequence[str], *, timed: bool) -> dict[str, Hit]:
    """The hits of the wanted images, each with its place whatever its rank.

    A ranking is located and verified only so far down; what lies below is asked for again, by its name.
    """
    asked = set(wanted)
    found = {hit.image_id: hit for hit in hits if hit.image_id in asked}
    missing = [name for name in wanted if name not in found or not hit_polygon(found[name])]
    for start in range(0, len(missing), AT_ONCE):
        some = missing[start : start + AT_ONCE]
        found |= {hit.image_id: hit for hit in search(query, k=len(some), among=some, timed=timed)}
    return found


def hit_point(hit: Hit) -> tuple[float, float] | None:
    """Where a hit points, x and y in [0, 1]: the innermost pixel of its mask, or the middle of its box."""
    box = hit.box if hit.mask is None else _innermost(hit.mask)
    return None if box is None else ((box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2)


def _innermost(mask: Mask) -> Box | None:
    """The pixel deepest inside a mask: the middle of its extent may lie outside a bent shape."""
    if not mask.any():
        return None
    depth = cv2.distanceTransform(np.pad(mask.astype(np.uint8), 1), cv2.DIST_L2, 3)[1:-1, 1:-1]
    y, x = (int(side) for side in np.unravel_index(int(np.argmax(depth)), depth.shape))
    height, width = mask.shape
    return Box(x / width, y / height, (x + 1) / width, (y + 1) / height)


def region_ious(hit: Hit, truth: Mask) -> tuple[float, float]:
    """Box and mask IoU of a hit's region with a true mask; a hit without a region scores 0."""
    true_box = mask_box(truth)
    box = hit.box if hit.box is not None else (None if hit.mask is None else mask_box(hit.mask))
    if true_box is None or box is None:
        return 0.0, 0.0
    size_wh = (truth.shape[1], truth.shape[0])
    predicted = box_mask(box, size_wh=size_wh) if hit.mask is None else resized(hit.mask, size_wh=size_wh)
    return iou(box, true_box), mask_iou(predicted, truth)


def hit_polygon(hit: Hit) -> list[list[float]]:
    """A hit's region as one polygon in pixels, as the pixel benchmarks take it; empty where it has none.

    Of a mask in several pieces it is the outline of the largest, since a prediction is one polygon there.
    """
    width, height = hit.size_wh
    if hit.mask is not None and hit.mask.any():
        outlines, _ = cv2.findContours(hit.mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        largest = max(outlines, key=cv2.contourArea)[:, 0].astype(np.float64)
        scale = np.array([width / hit.mask.shape[1], height / hit.mask.shape[0]])
        return [[float(x), float(y)] for x, y in largest * scale]
    if hit.box is None:
        return []
    x1, y1, x2, y2 = hit.box.pixels((width, height))
    return [[float(x), float(y)] for x, y in ((x1, y1), (x2 - 1, y1), (x2 - 1, y2 - 1), (x1, y2 - 1))]


def pixel_box(path: Path, xyxy: Sequence[float]) -> Box:
    """A pixel box of an image file as a Box inside it."""
    import PIL.Image

    try:
        with PIL.Image.open(path) as picture:
            size_wh = picture.size
    except (OSError, ValueError) as error:
        raise DataError(f"the example image {path} cannot be read ({error}); restore the file") from error
    return clipped(xyxy, size_wh=size_wh)


def no_region_warning(any_region: bool, consequence: str) -> tuple[str, ...]:
    """The warning of a run whose method never said where."""
    if any_region:
        return ()
    return (f"the method gave no region with any hit, so {consequence}; add a part that says where",)
