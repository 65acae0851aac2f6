"""Which hits of a query are right, and what a collection learns from that: judgements, calibrations, their curves."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from wherein.arrays import Floats
from wherein.errors import InputError
from wherein.values.query import Query, query_of

ARROW: Final = " → "
"""Stands between the query and the image in the name of a judged hit."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Confidence over a measure: 1 / (1 + exp(−offset − slope · measure)), slope ≥ 0."""

    offset: float
    slope: float

    def confidence(self, measures: Floats) -> Floats:
        """(n,) measures → (n,) probabilities."""
        bent = np.clip(self.offset + self.slope * np.asarray(measures, np.float64), -60.0, 60.0)
        return np.asarray(1.0 / (1.0 + np.exp(-bent)), np.float32)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which hits of a query are right, and which are wrong; where `wrong` is None, all others are."""

    query: Query
    right: frozenset[str]
    wrong: frozenset[str] | None = None

    @property
    def named(self) -> frozenset[str]:
        """Every image_id it names."""
        return self.right | (self.wrong or frozenset())

    def of(self, found: Sequence[str], measures: Sequence[float]) -> dict[str, tuple[float, bool]]:
        """What it says of hits: the name of each judged one → its measure, and whether it is right."""
        return {
            judged_name(self.query, image_id): (measure, image_id in self.right)
            for image_id, measure in zip(found, measures, strict=True)
            if self.wrong is None or image_id in self.named
        }


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is judged of one source in a collection, and the curve that follows from it."""

    source: str
    right: int
    wrong: int
    curve: Curve | None
    """The curve of queries that share no word with the judged ones; None where no curve is shipped and fewer
    than JUDGED_LEAST right hits, or as few wrong ones, are judged."""
    changed: str = ""
    """What the last judgements changed, in one sentence."""
    step: int = 0
    """The number by which they can be taken back."""


@dataclass(frozen=True, slots=True)
class Tenth:
    """Judged hits of about the same confidence: from which on, how many, what was said on average, how many right."""

    low: float
    hits: int
    said: float
    right: int


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far the confidence of one source can be trusted in a collection, by what was judged there."""

    source: str
    right: int
    wrong: int
    tenths: tuple[Tenth, ...]
    told: str
    """In one sentence."""


def name_of(query: Query) -> str:
    """A query as judged hits remember it: as it prints, examples from memory told apart by their content."""
    said = [str(query)]
    for part in query.parts:
        if part.image is not None and not isinstance(part.image, str | os.PathLike):
            data = part.image if isinstance(part.image, bytes) else part.image.tobytes()
            said.append(hashlib.blake2b(data, digest_size=8).hexdigest())
    return " ".join(said)


def judged_name(query: Query, image_id: str) -> str:
    """The name under which a judged hit is kept: judging it again replaces it."""
    return f"{name_of(query)}{ARROW}{image_id}"


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
