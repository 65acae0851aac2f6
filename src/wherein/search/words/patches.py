"""`patches`: the mean patch under the asked place, or the best one anywhere, so that small things are found.

What is usually seen at a patch's place is taken out first: most pictures have sky above and ground below. `~alone`
leaves it in and takes the best patch under the place too, as the papers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.index.cells import FEW, blocks, is_run
from wherein.index.int8 import Int8Query
from wherein.index.patches import Alike, PatchGrids, ends, part_under, share_under
from wherein.index.rough import RoughPlaces, pooled_hw, pooling
from wherein.parallel import on_every_core
from wherein.search.scorers import SampledScorer, Scorer, Share, SumScorer
from wherein.search.words import CONTEXT, Layers, SearchWord
from wherein.store.shards import Array, as_floats, unit_of
from wherein.values.method import Method
from wherein.values.region import WHOLE, Box

WHOLE_SHARE: Final = 0.5
"""How much the whole image counts beside the mean patch under a box. It was chosen together with the share of
`proposals`, which has changed since (docs/results/tuning.md)."""
ANYWHERE_SHARE: Final = 2.0
"""How much the whole image counts beside the best of hundreds of patches, one of which is always good by chance: chosen
by the mAP of a label's images on hand-boxed photos and pasted things (docs/results/tuning.md)."""
_SAMPLE: Final = 4096
"""Grids of which the usual sight of each place is the mean: its error is then a sixty-fourth of the spread."""
_MORE: Final = 8
"""Blocks of patches are so many times those of floats: int8 takes a quarter of the room, and a call of the scan should
last many times its own cost."""
_INT8_UNIT: Final = np.float32(1 / 127)
"""What one counts for in patches that are stored as int8, as `unit_of` says."""
_LEAST_UNDER: Final = 0.25
"""Of an estimated mean, places that count for less than a quarter of the most are left out, which a box hardly touches:
two thirds of what would be read for a ninth of the image. As many hits are found; a few more images are scored."""


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
        patches = PatchScorer(layers.patches(), layers.sample, alone=alone, beside=layers.patches_beside())
        if alone:
            return patches
        whole = layers.whole_scorer
        shares = [Share(patches), Share(whole, WHOLE_SHARE, ANYWHERE_SHARE)]
        return SumScorer(shares, count=whole.table.count, sample=layers.sample)


PATCHES: Final = Patches()


class _Asked:
    """Queries as patches are compared with them."""

    def __init__(self, coefficients: Floats, usual: Floats | None, where: Box | None, *, rough: bool) -> None:
        """`rough`: of many images the best patch of each is found by a coarser query, and scored by the whole."""
        self.coefficients, self.usual, self.where, self._is_rough = coefficients, usual, where, rough
        self._whole = [Int8Query.of(own) for own in coefficients]
        self._means = dict[Box | None, _Mean]()

    def mean(self, tile: Box | None, usual: Floats | None, shares: Floats) -> _Mean:
        """What the mean patch under the place is compared with, the same for all grids of a tile."""
        if tile not in self._means:
            self._means[tile] = _Mean(self.coefficients, usual, shares)
        return self._means[tile]

    def summed(self, patches: Array, usual: Floats | None, shares: Floats | None) -> Floats:
        """(b, m): of patches (b, gh, gw, c) each image's best product less what is usual, or their weighted mean."""
        return np.stack([self._one(patches, usual, shares, number) for number in range(len(self._whole))], 1)

    def _one(self, patches: Array, usual: Floats | None, shares: Floats | None, number: int) -> Floats:
        query, is_int8, images = self._whole[number], patches.dtype == np.int8, len(patches)
        unit = query.step * unit_of(patches) if is_int8 else np.float32(1)
        less = np.zeros(1, np.float32) if usual is None else usual[:, number] / unit
        find_first = self._is_rough and is_int8 and shares is None
        if not is_int8:
            heat = patches.reshape(images, -1, patches.shape[-1]).astype(np.float32) @ self.coefficients[number]
        else:
            heat = _products(patches, query.rough if find_first else query.products)
        heat = heat.reshape(images, -1) - less
        if shares is not None:
            return np.asarray(unit * (heat @ shares), np.float32)
        if not find_first:
            return np.asarray(unit * heat.max(axis=1), np.float32)
        # The best patch is found by 8 bits of the query, and that patch alone is scored by all of it.
        best = heat.argmax(axis=1)
        exact = query.products(patches[np.arange(images), best // patches.shape[2], best % patches.shape[2]])
        return np.asarray(unit * (exact - (less if len(less) == 1 else less[best])), np.float32)


def _products(patches: Array, products: Callable[[Array], Floats]) -> Floats:
    """(b, gh, gw): of int8 patches (b, gh, gw, c), all at once or row by row, as they lie side by side."""
    if patches.flags.c_contiguous:
        return products(patches.reshape(-1, patches.shape[-1])).reshape(patches.shape[:3])
    found = np.empty(patches.shape[:3], np.float32)
    for y in range(patches.shape[1]):
        row = np.ascontiguousarray(patches[:, y])
        found[:, y] = products(row.reshape(-1, patches.shape[-1])).reshape(row.shape[:2])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Under:
    """The patches of a grid that lie under a place, and what they are compared with."""

    ask: _Asked
    down: slice
    across: slice
    shares: Floats
    """(h, w): how much of each of them lies there"""
    usual: Floats | None
    """(h · w, m): what each of them usually scores"""
    take_best: bool
    """Whether the best of them counts, else their mean"""
    tile: Box | None

    @classmethod
    def of(cls, ask: _Asked, hw: tuple[int, int], tile: Box | None, *, take_best: bool) -> _Under:
        """Those of a grid (rows, columns) of a tile."""
        down, across = part_under(hw, tile, ask.where)
        shares = share_under(hw, tile, ask.where)[down, across]
        usual = None if ask.usual is None else ask.usual[down, across].reshape(shares.size, ask.usual.shape[-1])
        return cls(ask, down, across, shares, usual, take_best, tile)

    @property
    def size(self) -> int:
        """How many there are."""
        return self.shares.size

    def scores(self, patches: Array) -> Floats:
        """(b, m): of these patches (b, h, w, c) of images."""
        if self.take_best:
            return self.ask.summed(patches, self.usual, None)
        counted = self.shares / self.shares.sum()
        if patches.dtype == np.int8:
            return self.ask.mean(self.tile, self.usual, counted).of(patches)
        return self.ask.summed(patches, self.usual, counted.ravel())


class _Mean:
    """The mean patch under a place, as a product: each row of patches there is one long vector, so is the query."""

    def __init__(self, coefficients: Floats, usual: Floats | None, shares: Floats) -> None:
        """`shares` (h, w): how much each patch counts; `usual` (h · w, m)."""
        tiled = shares[:, :, None] * coefficients[:, None, None]
        self._rows = [[Int8Query.of(row.ravel()) for row in query] for query in tiled]
        self._less = np.zeros(len(coefficients), np.float32) if usual is None else shares.ravel() @ usual

    def of(self, patches: Array) -> Floats:
        """(b, m): of int8 patches (b, h, w, c), which need not lie side by side."""
        found = np.zeros((len(patches), len(self._rows)), np.float32)
        for number, rows in enumerate(self._rows):
            for y, row in enumerate(rows):
                found[:, number] += row.step * row.products(patches[:, y].reshape(len(patches), -1))
        return unit_of(patches) * found - self._less


class _RoughAsked:
    """A query as patches that lie place by place are compared with it: their best, or their mean under a box."""

    def __init__(self, coefficients: Floats, usual: Floats, under: Floats, *, take_best: bool) -> None:
        """`usual` (rows · columns,): what each place usually scores; `under` (rows, columns): how much of it counts."""
        self._query, self._take_best = Int8Query.of(coefficients, fine=False), take_best
        self._unit = self._query.step * _INT8_UNIT
        filled = [ends(row) for row in under]
        firsts = np.arange(len(under)) * under.shape[1]
        self._runs = [slice(at + first, at + last) for at, (first, last) in zip(firsts, filled, strict=True) if last]
        counted, per_unit = under.ravel() / under.sum(), usual / self._unit
        self._counted, self._usual = [counted[run] for run in self._runs], [per_unit[run] for run in self._runs]
        self._less = np.float32(counted @ per_unit)

    @property
    def rows(self) -> range:
        """The rows of the grid that lie under the box."""
        return range(len(self._runs))

    def of(self, stored: RoughPlaces) -> Floats:
        """(r,): what each image of a shard scores."""
        return self.joined([self.of_row(stored, row) for row in self.rows])

    def of_row(self, stored: RoughPlaces, row: int) -> Floats:
        """(r,): what one row of the grid says, not yet in the unit of scores."""
        places = stored.at(self._runs[row])
        heat = self._query.products(places.reshape(-1, places.shape[-1])).reshape(len(places), -1)
        if not self._take_best:
            return np.asarray(self._counted[row] @ heat, np.float32)
        heat -= self._usual[row][:, None]
        return np.asarray(heat.max(axis=0), np.float32)

    def joined(self, rows: Sequence[Floats]) -> Floats:
        """(r,): what all rows of the grid say together."""
        if self._take_best:
            return np.asarray(self._unit * np.max(rows, axis=0), np.float32)
        return np.asarray(self._unit * (np.sum(rows, axis=0) - self._less), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class PatchesBeside:
    """What is kept beside the patches of a large collection."""

    rough: Sequence[RoughPlaces]
    """A rough copy, of means of about two by two patches"""
    grid_hw: tuple[int, int]
    """The size of the grids that it was made of"""
    sampled: RoughPlaces
    """A copy of those of the sample, numbered as there"""
    usual: Floats
    """(gh, gw, c): what is seen at each place on average, over the sample"""


class PatchScorer(SampledScorer):
    """Cosines with each image's best patch, or the mean ones under a box, less what is usual at that place."""

    def __init__(
        self, grids: PatchGrids, sample: Ints, *, alone: bool = False, beside: PatchesBeside | None = None
    ) -> None:
        super().__init__(grids.count, sample)
        self._grids, self._alone, self._beside, self.reads_all = grids, alone, beside, beside is None

    def _compute(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        if self._beside is not None and images is self._sample:
            return np.stack(
                [self._sampled_by(own, where, self._beside) for own in _projected(queries, self._grids.basis)]
            )
        if self._beside is not None and 0 < len(images) * FEW <= self._count:
            return self._of_few(queries, where, images)
        return self._scan(self._grids, queries, where, images)

    def _asked(self, queries: Floats, where: Box | None) -> _Asked:
        coefficients = _projected(queries, self._grids.basis)
        usual = None if self._alone else self._usual @ coefficients.T
        return _Asked(coefficients, usual, where, rough=len(self._sample) < self._count)

    def _rough_asked(
        self, coefficients: Floats, where: Box | None, hw: tuple[int, int], shares: Floats | None = None
    ) -> _RoughAsked:
        """A query for grids (rows, columns), each place of which takes `shares` of the stored patches, or is one."""
        each = self._usual.reshape(-1, self._usual.shape[-1]) @ coefficients
        usual = each if shares is None else shares @ each
        under, take_best = share_under(hw, None, where), where is None or self._alone
        if shares is not None and not take_best:
            under = np.where(under < _LEAST_UNDER * under.max(), np.float32(0), under)
        return _RoughAsked(coefficients, np.zeros_like(usual) if self._alone else usual, under, take_best=take_best)

    def _sampled_by(self, coefficients: Floats, where: Box | None, beside: PatchesBeside) -> Floats:
        """(sample,): the scores of the sample by one query, to eight bits."""
        asked = self._rough_asked(coefficients, where, beside.grid_hw)
        return asked.joined(on_every_core(lambda row: asked.of_row(beside.sampled, row), asked.rows))

    def _of_few(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        """(m, len(images)): the scores of a few images, of which what lies under the place is copied side by side."""
        ask, hw = self._asked(queries, where), self._grids.shards[0][0].shape[1:3]
        under = _Under.of(ask, hw, None, take_best=where is None or self._alone)
        return under.scores(self._grids.part(images, under.down, under.across)).T

    def _scan(self, grids: PatchGrids, queries: Floats, where: Box | None, images: Ints) -> Floats:
        """(m, len(images)): the scores of some images of some grids."""
        scores = np.full((len(images), len(queries)), -np.inf, np.float32)
        ask = self._asked(queries, where)
        place = np.full(grids.count, -1, np.int64)
        place[images] = np.arange(len(images))

        def look(alike: Alike) -> list[tuple[Ints, Floats]]:
            grid, rows, owners, tile = alike
            wanted = np.flatnonzero(place[owners] >= 0)
            return list(self._seen((grid, rows[wanted], place[owners[wanted]], tile), ask))

        single = len(grids.owners) == grids.count  # else images have tiles, and each the best of its own
        for found in on_every_core(look, grids.alike):
            for owners, cosines in found:
                if single:
                    scores[owners] = cosines
                else:
                    np.maximum.at(scores, owners, cosines)
        return scores.T

    def estimates(self, query: Floats, where: Box | None) -> Floats | None:
        """(n,): about what every image scores, from the rough copy of the patches."""
        beside = self._beside
        if beside is None:
            return None
        coefficients = _projected(query, self._grids.basis)[0]
        asked = self._rough_asked(coefficients, where, pooled_hw(beside.grid_hw), pooling(beside.grid_hw))
        found = np.zeros(self._count, np.float32)

        def look(stored: RoughPlaces) -> None:
            found[stored.owned] = asked.of(stored)

        on_every_core(look, beside.rough)
        return found

    def _seen(self, alike: Alike, ask: _Asked) -> Iterator[tuple[Ints, Floats]]:
        """(images (b,), cosines (b, m)), a block at a time; nothing where the place lies off the tile."""
        grid, rows, owners, tile = alike
        if not len(rows):
            return
        under = _Under.of(ask, grid.shape[1:3], tile, take_best=ask.where is None or self._alone)
        if not under.size:
            return
        together = is_run(rows)
        for some in blocks(len(rows), size=under.size * grid.shape[-1] // _MORE):
            picked = slice(rows[some][0], rows[some][-1] + 1) if together else rows[some]
            yield owners[some], under.scores(grid[picked, under.down, under.across])

    @cached_property
    def _usual(self) -> Floats:
        """(gh, gw, c): what is seen at each place on average, over a sample of the rows."""
        if self._beside is not None:
            return self._beside.usual
        grids = self._grids
        step = max(1, len(grids.owners) // _SAMPLE)
        taken = [rows[::step] for _, rows in grids.shards]
        if len(self._sample) < self._count:  # a large collection is known by its sample
            sampled = np.isin(grids.owners, self._sample)
            within = grids.bounds[1:-1]
            taken = [rows[own] for (_, rows), own in zip(grids.shards, np.split(sampled, within), strict=False)]
        sums = [as_floats(grid[rows]).sum(axis=0) for (grid, _), rows in zip(grids.shards, taken, strict=True)]
        return np.asarray(np.sum(sums, axis=0) / max(sum(map(len, taken)), 1), np.float32)

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The best patch of each image."""
        coefficients = _projected(query[None], self._grids.basis)[0]
        return [self._best_patch(coefficients, where, image) for image in images.tolist()]

    def _best_patch(self, coefficients: Floats, where: Box | None, image: int) -> Box | None:
        best_score, best_box = -np.inf, None
        for row in self._grids.rows_of(image).tolist():
            grid, tile = self._grids.stored(row), self._grids.boxes[row]
            down, across = part_under(grid.shape[:2], tile, where)
            patches = as_floats(grid[down, across])
            heat = (patches if self._alone else patches - self._usual[down, across]) @ coefficients
            if heat.size and heat.max() > best_score:
                best_score = float(heat.max())
                y, x = np.unravel_index(int(heat.argmax()), heat.shape)
                best_box = patch_box(int(x) + across.start, int(y) + down.start, grid.shape[:2], tile=tile)
        return best_box


def patch_box(x: int, y: int, shape: tuple[int, ...], *, tile: Box | None) -> Box:
    """The box of patch (x, y) of a grid of `shape` (rows, columns), inside `tile`."""
    rows, columns = shape
    outer = tile or WHOLE
    width, height = (outer.x2 - outer.x1) / columns, (outer.y2 - outer.y1) / rows
    left, top = outer.x1 + x * width, outer.y1 + y * height
    return Box(left, top, min(1.0, left + width), min(1.0, top + height))


def _projected(queries: Floats, basis: Floats | None) -> Floats:
    return queries if basis is None else queries @ basis
