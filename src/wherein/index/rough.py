"""Rough copies of stored rows: smaller, and laid out place by place, so that all images can be estimated quickly.

Rows are stored image by image, so the bytes of one place lie far apart. A rough copy keeps each place of all images
side by side, in fewer numbers: cells in the directions in which they differ most, patches as means of two by two, whole
images as int8. What it estimates is scored exactly where it may belong to the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.index.cells import CELLS_HW, as_slice
from wherein.index.int8 import Int8Query
from wherein.store.shards import Array
from wherein.values.masks import coverage
from wherein.values.region import Box

WIDTH: Final = 128
"""Directions that cells are kept in: they hold 94 % of what `mini`'s cells of 512 numbers show on captioned photos, and
a product of 128 numbers costs a third more than one of 64, which hold 77 %."""
WHOLE_UNIT: Final = np.float32(1 / 254)
"""What one counts for in a rough embedding: numbers of unit vectors seldom lie beyond a half, and are cut there."""
_BASIS_ROWS: Final = 32_768
"""Cells that the directions are computed from: 64 for each number of an embedding of 512."""


@dataclass(frozen=True, eq=False)
class RoughPlaces:
    """The rough rows of a shard, place by place."""

    values: Array
    """(places, n, c), int8"""
    rows: Ints
    """(r,) its rows in use"""
    images: Ints
    """(r,) the number of the image that each is of"""

    def products(self, places: Ints, queries: Sequence[Int8Query]) -> Iterator[tuple[slice | Ints, Floats]]:
        """(images (r,), products with queries (chosen places, m, r)); places that follow each other are one product."""
        if not len(self.rows):
            return
        found = np.empty((len(places), len(queries), len(self.rows)), np.float32)
        for first, last in _runs(tuple(places.tolist())):
            own = self.at(slice(int(places[first]), int(places[last - 1]) + 1))
            for column, query in enumerate(queries):
                dots = query.products(own.reshape(-1, own.shape[-1])).reshape(last - first, -1)
                np.multiply(dots, query.step, out=found[first:last, column])
        yield self.owned, found

    def at(self, places: slice) -> Array:
        """(p, r, c): the rows in use of some places; not copied where they follow each other."""
        return self.values[places][:, self._taken]

    @cached_property
    def owned(self) -> slice | Ints:
        """The images (r,), as a slice where they follow each other."""
        return as_slice(self.images)

    @cached_property
    def _taken(self) -> slice | Ints:
        return as_slice(self.rows)

    def of(self, numbered: Ints) -> RoughPlaces:
        """The rows of some images alone; `numbered` (images,) is the new number of each, −1 for those left out."""
        kept = np.flatnonzero(numbered[self.images] >= 0)
        if len(kept) == len(self.rows):
            return RoughPlaces(self.values, self.rows, numbered[self.images])
        return RoughPlaces(self.values, self.rows[kept], numbered[self.images[kept]])


@lru_cache(maxsize=256)
def _runs(places: tuple[int, ...]) -> list[tuple[int, int]]:
    """The first of each run of places that follow each other, and the one after its last; every shard asks for them."""
    ends = np.flatnonzero(np.diff(places, append=-2) != 1) + 1
    return list(pairwise([0, *ends.tolist()]))


def main_directions(cells: Array) -> Floats:
    """(d, at most WIDTH): the directions in which stored cells (n, 6, 6, d) differ most, the first the most."""
    flat = cells.reshape(-1, cells.shape[-1])
    rows = np.asarray(flat[:: max(1, len(flat) // _BASIS_ROWS)], np.float32)
    _, directions = np.linalg.eigh(rows.T @ rows)
    return np.ascontiguousarray(directions[:, ::-1][:, :WIDTH], np.float32)


def rough_cells(shard: Array, directions: Floats) -> Array:
    """(36, n, c): stored cells (n, 6, 6, d) in some directions, in the unit they are stored in."""
    flat = shard.reshape(len(shard), CELLS_HW[0] * CELLS_HW[1], -1)
    return np.stack([_as_int8(np.asarray(flat[:, place], np.float32) @ directions) for place in range(flat.shape[1])])


def rough_whole(shard: Array) -> Array:
    """(1, n, d): embeddings (n, d) as int8."""
    return _as_int8(np.asarray(shard, np.float32) / WHOLE_UNIT)[None]


def rough_patches(shard: Array) -> Array:
    """(places, n, c): stored patches (n, gh, gw, c) as means of about two by two, in their own unit.

    Places of a row of the grid follow each other, so that what lies under a box is one product a row.
    """
    shares = pooling((shard.shape[1], shard.shape[2]))
    flat = shard.reshape(len(shard), -1, shard.shape[-1])
    found = np.empty((len(shares), len(shard), shard.shape[-1]), np.int8)
    for place, share in enumerate(shares):
        used = np.flatnonzero(share)
        found[place] = _as_int8(np.einsum("npc,p->nc", np.asarray(flat[:, used], np.float32), share[used]))
    return found


def pooled_hw(grid_hw: tuple[int, int]) -> tuple[int, int]:
    """The size of a grid of patches once about two by two are one."""
    return -(-grid_hw[0] // 2), -(-grid_hw[1] // 2)


@cache
def pooling(grid_hw: tuple[int, int]) -> Floats:
    """(places, patches): what each place of the pooled grid takes of each patch."""
    rows, columns = pooled_hw(grid_hw)
    boxes = [Box(x / columns, y / rows, (x + 1) / columns, (y + 1) / rows) for y in range(rows) for x in range(columns)]
    return np.stack([coverage(box, shape=grid_hw).ravel() for box in boxes])


def _as_int8(values: Floats) -> Array:
    return np.asarray(np.clip(np.rint(values), -127, 127), np.int8)
