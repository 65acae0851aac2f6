"""Stored grids of patches: which shards they lie in, of which images and tiles they are, and what lies under a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.store.shards import Array
from wherein.values.region import WHOLE, Box

Alike = tuple[Array, Ints, Ints, Box | None]
"""A shard, some of its rows, their images, the tile they all are of."""


@dataclass(frozen=True, eq=False)
class PatchGrids:
    """The stored patch grids of images: int8 in the encoder's compact basis, mapped from disk, shard by shard."""

    shards: Sequence[tuple[Array, Ints]]
    """(a shard (n, gh, gw, c), its rows in use); in order they are the rows that `owners` names"""
    owners: Ints
    """(rows,) the number of each grid's image"""
    boxes: Sequence[Box | None]
    """(rows,) the tile that each grid is of; None is the whole image"""
    basis: Floats | None
    """(d, c) the columns in which patches are stored; None where they are kept whole"""
    count: int
    """How many images there are."""

    @cached_property
    def bounds(self) -> Ints:
        """(shards + 1,) the first row of each shard among all"""
        return np.cumsum([0, *(len(rows) for _, rows in self.shards)])

    @cached_property
    def alike(self) -> list[Alike]:
        """Rows of a shard that are of the same tile."""
        alike = list[Alike]()
        for (grid, rows), start in zip(self.shards, self.bounds.tolist(), strict=False):
            of_tile = dict[Box | None, list[int]]()
            for number, tile in enumerate(self.boxes[start : start + len(rows)]):
                of_tile.setdefault(tile, []).append(number)
            alike += [(grid, rows[some], self.owners[start:][some], tile) for tile, some in of_tile.items()]
        return alike

    @cached_property
    def _by_owner(self) -> tuple[Ints, Ints]:
        """(rows by their image, the image of each of those)"""
        order = np.argsort(self.owners, kind="stable")
        return order, self.owners[order]

    def rows_of(self, image: int) -> Ints:
        """The rows of an image among all."""
        order, owners = self._by_owner
        return order[np.searchsorted(owners, image) : np.searchsorted(owners, image, side="right")]

    def stored(self, row: int) -> Array:
        """(gh, gw, c): one of the rows as it is stored."""
        shard = int(np.searchsorted(self.bounds, row, side="right")) - 1
        grid, rows = self.shards[shard]
        found: Array = grid[rows[row - self.bounds[shard]]]
        return found

    def part(self, images: Ints, down: slice, across: slice) -> Array:
        """(len(images), h, w, c): the same part of the grids of a few images, copied; each has one."""
        order, owners = self._by_owner
        rows = order[np.searchsorted(owners, images)]
        shards = np.searchsorted(self.bounds, rows, side="right") - 1
        first = self.shards[0][0]
        found = np.empty((len(images), *first[0, down, across].shape), first.dtype)

        for number in np.unique(shards).tolist():
            wanted, (grid, used) = np.flatnonzero(shards == number), self.shards[number]
            found[wanted] = grid[used[rows[wanted] - self.bounds[number]], down, across]
        return found


def ends(weights: Floats) -> tuple[int, int]:
    """The first place that weighs something and the one after the last; (0, 0) where none does."""
    places = np.flatnonzero(weights)
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)


@lru_cache(maxsize=256)
def share_under(shape: tuple[int, ...], tile: Box | None, where: Box | None) -> Floats:
    """(gh, gw): how much of each patch lies under `where`; read only, since every image of a search asks for it."""
    found = np.ones(shape, np.float32)
    if where is not None:
        outer = tile or WHOLE
        across = _spans(shape[1], outer.x1, outer.x2, low=where.x1, high=where.x2)
        down = _spans(shape[0], outer.y1, outer.y2, low=where.y1, high=where.y2)
        found[:] = np.outer(down, across)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=256)
def part_under(shape: tuple[int, ...], tile: Box | None, where: Box | None) -> tuple[slice, slice]:
    """The rows and columns of a grid that lie under `where`; every image of a search asks for them."""
    under = share_under(shape, tile, where)
    return slice(*ends(under.max(axis=1))), slice(*ends(under.max(axis=0)))


def _spans(count: int, first: float, last: float, *, low: float, high: float) -> Floats:
    """How much of [low, high] each of `count` equal steps from `first` to `last` covers."""
    edges = np.linspace(first, last, count + 1)
    return np.asarray(np.clip(np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1]), 0.0, None), np.float32)
