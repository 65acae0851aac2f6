"""Curves of confidence: what they are named by, how judged hits move them, and how far they can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.encoders import Encoder
from wherein.features import FeatureFamily
from wherein.values.judgement import Curve
from wherein.values.method import DBA, Method, Words
from wherein.values.query import Query

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]

PRIOR_WORTH: Final = 40.0
"""Judgements that a known curve counts as: with 40 a wrong hit moves its like from 93 % to 87 %, and fifty that
agree move it below 25 % (tests/test_judgements.py)."""
_PRIOR_AT: Final = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
"""Confidences at which a known curve is held on to: its whole range, so that no end of it moves alone."""
IGNORED_BY_CALIBRATION: Final = frozenset({"locate"})
"""Steps that leave scores as they are, so that they share the calibration of the method without them."""
ODDS: Final = "odds"
"""The kind of measure, in the name of a source, that is log odds of being right."""
AS_SHIPPED: Final = Curve(0.0, 1.0)
"""The curve over log odds before anything is judged."""
_FREE_SPREAD: Final = 30.0
"""The deviation of a normal prior on offset and slope where no curve is known: so wide that a few judgements decide,
also with half or twice of it: log odds of 30 are certainty."""
_ROUNDS: Final = 60
"""Steps of Newton's method at most: far more than a fit that converges takes, and one that does not must end."""


def source_of(query: Query, method: Method, *, kind: str, encoder: Encoder, family: FeatureFamily | None) -> str:
    """What measures come from, in one line that names what is judged of them: weights, method, kind, what was asked."""
    local = "" if family is None else family.spec
    embedded = f"{encoder.spec}@{encoder.digest[:8]}" if method.embeds else ""
    return " ".join(word for word in (embedded, local, method_identity(method), kind, asks(query)) if word)


def prior_of(source: str) -> Curve | None:
    """What measures of a source mean before anything is judged; None where nobody knows."""
    return AS_SHIPPED if ODDS in source.split() else None


def asks(query: Query) -> str:
    """What a query asks with: `text`, `image` or `both`; marks beside either change nothing."""
    wanted = [part for part in query.parts if not part.negative]
    asked = [part for part in wanted if not part.is_mark] or wanted
    kinds = {"text" if part.image is None else "image" for part in asked}
    return kinds.pop() if len(kinds) == 1 else "both"


def method_identity(method: Method) -> str:
    """The spelling of a method as far as it shapes scores: encoder and features are named with their weights elsewhere,
    and outlines score nothing. It names calibrations on disk, so it must never change for a method that exists."""
    words = None if method.words is None else replace(method.words, features="")
    scored = tuple(step for step in method.steps if step not in IGNORED_BY_CALIBRATION)
    ignored = IGNORED_BY_CALIBRATION | {"style"}  # which changes the scores of drawings only
    chosen = frozenset(own for own in method.chosen if not {own[0], own[1]} & ignored)
    return replace(method, encoder=None, words=words, steps=scored, chosen=chosen).canonical


def migrated_name(name: str) -> str:
    """The name of a calibration of format 1, which listed the fields of a method, as it is now."""
    words = name.split()
    told = dict(word.split("=", 1) for word in words if "=" in word)
    if not told:
        return name
    steps = tuple(step for step in told.get("steps", "").split("+") if step)
    owners = {"support": "query", "pooling": "query", "matcher": "sp", "model": "sp"}
    owners |= {"weighting": "qe" if "qe" in steps else DBA}
    known = {"steps", "words", "search", "augmented"}
    method = Method(
        words=Words.parse(told["words"]) if "words" in told else None,
        search=told.get("search"),
        augmented=told.get("augmented") == "True",
        steps=steps,
        chosen=frozenset((owners.get(key, "search"), key, value) for key, value in told.items() if key not in known),
    )
    first = next(number for number, word in enumerate(words) if "=" in word)
    rest = [word for word in words if "=" not in word]
    return " ".join([*rest[:first], method_identity(method), *rest[first:]])


def fit(measures: Floats, right: Bools, *, worth: Floats | None = None, prior: Curve | None = None) -> Curve:
    """The curve that explains best which of (n,) measures were right; `worth` (n,) is how much each counts, 1 if None.

    A `prior` counts as PRIOR_WORTH judgements that agree with it, spread over its range. Newton's method on the
    penalised likelihood; a slope that would turn the order round becomes 0.
    """
    x, y = np.asarray(measures, np.float64), np.asarray(right, np.float64)
    counts = np.ones_like(x) if worth is None else np.asarray(worth, np.float64)
    middle = np.zeros(2)
    if prior is not None and prior.slope > 0.0:
        middle, agreed = np.array([prior.offset, prior.slope]), np.array(_PRIOR_AT)
        x = np.concatenate([x, (np.log(agreed / (1.0 - agreed)) - prior.offset) / prior.slope])
        y, counts = np.r_[y, agreed], np.r_[counts, np.full(len(agreed), PRIOR_WORTH / len(agreed))]
    weights = np.full(2, 1.0 / _FREE_SPREAD**2)
    design = np.stack([np.ones_like(x), x], axis=1)
    found = _newton(design, y, counts, middle, weights)
    if found[1] < 0.0:
        found = np.array([_newton(design[:, :1], y, counts, middle[:1], weights[:1])[0], 0.0])
    return Curve(float(found[0]), float(found[1]))


def _newton(design: Doubles, y: Doubles, counts: Doubles, middle: Doubles, weights: Doubles) -> Doubles:
    """The most likely coefficients under a normal prior; steps are halved until they help."""

    def loss(at: Doubles) -> float:
        bent = design @ at
        return float(counts @ (np.logaddexp(0.0, bent) - y * bent) + 0.5 * weights @ (at - middle) ** 2)

    found = middle.copy()
    for _ in range(_ROUNDS):
        p = 1.0 / (1.0 + np.exp(-np.clip(design @ found, -60.0, 60.0)))
        slope = design.T @ (counts * (p - y)) + weights * (found - middle)
        step = np.linalg.solve((design * (counts * p * (1.0 - p))[:, None]).T @ design + np.diag(weights), slope)
        while loss(found - step) > loss(found) and np.abs(step).max() > 1e-9:
            step = step / 2.0
        found = found - step
        if np.abs(step).max() <= 1e-9:
            break
    return found


def reliability(confidence: Floats, right: Bools, *, bins: int = 10) -> list[tuple[float, int, float, float]]:
    """How far to trust confidences: per tenth its lower end, hits, their mean confidence and their share right."""
    number = np.clip((np.asarray(confidence, np.float64) * bins).astype(np.int64), 0, bins - 1)
    return [
        (one / bins, int(inside.sum()), float(confidence[inside].mean()), float(right[inside].mean()))
        for one in range(bins)
        for inside in [number == one]
        if inside.any()
    ]


def expected_error(table: Sequence[tuple[float, int, float, float]]) -> float:
    """The expected calibration error: |confidence − share right|, averaged over hits."""
    hits = sum(count for _, count, _, _ in table)
    return sum(count * abs(said - true) for _, count, said, true in table) / max(hits, 1)
