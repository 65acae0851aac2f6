"""Hits and rankings as JSON has them: nothing is lost on the way there and back."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from wherein import Box, Hit, Ranking

LEFT = np.tile(np.arange(6) < 3, (4, 1))
FULL = Hit(
    image_id="a.mp4#t=2",
    score=0.5,
    confidence=0.75,
    box=Box(0.0, 0.0, 0.5, 1.0),
    path=Path("/pictures/a.mp4"),
    size_wh=(60, 40),
    seconds=2.0,
    mask=LEFT,
    inliers=7,
    others=("a.mp4#t=4",),
)


@pytest.mark.parametrize(
    "hit", [pytest.param(Hit("b.png", 0.25), id="a plain hit"), pytest.param(FULL, id="a hit that says everything")]
)
@pytest.mark.parametrize("polygons", [False, True])
def test_a_hit_comes_back_from_json(hit: Hit, polygons: bool) -> None:
    again = Hit.from_dict(json.loads(json.dumps(hit.to_dict(polygons=polygons))))
    for field in fields(Hit):
        assert np.array_equal(getattr(again, field.name), getattr(hit, field.name)), field.name


def test_an_outline_is_drawn_only_where_it_is_asked_for() -> None:
    assert "polygons" not in FULL.to_dict()
    assert FULL.to_dict(polygons=True)["polygons"] == [[[0.0, 0.0], [0.5, 0.0], [0.5, 1.0], [0.0, 1.0]]]


def test_a_ranking_comes_back_from_json() -> None:
    plain = Hit("b.png", 0.25)
    ranking = Ranking(
        hits=(plain,),
        query="red car^2",
        encoder="toy",
        method="whole",
        score_kind="cosine",
        searched=3,
        notes=("a note",),
        rejected=(plain,),
        label="red car",
        nothing_indexed=True,
    )
    assert Ranking.from_dict(json.loads(json.dumps(ranking.to_dict()))) == ranking
