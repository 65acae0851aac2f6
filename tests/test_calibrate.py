"""Scores → confidence: measures, curves, what is kept, how far it can be trusted."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherein.encoders import load
from wherein.encoders.toy import ToyEncoder
from wherein.search.background import Background
from wherein.search.calibrate import (
    FEWEST,
    expected_error,
    fit,
    measure,
    migrated_name,
    reliability,
    shipped,
    source_of,
)
from wherein.search.engine import Candidate
from wherein.values.judgement import Curve
from wherein.values.method import Method
from wherein.values.query import Part, Query

TEXT, EXAMPLE = Query.of("red"), Query((Part(image=b"picture"),))
TOY = ToyEncoder("", threads=1)


def test_a_curve_by_hand() -> None:
    curve = Curve(offset=0.0, slope=np.log(3.0))
    assert curve.confidence(np.array([-1.0, 0.0, 1.0], np.float32)).tolist() == pytest.approx([0.25, 0.5, 0.75])


def test_a_fit_finds_the_curve_that_made_the_judgements() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=20_000).astype(np.float32)
    right = random.random(20_000) < Curve(-1.0, 2.0).confidence(x)
    made = fit(x, right)
    assert (made.offset, made.slope) == pytest.approx((-1.0, 2.0), abs=0.1)
    half = random.random(20_000) < 0.5
    worth = np.where(half, 2.0, 0.0).astype(np.float32)
    assert fit(x, right | ~half, worth=worth).slope == pytest.approx(2.0, abs=0.15)


@given(
    st.lists(st.tuples(st.floats(-50, 50, width=32), st.booleans()), min_size=1, max_size=60),
    st.sampled_from([None, Curve(-2.0, 0.5)]),
)
def test_confidence_never_turns_an_order_round(judged: list[tuple[float, bool]], prior: Curve | None) -> None:
    x = np.array([value for value, _ in judged], np.float32)
    made = fit(x, np.array([right for _, right in judged]), prior=prior)
    assert made.slope >= 0.0
    sure = made.confidence(np.sort(x))
    assert (np.diff(sure) >= 0.0).all()
    assert ((sure >= 0.0) & (sure <= 1.0)).all()


def test_reliability_by_hand() -> None:
    confidence = np.array([0.05, 0.05, 0.95, 1.0], np.float32)
    table = reliability(confidence, np.array([False, True, True, True]))
    assert [(low, count) for low, count, _, _ in table] == [(0.0, 2), (0.9, 2)]
    assert [share for *_, share in table] == [0.5, 1.0]
    assert expected_error(table) == pytest.approx(0.5 * 0.45 + 0.5 * 0.025)


@dataclass(frozen=True)
class Scored:
    """A source of known scores."""

    background: Background

    @property
    def count(self) -> int:
        """How many images there are."""
        return self.background.n


@dataclass(frozen=True)
class Found:
    """A ranking as far as it is measured."""

    candidates: tuple[Candidate, ...]
    score_kind: str
    source: Scored


def ranked(kind: str, *scores: float, inliers: int | None = None, images: int = 100) -> Found:
    candidates = tuple(Candidate(number, score, inliers=inliers) for number, score in enumerate(scores))
    every = np.r_[np.array(scores, np.float32), np.linspace(0, 0.1, images - len(scores), dtype=np.float32)]
    return Found(candidates, kind, Scored(Background.of(every)))


def test_texts_are_measured_by_their_cosine_and_examples_by_standing_out() -> None:
    text = measure(TEXT, Method(search="whole"), ranked("cosine", 0.9, 0.3), encoder=TOY, family=None)
    assert text is not None
    assert text.values().tolist() == pytest.approx([0.9, 0.3])
    example = measure(EXAMPLE, Method(search="whole"), ranked("cosine", 0.9, 0.05), encoder=TOY, family=None)
    assert example is not None
    assert example.values()[0] > 0
    assert example.values()[1] == pytest.approx(np.log(2) - np.log(100), abs=0.1)
    assert text.source != example.source


def test_inliers_speak_for_themselves_and_evidence_is_spread_over_the_images() -> None:
    how = Method.parse("mini+sp")
    few = measure(EXAMPLE, how, ranked("inliers", 20.0, inliers=20, images=2), encoder=TOY, family=None)
    assert few is not None
    assert few.values().tolist() == pytest.approx([np.log(21)])
    nats = measure(EXAMPLE, how, ranked("evidence", 20.0), encoder=TOY, family=None)
    assert nats is not None
    assert nats.values().tolist() == pytest.approx([np.arcsinh(20 - np.log(100))])


def test_nothing_stands_out_among_a_few_images_or_after_other_steps() -> None:
    few = ranked("cosine", 0.9, images=FEWEST - 1)
    assert measure(EXAMPLE, Method(search="whole"), few, encoder=TOY, family=None) is None
    assert measure(EXAMPLE, Method.parse("qe"), ranked("cosine", 0.9), encoder=TOY, family=None) is None


def test_a_source_names_what_scored_and_not_what_outlined() -> None:
    def source(spec: str) -> str | None:
        return source_of(TEXT, Method.parse(spec).for_query(TEXT), kind="cosine", encoder=TOY, family=None)

    assert source("") == source("whole+locate~coarse") == "toy@toy-colo whole cosine text"
    assert source("patches") != source("whole") != source("whole~max")


@pytest.mark.parametrize(
    ("old", "spec"),
    [
        ("mini@c4885c3b search=whole cosine text", "mini"),
        ("mini@c4885c3b search=static-9@0.1 cells=best fill=crop standardised text", "mini+static-9@0.1~best~crop"),
        ("mini@c4885c3b search=whole support=max cosine text", "mini~max"),
        ("mini@c4885c3b search=whole augmented=True weighting=average cosine text", "mini+dba~average"),
    ],
)
def test_calibrations_named_by_the_fields_of_a_method_are_found_under_its_spelling(old: str, spec: str) -> None:
    kind = old.split()[-2]
    named = source_of(TEXT, Method.parse(spec).for_query(TEXT), kind=kind, encoder=TOY, family=None)
    assert named is not None
    assert migrated_name(old).partition(" ")[2] == named.partition(" ")[2]
    assert migrated_name("rootsift inliers") == "rootsift inliers"
    fused = "mini@c4885c3b rootsift search=whole steps=sp words=bow evidence image"
    assert migrated_name(fused) == "mini@c4885c3b rootsift bow+sp evidence image"


def test_the_shipped_curves_are_those_of_the_shipped_encoder() -> None:
    """Other weights need other curves: `python benchmarks/calibration.py EVAL_FOLDER` makes them."""
    mini, how = load("mini"), Method(search="whole")
    for query in (TEXT, EXAMPLE):
        assert source_of(query, how, kind="cosine", encoder=mini, family=None) in shipped()
