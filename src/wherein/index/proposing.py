"""What indexes share that find images by other means than comparing all, and how many images score how much there.

The best images of a search are scored one by one, and they are those that may be right, so they are counted. All the
others are known by a sample: images spread evenly over the table, whose rows stay in memory.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints, Mask
from wherein.index import Index, Top
from wherein.index.exact import ExactRows, products
from wherein.index.rows import RowTable

COUNTED: Final = 100
"""Best images that are counted one by one: as many as the recall of an index is measured with, and a scan for fewer
takes as long."""
SAMPLED: Final = 4096
"""Images that stand for all others, chosen by hand: 8 MB where an image has one row of 512 numbers. What one image in
a hundred reaches is then counted with an error of about 16 % (a Poisson count of 41)."""


class ProposingIndex:
    """An index that finds images by other means and scores them exactly, by the rows of the collection."""

    def __init__(self, table: RowTable) -> None:
        self._table, self._exact, self._counts = table, ExactRows(table), SampledCounts(table)

    def scores(self, queries: Floats, images: Ints) -> Floats:
        """(m, len(images)): the exact score of each image's best row."""
        return self._exact.scores(queries, images)

    def winners(self, query: Floats, images: Ints) -> Ints:
        """The best row of each image, as its place in the table."""
        return self._exact.winners(query, images)

    def histogram(self, queries: Floats, *, edges: Floats) -> Ints:
        """(m, len(edges)): about how many images score at least each edge and less than the next."""
        return self._counts.histogram(self, queries, edges=edges)

    def top(self, queries: Floats, *, k: int, allowed: Mask | None = None) -> list[Top]:
        """The best k images for each query."""
        found = self._found(queries, k, allowed)
        if allowed is None:
            self._counts.remember(queries, found)
        return found

    def _found(self, queries: Floats, k: int, allowed: Mask | None) -> list[Top]:
        raise NotImplementedError


class SampledCounts:
    """Counts of images by score, for the index of a table."""

    def __init__(self, table: RowTable) -> None:
        self._table = table
        self._last: tuple[bytes, Top] | None = None

    def remember(self, queries: Floats, found: list[Top]) -> None:
        """Keep what one query found among all images: hits and counts are asked for one after the other."""
        if len(found) == 1:
            self._last = (queries.tobytes(), found[0])

    def histogram(self, index: Index, queries: Floats, *, edges: Floats) -> Ints:
        """(m, len(edges)): about how many images score at least each edge and less than the next."""
        return np.stack([self._of_one(self._best(index, query), query, edges) for query in queries])

    def _best(self, index: Index, query: Floats) -> Top:
        last, enough = self._last, min(COUNTED, self._table.count)
        if last is not None and last[0] == query.tobytes() and len(last[1].images) >= enough:
            return last[1]
        return index.top(query[None], k=enough)[0]

    def _of_one(self, found: Top, query: Floats, edges: Floats) -> Ints:
        above = _at_least(found.scores, edges).astype(np.float64)
        others = self._sampled(query)
        if len(found.scores):
            others = others[others < found.scores[-1]]
        if len(others):
            above += _at_least(others, edges) * ((self._table.count - len(found.images)) / len(others))
        return np.asarray(-np.diff(np.rint(above), append=0.0), np.int64)

    def _sampled(self, query: Floats) -> Floats:
        """The scores of the images that stand for all."""
        rows, starts = self._rows
        return np.maximum.reduceat(products(rows, query[None])[0], starts) if len(rows) else np.zeros(0, np.float32)

    @cached_property
    def _rows(self) -> tuple[Floats, Ints]:
        """(the rows of the sampled images, where those of each begin)."""
        table = self._table
        images = np.unique(np.linspace(0, max(table.count - 1, 0), min(SAMPLED, table.count)).astype(np.int64))
        counts = np.diff(table.starts, append=len(table))[images]
        starts = np.cumsum(counts) - counts
        rows = np.repeat(table.starts[images] - starts, counts) + np.arange(counts.sum())
        return table.gather(rows), starts


def _at_least(scores: Floats, edges: Floats) -> Ints:
    """(len(edges),): how many scores are at least each edge."""
    return len(scores) - np.searchsorted(np.sort(scores), edges, side="left")
