"""IoU of predicted and true regions, with the official rasterisation's quirks named one by one."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherein.bench.overlap import mask_iou, polygon_ious, region_ious

Point = tuple[float, float]


def square(x1: float, y1: float, x2: float, y2: float) -> list[Point]:
    return [(x1, y1), (x2, y1), (x2, y2), (x1, y2)]


def slow_ious(prediction: list[Point], truth: list[list[Point]]) -> tuple[float, float]:
    """The rule spelled out on real canvases."""
    predicted = [(int(x), int(y)) for x, y in prediction]
    parts = [[(int(x), int(y)) for x, y in part] for part in truth]
    points = [point for part in parts for point in part]
    side = max(max(point) for point in predicted + points)
    ious = []
    for kind in ("box", "mask"):
        canvases = []
        for polygons in ([predicted], parts):
            canvas = np.zeros((side, side))
            together = np.array([point for polygon in polygons for point in polygon])
            if kind == "box":
                (left, top), (right, bottom) = together.min(axis=0), together.max(axis=0)
                canvas[top : bottom + 1, left : right + 1] = 1
            else:
                for polygon in polygons:
                    cv2.fillPoly(canvas, [np.array(polygon, dtype=np.int32)], (1.0,))
            canvases.append(canvas > 0)
        both, either = np.logical_and(*canvases).sum(), np.logical_or(*canvases).sum()
        ious.append(float(both / either) if either else 0.0)
    return ious[0], ious[1]


def test_an_empty_prediction_has_no_overlap() -> None:
    assert polygon_ious([], [square(0, 0, 9, 9)]) == (0.0, 0.0)
    assert region_ious(np.zeros((5, 5), dtype=bool), [square(0, 0, 4, 4)]) == (0.0, 0.0)


def test_the_canvas_cuts_off_its_last_row_and_column() -> None:
    # Side 10 (not 11): the truth 0…10 covers 10×10 pixels, the prediction 0…4 covers 5×5.
    assert polygon_ious(square(0, 0, 4, 4), [square(0, 0, 10, 10)]) == pytest.approx((25 / 100, 25 / 100))


def test_boxes_include_both_ends() -> None:
    # On a canvas of side 50: 2…5 is four pixels, 4…7 is four pixels, two are shared.
    far = [(50.0, 0.0)]
    box, _ = polygon_ious(square(2, 0, 5, 9), [square(4, 0, 7, 9), far])
    truth_columns, shared = 46, 2  # the second shape stretches the true box to 4…50, cut at 49
    assert box == pytest.approx(shared / (4 + truth_columns - shared))


def test_points_lose_their_fraction() -> None:
    assert polygon_ious(square(0.9, 0.9, 4.9, 4.9), [square(0, 0, 4, 4)]) == (1.0, 1.0)


def test_several_true_shapes_are_one_mask() -> None:
    two = [square(0, 0, 4, 9), square(10, 0, 14, 9), [(20.0, 20.0)]]
    _, mask = polygon_ious(square(0, 0, 4, 9), two)
    assert mask == pytest.approx(50 / 100)  # the lone point at 20,20 falls off the canvas


def test_a_negative_corner_empties_the_box_but_not_the_mask() -> None:
    box, mask = polygon_ious(square(-3, 0, 5, 5), [square(0, 0, 5, 5), [(20.0, 20.0)]])
    assert box == 0.0
    assert mask == pytest.approx(1.0)


def test_a_mask_is_scored_whole_without_the_cut() -> None:
    mask = np.zeros((12, 20), dtype=bool)
    mask[0:11, 0:11] = True
    assert region_ious(mask, [square(0, 0, 10, 10)]) == pytest.approx((1.0, 1.0))
    mask[:, 11:] = True
    assert region_ious(mask, [square(0, 0, 10, 10)])[0] == pytest.approx(121 / 240)


def test_two_empty_masks_do_not_overlap() -> None:
    empty = np.zeros((3, 3), dtype=bool)
    assert mask_iou(empty, empty) == 0.0
    assert mask_iou(~empty, ~empty) == 1.0


points = st.tuples(st.floats(-6, 30), st.floats(-6, 30))


@given(
    prediction=st.lists(points, min_size=1, max_size=6),
    truth=st.lists(st.lists(points, min_size=1, max_size=5), min_size=1, max_size=3),
)
def test_ious_match_the_slow_reference(prediction: list[Point], truth: list[list[Point]]) -> None:
    if max(max(point) for point in [*prediction, *(p for part in truth for p in part)]) < 1:
        return  # no canvas at all
    assert polygon_ious(prediction, truth) == pytest.approx(slow_ious(prediction, truth), abs=1e-12)
