"""`static-5`, `static-9`, `static-36`: the cells of a static grid that the asked place chooses.

Cells are chosen by `~soft` (all that the box touches, each as much as it shares with it, so that a sloppy box does not
lose what lies just outside), `~best` (the one of highest IoU) or `~any` (the best of all that the box touches). Each
cell's cosines are standardised over the collection first: what a corner usually shows must not win by being there.
`~alone` keeps the cosines, as the study scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.index.cells import Cells
from wherein.search.background import LEAST_SPREAD
from wherein.search.scorers import RowScorer, SampledScorer, Scorer, Share, SumScorer
from wherein.search.words import CONTEXT, Layers, SearchWord
from wherein.search.words.patches import PatchScorer
from wherein.values.method import Method, Option
from wherein.values.region import Box, Grid, iou, overlap

WHOLE_SHARE: Final = 0.25
"""How much the whole image counts beside the cells of a grid and the patches under the box, which see some of it."""
ANYWHERE_SHARE: Final = 0.5
"""How much the whole image counts beside the cells where no place was asked for: more, since no patches count then."""
PATCHES_SHARE: Final = 1.0
"""How much the patches right under a box count beside the cells it touches. Both were chosen by R@10 on hand-boxed
photos and things pasted into roads and scenes; see docs/decisions.md."""


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
            layers.cells(grid, kind), grid.boxes(), layers.sample, choose=method.choice("search", "cells"), alone=alone
        )
        if alone:
            return cells
        shares = [Share(cells)]
        if layers.encoder.grid_hw is not None:
            shares.append(Share(PatchScorer(layers.patches(), layers.sample), PATCHES_SHARE, anywhere=0.0))
        whole = layers.whole()
        shares.append(Share(RowScorer(whole, layers.index(whole), layers.sample), WHOLE_SHARE, ANYWHERE_SHARE))
        return SumScorer(shares, count=whole.count, sample=layers.sample)


STATIC: Final = Static()


class CellScorer(SampledScorer):
    """How far the chosen cells of each image stand out."""

    reads_all = True

    def __init__(self, cells: Cells, boxes: Sequence[Box], sample: Ints, *, choose: str, alone: bool = False) -> None:
        """`boxes` says where each of the `cells` is."""
        super().__init__(cells.lengths.shape[1], sample)
        self._cells, self._boxes, self._choose = cells, boxes, choose
        self._usual: tuple[bytes, Box | None, tuple[Floats, Floats]] | None = None
        self.kind = "cosine" if alone else "standardised"

    def _compute(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        chosen, weights = self._chosen(where)
        each = self._each(queries, where, images, chosen)
        soft = self._choose == "soft" and where is not None
        return np.asarray(np.einsum("c,cmn->mn", weights, each) if soft else each.max(axis=0), np.float32)

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The chosen cell that stands out most; of soft ones, among those that count most."""
        chosen, weights = self._chosen(where)
        each = self._each(query[None], where, images, chosen)[:, 0]
        if self._choose == "soft":
            each = np.where(weights[:, None] >= weights.max() / 2, each, -np.inf)
        return [self._boxes[chosen[best]] for best in each.argmax(axis=0).tolist()]

    def _each(self, queries: Floats, where: Box | None, images: Ints, chosen: Sequence[int]) -> Floats:
        """(chosen cells, m, images) scores of each cell."""
        cosines = self._cells.cosines(queries, chosen, images)
        if self.kind == "cosine":
            return cosines
        same = len(images) == len(self._sample) and bool((images == self._sample).all())
        sampled = cosines[..., self._sample] if len(images) == self._count else cosines if same else None
        mean, spread = self._spreads(queries, where, chosen, sampled)
        return np.asarray((cosines - mean) / spread, np.float32)

    def _spreads(
        self, queries: Floats, where: Box | None, chosen: Sequence[int], sampled: Floats | None
    ) -> tuple[Floats, Floats]:
        """Of each chosen cell and query, the mean of its cosines and their deviation, infinite where all are alike.

        The last are kept for the regions of the hits.
        """
        last, asked = self._usual, queries.tobytes()
        if last is not None and last[:2] == (asked, where):
            return last[2]
        cosines = self._cells.cosines(queries, chosen, self._sample) if sampled is None else sampled
        values = cosines.astype(np.float64)
        deviation = values.std(axis=-1, keepdims=True) if len(self._sample) else np.ones((*cosines.shape[:2], 1))
        mean = values.mean(axis=-1, keepdims=True) if len(self._sample) else np.zeros(deviation.shape)
        spread = np.where(deviation <= LEAST_SPREAD, np.inf, deviation)
        found = np.asarray(mean, np.float32), np.asarray(spread, np.float32)
        self._usual = (asked, where, found)
        return found

    def _chosen(self, where: Box | None) -> tuple[list[int], Floats]:
        """Which cells count for a place, and how much."""
        if where is None:
            return list(range(len(self._boxes))), np.ones(len(self._boxes), np.float32)
        if self._choose == "best":
            scores = [iou(cell, where) for cell in self._boxes]
            return [scores.index(max(scores))], np.ones(1, np.float32)
        touched = [number for number, cell in enumerate(self._boxes) if overlap(cell, where) > 0.0]
        weights = np.array([iou(self._boxes[number], where) for number in touched], np.float32)
        return touched, weights / weights.sum()
