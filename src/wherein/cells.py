"""Grids of patches → cells: the mean patch of each place of an image.

A collection keeps the mean patch of each sixth at full width (the layer `cells`); every static grid is pooled from
those, since halves, thirds and quarters of an image are made of sixths or nearly so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np

from wherein.encoders import Floats, unit
from wherein.masks import coverage
from wherein.region import Box, Grid
from wherein.shards import Array

CELLS_HW: Final = (6, 6)


def sixths(patches: Floats) -> Floats:
    """(n, gh, gw, d) patches → (n, 6, 6, d): the mean patch of each sixth; the longest of an image has unit norm."""
    flat = patches.reshape(len(patches), -1, patches.shape[-1])
    means = np.matmul(_sixths_of(patches.shape[1], patches.shape[2]), flat)
    longest = np.linalg.norm(means, axis=-1).max(axis=1, initial=1e-12)
    return np.asarray((means / longest[:, None, None]).reshape(len(patches), *CELLS_HW, -1), np.float32)


@cache
def _sixths_of(gh: int, gw: int) -> Floats:
    """(36, gh · gw): what each sixth takes of each patch."""
    return np.stack([coverage(cell, shape=(gh, gw)).ravel() for cell in Grid(36).boxes()])


def pool_cells(grids: Iterator[Floats], cells: Sequence[Box], *, count: int) -> Array:
    """(cells, count, c) halves: each cell's mean, from blocks of grids (n, gh, gw, c)."""
    pooled: Array | None = None
    start = 0
    for block in grids:
        weights = np.stack([coverage(cell, shape=block.shape[1:3]) for cell in cells]).reshape(len(cells), -1)
        flat = block.reshape(len(block), -1, block.shape[-1])
        means = unit(np.asarray(np.einsum("cp,npd->cnd", weights, flat, optimize=True), np.float32))
        if pooled is None:
            pooled = np.empty((len(cells), count, block.shape[-1]), np.float16)
        pooled[:, start : start + len(block)] = means
        start += len(block)
    return np.empty((len(cells), 0, 1), np.float16) if pooled is None else pooled
