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
from wherein.index.compressed import CompressedRows
from wherein.index.exact import ExactRows, best, products
from wherein.index.int8 import Int8Query
from wherein.index.rough import WHOLE_UNIT, RoughPlaces
from wherein.index.rows import RowTable
from wherein.parallel import on_every_core
from wherein.search.background import Background
from wherein.search.candidates import Estimated, Term, combined_top
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
    One that also gives `estimates` finds its best images by them, and scores exactly those that may be among them.
    """

    kind = "cosine"
    reads_all = False
    """Whether its best images are found by scoring all, so that the sample is best taken from those scores."""

    def __init__(self, count: int, sample: Ints) -> None:
        self._count, self._sample = count, sample
        self._last: tuple[bytes, Box | None, Floats] | None = None
        self._spread: tuple[Floats, list[Background]] | None = None
        self._full: tuple[bytes, Box | None, Floats] | None = None
        self._estimated: tuple[bytes, Box | None, Estimated | None] | None = None

    def _compute(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        raise NotImplementedError

    def estimates(self, query: Floats, where: Box | None) -> Floats | None:  # noqa: ARG002 — for those that can
        """(n,): about what every image scores for one query (1, d); None where no rough copy is kept."""
        return None

    def scores(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        """(m, len(images)): the scores of given images."""
        if images is self._sample:
            return self._sampled(queries, where)
        if len(self._sample) == self._count:
            return self._sampled(queries, where)[:, images]
        full = self._full
        if full is not None and full[:2] == (queries.tobytes(), where):
            return full[2][:, images]
        known = self._estimated
        if known is not None and known[2] is not None and known[:2] == (queries.tobytes(), where):
            return known[2].exact(images, lambda new: self._compute(queries, where, new)[0])[None]
        return self._compute(queries, where, images)

    def top(self, queries: Floats, where: Box | None, *, k: int, allowed: Mask | None) -> list[Top]:
        """The best k images for each query."""
        found = [self._estimated_top(query[None], where, k, allowed) for query in queries]
        certain = [top for top in found if top is not None]
        return certain if len(certain) == len(queries) else self._exact_tops(queries, where, k, allowed)

    def _exact_tops(self, queries: Floats, where: Box | None, k: int, allowed: Mask | None) -> list[Top]:
        """The best k; every score is kept until the next query, since a search may ask for more."""
        return [best(scores, k=k, allowed=allowed) for scores in self.every(queries, where)]

    def _estimated_top(self, query: Floats, where: Box | None, k: int, allowed: Mask | None) -> Top | None:
        """The best k by estimates and exact scores; None where most images would have to be scored."""
        if len(self._sample) == self._count:
            return None
        last, asked = self._estimated, query.tobytes()
        if last is None or last[:2] != (asked, where):
            rough = self.estimates(query, where)
            made = (
                None if rough is None else Estimated.of(rough, self._sample, self.scores(query, where, self._sample)[0])
            )
            last = self._estimated = (asked, where, made)
        if last[2] is None:
            return None
        return last[2].top(lambda images: self._compute(query, where, images)[0], k=k, allowed=allowed)

    def every(self, queries: Floats, where: Box | None) -> Floats:
        """(m, n): the scores of all images; the last are kept."""
        full = self._full
        if full is not None and full[:2] == (queries.tobytes(), where):
            return full[2]
        every = self.scores(queries, where, np.arange(self._count))
        self._full = (queries.tobytes(), where, every)
        return every

    def backgrounds(self, queries: Floats, where: Box | None) -> list[Background]:
        """How the scores of each query are spread; the last are kept, since every term of a sum asks for them."""
        sampled, last = self._sampled(queries, where), self._spread
        if last is None or last[0] is not sampled:
            last = self._spread = (sampled, [Background.of(scores, n=self._count) for scores in sampled])
        return last[1]

    def _sampled(self, queries: Floats, where: Box | None) -> Floats:
        """(m, sampled images): scores of the sample; the last are kept, since backgrounds and scores ask for them."""
        last, asked = self._last, queries.tobytes()
        if last is not None and last[:2] == (asked, where):
            return last[2]
        if self.reads_all and len(self._sample) < self._count:
            found = self.every(queries, where)[:, self._sample]
        else:
            found = self._compute(queries, where, self._sample)
        self._last = (asked, where, found)
        return found


class RowScorer(SampledScorer):
    """The embedding of the image, or of its best row. It looks everywhere, whatever `where` says."""

    def __init__(self, table: RowTable, index: Index, sample: Ints, rough: Sequence[RoughPlaces] | None = None) -> None:
        super().__init__(table.count, sample)
        self.table, self._index, self._rough = table, index, rough
        self._found: tuple[bytes, int, list[Top]] | None = None
        self._guessed: tuple[bytes, Floats] | None = None

    def scores(self, queries: Floats, where: Box | None, images: Ints) -> Floats:  # noqa: ARG002 — looks everywhere
        """(m, len(images)): the scores of given images; what was scored last is known whatever the place."""
        return super().scores(queries, None, images)

    def backgrounds(self, queries: Floats, where: Box | None) -> list[Background]:  # noqa: ARG002 — looks everywhere
        """How the scores of each query are spread."""
        return super().backgrounds(queries, None)

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
        """The best k of all images for each query; the last are kept, since confidence asks for some of them again.

        Not those of an index elsewhere: it may change or go without this process knowing.
        """
        if allowed is not None or not isinstance(self._index, ExactRows | CompressedRows):
            return self._best(queries, k, allowed)
        last, asked = self._found, queries.tobytes()
        if last is None or last[0] != asked or last[1] < k:
            last = self._found = (asked, k, self._best(queries, k, None))
        return [Top(top.images[:k], top.scores[:k]) for top in last[2]]

    def _best(self, queries: Floats, k: int, allowed: Mask | None) -> list[Top]:
        """The best k images for each query: as the index finds them, or by estimates where it would compare all."""
        index = self._index
        if self._rough is None or not isinstance(index, ExactRows | CompressedRows):
            return index.top(queries, k=k, allowed=allowed)
        if isinstance(index, CompressedRows) and not self._is_estimated(queries):
            found = [index.certain(query, k=k, allowed=allowed) for query in queries]
            certain = [top for top in found if top is not None]
            if len(certain) == len(queries):
                return certain
        return super().top(queries, None, k=k, allowed=allowed)

    def _is_estimated(self, queries: Floats) -> bool:
        """Whether the best images of a query had to be estimated just now."""
        known = self._estimated
        return known is not None and known[2] is not None and known[0] == queries.tobytes()

    def _exact_tops(self, queries: Floats, where: Box | None, k: int, allowed: Mask | None) -> list[Top]:  # noqa: ARG002
        return self._index.top(queries, k=k, allowed=allowed)

    def estimates(self, query: Floats, where: Box | None) -> Floats | None:  # noqa: ARG002 — looks everywhere
        """(n,): about what every image scores, from its embedding as int8; the last are kept, as the best are."""
        if self._rough is None:
            return None
        last, key = self._guessed, query.tobytes()
        if last is not None and last[0] == key:
            return last[1]
        found, asked = np.zeros(self._count, np.float32), Int8Query.of(query[0], fine=False)
        unit = WHOLE_UNIT * asked.step

        def look(stored: RoughPlaces) -> None:
            found[stored.owned] = unit * asked.products(stored.at(slice(0, 1))[0])

        on_every_core(look, self._rough)
        self._guessed = (key, found)
        return found

    def histogram(self, query: Floats, edges: Floats) -> Ints:
        """(len(edges),) how many images score at least each edge and less than the next; about, by estimates."""
        known = self._estimated
        if known is not None and known[2] is not None and self._is_estimated(query):
            below = np.searchsorted(np.sort(known[2].estimates), edges, side="left")
            return np.diff(below, append=self._count)
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
        self._known: tuple[bytes, Box | None, Floats] | None = None

    def _compute(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        total = np.zeros((len(queries), len(images)), np.float32)
        for one in self._shares:
            if one.of(where):
                raw, usual = one.scorer.scores(queries, where, images), one.scorer.backgrounds(queries, where)
                total += one.of(where) * np.stack([b.standardise(row) for b, row in zip(usual, raw, strict=True)])
        return total

    def estimates(self, query: Floats, where: Box | None) -> Floats | None:
        """(n,): the sum of what the scorers estimate; None where one of them cannot."""

        def look(one: Share) -> Floats | None:
            usual = one.scorer.backgrounds(query, where)[0]  # first: estimates of cells need what it knows
            rough = one.scorer.estimates(query, where) if isinstance(one.scorer, SampledScorer) else None
            return None if rough is None else np.float32(one.of(where)) * usual.standardise(rough)

        # One beside the other, because a thread that is woken for each of them comes late.
        found = on_every_core(look, [one for one in self._shares if one.of(where)])
        known = [own for own in found if own is not None]
        return np.asarray(np.sum(known, axis=0), np.float32) if len(known) == len(found) else None

    def _exact_tops(self, queries: Floats, where: Box | None, k: int, allowed: Mask | None) -> list[Top]:
        """The best k sums for each query, from the best of each scorer."""
        if len(self._sample) == self._count:
            return super()._exact_tops(queries, where, k, allowed)
        return [self._top(query[None], where, k, allowed) for query in queries]

    def _top(self, query: Floats, where: Box | None, k: int, allowed: Mask | None) -> Top:
        """Scorers that read all images are one term, whose sum is known of every image."""

        def term(one: Share) -> Term:
            usual = one.scorer.backgrounds(query, where)[0]

            def propose(wide: int) -> Top:
                found = one.scorer.top(query, where, k=wide, allowed=allowed)[0]
                return Top(found.images, one.of(where) * usual.standardise(found.scores))

            def adds(images: Ints) -> Floats:
                return one.of(where) * usual.standardise(one.scorer.scores(query, where, images)[0])

            return Term(propose, adds)

        counted = [one for one in self._shares if one.of(where)]
        known = self._read(query, where)
        terms = [term(one) for one in counted if not _reads_all(one.scorer)]
        if len(terms) < len(counted):
            terms.insert(0, Term(lambda wide: best(known, k=wide, allowed=allowed), lambda images: known[images]))
        return combined_top(terms, k=k, count=self._count)

    def _read(self, query: Floats, where: Box | None) -> Floats:
        """(n,): what the scorers that read all images add for one query (1, d); the last is kept."""
        last, asked = self._known, query.tobytes()
        if last is not None and last[:2] == (asked, where):
            return last[2]
        total = np.zeros(self._count, np.float32)
        for one in self._shares:
            if one.of(where) and isinstance(one.scorer, SampledScorer) and one.scorer.reads_all:
                usual = one.scorer.backgrounds(query, where)[0]
                total += one.of(where) * usual.standardise(one.scorer.every(query, where)[0])
        self._known = (asked, where, total)
        return total

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The place that scored best in the first scorer."""
        return self._shares[0].scorer.regions(query, where, images)


def _reads_all(scorer: Scorer) -> bool:
    return isinstance(scorer, SampledScorer) and scorer.reads_all
