"""`patches`: the mean patch under the asked place, or the best one anywhere, so that small things are found.

What is usually seen at a patch's place is taken out first: most pictures have sky above and ground below. `~alone`
leaves it in and takes the best patch under the place too, as the papers do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.index.cells import blocks, is_run
from wherein.index.int8 import Int8Query
from wherein.parallel import in_parallel
from wherein.search.scorers import RowScorer, SampledScorer, Scorer, Share, SumScorer
from wherein.search.words import CONTEXT, Layers, SearchWord
from wherein.store.shards import Array, as_floats, unit_of
from wherein.values.method import Method
from wherein.values.region import Box

WHOLE_SHARE: Final = 0.5
"""How much the whole image counts beside the mean patch under a box; chosen as in `proposals`."""
ANYWHERE_SHARE: Final = 2.0
"""The same beside the best of hundreds of patches, one of which is always good by chance: chosen by the mAP of a
label's images on hand-boxed photos and things pasted into roads; see docs/decisions.md."""
_SAMPLE: Final = 4096
"""Grids of which the usual sight of each place is the mean: its error is then a sixty-fourth of the spread."""
_MORE: Final = 8
"""Stored patches take a quarter of the room of floats, and a call of the scan should last many times its own cost."""
_WHOLE: Final = Box(0.0, 0.0, 1.0, 1.0)
"""All of an image."""


class Patches(SearchWord):
    """Compares the query with the patches of every image."""

    name = "patches"
    summary = "the mean patch under the place, or the best one anywhere, beside the whole image"
    options = (CONTEXT,)
    uses_place = True

    def layers(self, method: Method) -> tuple[str, ...]:  # noqa: ARG002 — the same for every method
        """The patches, and the whole image that counts beside them."""
        return ("patches", "global")

    def open(self, layers: Layers) -> Scorer:
        """Patches alone, or summed with the whole image."""
        alone = layers.method.choice("search", "context") == "alone"
        patches = PatchScorer(layers.patches(), layers.sample, alone=alone)
        if alone:
            return patches
        whole = layers.whole()
        beside = Share(RowScorer(whole, layers.index(whole), layers.sample), WHOLE_SHARE, ANYWHERE_SHARE)
        return SumScorer([Share(patches), beside], count=whole.count, sample=layers.sample)


PATCHES: Final = Patches()


@dataclass(frozen=True, slots=True, eq=False)
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


_Alike = tuple[Array, Ints, Ints, Box | None]
"""A shard, some of its rows, their images, the tile they all are of."""


class _Asked:
    """Queries as patches are compared with them."""

    def __init__(self, coefficients: Floats, usual: Floats | None, where: Box | None, *, rough: bool) -> None:
        """`rough`: of many images the best patch of each is found by a coarser query, and scored by the whole."""
        self.coefficients, self.usual, self.where, self._is_rough = coefficients, usual, where, rough
        self._whole = [Int8Query.of(own) for own in coefficients]

    def summed(self, patches: Array, usual: Floats | None, shares: Floats | None) -> Floats:
        """(b, m): of patches (b, gh, gw, c) each image's best product less what is usual, or their weighted mean."""
        flat = np.ascontiguousarray(patches).reshape(-1, patches.shape[-1])
        return np.stack([self._one(flat, len(patches), usual, shares, number) for number in range(len(self._whole))], 1)

    def _one(self, flat: Array, images: int, usual: Floats | None, shares: Floats | None, number: int) -> Floats:
        query, is_int8 = self._whole[number], flat.dtype == np.int8
        unit = query.step * unit_of(flat) if is_int8 else np.float32(1)
        less = np.zeros(1, np.float32) if usual is None else usual[:, number] / unit
        find_first = self._is_rough and is_int8 and shares is None
        if not is_int8:
            heat = flat.astype(np.float32) @ self.coefficients[number]
        else:
            heat = query.rough(flat) if find_first else query.products(flat)
        heat = heat.reshape(images, -1) - less
        if shares is not None:
            return np.asarray(unit * (heat @ shares), np.float32)
        if not find_first:
            return np.asarray(unit * heat.max(axis=1), np.float32)
        # The best patch is found by 8 bits of the query, and that patch alone is scored by all of it.
        best = heat.argmax(axis=1)
        exact = query.products(flat[np.arange(images) * heat.shape[1] + best])
        return np.asarray(unit * (exact - (less if len(less) == 1 else less[best])), np.float32)


class PatchScorer(SampledScorer):
    """Cosines with each image's best patch, or the mean ones under a box, less what is usual at that place."""

    reads_all = True

    def __init__(self, grids: PatchGrids, sample: Ints, *, alone: bool = False) -> None:
        super().__init__(grids.count, sample)
        self._grids, self._alone = grids, alone
        self._bounds = np.cumsum([0, *(len(rows) for _, rows in grids.shards)])

    def _compute(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        coefficients = _projected(queries, self._grids.basis)
        scores = np.full((len(images), len(queries)), -np.inf, np.float32)
        usual = None if self._alone else self._usual @ coefficients.T
        ask = _Asked(coefficients, usual, where, rough=len(self._sample) < self._count)
        place = np.full(self._count, -1, np.int64)
        place[images] = np.arange(len(images))

        def look(alike: _Alike) -> list[tuple[Ints, Floats]]:
            grid, rows, owners, tile = alike
            wanted = np.flatnonzero(place[owners] >= 0)
            return list(self._seen((grid, rows[wanted], place[owners[wanted]], tile), ask))

        single = len(self._grids.owners) == self._count  # else images have tiles, and each the best of its own
        for found in in_parallel(look, self._alike):
            for owners, cosines in found:
                if single:
                    scores[owners] = cosines
                else:
                    np.maximum.at(scores, owners, cosines)
        return scores.T

    def _seen(self, alike: _Alike, ask: _Asked) -> Iterator[tuple[Ints, Floats]]:
        """(images (b,), cosines (b, m)), a block at a time; nothing where the place lies off the tile."""
        grid, rows, owners, tile = alike
        under = _under(grid.shape[1:3], tile, ask.where)
        down, across = slice(*_ends(under.max(axis=1))), slice(*_ends(under.max(axis=0)))
        shares = under[down, across].ravel()
        if not len(shares):
            return
        usual = None if ask.usual is None else ask.usual[down, across].reshape(len(shares), -1)
        together, take_best = is_run(rows), ask.where is None or self._alone
        for some in blocks(len(rows), size=len(shares) * grid.shape[-1] // _MORE):
            picked = rows[some]
            patches = grid[picked[0] : picked[-1] + 1, down, across] if together else grid[picked, down, across]
            yield owners[some], ask.summed(patches, usual, None if take_best else shares / shares.sum())

    @cached_property
    def _alike(self) -> list[_Alike]:
        alike = []
        for (grid, rows), start in zip(self._grids.shards, self._bounds.tolist(), strict=False):
            of_tile = dict[Box | None, list[int]]()
            for number, tile in enumerate(self._grids.boxes[start : start + len(rows)]):
                of_tile.setdefault(tile, []).append(number)
            alike += [(grid, rows[some], self._grids.owners[start:][some], tile) for tile, some in of_tile.items()]
        return alike

    @cached_property
    def _usual(self) -> Floats:
        """(gh, gw, c): what is seen at each place on average, over a sample of the rows."""
        step = max(1, int(self._bounds[-1]) // _SAMPLE)
        sums = [as_floats(grid[rows[::step]]).sum(axis=0) for grid, rows in self._grids.shards]
        counts = [len(rows[::step]) for _, rows in self._grids.shards]
        return np.asarray(np.sum(sums, axis=0) / max(sum(counts), 1), np.float32)

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The best patch of each image."""
        coefficients = _projected(query[None], self._grids.basis)[0]
        return [self._best_patch(coefficients, where, image) for image in images.tolist()]

    def _best_patch(self, coefficients: Floats, where: Box | None, image: int) -> Box | None:
        best_score, best_box = -np.inf, None
        for row in np.flatnonzero(self._grids.owners == image).tolist():
            shard = int(np.searchsorted(self._bounds, row, side="right")) - 1
            grid, rows = self._grids.shards[shard]
            patches = as_floats(grid[rows[row - self._bounds[shard]]])
            heat = (patches if self._alone else patches - self._usual) @ coefficients
            heat[_under(heat.shape, self._grids.boxes[row], where) <= 0.0] = -np.inf
            if heat.max() > best_score:
                best_score = float(heat.max())
                y, x = np.unravel_index(int(heat.argmax()), heat.shape)
                best_box = patch_box(int(x), int(y), heat.shape, tile=self._grids.boxes[row])
        return best_box


def patch_box(x: int, y: int, shape: tuple[int, ...], *, tile: Box | None) -> Box:
    """The box of patch (x, y) of a grid of `shape` (rows, columns), inside `tile`."""
    rows, columns = shape
    outer = tile or _WHOLE
    width, height = (outer.x2 - outer.x1) / columns, (outer.y2 - outer.y1) / rows
    left, top = outer.x1 + x * width, outer.y1 + y * height
    return Box(left, top, min(1.0, left + width), min(1.0, top + height))


def _ends(weights: Floats) -> tuple[int, int]:
    """The first place that weighs something and the one after the last; (0, 0) where none does."""
    places = np.flatnonzero(weights)
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)


def _projected(queries: Floats, basis: Floats | None) -> Floats:
    return queries if basis is None else queries @ basis


def _under(shape: tuple[int, ...], tile: Box | None, where: Box | None) -> Floats:
    """(gh, gw): how much of each patch lies under `where`."""
    if where is None:
        return np.ones(shape, np.float32)
    outer = tile or _WHOLE
    across = _spans(shape[1], outer.x1, outer.x2, low=where.x1, high=where.x2)
    down = _spans(shape[0], outer.y1, outer.y2, low=where.y1, high=where.y2)
    return np.asarray(np.outer(down, across), np.float32)


def _spans(count: int, first: float, last: float, *, low: float, high: float) -> Floats:
    """How much of [low, high] each of `count` equal steps from `first` to `last` covers."""
    edges = np.linspace(first, last, count + 1)
    return np.asarray(np.clip(np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1]), 0.0, None), np.float32)
