"""Masks ↔ run lengths ↔ polygons ↔ boxes: worked by hand, against slow references, and against COCO's own code."""

from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as coco  # type: ignore[import-untyped]

from wherein.arrays import Mask
from wherein.errors import RegionError
from wherein.values.masks import box_mask, from_polygons, from_rle, mask_box, read_mask, resized, to_polygons, to_rle
from wherein.values.region import Box

# pycocotools has not followed NumPy 2's `copy` keyword yet.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
anything = hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9))


def drawn(*rows: str) -> Mask:
    """`drawn("..#", ".##")` has three pixels inside."""
    return np.array([[char == "#" for char in row] for row in rows])


EXAMPLES = [
    pytest.param(drawn("..", ".."), [4], "4", id="an empty mask is one run of zeros"),
    pytest.param(drawn("##"), [0, 2], "02", id="a full mask begins with no zeros"),
    pytest.param(drawn(".#", "##"), [1, 3], "13", id="runs go down the columns"),
    pytest.param(drawn("#..", "..#"), [0, 1, 4, 1], "0140", id="the fourth run is written as a difference"),
]


@pytest.mark.parametrize(("mask", "counts", "text"), EXAMPLES)
def test_run_lengths_worked_by_hand(mask: Mask, counts: list[int], text: str) -> None:
    assert to_rle(mask, compressed=False) == {"size": list(mask.shape), "counts": counts}
    assert to_rle(mask)["counts"] == text
    assert np.array_equal(from_rle({"size": list(mask.shape), "counts": text}), mask)


@given(anything)
def test_run_lengths_equal_the_slow_count(mask: Mask) -> None:
    counts, value = [0], False
    for pixel in mask.T.ravel().tolist():
        if pixel != value:
            counts, value = [*counts, 0], pixel
        counts[-1] += 1
    assert to_rle(mask, compressed=False)["counts"] == counts


@given(anything)
def test_run_lengths_equal_those_of_coco(mask: Mask) -> None:
    theirs = coco.encode(np.asfortranarray(mask, np.uint8))
    ours = to_rle(mask)
    assert ours["counts"] == theirs["counts"].decode()
    assert ours["size"] == theirs["size"]
    assert np.array_equal(coco.decode(ours), mask)
    assert np.array_equal(from_rle({"size": theirs["size"], "counts": theirs["counts"].decode()}), mask)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=8))
def test_long_runs_survive_the_string(counts: list[int]) -> None:
    mask = np.repeat(np.arange(len(counts)) % 2 == 1, counts)[:, None]
    if mask.size:
        assert np.array_equal(from_rle(to_rle(mask)), mask)


@pytest.mark.parametrize(
    "rle",
    [
        pytest.param({"size": [2, 2], "counts": [3]}, id="too few pixels"),
        pytest.param({"size": [2, 2], "counts": [-1, 5]}, id="a negative run"),
        pytest.param({"size": [2], "counts": [2]}, id="no width"),
        pytest.param({"counts": [4]}, id="no size"),
        pytest.param({"size": [2, 2], "counts": "P"}, id="a string that stops in the middle of a number"),
    ],
)
def test_run_lengths_that_cannot_be_are_refused(rle: dict[str, object]) -> None:
    with pytest.raises(RegionError):
        from_rle(rle)  # type: ignore[arg-type]


def test_an_outline_worked_by_hand() -> None:
    (loop,) = to_polygons(drawn("....", ".##.", ".##."))
    assert set(loop) == {(1.0, 1.0), (3.0, 1.0), (3.0, 3.0), (1.0, 3.0)}


def test_a_hole_is_a_polygon_of_its_own() -> None:
    outer, hole = to_polygons(drawn("###", "#.#", "###"))
    assert set(outer) == {(0.0, 0.0), (3.0, 0.0), (3.0, 3.0), (0.0, 3.0)}
    assert set(hole) == {(1.0, 1.0), (2.0, 1.0), (2.0, 2.0), (1.0, 2.0)}


def test_pixels_that_touch_at_a_corner_keep_their_own_outlines() -> None:
    assert sorted(map(len, to_polygons(drawn("#.", ".#")))) == [4, 4]


@given(anything)
def test_a_mask_comes_back_from_its_outline(mask: Mask) -> None:
    height, width = mask.shape
    assert np.array_equal(from_polygons(to_polygons(mask), size_wh=(width, height)), mask)


@given(st.lists(st.tuples(st.floats(-2, 9), st.floats(-2, 9)), min_size=3, max_size=7))
def test_filling_equals_the_slow_even_odd_rule(corners: list[tuple[float, float]]) -> None:
    expected = np.zeros((6, 7), np.bool_)
    for y in range(6):
        for x in range(7):
            for (x1, y1), (x2, y2) in zip(corners, corners[1:] + corners[:1], strict=True):
                if min(y1, y2) <= y + 0.5 < max(y1, y2) and x1 + (y + 0.5 - y1) * (x2 - x1) / (y2 - y1) <= x + 0.5:
                    expected[y, x] ^= True
    assert np.array_equal(from_polygons([corners], size_wh=(7, 6)), expected)


def test_filling_a_rectangle_equals_coco() -> None:
    flat = [[2.0, 1.0, 6.0, 1.0, 6.0, 4.0, 2.0, 4.0]]
    theirs = coco.decode(coco.merge(coco.frPyObjects(flat, 6, 8))).astype(bool)
    assert np.array_equal(from_polygons([[(2, 1), (6, 1), (6, 4), (2, 4)]], size_wh=(8, 6)), theirs)


def test_smoothing_keeps_a_disc_a_disc_with_few_points() -> None:
    y, x = np.mgrid[:60, :80]
    disc = (x - 40) ** 2 + (y - 30) ** 2 < 400
    (smooth,) = to_polygons(disc, tolerance=1.0)
    again = from_polygons([smooth], size_wh=(80, 60))
    assert len(smooth) < 24
    assert (disc & again).sum() / (disc | again).sum() > 0.95


def test_boxes_of_masks() -> None:
    assert mask_box(drawn("...", "...")) is None
    assert mask_box(drawn("....", ".##.")) == Box(0.25, 0.5, 0.75, 1.0)
    assert np.array_equal(box_mask(Box(0.25, 0.5, 0.75, 1.0), size_wh=(4, 2)), drawn("....", ".##."))


def test_resizing_takes_the_nearest_pixel() -> None:
    assert np.array_equal(resized(drawn("#."), size_wh=(4, 2)), drawn("##..", "##.."))


def test_masks_are_read_from_pictures(tmp_path: Path) -> None:
    path = tmp_path / "mask.png"
    PIL.Image.fromarray(np.array([[0, 255], [0, 1]], np.uint8)).save(path)
    assert np.array_equal(read_mask(path), drawn(".#", ".#"))


def test_masks_that_say_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "note.png").write_text("no picture")
    with pytest.raises(RegionError, match="no pixel inside"):
        read_mask(drawn(".."))
    with pytest.raises(RegionError, match="bool array"):
        read_mask(np.ones((2, 2, 3), np.bool_))
    with pytest.raises(RegionError, match=r"note\.png"):
        read_mask(tmp_path / "note.png")
