"""The index that compares a query with every row: no recall is lost. Scores are cosines.

An image may own several rows (its tiles); its score is the best of them. Images are numbered in the order of
their image_id, so the smaller number wins a tie.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints, Mask
from wherein.index import Top
from wherein.index.rows import RowTable

_ORDERED: Final = 4096
"""So many of many values are put in order to guess which are the highest: that takes a twentieth of a millisecond."""
_SPARE: Final = 8
"""The guess lies so much deeper among them that hardly ever too few reach it, and then all are put in order."""


class ExactRows:
    """Every row is scored."""

    def __init__(self, table: RowTable) -> None:
        self._table = table
        self._last: tuple[bytes, Floats] | None = None
        """The last queries and their scores: hits and counts are asked for one after the other."""

    def scores(self, queries: Floats, images: Ints) -> Floats:
        """(m, len(images)): the score of each image's best row."""
        if len(images) == self._table.count:
            return self._all(queries)[:, images]
        if self._table.alone:
            return products(self._table.gather(images), queries)
        starts, ends = self._spans()
        counts = ends[images] - starts[images]
        offsets = np.cumsum(counts) - counts
        rows = np.repeat(starts[images] - offsets, counts) + np.arange(counts.sum())
        flat = products(self._table.gather(rows), queries)
        return np.maximum.reduceat(flat, offsets, axis=1) if len(images) else flat[:, :0]

    def top(self, queries: Floats, *, k: int, allowed: Mask | None = None) -> list[Top]:
        """The best k images for each query."""
        return [best(scores, k=k, allowed=allowed) for scores in self._all(queries)]

    def histogram(self, queries: Floats, *, edges: Floats) -> Ints:
        """(m, len(edges)): how many images score at least each edge and less than the next."""
        below = np.stack([np.searchsorted(np.sort(scores), edges, side="left") for scores in self._all(queries)])
        return np.diff(below, axis=1, append=self._table.count)

    def winners(self, query: Floats, images: Ints) -> Ints:
        """The best row of each image, as its place in the table."""
        if self._table.alone:
            return images
        starts, ends = self._spans()
        own = [np.arange(starts[image], ends[image]) for image in images.tolist()]
        return np.array([rows[(self._table.gather(rows) @ query).argmax()] for rows in own], np.int64)

    def _spans(self) -> tuple[Ints, Ints]:
        starts = self._table.starts
        return starts, np.r_[starts[1:], len(self._table)]

    def _all(self, queries: Floats) -> Floats:
        last, asked = self._last, queries.tobytes()
        if last is not None and last[0] == asked:
            return last[1]
        flat = np.empty((len(queries), len(self._table)), np.float32)
        for rows, used, places in self._table.blocks():
            flat[:, places] = products(rows, queries)[:, used]
        found = flat if self._table.alone else np.maximum.reduceat(flat, self._table.starts, axis=1)
        self._last = (asked, found) if len(queries) == 1 else None
        return found


def products(rows: Floats, queries: Floats) -> Floats:
    """(n, d) rows and (m, d) queries → (m, n)."""
    # For one query einsum is as fast as BLAS, and gives equal rows equal scores wherever they lie: ties are ties.
    return np.einsum("nd,d->n", rows, queries[0])[None] if len(queries) == 1 else queries @ rows.T


def best(scores: Floats, *, k: int, allowed: Mask | None = None) -> Top:
    """The k highest of (n,) scores, best first; of equals, the smaller number first."""
    candidates = np.arange(len(scores)) if allowed is None else np.flatnonzero(allowed)
    values = scores if allowed is None else scores[candidates]
    k = max(k, 0)
    for least in (_likely_least, _least):
        if 0 < k < len(values):
            kept = np.flatnonzero(values >= least(values, k))
            if len(kept) >= k:
                candidates, values = candidates[kept], values[kept]
    order = np.lexsort((candidates, -values))[:k]
    return Top(candidates[order], values[order])


def _least(values: Floats, k: int) -> float:
    """The k-th highest."""
    return float(np.partition(values, len(values) - k)[len(values) - k])


def _likely_least(values: Floats, k: int) -> float:
    """What more than k of many values likely reach, but few: by some of them, since to order all takes far longer."""
    some = values[:: max(1, len(values) // _ORDERED)]
    rank = _SPARE + 2 * k * len(some) // len(values)
    return _least(some, rank) if rank < len(some) < len(values) else -np.inf
