"""How well a predicted region covers the true one, rasterised the way the pixel retrieval evaluator does."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

Points = NDArray[np.int64]


def polygon_ious(prediction: ArrayLike, truth: Sequence[ArrayLike]) -> tuple[float, float]:
    """Box and mask IoU of one predicted polygon with true polygons, points (n, 2) in x, y pixels.

    The official rules: points lose their fraction; the canvas is a square whose side is the largest
    coordinate of both, so its last row and column are cut off; a box covers min to max inclusive, indexed as
    an array slice (a negative minimum counts from the far side, which usually empties it); a mask is the
    filled polygon. A prediction without points scores 0.
    """
    predicted = _points(prediction)
    polygons = [_points(part) for part in truth]
    polygons = [part for part in polygons if len(part)]
    if len(predicted) == 0 or not polygons:
        return 0.0, 0.0
    true_points = np.concatenate(polygons)
    side = max(int(predicted.max()), int(true_points.max()), 0)
    box = _box_iou(predicted, true_points, side)
    return box, mask_iou(_filled([predicted], side), _filled(polygons, side))


def region_ious(mask: NDArray[np.bool_], truth: Sequence[ArrayLike]) -> tuple[float, float]:
    """Box and mask IoU of a predicted mask (h, w) with true polygons; the canvas holds both whole."""
    polygons = [part for part in map(_points, truth) if len(part)]
    if not mask.any() or not polygons:
        return 0.0, 0.0
    true_points = np.concatenate(polygons)
    side = max(*mask.shape, int(true_points.max()) + 1)
    canvas = np.zeros((side, side), dtype=bool)
    canvas[: mask.shape[0], : mask.shape[1]] = mask
    ys, xs = np.nonzero(mask)
    corners = np.array([[xs.min(), ys.min()], [xs.max(), ys.max()]])
    return _box_iou(corners, np.maximum(true_points, 0), side), mask_iou(canvas, _filled(polygons, side))


def mask_iou(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Pixels in both masks over pixels in either; 0 when both are empty."""
    union = np.count_nonzero(first | second)
    return float(np.count_nonzero(first & second) / union) if union else 0.0


def _points(values: ArrayLike) -> Points:
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(-1, 2).astype(np.int64)


def _box_iou(first: Points, second: Points, side: int) -> float:
    (left1, right1), (top1, bottom1) = _span(first[:, 0], side), _span(first[:, 1], side)
    (left2, right2), (top2, bottom2) = _span(second[:, 0], side), _span(second[:, 1], side)
    width = max(0, min(right1, right2) - max(left1, left2))
    height = max(0, min(bottom1, bottom2) - max(top1, top2))
    shared = width * height
    union = (right1 - left1) * (bottom1 - top1) + (right2 - left2) * (bottom2 - top2) - shared
    return shared / union if union else 0.0


def _span(values: Points, side: int) -> tuple[int, int]:
    start, stop, _ = slice(int(values.min()), int(values.max()) + 1).indices(side)
    return start, max(start, stop)


def _filled(polygons: Sequence[Points], side: int) -> NDArray[np.bool_]:
    canvas = np.zeros((side, side), dtype=np.uint8)
    if side:
        for polygon in polygons:
            # Far beyond the canvas only the direction of an edge matters; int32 is all OpenCV takes.
            limited = np.clip(polygon, -(2**20), 2**20).astype(np.int32)
            cv2.fillPoly(canvas, [limited.reshape(-1, 1, 2)], 1)
    return canvas.astype(bool)
