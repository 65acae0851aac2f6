"""Keypoint verification as a localizer: three drawings of one verified example."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein import Box, Part
from wherein.errors import QueryError
from wherein.localizers import KEYPOINTS
from wherein.values.masks import box_mask
from wherein.values.region import iou

WHERE = Box(0.25, 0.25, 0.75, 0.875)


def texture(seed: int, size_wh: tuple[int, int]) -> PIL.Image.Image:
    """A picture full of corners."""
    coarse = np.random.default_rng(seed).integers(0, 256, (size_wh[1] // 10, size_wh[0] // 10, 3), np.uint8)
    return PIL.Image.fromarray(coarse).resize(size_wh, PIL.Image.Resampling.BICUBIC)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "example.png"
    texture(1, (320, 300)).save(path)
    return path


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """The example in another picture, at WHERE."""
    (tmp_path / "photos").mkdir()
    scene = texture(2, (640, 480))
    scene.paste(texture(1, (320, 300)), (160, 120))
    scene.save(tmp_path / "photos" / "scene.png")
    texture(3, (640, 480)).save(tmp_path / "photos" / "other.png")
    return tmp_path / "photos" / "scene.png"


@pytest.mark.parametrize(("word", "least"), [("points", 0.7), ("hull", 0.7), ("warp", 0.95)])
def test_each_drawing_lies_where_the_example_is(example: Path, photo: Path, word: str, least: float) -> None:
    found = wherein.locate(example, photo, encoder="toy", localizer=word, refine=False)
    assert found.box is not None
    assert found.mask is not None
    assert iou(found.box, WHERE) > least
    inside = box_mask(WHERE, size_wh=(found.mask.shape[1], found.mask.shape[0]))
    assert (found.mask & inside).sum() > 0.95 * found.mask.sum()


def test_the_drawings_grow_from_points_over_hull_to_outline(example: Path, photo: Path) -> None:
    masks = [wherein.locate(example, photo, encoder="toy", localizer=word, refine=False).mask for word in KEYPOINTS]
    points, hull, outline = (mask.sum() for mask in masks if mask is not None)
    assert points < hull <= 1.02 * outline


def test_a_mask_of_the_example_is_what_is_warped(example: Path, photo: Path) -> None:
    mask = np.zeros((300, 320), np.bool_)
    mask[60:240, 40:160] = True
    asked = Part(image=example, mask=mask)
    found = wherein.locate(asked, photo, encoder="toy", localizer="warp", refine=False)
    assert found.box is not None
    assert iou(found.box, Box(200 / 640, 180 / 480, 320 / 640, 360 / 480)) > 0.9


@pytest.mark.parametrize("word", KEYPOINTS)
def test_what_is_not_there_is_not_drawn(example: Path, photo: Path, word: str) -> None:
    found = wherein.locate(example, photo.with_name("other.png"), encoder="toy", localizer=word)
    assert found.mask is None
    assert found.box is None


def test_texts_have_no_keypoints(photo: Path) -> None:
    with pytest.raises(QueryError, match="understands no text"):
        wherein.locate("red", photo, encoder="toy", localizer="hull")


@pytest.mark.parametrize("word", KEYPOINTS)
def test_hits_of_a_collection_are_drawn_from_its_layer(tmp_path: Path, example: Path, photo: Path, word: str) -> None:
    with wherein.open(tmp_path / "c", create=True, encoder="toy") as collection:
        collection.add(photo.parent, layers=("global", "thumbs", "local"))
        by_name = {hit.image_id: hit for hit in collection.search(example, method=f"toy+locate~{word}~coarse")}
    assert by_name["other.png"].mask is None
    box = by_name["scene.png"].box
    assert box is not None
    assert iou(box, WHERE) > 0.7
