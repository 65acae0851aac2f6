"""How well images answer: the contract that every search word's scorer keeps, and the two that several words share.

Queries come as (m, d) unit vectors of the encoder's space. `where` says in which box of an image to look. Images are
numbered in the order of their image_id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from wherein.arrays import Floats, Ints, Mask
from wherein.index import Index, Top
from wherein.index.exact import best, products
from wherein.index.rows import RowTable
from wherein.search.background import Background
from wherein.search.candidates import Term, combined_top
from wherein.values.region import Box


class Scorer(Protocol):
    """Finds the images that answer best, scores given ones, and says where in them the best score lies."""

    kind: str
    """`cosine`, or `standardised` over the collection."""

    def top(self, queries: Floats, where: Box | None, *, k: int, allowed: Mask | None) -> list[Top]:
        """The best k of the `allowed` images for each query."""

    def scores(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        """(m, len(images)): the scores of given images."""

    def backgrounds(self, queries: Floats, where: Box | None) -> list[Background]:
        """How the scores of each query are spread over the collection."""

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The region of each image that scored best for one query (d,); None is the whole image."""


class SampledScorer:
    """The part that scorers share: backgrounds come from a sample, and what was scored last is not scored again.

    A scorer gives `_compute`. Where the sample is the whole collection, each query is computed once, for every image.
    """

    kind = "cosine"
    reads_all = False
    """Whether its best images are found by scoring all, so that the sample is best taken from those scores."""

    def __init__(self, count: int, sample: Ints) -> None:
        self._count, self._sample = count, sample
        self._last: tuple[bytes, Box | None, Floats] | None = None
        self._full: tuple[bytes, Box | None, Floats] | None = None

    def _compute(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        raise NotImplementedError

    def scores(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        """(m, len(images)): the scores of given images."""
        if len(self._sample) == self._count:
            return self._sampled(queries, where)[:, images]
        full = self._full
        if full is not None and full[:2] == (queries.tobytes(), where):
            return full[2][:, images]
        return self._compute(queries, where, images)

    def top(self, queries: Floats, where: Box | None, *, k: int, allowed: Mask | None) -> list[Top]:
        """The best k images for each query; every score is kept until the next, since a search may ask for more."""
        return [best(scores, k=k, allowed=allowed) for scores in self._every(queries, where)]

    def _every(self, queries: Floats, where: Box | None) -> Floats:
        """(m, n): the scores of all images."""
        every = self.scores(queries, where, np.arange(self._count))
        self._full = (queries.tobytes(), where, every)
        return every

    def backgrounds(self, queries: Floats, where: Box | None) -> list[Background]:
        """How the scores of each query are spread."""
        return [Background.of(scores, n=self._count) for scores in self._sampled(queries, where)]

    def _sampled(self, queries: Floats, where: Box | None) -> Floats:
        """(m, sampled images): scores of the sample; the last are kept, since backgrounds and scores ask for them."""
        last, asked = self._last, queries.tobytes()
        if last is not None and last[:2] == (asked, where):
            return last[2]
        if self.reads_all and len(self._sample) < self._count:
            found = self._every(queries, where)[:, self._sample]
        else:
            found = self._compute(queries, where, self._sample)
        self._last = (asked, where, found)
        return found


class RowScorer(SampledScorer):
    """The embedding of the image, or of its best row. It looks everywhere, whatever `where` says."""

    def __init__(self, table: RowTable, index: Index, sample: Ints) -> None:
        super().__init__(table.count, sample)
        self.table, self._index = table, index

    def _compute(self, queries: Floats, where: Box | None, images: Ints) -> Floats:  # noqa: ARG002 — looks everywhere
        if images is self._sample and self._sample_rows is not None:
            return products(self._sample_rows, queries)
        return self._index.scores(queries, images)

    @cached_property
    def _sample_rows(self) -> Floats | None:
        """The rows of the sample, which every search asks for; None where they are many, or all there are."""
        table, sample = self.table, self._sample
        return table.vectors(sample) if table.alone and len(sample) < table.count else None

    def top(self, queries: Floats, where: Box | None, *, k: int, allowed: Mask | None) -> list[Top]:  # noqa: ARG002
        """The best k images for each query, as the index finds them."""
        return self._index.top(queries, k=k, allowed=allowed)

    def histogram(self, query: Floats, edges: Floats) -> Ints:
        """(len(edges),) how many images score at least each edge and less than the next."""
        counts: Ints = self._index.histogram(query[None], edges=edges)[0]
        return counts

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:  # noqa: ARG002
        """The row that matched; None for the whole image."""
        return [self.table.places.boxes[row] for row in self._index.winners(query, images).tolist()]


@dataclass(frozen=True, slots=True)
class Share:
    """One of several scorers that are summed, and how much it counts beside the others."""

    scorer: Scorer
    share: float = 1.0
    anywhere: float | None = None
    """How much it counts where no place was asked for, if not `share`."""

    def of(self, where: Box | None) -> float:
        """How much it counts for a place."""
        return self.anywhere if where is None and self.anywhere is not None else self.share


class SumScorer(SampledScorer):
    """Several scorers of one image, each standardised over the collection, and summed; the first says where."""

    kind = "standardised"

    def __init__(self, shares: Sequence[Share], *, count: int, sample: Ints) -> None:
        super().__init__(count, sample)
        self._shares = shares

    def _compute(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        total = np.zeros((len(queries), len(images)), np.float32)
        for one in self._shares:
            if one.of(where):
                raw, usual = one.scorer.scores(queries, where, images), one.scorer.backgrounds(queries, where)
                total += one.of(where) * np.stack([b.standardise(row) for b, row in zip(usual, raw, strict=True)])
        return total

    def top(self, queries: Floats, where: Box | None, *, k: int, allowed: Mask | None) -> list[Top]:
        """The best k sums for each query, from the best of each scorer."""
        if len(self._sample) == self._count:
            return super().top(queries, where, k=k, allowed=allowed)
        return [self._top(query[None], where, k, allowed) for query in queries]

    def _top(self, query: Floats, where: Box | None, k: int, allowed: Mask | None) -> Top:
        def term(one: Share) -> Term:
            usual = one.scorer.backgrounds(query, where)[0]

            def propose(wide: int) -> Top:
                found = one.scorer.top(query, where, k=wide, allowed=allowed)[0]
                return Top(found.images, one.of(where) * usual.standardise(found.scores))

            def adds(images: Ints) -> Floats:
                return one.of(where) * usual.standardise(one.scorer.scores(query, where, images)[0])

            return Term(propose, adds)

        return combined_top([term(one) for one in self._shares if one.of(where)], k=k, count=self._count)

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The place that scored best in the first scorer."""
        return self._shares[0].scorer.regions(query, where, images)
