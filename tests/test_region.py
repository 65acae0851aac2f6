"""Boxes, grids and tiles, against numbers worked out by hand and properties that always hold."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherein.errors import RegionError
from wherein.values.region import TILES_MOST, Box, Grid, iou, overlap, tiles

sides = st.integers(1, 20_000)


def rectangles(side: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.integers(0, side - 1).flatmap(lambda low: st.tuples(st.just(low), st.integers(low + 1, side)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "not four numbers", id="nothing is not a box"),
        pytest.param("0,0,1", "not four numbers", id="three numbers are not a box"),
        pytest.param("0,0,1,1,1", "not four numbers", id="five numbers are not a box"),
        pytest.param("a,b,c,d", "not four numbers", id="words are not a box"),
        pytest.param("0,0,2,1", "leaves the image", id="pixels are told to be divided"),
        pytest.param("-0.1,0,1,1", "leaves the image", id="left of the image is outside"),
        pytest.param("nan,0,1,1", "leaves the image", id="nan is nowhere"),
        pytest.param("0.5,0,0.5,1", "no area", id="a line has no area"),
        pytest.param("0.6,0,0.5,1", "no area", id="swapped corners are told so"),
    ],
)
def test_a_box_that_cannot_exist_says_why(text: str, complaint: str) -> None:
    with pytest.raises(RegionError, match=complaint):
        Box.parse(text)


def test_a_box_prints_as_it_is_written() -> None:
    assert str(Box.parse("0.1,0.25,0.5,1")) == "0.1,0.25,0.5,1"
    assert Box.parse(" 0, 0, 1, 1 ") == Box(0, 0, 1, 1)
    with pytest.raises(RegionError, match="its corners are not numbers"):
        Box("0", 0, 1, 1)  # type: ignore[arg-type]


@given(width=sides, height=sides, data=st.data())
def test_whole_pixels_survive_the_way_to_fractions_and_back(width: int, height: int, data: st.DataObject) -> None:
    (x1, x2), (y1, y2) = data.draw(rectangles(width)), data.draw(rectangles(height))
    assert Box.from_pixels((x1, y1, x2, y2), size_wh=(width, height)).pixels((width, height)) == (x1, y1, x2, y2)


@pytest.mark.parametrize(
    ("box", "size_wh", "pixels"),
    [
        pytest.param(Box(0, 0, 1, 1), (1, 1), (0, 0, 1, 1), id="all of one pixel"),
        pytest.param(Box(0.999, 0.999, 1, 1), (2, 2), (1, 1, 2, 2), id="a sliver touches one pixel"),
        pytest.param(Box(0.4, 0, 0.6, 0.1), (10, 10), (4, 0, 6, 1), id="whole pixels"),
        pytest.param(Box(0.45, 0, 0.55, 0.1), (10, 10), (4, 0, 6, 1), id="halves touch both neighbours"),
    ],
)
def test_a_box_covers_the_pixels_it_touches(
    box: Box, size_wh: tuple[int, int], pixels: tuple[int, int, int, int]
) -> None:
    assert box.pixels(size_wh) == pixels


@pytest.mark.parametrize(
    ("a", "b", "shared", "ratio"),
    [
        pytest.param(Box(0, 0, 0.5, 1), Box(0.5, 0, 1, 1), 0.0, 0.0, id="touching boxes share nothing"),
        pytest.param(Box(0, 0, 0.2, 0.2), Box(0.8, 0.8, 1, 1), 0.0, 0.0, id="apart on both axes share nothing"),
        pytest.param(Box(0, 0, 1, 1), Box(0, 0, 1, 1), 1.0, 1.0, id="a box with itself"),
        pytest.param(Box(0, 0, 1, 1), Box(0, 0, 0.5, 0.5), 0.25, 0.25, id="a quarter inside the whole"),
        pytest.param(Box(0, 0, 0.5, 0.5), Box(0.25, 0, 0.75, 0.5), 0.125, 1 / 3, id="half over half"),
    ],
)
def test_overlap_and_iou(a: Box, b: Box, shared: float, ratio: float) -> None:
    assert overlap(a, b) == overlap(b, a) == pytest.approx(shared)
    assert iou(a, b) == iou(b, a) == pytest.approx(ratio)


@pytest.mark.parametrize("word", ["static-5", "static-9", "static-36", "static-9@0.1", "static-5@0.25"])
def test_a_grid_prints_as_it_is_written(word: str) -> None:
    assert str(Grid.parse(word)) == word


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        pytest.param("", "is not a grid", id="nothing is not a grid"),
        pytest.param("static", "is not a grid", id="a grid needs a number"),
        pytest.param("static-7", "no grid has 7 cells", id="only five, nine or 36 cells exist"),
        pytest.param("static-9@0.6", "outside", id="more than half overlaps everything"),
    ],
)
def test_an_unknown_grid_says_what_exists(word: str, complaint: str) -> None:
    with pytest.raises(RegionError, match=complaint):
        Grid.parse(word)


def test_nine_cells_are_thirds_row_by_row() -> None:
    boxes = Grid(9).boxes()
    assert [(round(b.x1 * 3), round(b.y1 * 3)) for b in boxes] == [(x, y) for y in range(3) for x in range(3)]
    assert all(b.area == pytest.approx(1 / 9) for b in boxes)


def test_five_cells_are_quarters_and_a_centre_of_their_size() -> None:
    boxes = Grid(5).boxes()
    assert boxes[:4] == (Box(0, 0, 0.5, 0.5), Box(0.5, 0, 1, 0.5), Box(0, 0.5, 0.5, 1), Box(0.5, 0.5, 1, 1))
    assert boxes[4] == Box(0.25, 0.25, 0.75, 0.75)


@given(cells=st.sampled_from([5, 9, 36]), share=st.floats(0, 0.5))
def test_cells_keep_one_size_and_cover_the_image(cells: int, share: float) -> None:
    boxes = Grid(cells, share).boxes()
    side = 1 / {5: 2, 9: 3, 36: 6}[cells] + share
    assert all(b.x2 - b.x1 == pytest.approx(side) and b.y2 - b.y1 == pytest.approx(side) for b in boxes)
    for x, y in [(0, 0), (1, 0), (0, 1), (1, 1), (0.5, 0.5)]:
        assert any(b.x1 <= x <= b.x2 and b.y1 <= y <= b.y2 for b in boxes)


@pytest.mark.parametrize(
    ("size_wh", "grid"),
    [
        pytest.param((1, 1), (0, 0), id="a pixel is not tiled"),
        pytest.param((4000, 3000), (0, 0), id="a photo is not tiled"),
        pytest.param((3000, 50), (0, 0), id="a thin strip has nothing more to show"),
        pytest.param((900, 300), (3, 1), id="a panorama is cut along its length"),
        pytest.param((300, 900), (1, 3), id="an upright panorama too"),
        pytest.param((16384, 8192), (4, 2), id="a map is cut into squares"),
        pytest.param((100_000, 100), (62, 1), id="never more than the most tiles"),
    ],
)
def test_what_is_far_beyond_the_input_is_tiled(size_wh: tuple[int, int], grid: tuple[int, int]) -> None:
    boxes = tiles(size_wh, input_side=64)
    assert (len({b.x1 for b in boxes}), len({b.y1 for b in boxes})) == grid


@given(width=st.integers(1, 200_000), height=st.integers(1, 200_000), side=st.sampled_from([64, 224, 448]))
def test_tiles_cover_the_image_once_and_are_few(width: int, height: int, side: int) -> None:
    boxes = tiles((width, height), input_side=side)
    assert len(boxes) <= TILES_MOST
    if boxes:
        assert math.isclose(sum(box.area for box in boxes), 1.0)
        assert all(overlap(a, b) < 1e-9 for i, a in enumerate(boxes) for b in boxes[:i])
