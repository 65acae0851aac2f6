"""Every metric against three witnesses: a hand-worked case, a slow obvious reference, an outside library."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wherein.bench import metrics
from wherein.bench.metrics import Ints

Outside = Callable[[Sequence[bool], int, Sequence[Any]], dict[Any, float]]


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


# --- step AP, R-precision, P@k -------------------------------------------------------------------------

STEP_CASES = [
    pytest.param([], 3, 0.0, 0.0, id="nothing found scores nothing"),
    pytest.param([], 0, 0.0, 0.0, id="nothing to find scores nothing"),
    pytest.param([0], 1, 1.0, 1.0, id="the one relevant item first"),
    pytest.param([0, 2], 2, (1 + 2 / 3) / 2, 0.5, id="first and third of two"),
    pytest.param([0, 2], 4, (1 + 2 / 3) / 4, 0.5, id="two of four found"),
    pytest.param([3], 1, 0.25, 0.0, id="fourth place"),
]


@pytest.mark.parametrize(("positions", "relevant", "ap", "rp"), STEP_CASES)
def test_step_ap_and_r_precision_by_hand(positions: list[int], relevant: int, ap: float, rp: float) -> None:
    assert metrics.average_precision(ints(*positions), relevant=relevant) == pytest.approx(ap, abs=1e-12)
    assert metrics.r_precision(ints(*positions), relevant=relevant) == pytest.approx(rp, abs=1e-12)


def test_precision_divides_by_the_list_when_it_is_shorter_than_k() -> None:
    assert metrics.precision_at(ints(0, 2), 5, length=10) == pytest.approx(2 / 5)
    assert metrics.precision_at(ints(0, 2), 5, length=4) == pytest.approx(2 / 4)
    assert metrics.precision_at(ints(), 5, length=0) == 0.0


def slow_step_ap(hits: Sequence[bool], relevant: int) -> float:
    total = sum(sum(hits[: k + 1]) / (k + 1) for k in range(len(hits)) if hits[k])
    return total / relevant if relevant else 0.0


rankings = st.lists(st.booleans(), min_size=1, max_size=40)


@given(hits=rankings, missed=st.integers(0, 5))
def test_step_metrics_match_the_slow_reference(hits: list[bool], missed: int) -> None:
    found, relevant = np.flatnonzero(hits), sum(hits) + missed
    assert metrics.average_precision(found, relevant=relevant) == pytest.approx(slow_step_ap(hits, relevant))
    expected = sum(hits[:relevant]) / relevant if relevant else 0.0
    assert metrics.r_precision(found, relevant=relevant) == pytest.approx(expected)
    for k in (1, 5, 25):
        depth = min(k, len(hits))
        assert metrics.precision_at(found, k, length=len(hits)) == pytest.approx(sum(hits[:depth]) / depth)


@settings(max_examples=25)
@given(hits=rankings.filter(any), missed=st.integers(0, 5))
def test_step_metrics_match_ir_measures(hits: list[bool], missed: int, outside: Outside) -> None:
    found, relevant = np.flatnonzero(hits), sum(hits) + missed
    given = outside(hits, missed, [ir_measures.AP, ir_measures.Rprec, ir_measures.P @ 5])
    assert metrics.average_precision(found, relevant=relevant) == pytest.approx(given[ir_measures.AP], abs=1e-9)
    assert metrics.r_precision(found, relevant=relevant) == pytest.approx(given[ir_measures.Rprec], abs=1e-9)
    padded = max(len(hits), 5)  # trec's P@5 always divides by 5
    own = metrics.precision_at(found, 5, length=padded)
    assert own == pytest.approx(given[ir_measures.P @ 5], abs=1e-9)


def test_step_metrics_match_ranx() -> None:
    rng = np.random.default_rng(5)
    cases = [(rng.random(20) < 0.3).tolist() for _ in range(6)]
    program = (
        "import json, sys\nfrom ranx import Qrels, Run, evaluate\n"
        "cases = json.load(sys.stdin)\n"
        "qrels = Qrels({f'q{i}': {'miss': 1, **{f'd{n}': 1 for n, h in enumerate(c) if h}} "
        "for i, c in enumerate(cases)})\n"
        "run = Run({f'q{i}': {f'd{n}': float(99 - n) for n in range(len(c))} for i, c in enumerate(cases)})\n"
        "names = ['map', 'r-precision', 'precision@5', 'map@5']\n"
        "print(json.dumps({k: float(v) for k, v in evaluate(qrels, run, names).items()}))"
    )
    # Without its compiler ranx gives the same numbers in seconds instead of a minute.
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(cases), capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    theirs = json.loads(done.stdout)
    found = [np.flatnonzero(case) for case in cases]
    own_ap = [metrics.average_precision(p, relevant=len(p) + 1) for p in found]
    assert np.mean(own_ap) == pytest.approx(theirs["map"], abs=1e-9)
    own_rp = [metrics.r_precision(p, relevant=len(p) + 1) for p in found]
    assert np.mean(own_rp) == pytest.approx(theirs["r-precision"], abs=1e-9)
    own_p5 = [metrics.precision_at(p, 5, length=20) for p in found]
    assert np.mean(own_p5) == pytest.approx(theirs["precision@5"], abs=1e-9)
    truth = [[n for n, hit in enumerate(case) if hit] + [999] for case in cases]
    lists = metrics.candidate_lists([range(20)] * 6, [[1.0] * 20] * 6, truth=truth)
    own_map5 = metrics.truncated_ap(lists, ks=(5,)).mean()
    assert own_map5 == pytest.approx(theirs["map@5"], abs=1e-9)


@given(hits=rankings, tail=st.permutations(range(6)))
def test_what_lies_below_the_last_relevant_item_changes_nothing(hits: list[bool], tail: list[int]) -> None:
    ids = list(range(len(hits)))
    relevant = [n for n in ids if hits[n]]
    below = [100 + n for n in range(6)]
    plain = metrics.positions_of(ids + below, relevant=relevant)
    shuffled = metrics.positions_of(ids + [100 + n for n in tail], relevant=relevant)
    assert plain.tolist() == shuffled.tolist()
    for ap in (metrics.average_precision, metrics.trapezoidal_ap):
        assert ap(plain, relevant=len(relevant) or 1) == ap(shuffled, relevant=len(relevant) or 1)


@given(hits=rankings, junk_at=st.lists(st.integers(0, 40), max_size=8))
def test_adding_junk_anywhere_changes_nothing(hits: list[bool], junk_at: list[int]) -> None:
    ids = list(range(len(hits)))
    relevant = [n for n in ids if hits[n]]
    with_junk = list(ids)
    for number, place in enumerate(junk_at):
        with_junk.insert(min(place, len(with_junk)), 1000 + number)
    junk = range(1000, 1000 + len(junk_at))
    own = metrics.positions_of(with_junk, relevant=relevant, junk=list(junk))
    assert own.tolist() == metrics.positions_of(ids, relevant=relevant).tolist()


@given(relevant=st.integers(1, 30), others=st.integers(0, 30))
def test_a_perfect_ranking_scores_one(relevant: int, others: int) -> None:
    positions = np.arange(relevant)
    assert metrics.average_precision(positions, relevant=relevant) == pytest.approx(1)
    assert metrics.trapezoidal_ap(positions, relevant=relevant) == pytest.approx(1)
    assert metrics.r_precision(positions, relevant=relevant) == 1
    assert metrics.capped_precision_at(positions, 10) == 1
    assert metrics.interpolated_precision(positions, relevant=relevant) == pytest.approx(np.ones(101))
    ids = [list(range(relevant + others))]
    lists = metrics.candidate_lists(ids, [[1.0] * len(ids[0])], truth=[range(relevant)])
    for divisor in ("official", "paper"):
        at = metrics.truncated_ap(lists, ks=(1, 5), divisor=divisor)[:, 0]
        ceiling = [min(k, relevant) / relevant if divisor == "official" else 1 for k in (1, 5)]
        assert at == pytest.approx(ceiling)


# --- trapezoidal AP and capped P@k ---------------------------------------------------------------------


def slow_trapezoid(positions: Sequence[int], relevant: int) -> float:
    area = 0.0
    for found, rank in enumerate(positions):
        before = 1.0 if rank == 0 else found / rank
        at = (found + 1) / (rank + 1)
        area += (before + at) / 2 / relevant
    return area


def test_trapezoidal_ap_by_hand() -> None:
    # ranks 0 and 2 of two positives: (1+1)/2 · 1/2 + (1/2+2/3)/2 · 1/2
    assert metrics.trapezoidal_ap(ints(0, 2), relevant=2) == pytest.approx(0.5 + 7 / 24, abs=1e-12)
    assert metrics.trapezoidal_ap(ints(1), relevant=1) == pytest.approx((0 + 1 / 2) / 2)
    assert metrics.trapezoidal_ap(ints(), relevant=2) == 0.0
    assert math.isnan(metrics.trapezoidal_ap(ints(), relevant=0))


@given(hits=rankings, missed=st.integers(0, 4))
def test_trapezoidal_ap_matches_the_slow_reference(hits: list[bool], missed: int) -> None:
    found = [n for n, hit in enumerate(hits) if hit]
    relevant = max(1, len(found) + missed)
    own = metrics.trapezoidal_ap(ints(*found), relevant=relevant)
    assert own == pytest.approx(slow_trapezoid(found, relevant), abs=1e-12)


def test_revisited_precision_stops_at_the_last_positive() -> None:
    assert metrics.capped_precision_at(ints(0, 1), 10) == 1.0  # last positive at rank 2, so P@10 is P@2
    assert metrics.capped_precision_at(ints(0, 3), 10) == pytest.approx(2 / 4)
    assert metrics.capped_precision_at(ints(0, 30), 10) == pytest.approx(1 / 10)
    assert metrics.capped_precision_at(ints(), 10) == 0.0


def test_junk_is_removed_before_ranks_are_read() -> None:
    # ranking: junk, relevant, junk, other, relevant → positions 0 and 2
    assert metrics.positions_of([9, 1, 8, 5, 2], relevant=[1, 2], junk=[8, 9]).tolist() == [0, 2]


@given(hits=rankings)
def test_interpolated_precision_matches_the_slow_reference(hits: list[bool]) -> None:
    found = [n for n, hit in enumerate(hits) if hit]
    relevant = len(found) + 1
    curve = metrics.interpolated_precision(ints(*found), relevant=relevant)
    for place, recall in enumerate(metrics.RECALL_POINTS):
        beyond = [(j + 1) / (rank + 1) for j, rank in enumerate(found) if (j + 1) / relevant >= recall - 1e-12]
        assert curve[place] == pytest.approx(max(beyond, default=0.0))


# --- known item -----------------------------------------------------------------------------------------


def test_known_item_by_hand() -> None:
    figures = metrics.known_item([1, 10, 11, 1000, 2000])
    assert figures == {"R@1": 0.2, "R@10": 0.4, "R@100": 0.6, "R@1000": 0.8, "MNR": 604.4}


@settings(max_examples=25)
@given(ranks=st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_known_item_recall_matches_ir_measures(ranks: list[int]) -> None:
    run = [ir_measures.ScoredDoc(f"q{q}", f"d{n}", -float(n)) for q in range(len(ranks)) for n in range(1, 31)]
    qrels = [ir_measures.Qrel(f"q{q}", f"d{rank}", 1) for q, rank in enumerate(ranks)]
    given = ir_measures.calc_aggregate([ir_measures.Success @ 1, ir_measures.Success @ 10], qrels, run)
    own = metrics.known_item(ranks, ks=(1, 10))
    assert own["R@1"] == pytest.approx(given[ir_measures.Success @ 1])
    assert own["R@10"] == pytest.approx(given[ir_measures.Success @ 10])
    assert own["MNR"] == pytest.approx(sum(ranks) / len(ranks))


# --- mAP@50:5:95 ----------------------------------------------------------------------------------------


def slow_located_map(
    queries: Sequence[tuple[list[int], list[int], list[float], list[int]]], *, keep: bool, skipped: set[int]
) -> float:
    per_threshold = []
    for percent in range(50, 100, 5):
        total, empty = 0.0, 0
        for number, (ranking, relevant, ious, junk) in enumerate(queries):
            if number in skipped:
                continue
            passed = [i for i, iou in zip(relevant, ious, strict=True) if iou > percent / 100]
            if not (relevant if keep else passed):
                empty += 1
                continue
            clean = [i for i in ranking if i not in junk]
            positions = [place for place, i in enumerate(clean) if i in passed]
            total += slow_trapezoid(positions, len(relevant) if keep else len(passed))
        count = len(queries) - empty
        per_threshold.append(total / count if count else 0.0)
    return sum(per_threshold) / 10


def located(queries: Sequence[tuple[list[int], list[int], list[float], list[int]]]) -> list[metrics.LocatedQuery]:
    return [
        metrics.located_query(ranking, relevant=relevant, ious=ious, junk=junk)
        for ranking, relevant, ious, junk in queries
    ]


def test_map_50_5_95_by_hand() -> None:
    # one image at IoU 0.72 found first: it passes 50, 55, 60, 65, 70 and leaves the mean afterwards
    query = located([([4, 5], [4], [0.72], [])])
    mean, levels = metrics.map_50_5_95(query, keep_failed=False)
    assert levels.tolist() == [1] * 5 + [0] * 5
    assert mean == 0.5
    # two images, the second never located: official ignores it, the paper counts it as missed
    pair = located([([4, 5], [4, 5], [0.72, 0.1], [])])
    assert metrics.map_50_5_95(pair, keep_failed=False)[0] == 0.5
    assert metrics.map_50_5_95(pair, keep_failed=True)[0] == 0.25


def test_an_iou_equal_to_the_threshold_does_not_pass() -> None:
    query = located([([4], [4], [0.5], [])])
    assert metrics.map_50_5_95(query, keep_failed=False)[0] == 0.0


def test_a_failed_positive_still_takes_its_place_in_the_ranking() -> None:
    # 5 failed and stands before 4: it is a wrong image now, not junk
    query = located([([5, 4], [4, 5], [0.9, 0.0], [])])
    _, levels = metrics.map_50_5_95(query, keep_failed=False)
    assert levels[0] == pytest.approx((0 + 1 / 2) / 2)


def test_skipped_queries_stay_in_the_denominator() -> None:
    two = located([([4], [4], [1.0], []), ([4], [4], [1.0], [])])
    assert metrics.map_50_5_95(two, keep_failed=False, skipped=frozenset({1, 63}))[0] == 0.5


located_queries = st.lists(
    st.tuples(
        st.permutations(range(8)),
        st.dictionaries(st.integers(0, 9), st.sampled_from([0.0, 0.5, 0.52, 0.7, 0.951]), max_size=5),
        st.lists(st.integers(0, 7), max_size=2, unique=True),
    ),
    min_size=1,
    max_size=4,
)


@given(drawn=located_queries, keep=st.booleans(), skipped=st.sets(st.integers(0, 5), max_size=2))
def test_map_50_5_95_matches_the_slow_reference(
    drawn: list[tuple[list[int], dict[int, float], list[int]]], keep: bool, skipped: set[int]
) -> None:
    queries = [
        (list(ranking), list(ious), list(ious.values()), [j for j in junk if j not in ious])
        for ranking, ious, junk in drawn
    ]
    own, _ = metrics.map_50_5_95(located(queries), keep_failed=keep, skipped=frozenset(skipped))
    assert own == pytest.approx(slow_located_map(queries, keep=keep, skipped=skipped), abs=1e-12)
