"""Boxes of the sub-region study: put into the frame, moved at random, compared with static cells."""

import numpy as np
import pytest

from wherein import Box
from wherein.bench.boxes import best_iou, box_statistics, clipped, perturbed


def test_boxes_with_swapped_corners_outside_or_flat_are_put_into_the_frame() -> None:
    assert clipped((60, 40, 20, 10), size_wh=(100, 50)) == Box(0.2, 0.2, 0.6, 0.8)
    assert clipped((90, -10, 120, 20), size_wh=(100, 50)) == Box(0.9, 0.0, 1.0, 0.4)
    assert clipped((10, 10, 10, 10), size_wh=(100, 50)).area > 0


def test_perturbation_keeps_the_box_in_the_frame_and_zero_spread_keeps_the_box() -> None:
    box = Box(0.4, 0.4, 0.6, 0.7)
    assert perturbed(box, spread=(0.0, 0.0), rng=np.random.default_rng(0)) == box
    for seed in range(50):
        moved = perturbed(box, spread=(0.5, 0.5), rng=np.random.default_rng(seed))
        assert 0 <= moved.x1 < moved.x2 <= 1
        assert 0 <= moved.y1 < moved.y2 <= 1
        assert moved.x2 - moved.x1 >= 0.1 * 0.2 - 1e-9


def test_levels_of_perturbation_share_their_draws() -> None:
    box = Box(0.45, 0.45, 0.55, 0.55)
    near, far = (perturbed(box, spread=(s, 0.0), rng=np.random.default_rng(3)) for s in (0.05, 0.1))
    assert (far.x1 - box.x1) == pytest.approx(2 * (near.x1 - box.x1))


def test_cell_statistics_of_a_corner_box() -> None:
    corner = Box(0.0, 0.0, 0.5, 0.5)
    found = box_statistics({"skippable": [corner], "non-skippable": []})
    assert found["static-5 skippable"] == {"mean IoU": 1.0, "std IoU": 0.0}
    assert found["whole skippable"]["mean IoU"] == 0.25
    assert found["static-9 skippable"]["mean IoU"] == pytest.approx(4 / 9)
    assert "whole non-skippable" not in found
    assert best_iou(corner, [corner]) == 1.0
