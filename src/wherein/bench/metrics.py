"""Scoring kernels: arrays in, fractions out. Each rule is stated where it is computed; no file is read here.

A *position* is a 0-based place in a ranking from which junk was already removed; `relevant` is how many
relevant items there are, found or not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

IOU_THRESHOLDS = tuple(t / 100 for t in range(50, 100, 5))
"""COCO's thresholds of intersection over union: 0.5 to 0.95 in steps of 0.05."""
RECALL_POINTS: Floats = np.linspace(0, 1, 101)
"""COCO's points of recall."""


def positions_of(ranking: ArrayLike, *, relevant: ArrayLike, junk: ArrayLike = ()) -> Ints:
    """Positions of the relevant ids in a ranking of ids once the junk ids are taken out of it."""
    order = np.asarray(ranking, dtype=np.int64)
    found = np.flatnonzero(np.isin(order, np.asarray(relevant, dtype=np.int64)))
    dropped = np.flatnonzero(np.isin(order, np.asarray(junk, dtype=np.int64)))
    return np.asarray(found - np.searchsorted(dropped, found), dtype=np.int64)


def average_precision(positions: Ints, *, relevant: int) -> float:
    """Step AP: the sum of precision at each relevant item found, over the number of relevant items."""
    if relevant == 0:
        return 0.0
    return float(np.sum(np.arange(1, len(positions) + 1) / (positions + 1.0)) / relevant)


def r_precision(positions: Ints, *, relevant: int) -> float:
    """Recall within the first `relevant` places."""
    return float(np.count_nonzero(positions < relevant) / relevant) if relevant else 0.0


def precision_at(positions: Ints, k: int, *, length: int) -> float:
    """Share of relevant items in the first min(k, length) places of a ranking of `length` items."""
    depth = min(k, length)
    return float(np.count_nonzero(positions < depth) / depth) if depth else 0.0


def trapezoidal_ap(positions: Ints, *, relevant: int) -> float:
    """Revisited AP: each relevant item adds the mean of the precisions just before and just at it."""
    if relevant == 0:
        return float("nan")
    found = np.arange(len(positions))
    before = np.divide(found, positions, out=np.ones(len(positions)), where=positions > 0)
    return float(np.sum((before + (found + 1) / (positions + 1.0)) / 2) / relevant)


def capped_precision_at(positions: Ints, k: int) -> float:
    """Revisited P@k: divides by the place of the last relevant item when that comes before k."""
    if len(positions) == 0:
        return 0.0
    depth = min(int(positions.max()) + 1, k)
    return float(np.count_nonzero(positions < depth) / depth)


def interpolated_precision(positions: Ints, *, relevant: int) -> Floats:
    """Best precision at each recall of RECALL_POINTS or beyond it: one query's precision–recall curve."""
    curve = np.zeros(len(RECALL_POINTS))
    if relevant == 0 or len(positions) == 0:
        return curve
    found = np.arange(1, len(positions) + 1)
    best = np.maximum.accumulate((found / (positions + 1.0))[::-1])[::-1]
    first = np.searchsorted(found / relevant, RECALL_POINTS - 1e-12)
    reached = first < len(positions)
    curve[reached] = best[first[reached]]
    return curve


@dataclass(frozen=True)
class CandidateLists:
    """Scored candidate lists of n queries, best first, padded to a rectangle.

    `scores` (n, length) holds NaN where a list has ended; `relevant` (n, length); `repeated` (n, length) is
    the best score among earlier entries with the same id, -inf where there is none; `truth` (n,) counts the
    relevant items of each query, found or not.
    """

    scores: Floats
    relevant: Bools
    repeated: Floats
    truth: Ints


def candidate_lists(
    ids: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], *, truth: Sequence[Sequence[int]]
) -> CandidateLists:
    """Pack per-query candidate ids, their scores and the relevant ids."""
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    width, total = int(lengths.max(initial=0)), int(lengths.sum())
    flat_ids = np.fromiter(chain.from_iterable(ids), dtype=np.int64, count=total)
    flat_scores = np.fromiter(chain.from_iterable(scores), dtype=np.float64, count=total)
    counts = np.fromiter(map(len, truth), dtype=np.int64, count=len(truth))
    wanted = np.fromiter(chain.from_iterable(truth), dtype=np.int64, count=int(counts.sum()))
    # One key per (query, id) makes membership a single sorted lookup over all queries at once.
    span = 1 + max(int(flat_ids.max(initial=0)), int(wanted.max(initial=0)))
    keys = np.repeat(np.arange(len(ids)) * span, lengths) + flat_ids
    owned = np.sort(np.repeat(np.arange(len(truth)) * span, counts) + wanted)
    found = owned[np.minimum(np.searchsorted(owned, keys), len(owned) - 1)] == keys if len(owned) else keys < 0

    filled = np.arange(width) < lengths[:, None]
    packed_scores = np.full(filled.shape, np.nan)
    packed_scores[filled] = flat_scores
    relevant = np.zeros(filled.shape, dtype=np.bool_)
    relevant[filled] = found
    repeated = np.full(filled.shape, -np.inf)
    repeated[filled] = _repeats(keys, flat_scores)
    return CandidateLists(packed_scores, relevant, repeated, counts)


def _repeats(keys: Ints, scores: Floats) -> Floats:
    """For each entry the best score among earlier entries with the same key."""
    repeated = np.full(len(keys), -np.inf)
    in_order = np.sort(keys)
    doubled = in_order[1:][in_order[1:] == in_order[:-1]]
    best: dict[int, float] = {}
    for place in np.flatnonzero(np.isin(keys, doubled)) if len(doubled) else ():
        key = int(keys[place])
        repeated[place] = best.get(key, -np.inf)
        best[key] = max(float(scores[place]), best.get(key, -np.inf))
    return repeated


def truncated_ap(
    lists: CandidateLists, *, ks: Sequence[int], threshold: float = -np.inf, divisor: str = "official"
) -> Floats:
    """AP@k of every query for every k, (len(ks), n), of the candidates with score >= threshold.

    `official` divides the sum of precisions by max(|truth|, that sum, 1) and gives a query without truth 1
    when nothing is kept and 0 otherwise; `paper` divides by min(|truth|, k) and gives such a query NaN.
    """
    levels = thresholded_ap(lists, ks=ks, thresholds=[threshold], divisor=divisor)
    return np.asarray(levels[0], dtype=np.float64)


def thresholded_ap(
    lists: CandidateLists, *, ks: Sequence[int], thresholds: ArrayLike, divisor: str = "official"
) -> Floats:
    """AP@k at every threshold, (len(thresholds), len(ks), n); its mean over thresholds is t-AP@k."""
    levels = np.asarray(thresholds, dtype=np.float64)
    count = len(lists.truth)
    out = np.empty((len(levels), len(ks), count))
    rows, columns = np.nonzero(lists.relevant)
    own = lists.scores[rows, columns]
    earlier = lists.repeated[rows, columns]
    row_starts = np.searchsorted(rows, rows)
    until = np.where(np.arange(lists.scores.shape[1]) <= columns[:, None], lists.scores[rows], np.nan)
    bare = np.flatnonzero(lists.truth == 0)
    for number, threshold in enumerate(levels):
        kept = own >= threshold
        # The place of a hit among what is kept: how many up to its column are.
        place = np.maximum(np.count_nonzero(until >= threshold, axis=1), 1)
        first = kept & ((earlier < threshold) | np.isneginf(earlier))
        # Hits so far within the row: the running total minus the total when the row began.
        running = np.concatenate([[0], np.cumsum(first)])
        precision = kept * (running[1:] - running[row_starts]) / place
        for line, k in enumerate(ks):
            sums = np.bincount(rows, weights=precision * (place <= k), minlength=count)
            most = np.minimum(lists.truth, k) if divisor == "paper" else lists.truth
            out[number, line] = sums / np.maximum(np.maximum(most, sums), 1)
            nothing = ~(lists.scores[bare] >= threshold).any(axis=1)
            out[number, line, bare] = np.nan if divisor == "paper" else nothing
    return out


def rejection_rates() -> Floats:
    """The eleven false positive rates of t-mAP, with the rounding of the official evaluator."""
    return np.linspace(0, 1.0, num=11, endpoint=True)


def rejection_thresholds(best_scores: ArrayLike, *, lowest: float = -1.0) -> Floats:
    """Score thresholds of t-mAP from each query's best score against distractors, one per rate."""
    ordered = np.sort(np.asarray(best_scores, dtype=np.float64))
    # ceil of the float product, not of the exact one: 0.3999… × N must round as it does officially.
    places = np.ceil((1 - rejection_rates()) * len(ordered)).astype(np.int64) - 1
    thresholds = ordered[places] if len(ordered) else np.full(len(places), lowest)
    thresholds[-1] = lowest
    return np.asarray(thresholds, dtype=np.float64)


def paper_thresholds(best_scores: ArrayLike) -> Floats:
    """The lowest thresholds at which no more queries than each rate allows keep a distractor, as FORB's Eq. 2 says.

    `rejection_thresholds` follows the official code, which keeps a distractor that scores just the threshold, so
    that its rate of 0 is 1/N. Here a threshold lies just above the score of the distractor that must go; at a rate
    of 1 it is 0, as in Eq. 3.
    """
    ordered = np.sort(np.asarray(best_scores, dtype=np.float64))
    rates = rejection_rates()
    if not len(ordered):
        return np.zeros(len(rates))
    kept = np.floor(rates * len(ordered) + 1e-9).astype(np.int64)  # 0.7 × 10 is 7, whatever floats say
    thresholds = np.nextafter(ordered[np.maximum(len(ordered) - kept - 1, 0)], np.inf)
    thresholds[-1] = 0.0
    return np.asarray(thresholds, dtype=np.float64)


def protocol_thresholds(best_scores: ArrayLike, *, protocol: str) -> Floats:
    """The thresholds of t-mAP under `official` or `paper`."""
    return paper_thresholds(best_scores) if protocol == "paper" else rejection_thresholds(best_scores)


def known_item(
    ranks: ArrayLike, *, found: ArrayLike = True, ks: Sequence[int] = (1, 10, 100, 1000)
) -> dict[str, float]:
    """Recall at each k and mean rank (`MNR`) of one target per query; ranks are 1-based.

    A target that was not `found` counts in no recall; its rank is what is known of it, a lower bound.
    """
    places = np.asarray(ranks, dtype=np.float64)
    recalls = {f"R@{k}": float(np.mean((places <= k) & np.asarray(found))) for k in ks}
    return {**recalls, "MNR": float(np.mean(places))}


@dataclass(frozen=True)
class LocatedQuery:
    """One query of the database task: the place of each relevant image (-1: none) and the IoU on it."""

    positions: Ints
    ious: Floats


def located_query(ranking: ArrayLike, *, relevant: ArrayLike, ious: ArrayLike, junk: ArrayLike = ()) -> LocatedQuery:
    """Find the relevant ids, each with its IoU, in a ranking of ids once the junk ids are taken out of it."""
    order = np.asarray(ranking, dtype=np.int64)
    wanted = np.asarray(relevant, dtype=np.int64)
    place = np.full(1 + max(int(order.max(initial=0)), int(wanted.max(initial=0))), -1, dtype=np.int64)
    place[order] = np.arange(len(order))
    dropped = np.flatnonzero(np.isin(order, np.asarray(junk, dtype=np.int64)))
    found = place[wanted]
    positions = np.where(found < 0, -1, found - np.searchsorted(dropped, found))
    return LocatedQuery(positions, np.asarray(ious, dtype=np.float64))


def located_ap(query: LocatedQuery, *, threshold: float, keep_failed: bool) -> float:
    """Trapezoidal AP in which a relevant image counts only if its IoU is strictly above the threshold.

    A relevant image that fails leaves the denominator too (official) unless `keep_failed` (paper). NaN when
    no image is left to find.
    """
    passed = query.ious > threshold
    positions = np.sort(query.positions[passed & (query.positions >= 0)])
    return trapezoidal_ap(positions, relevant=len(passed) if keep_failed else int(np.count_nonzero(passed)))


def map_50_5_95(
    queries: Sequence[LocatedQuery], *, keep_failed: bool, skipped: frozenset[int] = frozenset()
) -> tuple[float, Floats]:
    """mAP@50:5:95 and the mAP at each of IOU_THRESHOLDS.

    Queries with nothing to find leave the mean; the `skipped` ones score nothing yet stay in its
    denominator. A threshold at which no query is left scores 0.
    """
    levels = np.zeros(len(IOU_THRESHOLDS))
    for line, threshold in enumerate(IOU_THRESHOLDS):
        scored = [
            located_ap(query, threshold=threshold, keep_failed=keep_failed)
            for number, query in enumerate(queries)
            if number not in skipped
        ]
        present = [ap for ap in scored if not np.isnan(ap)]
        count = len(present) + sum(number < len(queries) for number in skipped)
        levels[line] = sum(present) / count if count else 0.0
    return float(np.mean(levels)), levels
