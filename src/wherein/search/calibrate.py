"""Scores → confidence: how likely a hit is right, given the evidence for it.

A score says little by itself, so a hit is measured by what means the same in every collection, and each kind of
evidence has a curve of its own over that measure, a logistic one, which never changes the order:

    texts      the cosine: texts that have nothing to do with a collection score alike in all of them
    examples   nats by which a hit stands out among all images, less ln(images): photos of one kind are all alike
    inliers    ln(1 + inliers)
    evidence   nats of several kinds of scores, less ln(images), as arsinh: hundreds of inliers are surer than ten, but
               not in proportion

Curves of the defaults are shipped. What people judge is kept with a collection (`kept/judged.json`) and moves them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.encoders import Encoder
from wherein.errors import InputError
from wherein.features import FeatureFamily
from wherein.search.evidence import surprise
from wherein.search.method import Method, Words
from wherein.store.shards import write_durably
from wherein.values.query import Query, query_of

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]

FEWEST: Final = 20
"""Fewer images do not show what is usual, so nothing is said to stand out among them."""
JUDGED_LEAST: Final = 10
"""Right and wrong hits that a curve needs each, where no shipped one is there to begin with."""
_FORMAT: Final = 1
_MEASURED_AFTER: Final = frozenset({"locate", "sp"})
"""Steps that leave scores measurable; the others replace them by scores of a few images."""
_NO_MATTER: Final = frozenset({"written", "encoder", "localizer", "outline"})
"""What a method says of its encoder, which is named with its weights, and of outlines, which score nothing."""
_PRIOR_SPREADS: Final = (2.0, 0.5)
"""How far judgements may move a shipped curve: its offset, and its slope as a share of itself (one deviation)."""
_FREE_SPREAD: Final = 30.0
_ROUNDS: Final = 60


@dataclass(frozen=True, slots=True)
class Curve:
    """Confidence over a measure: 1 / (1 + exp(−offset − slope · measure)), slope ≥ 0."""

    offset: float
    slope: float

    def confidence(self, measures: Floats) -> Floats:
        """(n,) measures → (n,) probabilities."""
        bent = np.clip(self.offset + self.slope * np.asarray(measures, np.float64), -60.0, 60.0)
        return np.asarray(1.0 / (1.0 + np.exp(-bent)), np.float32)


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


class Ranked(Protocol):
    """A ranking as far as it is measured."""

    @property
    def candidates(self) -> Sequence[Candidate]:
        """Best first."""

    @property
    def score_kind(self) -> str:
        """What its scores are."""

    @property
    def scores(self) -> Floats | None:
        """(images,) the score of every image."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How strong the evidence for each hit is: what it comes from, and (hits,) measures, computed when asked for."""

    source: str
    values: Callable[[], Floats]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which hits of a query are right, and which are wrong; None: all others are."""

    query: Query
    right: frozenset[str]
    wrong: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is judged of one source in a collection, and the curve that follows from it."""

    source: str
    right: int
    wrong: int
    curve: Curve | None
    """None while too little is judged: JUDGED_LEAST right and wrong hits where no curve is shipped."""


def name_of(query: Query) -> str:
    """A query as judged hits remember it: as it prints, examples from memory told apart by their content."""
    said = [str(query)]
    for part in query.parts:
        if part.image is not None and not isinstance(part.image, str | os.PathLike):
            data = part.image if isinstance(part.image, bytes) else part.image.tobytes()
            said.append(hashlib.blake2b(data, digest_size=8).hexdigest())
    return " ".join(said)


def read_judgements(path: Path) -> Iterator[Judgement]:
    """A file of judgements: on each line a query as a query file has it, with `right` and `wrong` image_ids.

    {"parts": [{"text": "a dog"}], "right": ["a.jpg"], "wrong": ["b.jpg"]}; without `wrong`, all others are.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}).") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            right, wrong = frozenset(map(str, document["right"])), document.get("wrong")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            said = '{"parts": [{"text": "a dog"}], "right": ["a.jpg"], "wrong": ["b.jpg"]}'
            raise InputError(f"{path}, line {number}: is no judgement; write {said}.") from None
        yield Judgement(query_of(document, path), right, None if wrong is None else frozenset(map(str, wrong)))


def source_of(query: Query, method: Method, *, kind: str, encoder: Encoder, family: FeatureFamily | None) -> str | None:
    """What a ranking's scores come from, in one line that names a curve; None where they cannot be measured."""
    if not _MEASURED_AFTER.issuperset(method.steps):
        return None
    local = "" if family is None else family.spec
    if kind == "inliers":
        return f"{local} inliers"
    embedded = f"{encoder.spec}@{encoder.digest[:8]}" if method.embeds else ""
    plain, how = Method(), replace(method, steps=tuple(step for step in method.steps if step != "locate"))
    chosen = [one.name for one in fields(Method) if one.name not in _NO_MATTER]
    said = [f"{name}={_said(getattr(how, name))}" for name in chosen if getattr(how, name) != getattr(plain, name)]
    return " ".join(word for word in (embedded, local, *said, kind, _asks(query)) if word)


def _said(value: object) -> str:
    if isinstance(value, Words):
        return value.kernel if value.size is None else f"{value.kernel}@{value.size}"
    return "+".join(value) if isinstance(value, tuple) else str(value)


def measure(
    query: Query, method: Method, ranked: Ranked, *, encoder: Encoder, family: FeatureFamily | None
) -> Measured | None:
    """The measures of a ranking; None where its scores cannot be compared, or too few images show what is usual."""
    kind, scores = ranked.score_kind, ranked.scores
    source = source_of(query, method, kind=kind, encoder=encoder, family=family)
    if source is None:
        return None
    if kind == "inliers":
        return Measured(source, lambda: np.log1p(_column([one.inliers or 0 for one in ranked.candidates])))
    own = _column([one.score for one in ranked.candidates])
    if kind == "cosine" and _asks(query) == "text":
        return Measured(source, lambda: own)
    if scores is None or len(scores) < FEWEST:
        return None
    spread = np.log(len(scores))
    if kind == "evidence":
        return Measured(source, lambda: _column(np.arcsinh(own - spread)))
    numbers = [one.image for one in ranked.candidates]
    return Measured(source, lambda: _column(surprise(scores)[numbers] - spread))


def _column(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, np.float32)


def _asks(query: Query) -> str:
    kinds = {"text" if part.image is None else "image" for part in query.parts if not part.negative}
    return kinds.pop() if len(kinds) == 1 else "both"


def fit(measures: Floats, right: Bools, *, worth: Floats | None = None, prior: Curve | None = None) -> Curve:
    """The curve that explains which of (n,) measures were right best, as near to `prior` as they allow.

    `worth` (n,) is how much each counts, 1 unless given.

    Newton's method on the penalised likelihood; a slope that would turn the order round becomes 0.
    """
    x, y = np.asarray(measures, np.float64), np.asarray(right, np.float64)
    middle = np.array([prior.offset, prior.slope]) if prior else np.zeros(2)
    spreads = np.array([_PRIOR_SPREADS[0], _PRIOR_SPREADS[1] * prior.slope]) if prior else np.full(2, _FREE_SPREAD)
    weights = 1.0 / np.maximum(spreads, 1e-6) ** 2
    counts = np.ones_like(x) if worth is None else np.asarray(worth, np.float64)
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


class Curves:
    """The curves of one collection: shipped ones, moved by what people judged there."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "kept" / "judged.json"
        self._fitted: tuple[int, dict[str, Curve]] | None = None

    def of(self, source: str | None) -> Curve | None:
        """The curve of a source, if there is one."""
        return None if source is None else self._all().get(source)

    def judge(self, source: str, judged: Mapping[str, tuple[float, bool]]) -> Calibration:
        """Keep judged hits (a name of query and image → measure, right); the source's curve follows them."""
        known = self._read()
        mine = known.setdefault(source, {})
        mine |= {name: [measure, int(right)] for name, (measure, right) in judged.items()}
        write_durably(self._path, json.dumps({"format": _FORMAT, "judged": known}, ensure_ascii=False).encode())
        right = int(sum(value for _, value in mine.values()))
        return Calibration(source, right, len(mine) - right, _fitted(source, mine))

    def _all(self) -> dict[str, Curve]:
        version = self._path.stat().st_mtime_ns if self._path.exists() else 0
        if self._fitted is None or self._fitted[0] != version:
            fitted = {source: _fitted(source, judged) for source, judged in self._read().items()}
            self._fitted = (version, shipped() | {source: curve for source, curve in fitted.items() if curve})
        return self._fitted[1]

    def _read(self) -> dict[str, dict[str, list[float]]]:
        if not self._path.exists():
            return {}
        try:
            known = json.loads(self._path.read_text("utf-8"))
            judged: dict[str, dict[str, list[float]]] = known["judged"] if known["format"] == _FORMAT else {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{self._path}: cannot be read ({error}). Remove it, and judge again.") from error
        return judged


def _fitted(source: str, judged: Mapping[str, Sequence[float]]) -> Curve | None:
    pairs = np.array(list(judged.values()), np.float64).reshape(-1, 2)
    prior = shipped().get(source)
    right = pairs[:, 1] > 0
    if prior is None and min(right.sum(), (~right).sum()) < JUDGED_LEAST:
        return None
    return fit(pairs[:, 0].astype(np.float32), right, prior=prior)
