"""Boxes that stand out, whatever they are."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.encoders.toy import COLOURS
from wherein.images.image import Image, Pixels, decode
from wherein.images.proposals import APART, COUNT, LEAST, appearance, propose, proposed_boxes
from wherein.values.region import Box, iou, overlap


def spotted(*spots: tuple[str, Box], size_wh: tuple[int, int] = (160, 120)) -> Pixels:
    pixels = np.full((size_wh[1], size_wh[0], 3), COLOURS["grey"], np.uint8)
    for colour, box in spots:
        x1, y1, x2, y2 = box.pixels(size_wh)
        pixels[y1:y2, x1:x2] = COLOURS[colour]
    return pixels


SPOTS = [
    pytest.param(Box(0.25, 0.25, 0.5, 0.5), id="a quarter of each side"),
    pytest.param(Box(0.0, 0.5, 0.25, 1.0), id="at a border"),
    pytest.param(Box(0.75, 0.125, 0.875, 0.25), id="an eighth of each side"),
]


@pytest.mark.parametrize("spot", SPOTS)
def test_what_stands_out_is_proposed_first(spot: Box) -> None:
    first = propose(appearance(decode(spotted(("red", spot)))))[0]
    assert overlap(first.box, spot) == pytest.approx(spot.area)
    # Its edge may take in one place more on every side.
    assert first.box.x2 - first.box.x1 <= spot.x2 - spot.x1 + 2 / 16
    assert first.box.y2 - first.box.y1 <= spot.y2 - spot.y1 + 2 / 16


@pytest.mark.parametrize("spot", SPOTS)
def test_a_box_to_look_at_holds_the_spot(spot: Box) -> None:
    boxes = proposed_boxes(decode(spotted(("red", spot))))
    assert max(overlap(box, spot) for box in boxes) == pytest.approx(spot.area, rel=0.05)


def test_boxes_are_few_apart_and_never_tiny() -> None:
    random = np.random.default_rng(0)
    boxes = proposed_boxes(decode(random.integers(0, 256, (90, 120, 3), dtype=np.uint8)))
    assert 0 < len(boxes) <= COUNT
    assert all(iou(a, b) < APART for a in boxes for b in boxes if a is not b)
    assert all(min(box.x2 - box.x1, box.y2 - box.y1) >= LEAST - 1e-9 for box in boxes)


def test_the_same_image_gets_the_same_boxes() -> None:
    image = decode(spotted(("red", Box(0.25, 0.25, 0.5, 0.5)), ("blue", Box(0.625, 0.5, 0.875, 0.75))))
    assert proposed_boxes(image) == proposed_boxes(image)


@pytest.mark.parametrize("size_wh", [(1, 1), (2, 300)], ids=str)
def test_any_image_can_be_asked(size_wh: tuple[int, int]) -> None:
    image = Image(np.zeros((*size_wh[::-1], 3), np.uint8), size_wh)
    assert all(box.area <= 1.0 for box in proposed_boxes(image))


def test_a_small_thing_is_found_by_its_box(tmp_path: Path) -> None:
    small = Box(0.75, 0.125, 0.875, 0.25)
    PIL.Image.fromarray(spotted(("red", small))).save(tmp_path / "small.png")
    PIL.Image.fromarray(spotted(("brown", Box(0.0, 0.0, 1.0, 0.5)))).save(tmp_path / "other.png")
    with wherein.open(tmp_path, create=True, encoder="toy") as opened:
        opened.add(tmp_path, layers=["global", "proposals"])
        whole, best = opened.search("red")[0], opened.search("red", method="proposals")[0]
    assert best.image_id == "small.png"
    assert best.score > 2 * whole.score
    assert best.box is not None
    assert overlap(best.box, small) == pytest.approx(small.area, rel=0.05)
