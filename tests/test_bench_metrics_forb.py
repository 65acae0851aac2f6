"""FORB's truncated AP and its thresholds, against the same three witnesses."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wherein.bench import metrics

Outside = Callable[[Sequence[bool], int, Sequence[Any]], dict[Any, float]]


def slow_forb_ap(ids: Sequence[int], scores: Sequence[float], truth: Sequence[int], k: int, t: float) -> float:
    kept = [i for i, s in zip(ids, scores, strict=True) if s >= t]
    if not truth:
        return 1.0 if not kept else 0.0
    total = 0.0
    for i in range(1, k + 1):
        if len(kept) >= i and kept[i - 1] in truth:
            total += len(set(kept[:i]) & set(truth)) / i
    return total / max(len(truth), total, 1)


def forb_lists(
    rows: Sequence[tuple[Sequence[int], Sequence[float], Sequence[int]]],
) -> metrics.CandidateLists:
    ids, scores, truth = zip(*rows, strict=True)
    return metrics.candidate_lists(ids, scores, truth=truth)


def test_truncated_ap_by_hand() -> None:
    lists = forb_lists([([7, 3, 4], [0.9, 0.8, 0.7], [3, 4, 5, 6])])
    # P(2)=1/2, P(3)=2/3 over four relevant
    assert metrics.truncated_ap(lists, ks=(1, 5))[:, 0] == pytest.approx([0, (1 / 2 + 2 / 3) / 4])
    assert metrics.truncated_ap(lists, ks=(1, 5), divisor="paper")[:, 0] == pytest.approx([0, 7 / 24])
    # above 0.75 only 7 and 3 are kept; above 0.95 nothing
    assert metrics.truncated_ap(lists, ks=(5,), threshold=0.75)[0, 0] == pytest.approx(0.5 / 4)
    assert metrics.truncated_ap(lists, ks=(5,), threshold=0.95)[0, 0] == 0


def test_forb_official_divides_by_all_truth_and_paper_by_at_most_k() -> None:
    lists = forb_lists([([1], [1.0], [1, 2, 3, 4])])
    assert metrics.truncated_ap(lists, ks=(1, 5))[:, 0] == pytest.approx([1 / 4, 1 / 4])
    assert metrics.truncated_ap(lists, ks=(1, 5), divisor="paper")[:, 0] == pytest.approx([1, 1 / 4])


def test_forb_precision_divides_by_the_place_even_when_the_list_is_shorter() -> None:
    lists = forb_lists([([9, 1], [1.0, 0.9], [1])])
    assert metrics.truncated_ap(lists, ks=(5,))[0, 0] == pytest.approx(1 / 2)


def test_forb_query_without_truth_scores_one_only_when_its_list_is_empty() -> None:
    lists = forb_lists([([], [], []), ([4], [0.5], [])])
    assert metrics.truncated_ap(lists, ks=(1, 5)).tolist() == [[1, 0], [1, 0]]
    assert metrics.truncated_ap(lists, ks=(5,), threshold=0.6).tolist() == [[1, 1]]
    assert np.isnan(metrics.truncated_ap(lists, ks=(5,), divisor="paper")).all()


def test_forb_empty_input_gives_empty_output() -> None:
    lists = metrics.candidate_lists([], [], truth=[])
    assert metrics.truncated_ap(lists, ks=(1, 5)).shape == (2, 0)


forb_rows = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 6), st.sampled_from([-2.0, -1.0, 0.0, 0.3, 0.5, 0.9])), max_size=9),
        st.lists(st.integers(0, 9), max_size=6, unique=True),
    ),
    min_size=1,
    max_size=6,
)


@given(rows=forb_rows, threshold=st.sampled_from([-math.inf, -1.0, 0.0, 0.3, 0.5, 1.0]))
def test_truncated_ap_matches_the_slow_reference_with_repeats_and_any_order(
    rows: list[tuple[list[tuple[int, float]], list[int]]], threshold: float
) -> None:
    made = [([i for i, _ in pairs], [s for _, s in pairs], truth) for pairs, truth in rows]
    own = metrics.truncated_ap(forb_lists(made), ks=(1, 5), threshold=threshold)
    for row, (ids, scores, truth) in enumerate(made):
        for line, k in enumerate((1, 5)):
            expected = slow_forb_ap(ids, scores, truth, k, threshold)
            assert own[line, row] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=25)
@given(hits=st.lists(st.booleans(), min_size=1, max_size=12).filter(any), missed=st.integers(0, 5))
def test_truncated_ap_matches_ir_measures(hits: list[bool], missed: int, outside: Outside) -> None:
    truth = [n for n, hit in enumerate(hits) if hit] + [100 + n for n in range(missed)]
    lists = forb_lists([(range(len(hits)), [1.0] * len(hits), truth)])
    given = outside(hits, missed, [ir_measures.AP @ 1, ir_measures.AP @ 5])
    expected = [given[ir_measures.AP @ 1], given[ir_measures.AP @ 5]]
    assert metrics.truncated_ap(lists, ks=(1, 5))[:, 0] == pytest.approx(expected, abs=1e-9)


def test_rejection_thresholds_by_hand() -> None:
    best = [0.1, 0.9, 0.5, 0.3, 0.7, 0.2, 0.4, 0.6, 0.8, 1.0]
    # rate 0 keeps what reaches the highest distractor, rate 0.1 the second highest, …, rate 1 everything
    expected = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, -1.0]
    assert metrics.rejection_thresholds(best).tolist() == expected
    assert metrics.rejection_thresholds(best, lowest=0.0)[-1] == 0.0


@given(best=st.lists(st.floats(-1, 1), min_size=1, max_size=60))
def test_rejection_thresholds_match_the_slow_reference(best: list[float]) -> None:
    ordered = sorted(best)
    expected = []
    for step in range(11):
        rate = np.linspace(0, 1, 11)[step]
        expected.append(-1.0 if rate == 1 else ordered[math.ceil((1 - rate) * len(ordered)) - 1])
    assert metrics.rejection_thresholds(best).tolist() == expected


def test_t_map_is_the_mean_over_eleven_thresholds() -> None:
    lists = forb_lists([([1], [0.55], [1])])
    thresholds = metrics.rejection_thresholds([n / 10 for n in range(1, 11)])
    values = metrics.thresholded_ap(lists, ks=(5,), thresholds=thresholds)[:, 0, 0]
    # thresholds 1.0, 0.9, …, 0.1, -1: the hit at 0.55 survives from 0.5 on, six of eleven
    assert values.tolist() == [0] * 5 + [1] * 6
    assert values.mean() == pytest.approx(6 / 11)
