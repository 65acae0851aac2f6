"""Tests that tell a difference between two runs from chance. Pairs are queries; higher is better."""

from dataclasses import dataclass
from types import ModuleType

import numpy as np
import numpy.typing as npt

from wherein.errors import DataError

Floats = npt.NDArray[np.float64]

ROUNDS = 10_000  # resamples of the randomisation test and of the bootstrap


@dataclass(frozen=True)
class Test:
    """One test: its name as a report heading, its statistic, its p-value and how many pairs it saw."""

    name: str
    statistic: float
    p: float
    n: int

    __test__ = False  # a value type, not a test class for pytest to collect


@dataclass(frozen=True)
class Interval:
    """A mean difference with the bounds of its bootstrap interval."""

    mean: float
    low: float
    high: float
    level: float


def _scipy_stats() -> ModuleType:
    try:
        from scipy import stats
    except ImportError as error:
        raise DataError(
            "significance tests need scipy, which is not installed: pip install 'wherein[bench]'"
        ) from error
    module: ModuleType = stats
    return module


def _pairs(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Both sides as float64, checked once: one dimension, equal length, finite."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise DataError(
            f"paired values need two lists of one length, got shapes {first.shape} and {second.shape}: "
            "compare runs over the same queries"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise DataError("paired values hold NaN or infinity: leave those queries out of both sides")
    return first, second


def _constant(values: Floats) -> bool:
    return values.size == 0 or bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


def paired_randomisation(a: npt.ArrayLike, b: npt.ArrayLike, *, rounds: int = ROUNDS, seed: int = 0) -> Test:
    """Two-sided randomisation test of mean(a − b): signs flipped at random, exactly where 2ⁿ ≤ rounds."""
    first, second = _pairs(a, b)
    difference = first - second
    name, n = "paired randomisation", int(difference.size)
    mean = float(difference.mean()) if n else 0.0
    flipped = difference[difference != 0]  # no flip changes an equal pair: without them few queries are exact
    if flipped.size < 2:  # the sign of a single pair is a coin
        return Test(name=name, statistic=mean, p=1.0, n=n)
    outcome = _scipy_stats().permutation_test(
        (flipped,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=rounds,
        batch=max(1, min(rounds, 4_000_000 // flipped.size)),
        rng=np.random.default_rng(seed),
    )
    return Test(name=name, statistic=mean, p=float(outcome.pvalue), n=n)


def paired_t(a: npt.ArrayLike, b: npt.ArrayLike) -> Test:
    """Two-sided paired t-test of mean(a − b)."""
    first, second = _pairs(a, b)
    name, n = "paired t", int(first.size)
    if n < 2 or _constant(first - second):
        return Test(name=name, statistic=0.0, p=1.0, n=n)
    outcome = _scipy_stats().ttest_rel(first, second)
    return Test(name=name, statistic=float(outcome.statistic), p=float(outcome.pvalue), n=n)


def wilcoxon(a: npt.ArrayLike, b: npt.ArrayLike) -> Test:
    """Two-sided Wilcoxon signed-rank test of a − b; equal pairs are left out, as Wilcoxon did."""
    first, second = _pairs(a, b)
    difference = first - second
    name, n = "Wilcoxon signed-rank", int(difference.size)
    difference = difference[difference != 0]
    if difference.size == 0:
        return Test(name=name, statistic=0.0, p=1.0, n=n)
    outcome = _scipy_stats().wilcoxon(difference)
    return Test(name=name, statistic=float(outcome.statistic), p=float(outcome.pvalue), n=n)


def bootstrap_interval(
    a: npt.ArrayLike, b: npt.ArrayLike, *, level: float = 0.95, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of mean(a − b), queries drawn with replacement."""
    first, second = _pairs(a, b)
    difference = first - second
    if difference.size == 0:
        raise DataError("a bootstrap interval needs at least one pair of values: the runs share no query")
    mean = float(difference.mean())
    if _constant(difference):
        return Interval(mean=mean, low=mean, high=mean, level=level)
    outcome = _scipy_stats().bootstrap(
        (difference,),
        np.mean,
        confidence_level=level,
        n_resamples=rounds,
        method="percentile",
        batch=max(1, min(rounds, 4_000_000 // difference.size)),
        rng=np.random.default_rng(seed),
    )
    bounds = outcome.confidence_interval
    return Interval(mean=mean, low=float(bounds.low), high=float(bounds.high), level=level)


def shapiro_wilk(values: npt.ArrayLike) -> Test:
    """Are the values drawn from a normal distribution? A small p says they are not."""
    sample = np.asarray(values, dtype=np.float64)
    name, n = "Shapiro–Wilk", int(sample.size)
    if n < 3 or _constant(sample):  # the test is not defined there
        return Test(name=name, statistic=float("nan"), p=float("nan"), n=n)
    if n > 5000:  # its p-value is only tabulated that far: a fixed, even selection
        sample = np.sort(sample)[np.linspace(0, n - 1, 5000).round().astype(np.int64)]
    outcome = _scipy_stats().shapiro(sample)
    return Test(name=name, statistic=float(outcome.statistic), p=float(outcome.pvalue), n=n)


def pearson(a: npt.ArrayLike, b: npt.ArrayLike) -> Test:
    """Pearson's correlation of a and b; NaN where one of them does not vary."""
    first, second = _pairs(a, b)
    name, n = "Pearson correlation", int(first.size)
    if n < 3 or _constant(first) or _constant(second):
        return Test(name=name, statistic=float("nan"), p=float("nan"), n=n)
    outcome = _scipy_stats().pearsonr(first, second)
    return Test(name=name, statistic=float(outcome.statistic), p=float(outcome.pvalue), n=n)
