"""Scores → confidence: how likely a hit is right, given the evidence for it.

A score says little by itself, so a hit is measured by what means the same in every collection, and each kind of
evidence has a curve of its own over that measure, a logistic one, which never changes the order:

    texts      the cosine: texts that have nothing to do with a collection score alike in all of them
    examples   nats by which a hit stands out among all images, less ln(images): photos of one kind are all alike
    inliers    ln(1 + inliers)
    evidence   nats of several kinds of scores, less ln(images), as arsinh: hundreds of inliers are surer than ten, but
               not in proportion

Curves of the defaults are shipped; what people judge moves them (`wherein.search.judgements`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.encoders import Encoder
from wherein.features import FeatureFamily
from wherein.search.background import Background
from wherein.search.evidence import surprise
from wherein.values.judgement import Curve
from wherein.values.method import DBA, Method, Words
from wherein.values.query import Query

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]

FEWEST: Final = 20
"""Fewer images do not show what is usual, so nothing is said to stand out among them."""
PRIOR_WORTH: Final = 40.0
"""Judgements that a known curve counts as: with 40 a wrong hit moves its like from 93 % to 87 %, and fifty that
agree move it below 25 % (tests/test_judgements.py)."""
_PRIOR_AT: Final = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
"""Confidences at which a known curve is held on to: its whole range, so that no end of it moves alone."""
_MEASURED_AFTER: Final = frozenset({"locate", "sp"})
"""Steps that leave scores measurable; the others replace them by scores of a few images."""
IGNORED_BY_CALIBRATION: Final = frozenset({"locate"})
"""Steps that leave scores as they are, so that they share the calibration of the method without them."""
_FREE_SPREAD: Final = 30.0
_ROUNDS: Final = 60


class Candidate(Protocol):
    """A hit as far as it is measured."""

    @property
    def image(self) -> int:
        """Its number among all images."""

    @property
    def score(self) -> float:
        """Higher is better."""

    @property
    def inliers(self) -> int | None:
        """Where it was verified."""


class Scored(Protocol):
    """What scores come from, as far as they are measured."""

    @property
    def count(self) -> int:
        """How many images it can find."""

    @property
    def background(self) -> Background:
        """How its scores are spread over the collection."""


class Ranked(Protocol):
    """A ranking as far as it is measured."""

    @property
    def candidates(self) -> Sequence[Candidate]:
        """Best first."""

    @property
    def score_kind(self) -> str:
        """What its scores are."""

    @property
    def source(self) -> Scored | None:
        """What its scores come from; None where nothing was searched."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How strong the evidence for each hit is: what it comes from, and (hits,) measures, computed when asked for."""

    source: str
    values: Callable[[], Floats]


def source_of(query: Query, method: Method, *, kind: str, encoder: Encoder, family: FeatureFamily | None) -> str | None:
    """What a ranking's scores come from, in one line that names a curve; None where they cannot be measured."""
    if not _MEASURED_AFTER.issuperset(method.steps):
        return None
    local = "" if family is None else family.spec
    if kind == "inliers":
        return f"{local} inliers"
    embedded = f"{encoder.spec}@{encoder.digest[:8]}" if method.embeds else ""
    return " ".join(word for word in (embedded, local, method_identity(method), kind, _asks(query)) if word)


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


def measure(
    query: Query, method: Method, ranked: Ranked, *, encoder: Encoder, family: FeatureFamily | None
) -> Measured | None:
    """The measures of a ranking; None where its scores cannot be compared, or too few images show what is usual."""
    kind, source_of_scores = ranked.score_kind, ranked.source
    source = source_of(query, method, kind=kind, encoder=encoder, family=family)
    if source is None:
        return None
    if kind == "inliers":
        return Measured(source, lambda: np.log1p(_column([one.inliers or 0 for one in ranked.candidates])))
    own = _column([one.score for one in ranked.candidates])
    if kind == "cosine" and _asks(query) == "text":
        return Measured(source, lambda: own)
    if source_of_scores is None or source_of_scores.count < FEWEST:
        return None
    spread, background = np.log(source_of_scores.count), source_of_scores
    if kind == "evidence":
        return Measured(source, lambda: _column(np.arcsinh(own - spread)))
    return Measured(source, lambda: _column(surprise(own, background.background) - spread))


def _column(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, np.float32)


def _asks(query: Query) -> str:
    kinds = {"text" if part.image is None else "image" for part in query.parts if not part.negative}
    return kinds.pop() if len(kinds) == 1 else "both"


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


@cache
def shipped() -> dict[str, Curve]:
    """The curves that come with wherein, by source."""
    known = json.loads((files("wherein.search") / "curves.json").read_text("utf-8"))
    return {source: Curve(**values) for source, values in known.items()}
