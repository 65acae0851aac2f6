"""The tests of `bench report`: hand-worked cases, slow references, and the edges where scipy would warn."""

import itertools
import math

import numpy as np
import pytest

from wherein.bench import statistics
from wherein.errors import DataError


def test_randomisation_of_no_difference_is_certain_chance() -> None:
    assert statistics.paired_randomisation([0.5, 0.2], [0.5, 0.2]).p == 1.0


def test_randomisation_hand_worked_three_wins() -> None:
    # signs of (1, 1, 1): |mean| = 1 only for +++ and ---, 2 of 8
    assert statistics.paired_randomisation([1, 1, 1], [0, 0, 0]).p == pytest.approx(0.25)


def test_randomisation_equals_every_sign_tried() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.random(9), rng.random(9)
    d = a - b
    means = [abs(np.mean(d * signs)) for signs in itertools.product((1, -1), repeat=9)]
    expected = np.mean([m >= abs(d.mean()) - 1e-12 for m in means])
    assert statistics.paired_randomisation(a, b).p == pytest.approx(float(expected))


def test_randomisation_is_seeded() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(60), rng.random(60)
    first = statistics.paired_randomisation(a, b, rounds=500, seed=7)
    assert first == statistics.paired_randomisation(a, b, rounds=500, seed=7)
    assert 0 < first.p < 1


@pytest.mark.parametrize(("a", "b"), [([1.0], [0.0]), ([0.0], [1.0])], ids=["one win", "one loss"])
def test_a_single_pair_proves_nothing(a: list[float], b: list[float]) -> None:
    assert statistics.paired_randomisation(a, b).p == 1.0


def test_pairs_that_are_equal_leave_the_randomisation_exact() -> None:
    ties = [0.5] * 500
    assert statistics.paired_randomisation([1.0, *ties], [0.0, *ties]).p == 1.0
    three = statistics.paired_randomisation([1.0, 1.0, 1.0, *ties], [0.0, 0.0, 0.0, *ties])
    assert three.p == pytest.approx(0.25)  # as without the ties: +++ and --- of eight
    assert three.statistic == pytest.approx(3 / 503)
    assert three.n == 503


def test_wilcoxon_hand_worked() -> None:
    # differences 1, 2, 3, 4, 5, all positive: smaller rank sum 0, p = 2 / 2^5
    test = statistics.wilcoxon([1, 2, 3, 4, 5], [0, 0, 0, 0, 0])
    assert (test.statistic, test.n) == (0.0, 5)
    assert test.p == pytest.approx(2 / 32)


def test_wilcoxon_of_no_difference() -> None:
    assert statistics.wilcoxon([0.3, 0.3], [0.3, 0.3]).p == 1.0


def test_bootstrap_interval_holds_the_mean_and_shrinks_with_queries() -> None:
    rng = np.random.default_rng(2)
    few, many = rng.random(20), rng.random(2000)
    narrow = statistics.bootstrap_interval(many, many * 0.5, rounds=500)
    wide = statistics.bootstrap_interval(few, few * 0.5, rounds=500)
    assert wide.low < wide.mean < wide.high
    assert narrow.high - narrow.low < wide.high - wide.low


def test_bootstrap_interval_of_a_constant_difference_is_a_point() -> None:
    interval = statistics.bootstrap_interval([0.6, 0.7], [0.5, 0.6])
    assert (interval.low, interval.high) == (interval.mean, interval.mean)
    assert interval.mean == pytest.approx(0.1)


def test_shapiro_wilk_tells_a_bell_from_a_cliff() -> None:
    rng = np.random.default_rng(0)
    assert statistics.shapiro_wilk(rng.normal(size=300)).p > 0.01
    assert statistics.shapiro_wilk(rng.exponential(size=300)).p < 1e-6


@pytest.mark.parametrize("values", [[], [1.0, 2.0], [0.5] * 9], ids=["none", "two", "constant"])
def test_shapiro_wilk_is_undefined_without_spread(values: list[float]) -> None:
    assert math.isnan(statistics.shapiro_wilk(values).p)


def test_pearson_against_its_definition() -> None:
    rng = np.random.default_rng(3)
    a = rng.random(40)
    b = a + rng.random(40)
    da, db = a - a.mean(), b - b.mean()
    expected = (da @ db) / math.sqrt((da @ da) * (db @ db))
    assert statistics.pearson(a, b).statistic == pytest.approx(expected, abs=1e-12)
    assert statistics.pearson([1, 2, 3], [6, 4, 2]).statistic == pytest.approx(-1)
    assert math.isnan(statistics.pearson([1, 1, 1], [1, 2, 3]).statistic)


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [([1.0], [1.0, 2.0], "one length"), ([math.nan], [1.0], "NaN")],
    ids=["unequal lengths", "not a number"],
)
def test_pairs_that_cannot_be_compared_are_refused(a: list[float], b: list[float], why: str) -> None:
    with pytest.raises(DataError, match=why):
        statistics.wilcoxon(a, b)
