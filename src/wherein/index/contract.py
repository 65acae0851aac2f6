"""What every index must keep, checked against comparing every row."""

from __future__ import annotations

import numpy as np

from wherein.arrays import Floats, unit
from wherein.errors import SpecError
from wherein.index import Index, load_index
from wherein.index.exact import ExactRows
from wherein.index.rows import RowTable

_QUERIES = 4
"""Queries that are asked."""
_DEEP = 20
"""Images that are asked for."""
_NEAR = 1e-3
"""How far a score may lie from the exact one: stored numbers are rounded to 16 bits."""
_BELOW_ALL = -2.0
"""Less than any cosine."""
_MISCOUNTED = 0.25
"""The share by which a count may be wrong: what a sample of a few thousand images gives where few of them count."""
_MISSED = 2
"""Images by which a count may be wrong at least: an index may lose a few of the best."""


def check(name: str, table: RowTable) -> None:
    """Raise SpecError unless the index gives exact scores, an order by score, and only allowed images."""
    index, exact = load_index(name, table), ExactRows(table)
    random = np.random.default_rng(0)
    seeds = random.integers(0, max(table.count, 1), _QUERIES)
    noise = random.standard_normal((_QUERIES, table.gather(np.zeros(1, np.int64)).shape[1]))
    queries = unit(np.asarray(table.vectors(seeds) + 0.1 * noise, np.float32))
    everything = np.arange(table.count)
    allowed = everything % 2 == 0
    for found, query in zip(index.top(queries, k=_DEEP, allowed=allowed), queries, strict=True):
        _require(name, len(found.images) == min(_DEEP, int(allowed.sum())), "gives fewer images than were asked for")
        _require(name, bool(allowed[found.images].all()), "gives images that were not allowed")
        _require(name, bool((np.diff(found.scores) <= 0).all()), "is not ordered by score")
        truth = exact.scores(query[None], found.images)[0]
        _require(name, bool(np.allclose(found.scores, truth, atol=_NEAR)), "gives scores that are not exact")
    given = random.permutation(everything)[:_DEEP]
    near = np.allclose(index.scores(queries, given), exact.scores(queries, given), atol=_NEAR)
    _require(name, bool(near), "scores given images wrongly")
    rows = index.winners(queries[0], given)
    _require(name, bool((table.places.owners[rows] == given).all()), "names rows of other images as winners")
    _check_counts(name, index, exact, queries)


def _check_counts(name: str, index: Index, exact: ExactRows, queries: Floats) -> None:
    for query in queries[:, None]:
        best = exact.top(query, k=_DEEP)[0].scores
        if len(best):
            edges = np.array([_BELOW_ALL, best[-1] - _NEAR, best[len(best) // 2]], np.float32)
            counted, truth = index.histogram(query, edges=edges)[0], exact.histogram(query, edges=edges)[0]
            _require(name, int(counted.sum()) == int(truth.sum()), "does not count every image once")
            near = np.abs(counted - truth) <= np.maximum(_MISCOUNTED * truth, _MISSED)
            _require(name, bool(near.all()), "counts other images than score so much")


def _require(name: str, holds: bool, complaint: str) -> None:
    if not holds:
        raise SpecError(f"index {name!r} breaks the contract: it {complaint}.")
