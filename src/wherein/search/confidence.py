"""Hits → log odds that they are right, on one scale for every method, without labels.

Signs (`wherein.search.signs`) are weighed by a model for each kind of evidence; the models are shipped
(`models.json`, made by `benchmarks/confidence.py`) and depend on no encoder. What people judge moves the odds
afterwards (`wherein.search.judgements`).

    text       how far the words beat other words, fit better than usual, agree with what fits the image, and lead, and
               how common they are
    example    how many times nearer to the example a hit is than look-alikes are; `region` for a part of an example
    place      the same for the whole image, and how far the place stands out; `anywhere` for patches and proposals,
               `again` after steps that score anew; of texts, no more than the surest whole image of all allows
    both       for texts and examples together, or several places: the least of what each says of the whole image
    verified   how many keypoints agree
    fused      how many keypoints agree, and the same as for an example
    words      how far shared visual words stand out
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import Encoder
from wherein.features import FeatureFamily
from wherein.search.background import Background
from wherein.search.bank import Bank, bank_of
from wherein.search.calibrate import ODDS, asks, source_of
from wherein.search.common import commonness
from wherein.search.engine import Candidate, Ranked
from wherein.search.others import example_signs
from wherein.search.seen import Fits, Seen
from wherein.search.signs import FEWEST, TEXT_SIGNS, count_words, stands_out, text_signs
from wherein.search.sources import EmbeddingSource, Group
from wherein.search.views import View
from wherein.values.judgement import Curve
from wherein.values.method import Method
from wherein.values.query import Query

WHOLE_WORDS: Final = frozenset({"whole", "pyramid", "append", "theoretical"})
"""Search words that compare whole images."""
PLAIN: Final = ("text", "example", "region")
"""Kinds of evidence of whole images."""
OUT_MOST: Final = 8.0
"""Standing out by more deviations says no more."""
UNSCORED_STEPS: Final = frozenset({"locate", "sp", "propagate", "hypergraph"})
"""Steps that leave scores as they are, or are measured by what they verify."""
BOUNDED: Final = ("place", "anywhere", "again")
"""Kinds of evidence that are no surer of a text than the surest whole image of those searched allows."""
SUREST_OF: Final = 20
"""Whole images of which the surest is taken: as many hits as are judged (`benchmarks/confidence.py`)."""
MEASURED_MOST: Final = 512
"""Hits that are looked at one by one; how sure later ones are follows from their scores, along the line of these."""


@dataclass(frozen=True, slots=True)
class Model:
    """Log odds of being right from signs."""

    offset: float
    weights: tuple[float, ...]
    believed: tuple[float, ...] = (1.0,)
    """How much of the odds above even is believed, for what looks certain is not always right; more than one where the
    first signs are shares of other lines, each of which is believed so far."""
    most: Model | None = None
    """What bounds the odds of a text, from how sure the surest whole image is and how far a hit stands out."""

    @classmethod
    def of(cls, known: Mapping[str, Any]) -> Model:
        """A model as it is written in `models.json`."""
        most = cls.of(known["most"]) if "most" in known else None
        return cls(float(known["offset"]), tuple(known["weights"].values()), tuple(known.get("believed", (1.0,))), most)

    def odds(self, signs: Floats) -> Floats:
        """(n, signs) → (n,)."""
        found = self.offset + signs @ np.asarray(self.weights, np.float64)
        first, *others = self.believed
        believed = first + signs[:, : len(others)] @ (np.asarray(others, np.float64) - first)
        return np.asarray(np.where(found > 0.0, believed * found, found), np.float32)


@dataclass(frozen=True, slots=True)
class Measured:
    """How strong the evidence for each hit is: what it comes from, (hits,) measures, computed when asked for."""

    source: str
    values: Callable[[], Floats]


@cache
def shipped() -> Mapping[str, Model]:
    """The models that come with wherein, by kind of evidence."""
    known = json.loads((files("wherein.search") / "models.json").read_text("utf-8"))
    return {kind: Model.of(one) for kind, one in known.items()}


def measure(
    query: Query, method: Method, ranked: Ranked, *, view: View, encoder: Encoder, family: FeatureFamily | None
) -> Measured | None:
    """The measures of a ranking; None where too little is known to say anything."""
    labels = [part.trained_label for part in query.parts if part.trained_label is not None]
    if labels:
        curve = encoder.label_curve(labels[0]) if isinstance(encoder, KnowsLabels) and len(query.parts) == 1 else None
        if curve is None or ranked.score_kind != "cosine" or (method.search or "whole") not in WHOLE_WORDS:
            return None  # the curve is over cosines with whole images
        source = source_of(query, method, kind=ODDS, encoder=encoder, family=family)
        scores = np.array([one.score for one in ranked.candidates], np.float32)
        return Measured(source, lambda: np.asarray(curve.offset + curve.slope * scores, np.float32))
    evidence = Evidence(query, method, ranked, view, encoder)
    if evidence.kind is not None:
        source = source_of(query, method, kind=ODDS, encoder=encoder, family=family)
        return Measured(source, evidence.odds)
    if ranked.score_kind != "cosine" or asks(query) != "text":
        return None
    source = source_of(query, method, kind="cosine", encoder=encoder, family=family)
    return Measured(source, lambda: np.array([one.score for one in ranked.candidates], np.float32))


@runtime_checkable
class KnowsLabels(Protocol):
    """An encoder that has learnt labels, and how sure it is of them."""

    def label_curve(self, label: str) -> Curve | None:
        """The confidence over the cosine with a label's vector; None where too few examples were held out."""


class Evidence:
    """What there is to tell right hits of one ranking by."""

    def __init__(self, query: Query, method: Method, ranked: Ranked, view: View, encoder: Encoder) -> None:
        self._query, self._method, self._ranked, self._view, self._encoder = query, method, ranked, view, encoder
        self._source = ranked.source
        wanted = [group for group in ranked.groups if group.weight > 0]
        self._wanted = [group for group in wanted if not group.of_marks] or wanted
        first = ranked.candidates[:MEASURED_MOST]
        self._images = np.array([one.image for one in first], np.int64)
        self._scores = np.array([one.score for one in ranked.candidates], np.float32)
        self._inliers = [one.inliers or 0 for one in ranked.candidates]

    @cached_property
    def kind(self) -> str | None:
        """The kind of evidence, from what was asked and how; None where there is none."""
        method, kind = self._method, self._ranked.score_kind
        if self._source is None or not self._ranked.candidates:
            return None
        if kind == "inliers":
            return "verified"
        if not method.embeds:
            return "words" if self._source.count >= FEWEST else None
        if not self._wanted or any(self._plain_kind(group) is None for group in self._wanted):
            return None
        if kind == "evidence":
            return "fused"
        if not UNSCORED_STEPS.issuperset(method.steps):
            return "again"
        if (method.search or "whole") in WHOLE_WORDS:
            return self._plain_kind(self._wanted[0]) if len(self._wanted) == 1 else "both"
        return "place" if any(group.where is not None for group in self._wanted) else "anywhere"

    def odds(self) -> Floats:
        """(hits,) log odds that each is right."""
        kind = self.kind or ""
        model, most = shipped()[kind], self.most_signs()
        found = model.odds(self.signs())
        if model.most is not None and most is not None:
            found = np.minimum(found, model.most.odds(most))
        rest = self._scores[len(found) :]
        return np.concatenate([found, _continued(found, self._scores[: len(found)], rest)]) if len(rest) else found

    def most_signs(self) -> Floats | None:
        """(first hits, 2) what bounds the odds: those of the surest whole image, and how far a hit stands out.

        One of hundreds of places in an image is like any words by chance; a whole image seldom is. None where nothing
        is asked for in words.
        """
        surest = [one.odds().max() for one in self.of_whole_images()]
        if not surest:
            return None
        return np.stack([np.full(len(self._images), min(surest), np.float32), self._out], axis=1)

    def of_whole_images(self) -> list[Evidence]:
        """For each text that is asked for, what a search of whole images finds; none where that bounds nothing."""
        if self.kind not in BOUNDED:
            return []
        view = replace(self._view, scorer=self._view.layers.whole_scorer)
        found = list[Evidence]()
        for group in (own for own in self._wanted if not own.of_images):
            source = EmbeddingSource([group], view, self._encoder)
            top = source.top(SUREST_OF, self._ranked.allowed)
            candidates = tuple(map(Candidate, top.images.tolist(), top.scores.tolist()))
            ranked = replace(
                self._ranked, candidates=candidates, score_kind=source.kind, source=source, groups=(group,)
            )
            found.append(Evidence(self._query, Method(search="whole"), ranked, view, self._encoder))
        return found

    def signs(self) -> Floats:
        """(first hits, signs) of the kind of evidence: what its model weighs."""
        kind, count = self.kind or "", len(self._images)
        if kind == "verified":
            return np.log1p(np.asarray(self._inliers[:count], np.float32))[:, None]
        if kind == "words":
            return self._out[:, None]
        if kind in PLAIN:
            return self._plain_signs(self._wanted[0])
        plain = np.min([shipped()[name].odds(signs) for name, signs in self.plain()], axis=0)
        if kind == "both":
            return np.asarray(plain[:, None], np.float32)
        if kind == "fused":
            return np.stack([np.log1p(self._inliers[:count]), plain], axis=1).astype(np.float32)
        return np.stack([plain, self._out], axis=1).astype(np.float32)

    @property
    def _out(self) -> Floats:
        """(first hits,) how far the method's own scores stand out; 0 where a step made scores of another kind."""
        scores, source = self._scores[: len(self._images)], self._source
        if source is None or source.kind != self._ranked.score_kind:
            return np.zeros(len(scores), np.float32)
        return np.clip(stands_out(scores, source.background), -OUT_MOST, OUT_MOST)

    def _plain_kind(self, group: Group) -> str | None:
        """What is asked of whole images by a group; None where it cannot be measured."""
        if group.learnt:
            return None
        if not group.of_images:
            return "text" if self._bank is not None else None
        if self._source is None or self._source.count < FEWEST:
            return None
        return "region" if group.of_regions else "example"

    def plain(self) -> list[tuple[str, Floats]]:
        """What is said of whole images, for each group that is wanted: the kind of evidence and its signs."""
        return [(self._plain_kind(group) or "", self._plain_signs(group)) for group in self._wanted]

    def _plain_signs(self, group: Group) -> Floats:
        """The signs of whole images; of several texts, those of the one that is likeliest right."""
        if group.of_images:
            return example_signs(group.vectors, self._rows, self._view.layers.others)
        bank = self._bank
        if bank is None or self._source is None:
            return np.zeros((len(self._images), len(TEXT_SIGNS)), np.float32)
        images = self._view.layers.seen(bank)
        seen, background = images.of(self._images), self._source.background if self._is_plain(group) else None
        read = self._ranked.read or self._query
        texts = [part.text for part in read.parts if part.text and not part.negative]
        words, common = count_words(least := min(texts, key=count_words)), commonness(least, self._encoder)
        asked = group.vectors if group.otherwise is None else np.concatenate([group.vectors, group.otherwise])
        return likeliest_signs(
            asked, self._rows, seen, bank, words=words, fits=images.fits, common=common, background=background
        )

    def _is_plain(self, group: Group) -> bool:
        """Whether scores are the cosines of whole images with the one vector of a group."""
        whole = (self._method.search or "whole") in WHOLE_WORDS and self._ranked.score_kind == "cosine"
        return whole and len(group.vectors) == 1

    @cached_property
    def _rows(self) -> Floats:
        return self._view.layers.whole().vectors(self._images)

    @cached_property
    def _bank(self) -> Bank | None:
        return bank_of(self._encoder, self._view.store.derived.array)


def likeliest_signs(
    queries: Floats,
    hits: Floats,
    seen: Seen,
    bank: Bank,
    *,
    words: int,
    fits: Fits,
    common: float,
    background: Background | None,
) -> Floats:
    """(hits, signs) of texts (m, d) that any hit may answer: for each hit, those of the one that is likeliest right."""
    each = np.stack(
        [
            text_signs(one, hits, seen, bank, words=words, fits=fits, common=common, background=background)
            for one in queries
        ]
    )
    best = np.stack([shipped()["text"].odds(signs) for signs in each]).argmax(axis=0)
    return np.asarray(each[best, np.arange(len(best))], np.float32)


def _continued(odds: Floats, scores: Floats, rest: Floats) -> Floats:
    """The log odds of later hits: along the line through those of the first ones, and never above their last tenth."""
    centred = scores - scores.mean()
    spread = float(centred @ centred)
    slope = max(float(centred @ odds) / spread, 0.0) if spread > 0.0 else 0.0
    most = float(odds[-max(1, len(odds) // 10) :].mean())
    return np.asarray(np.minimum(odds.mean() + slope * (rest - scores.mean()), most), np.float32)
