"""Benchmark queries as the engine takes them, and the regions of its hits: the one place that knows both."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wherein import Box, Hit, Part
from wherein.bench.boxes import clipped
from wherein.bench.overlap import mask_iou
from wherein.errors import DataError
from wherein.region import iou

Mask = NDArray[np.bool_]

# Places and masks are optional powers of the engine; a benchmark runs without them, and says so.
PART_FIELDS: Final = frozenset(field.name for field in fields(Part))


def part(
    *,
    text: str | None = None,
    image: Path | None = None,
    box: Box | None = None,
    mask: Mask | None = None,
    where: Box | None = None,
) -> Part:
    """A part with everything the engine can use: a mask it does not know becomes the box around it."""
    given: dict[str, Any] = {"text": text, "image": image, "box": box}
    if mask is not None and "mask" in PART_FIELDS:
        given["mask"] = mask
    elif mask is not None:
        given["box"] = bounds(mask)
    if where is not None and "where" in PART_FIELDS:
        given["where"] = where
    return Part(**given)


def takes_places() -> bool:
    """Can a part say where in the image it should be?"""
    return "where" in PART_FIELDS


def bounds(mask: Mask) -> Box | None:
    """The box around a mask's pixels; None where it has none."""
    ys, xs = np.nonzero(mask)
    if len(xs) == 0:
        return None
    height, width = mask.shape
    return Box(xs.min() / width, ys.min() / height, (xs.max() + 1) / width, (ys.max() + 1) / height)


def hit_mask(hit: Hit) -> Mask | None:
    """The mask of a hit, where its method made one."""
    mask = getattr(hit, "mask", None)
    return None if mask is None else np.asarray(mask, dtype=bool)


def hit_point(hit: Hit) -> tuple[float, float] | None:
    """Where a hit points, x and y in [0, 1]: the middle of its mask's or box's extent; None if it has neither."""
    mask = hit_mask(hit)
    box = hit.box if mask is None else _heart(mask)
    return None if box is None else ((box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2)


def _heart(mask: Mask) -> Box | None:
    """The pixel deepest inside the mask: its extent's middle may lie outside a bent shape."""
    if not mask.any():
        return None
    import cv2

    inside = np.pad(mask.astype(np.uint8), 1)
    depth = cv2.distanceTransform(inside, cv2.DIST_L2, 3)[1:-1, 1:-1]
    y, x = np.unravel_index(int(np.argmax(depth)), depth.shape)
    height, width = mask.shape
    return Box(x / width, y / height, (x + 1) / width, (y + 1) / height)


def region_ious(hit: Hit, truth: Mask) -> tuple[float, float]:
    """Box and mask IoU of a hit's region with a true mask; a hit without a region scores 0."""
    true_box, mask = bounds(truth), hit_mask(hit)
    box = hit.box if hit.box is not None else (bounds(mask) if mask is not None else None)
    if true_box is None or box is None:
        return 0.0, 0.0
    predicted = _filled(box, truth.shape) if mask is None else _fitted(mask, truth.shape)
    return iou(box, true_box), mask_iou(predicted, truth)


def _filled(box: Box, shape: tuple[int, ...]) -> Mask:
    height, width = shape
    x1, y1, x2, y2 = box.pixels((width, height))
    mask = np.zeros((height, width), dtype=bool)
    mask[y1:y2, x1:x2] = True
    return mask


def _fitted(mask: Mask, shape: tuple[int, ...]) -> Mask:
    """The mask at the truth's resolution, each pixel from the nearest one."""
    if mask.shape == shape:
        return mask
    rows = (np.arange(shape[0]) + 0.5) * mask.shape[0] / shape[0]
    columns = (np.arange(shape[1]) + 0.5) * mask.shape[1] / shape[1]
    return np.asarray(mask[rows.astype(np.int64)][:, columns.astype(np.int64)])


def no_region_warning(any_region: bool, consequence: str) -> tuple[str, ...]:
    """The warning of a run whose method never said where."""
    if any_region:
        return ()
    return (f"the method gave no region with any hit, so {consequence}; add a part that says where",)


def pixel_box(path: Path, xyxy: Sequence[float]) -> Box:
    """A pixel box of an image file as a Box inside it."""
    import PIL.Image

    try:
        with PIL.Image.open(path) as picture:
            size_wh = picture.size
    except (OSError, ValueError) as error:
        raise DataError(f"the example image {path} cannot be read ({error}); restore the file") from error
    return clipped(xyxy, size_wh=size_wh)


def hit_polygon(hit: Hit) -> list[list[float]]:
    """A hit's region as one polygon in pixels, as the pixel benchmarks take it; empty where it has none.

    Of a mask in several pieces it is the outline of the largest, since a prediction is one polygon there.
    """
    width, height = hit.size_wh
    mask = hit_mask(hit)
    if mask is not None and mask.any():
        import cv2

        outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        largest = max(outlines, key=cv2.contourArea)[:, 0].astype(np.float64)
        scale = np.array([width / mask.shape[1], height / mask.shape[0]])
        return [[float(x), float(y)] for x, y in largest * scale]
    if hit.box is None:
        return []
    x1, y1, x2, y2 = hit.box.pixels((width, height))
    return [[float(x), float(y)] for x, y in ((x1, y1), (x2 - 1, y1), (x2 - 1, y2 - 1), (x1, y2 - 1))]
