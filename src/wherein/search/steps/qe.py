"""`qe`: query expansion. The query is moved towards its first hits and asked again."""

from __future__ import annotations

from functools import cached_property
from typing import Final, cast

import numpy as np

from wherein.arrays import Floats, Ints, Mask
from wherein.errors import QueryError
from wherein.index import Top
from wherein.search.background import SAMPLE, Background
from wherein.search.engine import Context, Ranked
from wherein.search.expansion import NEIGHBOURS, Weighting, expansion
from wherein.search.scorers import RowScorer
from wherein.search.sources import EmbeddingSource, Group, Source, exhaustive_top
from wherein.search.steps import SearchStep
from wherein.search.steps.neighbours import asked_again, whole_rows
from wherein.values.method import WEIGHTING
from wherein.values.region import Box


class Expand(SearchStep):
    """Asks all images again with the expanded query."""

    name = "qe"
    summary = "moves the query towards its first five hits and asks again"
    options = (WEIGHTING,)
    depth = NEIGHBOURS

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """A new ranking of all images."""
        scorer = whole_rows(context, self.name)
        if ranked.score_kind != "cosine" or ranked.source is None:
            raise QueryError(
                "qe expands a query of one kind by its cosines: put it after the encoder alone, as mini+qe."
            )
        near = np.array([one.image for one in ranked.candidates[: self.depth]], np.int64)
        weighting = cast(Weighting, context.method.choice(self.name, "weighting"))
        moved, length = expansion(scorer.table.vectors(near), ranked.source.scores(near), weighting=weighting)
        return asked_again(ExpandedSource(ranked.source, scorer, moved, length), context, ranked)


QE: Final = Expand()


class ExpandedSource:
    """What an expanded query scores: its own score plus that of the hits it was moved towards, over its new length."""

    kind = "cosine"

    def __init__(self, source: Source, scorer: RowScorer, moved: Floats, length: float) -> None:
        self._source, self._scorer, self._moved, self._length = source, scorer, moved, length
        self.count = source.count

    @cached_property
    def background(self) -> Background:
        """How its scores are spread, over as many images as make a sample."""
        step = max(1, self.count // SAMPLE)
        return Background.of(self.scores(np.arange(0, self.count, step)), n=self.count)

    def findable(self, allowed: Mask | None) -> Mask | None:
        """Every allowed image can be found."""
        return allowed

    def scores(self, images: Ints) -> Floats:
        """(len(images),) cosines with the expanded query."""
        towards = self._scorer.table.vectors(images) @ self._moved
        return np.asarray((self._source.scores(images) + towards) / np.float32(self._length), np.float32)

    def top(self, k: int, allowed: Mask | None) -> Top:
        """The best k by the expanded query, asked of the index where the collection is large."""
        if self.count <= SAMPLE or 4 * k >= self.count or not isinstance(self._source, EmbeddingSource):
            return exhaustive_top(self, k, allowed)
        tops = [self._scorer.top(self._vectors(group), None, k=k, allowed=allowed) for group in self._source.groups]
        images = np.unique(np.concatenate([top.images for found in tops for top in found]))
        mask = np.zeros(self.count, np.bool_)
        mask[images] = True
        return exhaustive_top(self, k, mask)

    def regions(self, images: Ints) -> list[Box | None]:
        """Where the query was found before it was expanded."""
        return self._source.regions(images)

    def notes(self, top: Top, k: int, allowed: Mask | None) -> tuple[str, ...]:  # noqa: ARG002 — as for every source
        """Nothing beside what was said of the ranking before."""
        return ()

    def _vectors(self, group: Group) -> Floats:
        return np.asarray((group.vectors + self._moved) / np.float32(self._length), np.float32)
