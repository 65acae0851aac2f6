"""How a model of confidence is fitted to judged hits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from wherein.search.confidence import Model

LIKE_OTHERS = 1e-3
"""How strongly large weights are avoided."""


def fit(sets: Sequence[Any], *, first: float = 1.0) -> Model:
    """The model of several sets of judged hits; no sign may speak against a hit.

    Each set counts the same, and in it each first hit `first` times; but sets of which no query has an answer count
    together no more than those of which all have one: half of what is asked has an answer.
    """
    answered, unanswered = (sum(own(one.answerable) for one in sets) for own in (np.all, _none))
    less = min(1.0, max(answered, 1) / max(unanswered, 1))
    kept = [(one.signs[~one.unknown], one.right[~one.unknown]) for one in sets]
    x = np.concatenate([signs for signs, _ in kept]).astype(np.float64)
    y = np.concatenate([right for _, right in kept]).astype(np.float64)
    counts = [less if _none(one.answerable) else 1.0 for one in sets]
    worth = np.concatenate(
        [
            count * _shares(np.where(one.first[~one.unknown], first, 1.0))
            for one, count in zip(sets, counts, strict=True)
        ]
    )
    return logistic(x, y, worth)


def logistic(x: np.ndarray, y: np.ndarray, worth: np.ndarray) -> Model:
    """The model of (n, signs) hits that are right (1) or wrong (0), each worth so much."""
    worth = worth / worth.sum()
    middle, scale = x.mean(axis=0), x.std(axis=0) + 1e-9
    design = np.c_[np.ones(len(x)), (x - middle) / scale]

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        odds = design @ at
        p = 1.0 / (1.0 + np.exp(-np.clip(odds, -60, 60)))
        value = worth @ (np.logaddexp(0.0, odds) - y * odds) + LIKE_OTHERS * at[1:] @ at[1:]
        return float(value), design.T @ (worth * (p - y)) + 2 * LIKE_OTHERS * np.r_[0.0, at[1:]]

    bounds = [(None, None), *[(0.0, None)] * x.shape[1]]
    found = minimize(loss, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x
    weights = found[1:] / scale
    return Model(float(found[0] - weights @ middle), tuple(weights.tolist()))


def _shares(worth: np.ndarray) -> np.ndarray:
    return worth / max(worth.sum(), 1e-9)


def _none(answerable: np.ndarray) -> bool:
    return not answerable.any()
