"""Grids of patches → cells: the mean patch of each place of an image.

A collection keeps the mean patch of each sixth at full width (the layer `cells`); the cells of every static grid are
means of those, since halves, thirds and quarters of an image are made of sixths or nearly so. A cosine with such a
mean is a mean of products over its length, so sixths are all that is stored and read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final, Protocol

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.index.int8 import Int8Query
from wherein.parallel import on_every_core
from wherein.store.shards import Array
from wherein.values.masks import coverage
from wherein.values.region import Box, Grid

CELLS_HW: Final = (6, 6)
"""Places that the layer `cells` keeps: sixths each way, of which halves and thirds are made up."""
BLOCK_VALUES: Final = 1 << 18
"""So many numbers at a time, 1 MB as float32, stay in a core's cache, where reading them costs least."""
FEW: Final = 16
"""Where at most one image in sixteen is scored, its rows are copied side by side first: one product of a thousand rows
costs less than fifty of twenty."""
PARTS: Final = 4
"""Rows that lie side by side are scored in so many parts, so that every core of a small machine has some."""


def blocks(rows: int, *, size: int) -> Iterator[slice]:
    """A few rows at a time, of `size` numbers each."""
    step = max(1, BLOCK_VALUES // max(1, size))
    for start in range(0, rows, step):
        yield slice(start, start + step)


def is_run(rows: Ints) -> bool:
    """Whether rows of a shard follow each other, so that a slice reads them where they lie."""
    return len(rows) > 0 and bool((np.diff(rows) == 1).all())


def as_slice(rows: Ints) -> slice | Ints:
    """Rows as a slice where they follow each other, which then reads or writes them where they lie."""
    return slice(int(rows[0]), int(rows[-1]) + 1) if is_run(rows) else rows


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


@dataclass(frozen=True, slots=True)
class PlaceRows:
    """What is stored of places of every image, as whole numbers; only their direction counts."""

    values: Array
    """(n, places, d), int8: a shard, or what was read of it"""
    rows: Ints
    """(r,) its rows in use"""
    images: Ints
    """(r,) the number of the image that each is of"""

    def blocks(self, places: Ints) -> Iterator[tuple[Ints, Floats]]:
        """(images (b,), their values (b, chosen places, d))."""
        for some in blocks(len(self.rows), size=len(places) * self.values.shape[-1]):
            yield self.images[some], self.values[self.rows[some, None], places].astype(np.float32)

    def products(self, places: Ints, queries: Sequence[Int8Query]) -> Iterator[tuple[slice | Ints, Floats]]:
        """(images (b,), products with queries (chosen places, m, b)); rows that follow each other are not copied."""
        together, every = is_run(self.rows), len(places) == self.values.shape[1] and self.values.flags.c_contiguous
        size = self.values.shape[-1] * (len(places) if every else 1)
        step = max(1, 4 * BLOCK_VALUES // size)
        for start in range(0, len(self.rows), step):
            rows = self.rows[start : start + step]
            own = self.values[rows[0] : rows[-1] + 1] if together else self.values[rows] if every else None
            found = np.empty((len(places), len(queries), len(rows)), np.float32)
            for column, query in enumerate(queries):
                if every and own is not None:
                    products = query.products(own.reshape(-1, own.shape[-1])).reshape(len(rows), -1)
                    np.multiply(products.T, query.step, out=found[:, column])
                    continue
                for number, place in enumerate(places.tolist()):
                    values = self.values[rows, place] if own is None else own[:, place]
                    np.multiply(query.products(values), query.step, out=found[number, column])
            yield as_slice(self.images[start : start + step]), found

    def of(self, numbered: Ints) -> PlaceRows:
        """The rows of some images alone; `numbered` (images,) is the new number of each, −1 for those left out."""
        kept = np.flatnonzero(numbered[self.images] >= 0)
        if len(kept) == len(self.rows):
            return PlaceRows(self.values, self.rows, numbered[self.images])
        return PlaceRows(self.values, self.rows[kept], numbered[self.images[kept]])


def as_parts(count: int) -> list[slice]:
    """`count` rows as PARTS slices of about the same length, in order; fewer where there are fewer rows."""
    ends = np.linspace(0, count, PARTS + 1).astype(np.int64).tolist()
    return [slice(first, last) for first, last in pairwise(ends) if first < last]


def side_by_side(values: Array) -> list[PlaceRows]:
    """Rows (n, places, d) that are in use and numbered as they lie, in a few parts."""
    numbers = np.arange(len(values))
    return [PlaceRows(values, numbers[part], numbers[part]) for part in as_parts(len(values))]


def gathered(stored: Sequence[PlaceRows], places: Ints, numbered: Ints, *, count: int) -> list[PlaceRows]:
    """Some places of `count` images alone, copied and numbered anew; `numbered` as in `PlaceRows.of`."""
    found = np.zeros((count, len(places), stored[0].values.shape[-1] if stored else 1), np.int8)
    run = as_slice(places)
    for own in (some.of(numbered) for some in stored):
        found[own.images] = own.values[own.rows, run] if isinstance(run, slice) else own.values[own.rows[:, None], run]
    every = np.arange(count)
    return [PlaceRows(found, every, every)]  # in one part: threads that share so little wait longer than they work


class StoredPlaces(Protocol):
    """Rows of places of some images, exact or rough."""

    def products(self, places: Ints, queries: Sequence[Int8Query]) -> Iterator[tuple[slice | Ints, Floats]]:
        """(images (b,), as a slice where they follow each other; products with queries (chosen places, m, b))."""

    def of(self, numbered: Ints) -> StoredPlaces:
        """The rows of some images alone; `numbered` (images,) is the new number of each, −1 for those left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of a grid in every image, each the mean of some places of it, of unit length."""

    stored: Sequence[StoredPlaces]
    shares: Floats
    """(cells, places): what each cell takes of each place"""
    per_length: Floats
    """(cells, images): one over the length of each mean, by which products become cosines (`per_length`)"""
    directions: Floats | None = None
    """(d, c): the directions that places are kept in; None where they are kept whole"""
    fine: bool = True
    """Whether queries are compared to their last digit; means and spreads of thousands need eight bits of each"""

    def cosines(self, queries: Floats, chosen: Sequence[int], images: Ints) -> Floats:
        """(m, d) queries with the chosen cells of some images: (chosen, m, images); 0 where a cell shows nothing."""
        found = np.zeros((len(chosen), len(queries), len(images)), np.float32)

        def keep(some: slice | Ints, cosines: Floats) -> None:
            found[..., some] = cosines

        every = len(images) == self.per_length.shape[1] and is_run(images)
        self.each(queries, chosen, keep, images=None if every else images)
        return found

    def each(
        self, queries: Floats, chosen: Sequence[int], use: Callable[[slice | Ints, Floats], None], images: Ints | None
    ) -> None:
        """Call `use`, in threads, with places (b,) in `images` and the cosines (chosen, m, b) of the images there.

        `images` None is every image in its order.
        """
        shares, cells = self.shares[list(chosen)], np.asarray(chosen, np.int64)
        places = np.flatnonzero(shares.any(axis=0))
        taken = shares[:, places]
        alone = taken.shape[0] == taken.shape[1] and np.allclose(taken, np.eye(len(taken)), atol=1e-6)
        turned = queries if self.directions is None else queries @ self.directions
        asked = [Int8Query.of(own, fine=self.fine) for own in turned]
        stored, per_length = self.stored, self.per_length
        if images is not None:
            per_length = per_length[:, images]
            stored, places = self._of(images, places)

        def look(own: StoredPlaces) -> None:
            for some, products in own.products(places, asked):
                means = products if alone else np.tensordot(taken, products, axes=1)
                means *= per_length[:, some].take(cells, axis=0)[:, None]
                use(some, means)

        on_every_core(look, stored)

    def _of(self, images: Ints, places: Ints) -> tuple[Sequence[StoredPlaces], Ints]:
        """Some images alone, numbered anew, and where the chosen places lie in them."""
        numbered = np.full(self.per_length.shape[1], -1, np.int64)
        numbered[images] = np.arange(len(images))
        exact = [own for own in self.stored if isinstance(own, PlaceRows)]
        if len(images) * FEW <= len(numbered) and len(exact) == len(self.stored):
            return gathered(exact, places, numbered, count=len(images)), np.arange(len(places))
        return [own.of(numbered) for own in self.stored], places


def shares_of(cells: Sequence[Box]) -> Floats:
    """(cells, 36): what each cell of a grid takes of each sixth."""
    return np.stack([coverage(cell, shape=CELLS_HW).ravel() for cell in cells])


def per_length(lengths: Floats) -> Floats:
    """One over each of some lengths; very large where a cell shows nothing, whose products are 0."""
    return np.asarray(1 / np.maximum(lengths, 1e-12), np.float32)


def lengths_of(stored: Sequence[PlaceRows], shares: Floats, *, images: int) -> Floats:
    """(cells, images): the length of each cell's mean."""
    lengths = np.zeros((len(shares), images), np.float32)

    def look(some: PlaceRows) -> None:
        for numbers, values in some.blocks(np.arange(shares.shape[1])):
            lengths[:, numbers] = np.linalg.norm(np.matmul(shares, values), axis=-1).T

    on_every_core(look, stored)
    return lengths
