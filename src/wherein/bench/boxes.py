"""Boxes of the sub-region study: put into the frame, perturbed, and compared with the cells of static grids."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from wherein import Box, Grid
from wherein.values.region import WHOLE, iou

PERTURBATIONS: Final = ((0.0, 0.0), (0.1, 0.1), (0.25, 0.25), (0.5, 0.5))  # (shift σ, size σ) of the paper
SEEDS: Final = 5
"""Draws of each perturbation: the deviation of a mean of five is told with it; the paper does not say how many."""
SMALLEST_SCALE: Final = 0.1
"""A box shrinks to this share of its side at least, so that it does not vanish."""
GRIDS: Final = (Grid(5), Grid(9))
"""The grids that the paper compares boxes with."""


def clipped(xyxy: Sequence[float], *, size_wh: tuple[int, int]) -> Box:
    """A pixel box, corners in any order, as a Box inside the image; never empty."""
    width, height = size_wh
    x1, x2 = _span(xyxy[0] / width, xyxy[2] / width, least=1 / width)
    y1, y2 = _span(xyxy[1] / height, xyxy[3] / height, least=1 / height)
    return Box(x1, y1, x2, y2)


def _span(one: float, other: float, *, least: float) -> tuple[float, float]:
    """Both ends cut to [0, 1], at least one pixel apart."""
    low, high = sorted(min(max(value, 0.0), 1.0) for value in (one, other))
    if high - low >= least:
        return low, high
    low = min(low, 1.0 - least)
    return low, low + least


def _inside(x: float, y: float, width: float, height: float) -> Box:
    """A box by its middle and size, no larger than the frame and pushed back into it."""
    width, height = min(width, 1.0), min(height, 1.0)
    left = min(max(x - width / 2, 0.0), 1.0 - width)
    top = min(max(y - height / 2, 0.0), 1.0 - height)
    return Box(left, top, min(left + width, 1.0), min(top + height, 1.0))


def perturbed(box: Box, *, spread: tuple[float, float], rng: np.random.Generator) -> Box:
    """Shift the box by N(0, σ_s) of the frame, scale each side by N(1, σ_a) but at least 0.1; (0, 0) keeps it."""
    shift, size = spread
    dx, dy, sx, sy = rng.standard_normal(4).tolist()  # drawn always, so that every level shares them
    if shift == 0 and size == 0:
        return box
    width = (box.x2 - box.x1) * max(1 + size * sx, SMALLEST_SCALE)
    height = (box.y2 - box.y1) * max(1 + size * sy, SMALLEST_SCALE)
    return _inside((box.x1 + box.x2) / 2 + shift * dx, (box.y1 + box.y2) / 2 + shift * dy, width, height)


def best_iou(box: Box, cells: Sequence[Box]) -> float:
    """The highest IoU of a box with any cell."""
    return max(iou(box, cell) for cell in cells)


def box_statistics(boxes: Mapping[str, Sequence[Box]]) -> dict[str, Any]:
    """Mean and spread of the best cell/box IoU for the whole image and each grid, by set of annotations."""
    layouts = {"whole": (WHOLE,)} | {str(grid): grid.boxes() for grid in GRIDS}
    found: dict[str, Any] = {}
    for name, members in boxes.items():
        if members:
            areas = np.array([box.area for box in members])
            found[f"boxes {name}"] = {"mean area": float(areas.mean()), "std area": float(areas.std())}
        for layout, cells in layouts.items():
            if members:
                ious = np.array([best_iou(box, cells) for box in members])
                found[f"{layout} {name}"] = {"mean IoU": float(ious.mean()), "std IoU": float(ious.std())}
    return found
