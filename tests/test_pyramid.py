"""An image at several sizes: square views, their mean in the collection, and examples treated alike."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.images.image import Image
from wherein.images.pyramid import QUERY_SCALES, STORED_SCALES, levels


def middle(colour: str, around: str = "blue", side: int = 128) -> PIL.Image.Image:
    """A square of `colour`, half as wide as the picture, in its middle."""
    picture = PIL.Image.new("RGB", (side, side), around)
    picture.paste(colour, (side // 4, side // 4, 3 * side // 4, 3 * side // 4))
    return picture


def test_above_one_the_middle_from_near_below_one_everything_from_afar() -> None:
    image = Image(np.asarray(middle("red")), (128, 128))
    near, same, far = levels(image, (2.0, 1.0, 0.5))
    assert [level.size_wh for level in (near, same, far)] == [(64, 64), (128, 128), (256, 256)]
    assert (near.pixels == (255, 0, 0)).all()
    assert (same.pixels == image.pixels).all()
    assert (far.pixels[64:192, 64:192] == image.pixels).all()
    assert far.pixels.sum() == image.pixels.sum()


@pytest.mark.parametrize("size_wh", [(1, 1), (2, 300), (7, 5)], ids=str)
def test_levels_are_square_whatever_the_image(size_wh: tuple[int, int]) -> None:
    image = Image(np.full((*size_wh[::-1], 3), 9, np.uint8), size_wh)
    for scales in (STORED_SCALES, QUERY_SCALES):
        assert all(level.size_wh[0] == level.size_wh[1] > 0 for level in levels(image, scales))


def test_a_pyramid_is_the_mean_of_its_levels(tmp_path: Path) -> None:
    middle("red").save(tmp_path / "middle.png")
    with wherein.open(tmp_path, create=True, encoder="toy") as opened:
        opened.add(tmp_path, layers=["global", "pyramid"])
        plain, several = opened.search("red")[0], opened.search("red", method="toy+pyramid")[0]
    reds = [red_share(scale) for scale in STORED_SCALES]
    shares = np.sqrt([(red, 1.0 - red - black, black) for red, black in reds]).sum(axis=0)
    assert several.score == pytest.approx(shares[0] / np.linalg.norm(shares), abs=0.02)
    assert plain.score == pytest.approx(0.5, abs=0.02)
    assert several.box is None


def red_share(scale: float) -> tuple[float, float]:
    """How much of a level is red, and how much of it is the black border."""
    seen = min(1.0, scale)
    return min(1.0, (0.5 * scale) ** 2), 1.0 - seen * seen


def test_a_nearer_photo_finds_the_farther_one(tmp_path: Path) -> None:
    middle("red").save(tmp_path / "far.png")
    PIL.Image.new("RGB", (128, 128), "blue").save(tmp_path / "blue.png")
    near = middle("red").crop((32, 32, 96, 96))
    with wherein.open(tmp_path, create=True, encoder="toy") as opened:
        opened.add(tmp_path, layers=["global", "pyramid"])
        plain, several = opened.search(near)[0], opened.search(near, method="toy+pyramid")[0]
        itself = opened.search(tmp_path / "far.png", method="toy+pyramid")[0]
    assert [hit.image_id for hit in (plain, several, itself)] == ["far.png"] * 3
    assert several.score > plain.score + 0.1
