"""Figures of judged hits: areas, errors and shares, and draws that say how sure a figure is."""

from __future__ import annotations

import numpy as np

from wherein.search.calibrate import expected_error, reliability

RESAMPLED = 200
"""How often queries are drawn again to say how sure a difference is."""


def sure_of(odds: np.ndarray) -> np.ndarray:
    """Log odds as confidences."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(np.asarray(odds, np.float64), -60.0, 60.0))))


def auroc(right: np.ndarray, wrong: np.ndarray) -> float:
    """How often a right one is surer than a wrong one; ties count half."""
    if not len(right) or not len(wrong):
        return float("nan")
    order = np.sort(wrong)
    below = np.searchsorted(order, right, "left") + np.searchsorted(order, right, "right")
    return float(below.mean() / 2 / len(order))


def error(sure: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error over tenths."""
    return expected_error(reliability(sure.astype(np.float32), right)) if len(sure) else float("nan")


def share(values: np.ndarray) -> float:
    """The mean, of nothing not a number."""
    return float(values.mean()) if len(values) else float("nan")


def cells(*values: float) -> str:
    """Figures as cells of a table."""
    return " | ".join("–" if np.isnan(value) else f"{value:.3f}" for value in values)


def draws(count: int) -> list[np.ndarray]:
    """RESAMPLED draws of as many numbers below `count`, each as often as chance has it."""
    random = np.random.default_rng(0)
    return [random.integers(0, count, count) for _ in range(RESAMPLED)]
