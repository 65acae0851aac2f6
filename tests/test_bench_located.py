"""Regions of hits against true masks: as boxes, as pixels, as a point, as a polygon."""

import numpy as np
import pytest

from wherein import Box, Hit
from wherein.bench.located import hit_point, hit_polygon, region_ious


def test_a_box_is_compared_as_a_box_and_as_its_filled_pixels() -> None:
    truth = np.zeros((10, 10), dtype=bool)
    truth[2:6, 2:6] = True
    hit = Hit("a", 1.0, None, Box(0.2, 0.2, 0.6, 0.4))
    assert list(region_ious(hit, truth)) == pytest.approx([0.5, 0.5])


def test_a_hit_without_region_or_a_truth_without_pixels_scores_zero() -> None:
    truth = np.ones((4, 4), dtype=bool)
    assert region_ious(Hit("a", 1.0), truth) == (0.0, 0.0)
    assert region_ious(Hit("a", 1.0, None, Box(0, 0, 1, 1)), ~truth) == (0.0, 0.0)


def test_a_hit_points_at_the_middle_of_its_box() -> None:
    assert hit_point(Hit("a", 1.0)) is None
    point = hit_point(Hit("a", 1.0, None, Box(0.2, 0.0, 0.4, 0.5)))
    assert point is not None
    assert list(point) == pytest.approx([0.3, 0.25])


def test_a_hit_points_at_the_innermost_pixel_of_a_bent_mask() -> None:
    mask = np.zeros((10, 10), dtype=bool)
    mask[0:3, :] = mask[:, 0:3] = True  # an L: the middle of its extent is outside
    point = hit_point(Hit("a", 1.0, mask=mask))
    assert point is not None
    assert mask[int(point[1] * 10), int(point[0] * 10)]


def test_a_mask_is_compared_at_the_resolution_of_the_truth() -> None:
    truth = np.zeros((8, 8), dtype=bool)
    truth[:, :4] = True
    coarse = np.array([[True, False], [True, False]])
    assert region_ious(Hit("a", 1.0, mask=coarse), truth) == (1.0, 1.0)


def test_a_box_becomes_a_polygon_of_whole_pixels() -> None:
    hit = Hit("a", 1.0, None, Box(0.0, 0.5, 0.5, 1.0), None, (10, 20))
    assert hit_polygon(hit) == [[0.0, 10.0], [4.0, 10.0], [4.0, 19.0], [0.0, 19.0]]
    assert hit_polygon(Hit("a", 1.0)) == []


def test_the_largest_piece_of_a_mask_becomes_the_polygon() -> None:
    mask = np.zeros((10, 20), dtype=bool)
    mask[1:9, 2:12] = True
    mask[0, 19] = True
    points = hit_polygon(Hit("a", 1.0, size_wh=(40, 20), mask=mask))
    assert {(x, y) for x, y in points} == {(4.0, 2.0), (4.0, 16.0), (22.0, 16.0), (22.0, 2.0)}
