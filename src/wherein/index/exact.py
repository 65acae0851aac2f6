"""Nearest neighbours over a matrix of embeddings. Scores are cosines: higher is better.

An image may own several rows (its tiles); its score is the best of them. Images are numbered in the order of
their image_id, so the smaller number wins a tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wherein.arrays import Floats, Ints, Mask


@dataclass(frozen=True, slots=True)
class Top:
    """The best k images of one query, best first."""

    images: Ints
    scores: Floats


class Index(Protocol):
    """The one call that every index answers, exact, quantised or remote."""

    def top(self, queries: Floats, *, k: int, allowed: Mask | None = None) -> list[Top]:
        """The best k images for each of (m, d) queries, among those `allowed` (n images)."""


class Exact:
    """Every row is scored: no recall is lost."""

    def __init__(self, rows: Floats, owners: Ints) -> None:
        """`rows` (n, d) unit norm; `owners` (n,) the image of each row, ascending, 0…count-1."""
        self._rows = rows
        starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]]) if len(owners) else owners
        self._starts = None if len(starts) == len(owners) else starts

    @property
    def first_rows(self) -> Floats:
        """(images, d): the first row of each image, which is the whole image."""
        return self._rows if self._starts is None else self._rows[self._starts]

    def scores(self, queries: Floats) -> Floats:
        """(m, images): the score of every image for each of (m, d) queries."""
        # For one query einsum is as fast as BLAS, and gives equal rows equal scores wherever they lie: ties are ties.
        alone = len(queries) == 1
        scores = np.einsum("nd,d->n", self._rows, queries[0])[None] if alone else queries @ self._rows.T
        return scores if self._starts is None else np.maximum.reduceat(scores, self._starts, axis=1)

    def best_rows(self, query: Floats, images: Ints) -> Ints:
        """The best row of each image for one query (d,)."""
        if self._starts is None:
            return images
        ends = np.r_[self._starts[1:], len(self._rows)]
        spans = zip(self._starts[images], ends[images], strict=True)
        return np.array([start + int((self._rows[start:end] @ query).argmax()) for start, end in spans], np.int64)

    def top(self, queries: Floats, *, k: int, allowed: Mask | None = None) -> list[Top]:
        """The best k images for each query."""
        return [best(scores, k=k, allowed=allowed) for scores in self.scores(queries)]


def best(scores: Floats, *, k: int, allowed: Mask | None = None) -> Top:
    """The k highest of (n,) scores, best first; of equals, the smaller number first."""
    candidates = np.arange(len(scores)) if allowed is None else np.flatnonzero(allowed)
    values = scores if allowed is None else scores[candidates]
    k = max(k, 0)
    if 0 < k < len(values):
        threshold = np.partition(values, len(values) - k)[len(values) - k]
        kept = np.flatnonzero(values >= threshold)
        candidates, values = candidates[kept], values[kept]
    order = np.lexsort((candidates, -values))[:k]
    return Top(candidates[order], values[order])
