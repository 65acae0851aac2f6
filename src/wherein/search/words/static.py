"""`static-5`, `static-9`, `static-36`: the cells of a static grid that the asked place chooses.

Cells are chosen by `~soft` (all that the box touches, each as much as it shares with it, so that a sloppy box does not
lose what lies just outside), `~best` (the one of highest IoU) or `~any` (the best of all that the box touches). Each
cell's cosines are standardised over the collection first: what a corner usually shows must not win by being there.
`~alone` keeps the cosines, as the study scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.index.cells import Cells, blocks
from wherein.search.background import LEAST_SPREAD
from wherein.search.scorers import SampledScorer, Scorer, Share, SumScorer
from wherein.search.words import CONTEXT, Layers, SearchWord
from wherein.search.words.patches import PatchScorer
from wherein.values.method import Method, Option
from wherein.values.region import Box, Grid, iou, overlap

WHOLE_SHARE: Final = 0.25
"""How much the whole image counts beside the cells of a grid and the patches under the box, which see some of it.
A quarter did better than a half on hand-boxed photos and things pasted into roads and scenes (docs/results/tuning.md).
"""
ANYWHERE_SHARE: Final = 0.5
"""How much the whole image counts beside the cells where no place was asked for: more, since no patches count then."""
PATCHES_SHARE: Final = 1.0
"""How much the patches right under a box count beside the cells it touches. Chosen with WHOLE_SHARE by R@10 on
hand-boxed photos and things pasted into roads and scenes (docs/results/tuning.md)."""


class Static(SearchWord):
    """Compares the query with the cells of a grid."""

    name = "static"
    summary = "the cells of a static grid under the place, beside the patches there and the whole image"
    options = (Option("cells", ("soft", "best", "any")), Option("fill", ("patch", "crop")), CONTEXT)
    uses_place = True

    def layers(self, method: Method) -> tuple[str, ...]:
        """The encoded crops of the grid, or the layer `cells`; beside them the patches and the whole image."""
        first = str(method.grid) if method.choice("search", "fill") == "crop" else "cells"
        beside = ("global", "patches") if method.choice("search", "context") == "beside" else ("global",)
        return (first, *beside)

    def open(self, layers: Layers) -> Scorer:
        """The cells, alone or summed with the patches under the box and the whole image."""
        method = layers.method
        grid, kind = method.grid or Grid(9), self.layers(method)[0]
        alone = method.choice("search", "context") == "alone"
        cells = CellScorer(
            layers.cells(grid, kind),
            grid.boxes(),
            layers.sample,
            choose=method.choice("search", "cells"),
            alone=alone,
            beside=layers.cells_beside(grid, kind),
        )
        if alone:
            return cells
        shares = [Share(cells)]
        if layers.encoder.grid_hw is not None:
            patches = PatchScorer(layers.patches(), layers.sample, beside=layers.patches_beside())
            shares.append(Share(patches, PATCHES_SHARE, anywhere=0.0))
        whole = layers.whole_scorer
        shares.append(Share(whole, WHOLE_SHARE, ANYWHERE_SHARE))
        return SumScorer(shares, count=whole.table.count, sample=layers.sample)


STATIC: Final = Static()


@dataclass(frozen=True, slots=True)
class CellsBeside:
    """What is kept beside the cells of a large collection."""

    rough: Cells
    """A rough copy"""
    sampled: Cells
    """A copy of those of the sample, numbered as there"""


class CellScorer(SampledScorer):
    """How far the chosen cells of each image stand out."""

    def __init__(
        self,
        cells: Cells,
        boxes: Sequence[Box],
        sample: Ints,
        *,
        choose: str,
        alone: bool = False,
        beside: CellsBeside | None = None,
    ) -> None:
        """`boxes` says where each of the `cells` is."""
        super().__init__(cells.per_length.shape[1], sample)
        self._cells, self._boxes, self._choose, self._beside = cells, boxes, choose, beside
        self._usual: tuple[bytes, Box | None, tuple[Floats, Floats]] | None = None
        self._last_chosen: tuple[Box | None, tuple[list[int], Floats]] | None = None
        self.kind, self.reads_all = "cosine" if alone else "standardised", beside is None

    def _compute(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        cosines = self._cosines(queries, where, images)
        usual = self._usually(queries, where, cosines, images)
        return self._combined(where, cosines, usual)

    def _cosines(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        """(chosen cells, m, images); those of the sample from its own copy, where there is one."""
        chosen, _ = self._chosen(where)
        if images is self._sample and self._beside is not None:
            return self._beside.sampled.cosines(queries, chosen, np.arange(len(images)))
        return self._cells.cosines(queries, chosen, images)

    def estimates(self, query: Floats, where: Box | None) -> Floats | None:
        """(n,): about what every image scores, from the rough copy of the cells."""
        if self._beside is None:
            return None
        usual, found = self._spreads(query, where), np.zeros(self._count, np.float32)

        def keep(some: slice | Ints, cosines: Floats) -> None:
            found[some] = self._combined(where, cosines, usual)[0]

        self._beside.rough.each(query, self._chosen(where)[0], keep, images=None)
        return found

    def _combined(self, where: Box | None, cosines: Floats, usual: tuple[Floats, Floats]) -> Floats:
        """(m, images): how far the chosen cells stand out, as much as each counts, or the one that does most."""
        (mean, spread), weights = usual, self._chosen(where)[1]
        if self._choose == "soft" and where is not None:
            shares = weights[:, None] / spread[..., 0]
            less = (shares * mean[..., 0]).sum(axis=0)
            return np.asarray(np.einsum("cm,cmn->mn", shares, cosines) - less[:, None], np.float32)
        found, per_spread = np.empty(cosines.shape[1:], np.float32), 1 / spread
        less = mean * per_spread
        for some in blocks(cosines.shape[-1], size=cosines[..., 0].size):
            apart = cosines[..., some] * per_spread
            apart -= less
            apart.max(axis=0, out=found[:, some])
        return found

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The chosen cell that stands out most; of soft ones, among those that count most."""
        chosen, weights = self._chosen(where)
        cosines = self._cosines(query[None], where, images)
        mean, spread = self._usually(query[None], where, cosines, images)
        each = ((cosines - mean) / spread)[:, 0]
        if self._choose == "soft":
            each = np.where(weights[:, None] >= weights.max() / 2, each, -np.inf)
        return [self._boxes[chosen[best]] for best in each.argmax(axis=0).tolist()]

    def _usually(self, queries: Floats, where: Box | None, cosines: Floats, images: Ints) -> tuple[Floats, Floats]:
        """Of each chosen cell and query, what is taken from its cosines and what they are divided by."""
        same = len(images) == len(self._sample) and bool((images == self._sample).all())
        return self._spreads(
            queries, where, cosines[..., self._sample] if len(images) == self._count else cosines if same else None
        )

    def _spreads(self, queries: Floats, where: Box | None, sampled: Floats | None = None) -> tuple[Floats, Floats]:
        """Of each chosen cell and query, the mean of its cosines and their deviation, infinite where all are alike.

        Nothing is taken from plain cosines. The last are kept for the regions of the hits.
        """
        last, asked = self._usual, queries.tobytes()
        if last is not None and last[:2] == (asked, where):
            return last[2]
        if self.kind == "cosine" or not len(self._sample):
            nothing = np.zeros((len(self._chosen(where)[0]), len(queries), 1), np.float32)
            return nothing, nothing + 1
        cosines = self._cosines(queries, where, self._sample) if sampled is None else sampled
        values = cosines.astype(np.float64)
        deviation, mean = values.std(axis=-1, keepdims=True), values.mean(axis=-1, keepdims=True)
        spread = np.where(deviation <= LEAST_SPREAD, np.inf, deviation)
        found = np.asarray(mean, np.float32), np.asarray(spread, np.float32)
        self._usual = (asked, where, found)
        return found

    def _chosen(self, where: Box | None) -> tuple[list[int], Floats]:
        """Which cells count for a place, and how much; the last is kept, since every block of images asks for it."""
        last = self._last_chosen
        if last is None or last[0] != where:
            last = self._last_chosen = (where, self._choice(where))
        return last[1]

    def _choice(self, where: Box | None) -> tuple[list[int], Floats]:
        if where is None:
            return list(range(len(self._boxes))), np.ones(len(self._boxes), np.float32)
        if self._choose == "best":
            scores = [iou(cell, where) for cell in self._boxes]
            return [scores.index(max(scores))], np.ones(1, np.float32)
        touched = [number for number, cell in enumerate(self._boxes) if overlap(cell, where) > 0.0]
        weights = np.array([iou(self._boxes[number], where) for number in touched], np.float32)
        return touched, weights / weights.sum()
