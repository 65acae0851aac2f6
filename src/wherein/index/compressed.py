"""The index that scans short codes of the rows and scores the best of them exactly: faster, for a little recall.

A scan estimates every row of the nearest clusters and gives the best few thousand; those are scored exactly from the
stored numbers and the best row of each image is kept. More rows are taken until no other can be among the best, as far
as the estimates of this query can be trusted. Rows that have no codes yet are scored exactly beside them, so an index
that lags behind its collection only costs time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints, Mask
from wherein.errors import SpecError
from wherein.index import Top
from wherein.index.codes import BITS, MOST_BITS, Codes, Segment, SelectedRows, Tuning, training_rows
from wherein.index.exact import ExactRows, best, products
from wherein.index.proposing import ProposingIndex
from wherein.index.rows import RowTable

RECALL: Final = 0.995
"""The share of the best 100 images that a search must find where its width is chosen: half a point above the promised
0.99, because other queries differ from those it was measured with."""
DEEP: Final = 100
"""Of how many best images recall is measured."""
_FIRST: Final = 5
"""Rows taken for each asked image at first: the best rows are crowded by rows of the same images. On 79,000 × 32 × 768
made-up rows five found what eight found (recall .9964, in 3.9 instead of 6.0 ms), three a little less (.9956)."""
_LEAST: Final = 500
"""Rows taken at least; below that their selection costs more than their exact scores."""
_SCANNED: Final = 4
"""A scan is asked for so many times the rows that are scored at first, which costs it little; later for more again."""
_SURE: Final = 2.5
"""How many times the usual error of the estimates a row that was not taken may lie above its own: searches that stop
between two and three times had found 99.7 % of the best 100, where those below two had found 98.8 %. With 2 rows of 64
numbers, whose codes err most, lost a little recall, and 2.5 costs a twentieth more time."""
_EXACT_SHARE: Final = 8
"""Where a search would take more than one row in eight, comparing all of them is as fast."""


@dataclass(frozen=True, slots=True)
class _Scan:
    """What is scanned for one search."""

    segments: Sequence[Segment]
    placed: Sequence[Ints]
    """Of each segment, the place in the table of each of its rows"""
    only: Sequence[SelectedRows | None]
    """Of each segment, the rows that may be found"""
    clusters: int
    rows: int
    """About how many rows may be found in all"""
    once: bool = False
    """Whether no more is scanned where the first scan leaves it open which images are the best"""

    def best(self, query: Floats, count: int) -> tuple[Ints, Floats]:
        """(places in the table, estimated scores) of about `count` best rows, best first."""
        places, estimates = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for segment, placed, selected in zip(self.segments, self.placed, self.only, strict=True):
            only = None if selected is None else selected.selector
            numbers, scores = segment.search(query, count=count, clusters=self.clusters, only=only)
            places.append(placed[numbers])
            estimates.append(scores)
        every, all_scores = np.concatenate(places), np.concatenate(estimates)
        order = slice(None) if len(self.segments) == 1 else np.argsort(-all_scores, kind="stable")[:count]
        return every[order], all_scores[order]


class CompressedRows(ProposingIndex):
    """Codes are scanned, and the best rows scored."""

    def __init__(self, table: RowTable, bits: str = "", *, codes: Codes | None = None) -> None:
        """`codes` are those that are kept of the layer; without them they are made here, of `bits` a dimension."""
        super().__init__(table)
        self.codes = codes if codes is not None else made_in_memory(table, bits_of(bits))

    @property
    def tuning(self) -> Tuning:
        """How many clusters it scans, and the recall that was measured."""
        return self.codes.tuning

    def _found(self, queries: Floats, k: int, allowed: Mask | None) -> list[Top]:
        """The best k images for each query, from those whose codes are nearest."""
        if allowed is not None and not allowed.any():
            return [Top(np.zeros(0, np.int64), np.zeros(0, np.float32)) for _ in queries]
        scan = self._scan(k, allowed)
        found = (None if scan is None else self._top(query, k, allowed, scan) for query in queries)
        return [
            self._compared(query[None], k, allowed)[0] if top is None else top
            for query, top in zip(queries, found, strict=True)
        ]

    def certain(self, query: Floats, *, k: int, allowed: Mask | None = None) -> Top | None:
        """The best k images for one query (d,) where one scan of the codes can tell them; None where it cannot."""
        scan = self._scan(k, allowed)
        top = None if scan is None else self._top(query, k, allowed, replace(scan, once=True))
        if top is not None and allowed is None:
            self._counts.remember(query[None], [top])
        return top

    def _scan(self, k: int, allowed: Mask | None) -> _Scan | None:
        """How codes are scanned for k images; None where comparing all rows is as fast."""
        searched = self._table.count if allowed is None else int(allowed.sum())
        rows = len(self._table) * searched / max(self._table.count, 1)
        if _SCANNED * max(_LEAST, _FIRST * k) * _EXACT_SHARE >= rows:
            return None
        only = self._selected if allowed is None else self._selection(allowed)
        clusters = self._clusters(k, share=rows / max(sum(own.rows for own in self.codes.segments), 1))
        return _Scan(self.codes.segments, self._placed, only, clusters, round(rows))

    def _clusters(self, k: int, *, share: float) -> int:
        """How many clusters are scanned for k images, where a `share` of the coded rows may be found.

        The tuned number finds 100 of all. Who asks for more, or of fewer rows, looks further away, where clusters of
        the same size in many dimensions become more numerous slowly: by the root.
        """
        deeper = max(1.0, k / DEEP / max(min(share, 1.0), 1e-9))
        return min(self.codes.clusters, math.ceil(self.tuning.clusters * math.sqrt(deeper)))

    def _compared(self, queries: Floats, k: int, allowed: Mask | None) -> list[Top]:
        """The best k by comparing every allowed image."""
        if allowed is None:
            return self._exact.top(queries, k=k)
        images = np.flatnonzero(allowed)
        tops = [best(scores, k=k) for scores in self._exact.scores(queries, images)]
        return [Top(images[top.images], top.scores) for top in tops]

    def _top(self, query: Floats, k: int, allowed: Mask | None, scan: _Scan) -> Top | None:
        """The best k images; None where so many rows would be taken that comparing all is as fast."""
        found = list(self._uncoded(query, allowed))
        first, scored = max(_LEAST, _FIRST * k), 0
        count = _SCANNED * first
        while count * _EXACT_SHARE < scan.rows:
            places, estimates = scan.best(query, count)
            while scored < len(places):
                some = slice(scored, max(first, 2 * scored))
                scores = products(self._table.gather(places[some]), query[None])[0]
                found.append((places[some], scores))
                scored = min(some.stop, len(places))
                top = self._best(k, found)
                if len(top.images) == k and _is_certain(float(top.scores[-1]), scores, estimates[some]):
                    return top
            if len(places) < count:  # there are no more in these clusters
                top = self._best(k, found)
                return top if len(top.images) == k else None
            if scan.once:
                return None
            count *= _SCANNED
        return None

    def _best(self, k: int, found: Sequence[tuple[Ints, Floats]]) -> Top:
        """The best k images by the best of the (places, scores) of their rows."""
        images = self._table.places.owners[np.concatenate([places for places, _ in found])]
        scores = np.concatenate([own for _, own in found])
        order = np.lexsort((-scores, images))
        images, scores = images[order], scores[order]
        first = np.r_[True, images[1:] != images[:-1]] if len(images) else np.zeros(0, np.bool_)
        top = best(scores[first], k=k)
        return Top(images[first][top.images], top.scores)

    def _uncoded(self, query: Floats, allowed: Mask | None) -> Iterator[tuple[Ints, Floats]]:
        """(places, scores) of the rows that have no codes yet."""
        for rows, used, places in self._table.blocks(without=self.codes.covered):
            scores = products(rows, query[None])[0][used]
            kept = slice(None) if allowed is None else np.flatnonzero(allowed[self._table.places.owners[places]])
            yield places[kept], scores[kept]

    @cached_property
    def _placed(self) -> list[Ints]:
        """Of each segment, the place in the table of each of its rows; −1 for rows that are no longer in use."""
        inside = dict(self._table.by_shard)
        found = []
        for segment in self.codes.segments:
            placed = np.full(segment.rows, -1, np.int64)
            start = 0
            for shard, rows in segment.shards:
                own = inside.get(shard)
                if own is not None:
                    placed[start + self._table.places.rows[own, 2]] = own
                start += rows
            found.append(placed)
        return found

    @cached_property
    def _selected(self) -> list[SelectedRows | None]:
        """Of each segment, its rows that are in use; None where all are."""
        used = [placed >= 0 for placed in self._placed]
        return [None if own.all() else SelectedRows(own) for own in used]

    def _selection(self, allowed: Mask) -> list[SelectedRows | None]:
        """Of each segment, its rows that are of allowed images."""
        rows = np.r_[allowed[self._table.places.owners], False]  # the last is that of rows no longer in use, −1
        return [SelectedRows(rows[placed]) for placed in self._placed]


def _is_certain(last: float, scores: Floats, estimates: Floats) -> bool:
    """Whether no row beyond the last estimate can reach the score of the last hit, as far as estimates err here."""
    error = float(np.sqrt(np.mean((scores - estimates) ** 2)))
    return last >= float(estimates[-1]) + _SURE * error


def bits_of(spelled: str) -> int:
    """The bits a dimension that `compressed:BITS` asks for."""
    if not spelled:
        return BITS
    if not spelled.isdecimal() or not 1 <= int(spelled) <= MOST_BITS:
        raise SpecError(f"compressed:{spelled} is no index: bits are a whole number from 1 to {MOST_BITS}.")
    return int(spelled)


def made_in_memory(table: RowTable, bits: int) -> Codes:
    """The codes of a whole table, tuned, and kept nowhere."""
    shards = [shard for shard, _ in table.by_shard]
    codes = trained_on(table, bits)
    codes.segments = [codes.encode(shards, table.shard)] if shards else []
    codes.tuning = tuned(table, codes, noisy_rows(table))
    return codes


def trained_on(table: RowTable, bits: int) -> Codes:
    """Empty codes, trained on rows that are spread evenly over a table."""
    count = len(table)
    step = max(1, count // max(1, training_rows(count)))
    return Codes.train(table.gather(np.arange(0, count, step)), rows=count, bits=bits)


def noisy_rows(table: RowTable, *, count: int = 48, seed: int = 0) -> Floats:
    """Queries like those that are asked: rows of the table, half with little noise, half with more noise than row."""
    random = np.random.default_rng(seed)
    rows = table.gather(np.sort(random.integers(0, max(len(table), 1), count)))
    noise = random.standard_normal(rows.shape).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    noise *= np.where(np.arange(count) % 2 == 0, 0.3, 1.2)[:, None].astype(np.float32)
    mixed = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) + noise
    return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), np.float32)


def tuned(table: RowTable, codes: Codes, queries: Floats) -> Tuning:
    """The fewest clusters whose scan finds what it should for the queries, and the recall measured with them."""
    k = min(DEEP, table.count)
    truth = [set(top.images.tolist()) for top in ExactRows(table).top(queries, k=k)]
    clusters = max(1, codes.clusters // 64)
    while True:
        codes.tuning = Tuning(min(clusters, codes.clusters))
        found = CompressedRows(table, codes=codes).top(queries, k=k)
        shares = [len(real & set(top.images.tolist())) / max(k, 1) for real, top in zip(truth, found, strict=True)]
        recall = float(np.mean(shares)) if shares else 1.0
        if recall >= RECALL or clusters >= codes.clusters:
            return Tuning(min(clusters, codes.clusters), recall, len(table))
        clusters *= 2
