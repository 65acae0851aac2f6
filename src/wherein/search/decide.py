"""Which hits are sure enough, and how many images of the collection are right at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import Encoder
from wherein.options import DEFAULT_K, Asked, Cut
from wherein.search.calibrate import asks
from wherein.search.confidence import measure
from wherein.search.engine import Candidate, Ranked
from wherein.search.sources import EmbeddingSource, Source
from wherein.search.views import View
from wherein.values.judgement import Curve
from wherein.values.ranking import Expected, Hit, Ranking

NONE_SURE: Final = 1.01
"""A cut that no hit reaches."""
LOOKED_AT: Final = 24
"""Images, spread over the whole ranking, by which the number of right ones is estimated; 32 are no better on nouns of
photographs held back."""
FLATTER: Final = 0.65
"""How much of the log odds of a text counts for the number of right images: its models are fitted on first hits, and
say too little of what follows. COUNTED_FROM and this were chosen on nouns and names of photographs held back, where the
median estimate is then the true number (docs/results/confidence.md)."""
COUNTED_FROM: Final = 0.05
"""Less likely images are not counted: there are thousands."""
SURE: Final = 0.5
"""From here on a hit is more likely right than wrong."""
OFF_BY: Final = 2.0
"""The factor by which the estimate of a count may be off, beside chance: with it four of five true counts of nouns of
photographs held back lie within the interval."""
_Z: Final = 1.2816  # four fifths of a normal distribution lie within so many deviations
RANKED_ANEW: Final = frozenset({"sp", "propagate", "hypergraph", "zoom", "segrank", "ground"})
"""Steps that look at the first hits only, so that no other image can be asked how it would have scored."""


def cut_of(confidences: Sequence[float], cut: Cut) -> float:
    """The least confidence that is kept, of hits with these confidences."""
    if cut.precision is None and cut.false_alarms is None:
        return cut.least
    sure = np.sort(np.asarray(confidences, np.float64))[::-1]
    if not len(sure):
        return NONE_SURE
    if cut.precision is not None:
        enough = np.cumsum(sure) / np.arange(1, len(sure) + 1) >= cut.precision - 1e-9
    else:
        enough = np.cumsum(1.0 - sure) <= (cut.false_alarms or 0.0) + 1e-9
    kept = np.flatnonzero(enough)
    return float(sure[kept[-1]]) if len(kept) else NONE_SURE


def split(hits: Sequence[Hit], least: float | None) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    """The hits that are likely enough, and the others; one without a confidence is never rejected."""
    sure = [least is None or hit.confidence is None or hit.confidence >= least for hit in hits]
    kept = tuple(hit for hit, enough in zip(hits, sure, strict=True) if enough)
    return kept, tuple(hit for hit, enough in zip(hits, sure, strict=True) if not enough)


def further(found: Ranking, asked: Asked) -> Asked | None:
    """The search in which a sure hit may follow those that were found; None where none can.

    Hits are ordered by score, so one that is sure may follow some that are not: where fewer hits were wanted than
    usual and none of them is sure, the usual number is looked at.
    """
    short = asked.k < DEFAULT_K and len(found.hits) + len(found.rejected) == asked.k
    if asked.all or not short or found.strong or RANKED_ANEW.intersection(asked.method.steps):
        return None
    return replace(asked, k=DEFAULT_K)


def with_sure(found: Ranking, more: Ranking, asked: Asked) -> Ranking:
    """What was found, its last places taken by the sure hits of a search that looked further."""
    sure = more.strong[: asked.k]
    if not sure:
        return found
    if found.decided:
        return replace(more, hits=sure, rejected=found.rejected[: asked.k - len(sure)])
    return replace(more, hits=(*found.hits[: asked.k - len(sure)], *sure))


def shown(confidences: Floats) -> list[float]:
    """Confidences as they are shown and cut on: whole percents, so that what reads 50 % is not below 0.5."""
    return [round(float(value), 2) for value in confidences]


def expected_right(asked: Asked, ranked: Ranked, curve: Curve, *, view: View, encoder: Encoder) -> Expected | None:
    """How many of the images that were searched are likely right, from some looked at and the index's histogram."""
    source, allowed = ranked.source, ranked.allowed
    if source is None or RANKED_ANEW.intersection(asked.method.steps):
        return None
    base = view.sample if allowed is None else view.sample[allowed[view.sample]]
    if not len(base):
        return None
    scores = source.scores(base)
    order = np.argsort(scores)[::-1]
    ranks = np.unique(np.geomspace(1, len(base), min(LOOKED_AT, len(base))).astype(np.int64)) - 1
    picked = base[order[ranks]]
    pseudo = tuple(
        Candidate(int(image), float(score)) for image, score in zip(picked, scores[order[ranks]], strict=True)
    )
    measured = measure(
        asked.query, asked.method, replace(ranked, candidates=pseudo), view=view, encoder=encoder, family=None
    )
    if measured is None:
        return None
    sure, text = curve.confidence(measured.values()), asks(asked.query) == "text"
    searched = len(view.images) if allowed is None else int(allowed.sum())
    counts = _between(source, scores[order], scores[order[ranks]], searched, exact=allowed is None)
    return about(_of_text(sure), counts, there=min(1.0, 2.0 * float(sure.max()))) if text else about(sure, counts)


def _of_text(sure: Floats) -> Floats:
    """Confidences of a text as they are counted."""
    right, wrong = np.power(sure, FLATTER), np.power(1.0 - sure, FLATTER)
    return np.asarray(right / (right + wrong), np.float32)


def _between(source: Source, scores: Floats, edges: Floats, searched: int, *, exact: bool) -> Floats:
    """(len(edges),): how many images score between each edge and the one above it, counting the edge itself.

    `scores`, highest first, are those of some of the images.
    """
    counted = source.histogram(edges[::-1]) if exact and isinstance(source, EmbeddingSource) else None
    if counted is not None:
        return np.asarray(counted[::-1], np.float32)
    above = np.searchsorted(-scores, -edges, side="right")
    return np.asarray(np.diff(above, prepend=0) * (searched / len(scores)), np.float32)


def about(sure: Floats, counts: Floats, *, there: float = 1.0) -> Expected:
    """The expected number of right images among n groups of `counts` (n,) images.

    Each group is taken to be as sure as the mean of its own confidence in `sure` (n,) and that of the group above it.

    `there` is how sure it is that any is: of a text, all of it where a hit reaches 50 %, and less in proportion below.
    """
    mean = (sure + np.concatenate([sure[:1], sure[:-1]])) / 2.0
    mean = np.where(mean < COUNTED_FROM, 0.0, mean)
    number = there * float(counts @ mean)
    chance = _Z * float(np.sqrt(counts @ (mean * (1.0 - mean))))
    most = float(counts.sum())
    return Expected(number, max(0.0, number / OFF_BY - chance), min(most, number * OFF_BY + chance))


def summed(confidences: Sequence[float]) -> Expected:
    """The same for hits that were all looked at."""
    sure = np.asarray(confidences, np.float32)
    return about(sure, np.ones(len(sure), np.float32))


def at_least(expected: Expected | None, confidences: Sequence[float]) -> Expected:
    """A count that says no less than hits of these confidences do: a large collection is counted by a sample of it."""
    hits = summed(confidences)
    sure = float(sum(one for one in confidences if one >= SURE))
    if expected is None or expected.about >= sure:
        return expected or hits
    return Expected(sure, min(expected.low, sure), max(expected.high, hits.high))
