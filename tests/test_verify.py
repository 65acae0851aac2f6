"""Spatial verification: what is there is found where it is, and what is not there is not invented."""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

from wherein.features import LocalFeatures, load_features
from wherein.features.verify import CHANCE, match, plausible, verify
from wherein.images.image import decode

Cover = Callable[..., Any]
ROOTSIFT = load_features("rootsift")


def features(pixels: Any) -> LocalFeatures:
    return ROOTSIFT.features(decode(np.ascontiguousarray(pixels)), side=480)


def photo(cover: Any, corners: list[tuple[int, int]]) -> Any:
    """A cover seen by a camera: warped so that its corners come to lie there in a 480 × 360 photo."""
    height, width = cover.shape[:2]
    frame = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    map_ = cv2.getPerspectiveTransform(frame, np.array(corners, np.float32))
    table = np.full((360, 480, 3), 90, np.uint8)
    warped = cv2.warpPerspective(cover, map_, (480, 360), dst=table, borderMode=cv2.BORDER_TRANSPARENT)
    return np.asarray(warped)


CORNERS = [(150, 30), (330, 50), (340, 300), (130, 280)]


def test_a_cover_is_found_in_a_photo_where_it_lies(cover: Cover) -> None:
    found = verify(features(cover(1)), features(photo(cover(1), CORNERS)))
    assert found.inliers >= 40
    assert found.outline is not None
    expected = np.array(CORNERS) / [480, 360]
    assert np.abs(found.outline - expected).max() < 0.015
    assert found.matches.shape == (found.inliers, 2)
    assert len(np.unique(found.matches[:, 0])) == found.inliers


def test_the_outline_ends_where_the_image_does(cover: Cover) -> None:
    # The photo seen from the cover: most of its frame lies outside the cover.
    found = verify(features(photo(cover(1), CORNERS)), features(cover(1)))
    assert found.inliers >= 40
    assert found.outline is not None
    assert found.outline.min() >= 0.0
    assert found.outline.max() <= 1.0
    assert np.allclose(found.outline.max(axis=0) - found.outline.min(axis=0), 1.0, atol=0.02)


@pytest.mark.parametrize("turns", [1, 2, 3], ids=["a quarter turn", "upside down", "three quarters"])
def test_a_turned_query_is_found(cover: Cover, turns: int) -> None:
    found = verify(features(np.rot90(cover(2), turns)), features(cover(2)))
    assert found.inliers >= 40


def test_a_mirrored_query_has_no_inliers(cover: Cover) -> None:
    assert verify(features(cover(3)[:, ::-1]), features(cover(3))).inliers == 0


def test_different_covers_have_no_inliers(cover: Cover) -> None:
    seen = [features(cover(seed)) for seed in range(10, 16)]
    assert all(verify(one, two).inliers == 0 for one in seen for two in seen if one is not two)


@pytest.mark.parametrize("size_hw", [(1, 1), (5, 5), (300, 1), (200, 200)], ids=str)
def test_featureless_and_tiny_images_have_no_inliers(cover: Cover, size_hw: tuple[int, int]) -> None:
    plain = features(np.full((*size_hw, 3), 127, np.uint8))
    assert verify(plain, features(cover(4))).inliers == 0
    assert verify(features(cover(4)), plain).inliers == 0
    assert verify(plain, plain).inliers == 0


@pytest.mark.parametrize("model", ["homography", "affine", "fundamental"])
def test_every_model_verifies_an_image_with_itself(cover: Cover, model: Any) -> None:
    own = features(cover(5))
    found = verify(own, own, model=model)
    assert found.inliers >= 40
    assert (found.outline is None) == (model == "fundamental")


def test_equal_input_gives_equal_output(cover: Cover) -> None:
    one, two = features(cover(6)), features(photo(cover(6), CORNERS))
    assert verify(one, two).inliers == verify(one, two).inliers


def keyed(places: Any, rows: Any) -> LocalFeatures:
    points = np.zeros((len(places), 4), np.float32)
    points[:, :2] = places
    return LocalFeatures(points, np.asarray(rows, np.float32), (480, 480))


def test_matches_are_mutual_and_clear() -> None:
    query = keyed(np.zeros((3, 2)), [[1, 0, 0], [0.96, 0.28, 0], [0, 0, 1]])
    image = keyed(np.zeros((3, 2)), [[1, 0, 0], [0, 1, 0], [0, 0.6, 0.8]])
    # Query 1 also likes image 0, which prefers query 0; query 2's nearest is image 2, far clearer than image 1.
    assert match(query, image).tolist() == [[0, 0], [2, 2]]
    doubled = keyed(np.zeros((2, 2)), [[1, 0, 0], [1, 0, 0]])
    assert match(query, doubled).tolist() == []


def test_points_on_one_line_or_in_one_spot_are_no_surface() -> None:
    rows = np.eye(40, dtype=np.float32)
    line = np.stack([np.linspace(0.1, 0.9, 40), np.full(40, 0.5)], axis=1)
    assert verify(keyed(line, rows), keyed(line, rows)).inliers == 0
    spot = np.full((40, 2), 0.5) + np.linspace(0, 0.01, 40)[:, None] * [[1, -1]]
    assert verify(keyed(spot, rows), keyed(spot, rows)).inliers == 0


def test_few_inliers_are_chance() -> None:
    random = np.random.default_rng(0)
    for count, inliers in ((CHANCE - 1, 0), (40, 40)):
        places = random.random((count, 2))
        rows = np.eye(count, dtype=np.float32)
        assert verify(keyed(places, rows), keyed(places, rows)).inliers == inliers


@pytest.mark.parametrize(
    ("matrix", "holds"),
    [
        (np.eye(3), True),
        (np.diag([-1.0, 1.0, 1.0]), False),
        (np.diag([1.0, 1e-3, 1.0]), False),
        (np.diag([100.0, 100.0, 1.0]), False),
        (np.diag([0.01, 0.01, 1.0]), False),
        (np.array([[1, 0, 0], [0, 1, 0], [-0.01, 0, 1.0]]), False),
        (np.full((3, 3), np.nan), False),
    ],
    ids=["nothing changes", "mirrored", "collapsed", "blown up", "shrunk away", "horizon inside", "not a number"],
)
def test_maps_that_no_camera_makes_are_turned_down(matrix: Any, holds: bool) -> None:
    points = np.array([[0.0, 0.0], [200.0, 0.0], [200.0, 200.0], [0.0, 200.0]])
    assert plausible(matrix, points) is holds
