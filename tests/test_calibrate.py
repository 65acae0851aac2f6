"""Curves of confidence: their names, their fits, how far they can be trusted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherein.encoders.toy import ToyEncoder
from wherein.search.calibrate import (
    AS_SHIPPED,
    ODDS,
    expected_error,
    fit,
    migrated_name,
    prior_of,
    reliability,
    source_of,
)
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


def test_a_source_names_what_scored_and_not_what_outlined() -> None:
    def source(spec: str) -> str:
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
    assert migrated_name(old).partition(" ")[2] == named.partition(" ")[2]
    assert migrated_name("rootsift inliers") == "rootsift inliers"
    fused = "mini@c4885c3b rootsift search=whole steps=sp words=bow evidence image"
    assert migrated_name(fused) == "mini@c4885c3b rootsift bow+sp evidence image"


def test_only_log_odds_mean_something_before_anything_is_judged() -> None:
    how = Method(search="whole")
    odds, cosine = (source_of(EXAMPLE, how, kind=kind, encoder=TOY, family=None) for kind in (ODDS, "cosine"))
    assert (prior_of(odds), prior_of(cosine)) == (AS_SHIPPED, None)
    assert AS_SHIPPED.confidence(np.array([0.0, np.log(3.0)], np.float32)).tolist() == pytest.approx([0.5, 0.75])
