"""Cells of grids: cosines with means of sixths, without making the means."""

from __future__ import annotations

import numpy as np
import pytest

from wherein.arrays import unit
from wherein.index.cells import Cells, PlaceRows, lengths_of, per_length, shares_of
from wherein.values.masks import coverage
from wherein.values.region import Grid

SHARDS = np.random.default_rng(0).integers(-127, 128, (2, 7, 36, 5), np.int8)
QUERIES = unit(np.random.default_rng(1).standard_normal((2, 5), np.float32))


def cells_of(grid: Grid) -> Cells:
    """Six images: three in each shard, in another order than there, beside rows no longer in use."""
    stored = [
        PlaceRows(SHARDS[0], np.array([0, 2, 5]), np.array([4, 0, 1])),
        PlaceRows(SHARDS[1], np.array([1, 3, 6]), np.array([2, 5, 3])),
    ]
    shares = shares_of(grid.boxes())
    return Cells(stored, shares, per_length(lengths_of(stored, shares, images=6)))


@pytest.mark.parametrize("grid", ["static-5", "static-9", "static-9@0.1", "static-36"])
def test_cosines_are_those_of_the_mean_sixth_under_each_cell(grid: str) -> None:
    boxes = Grid.parse(grid).boxes()
    images = SHARDS[[0, 0, 1, 1, 0, 1], [2, 5, 1, 6, 0, 3]].astype(np.float32)
    chosen = [0, len(boxes) - 1, 2]
    means = [unit(np.tensordot(coverage(boxes[cell], shape=(6, 6)).ravel(), images, axes=(0, 1))) for cell in chosen]
    expected = np.stack([QUERIES @ mean.T for mean in means])
    cells = cells_of(Grid.parse(grid))
    assert cells.cosines(QUERIES, chosen, np.arange(6)) == pytest.approx(expected, abs=1e-5)
    assert cells.cosines(QUERIES, chosen, np.array([4, 1])) == pytest.approx(expected[..., [4, 1]], abs=1e-5)


def test_a_cell_that_shows_nothing_has_a_cosine_of_0() -> None:
    stored = [PlaceRows(np.zeros((1, 36, 5), np.int8), np.arange(1), np.arange(1))]
    shares = shares_of(Grid(9).boxes())
    cells = Cells(stored, shares, per_length(lengths_of(stored, shares, images=1)))
    assert not cells.cosines(QUERIES, range(9), np.arange(1)).any()


def test_no_images_have_no_cosines() -> None:
    shares = shares_of(Grid(9).boxes())
    assert Cells([], shares, per_length(lengths_of([], shares, images=0))).cosines(
        QUERIES, [4], np.arange(0)
    ).shape == (1, 2, 0)
