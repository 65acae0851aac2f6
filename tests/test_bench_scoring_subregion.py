"""Sub-region scoring: ranks of known items, and what is refused."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wherein.bench.evaluate import evaluate
from wherein.bench.report import render
from wherein.errors import DataError


def dump(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def dump_lines(path: Path, rows: Sequence[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def said(warnings: Sequence[str], *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in warnings)


def annotation(identity: int, frame: int, rect: list[float] | None = None) -> dict[str, Any]:
    return {
        "id": identity, "frameIdx": frame, "desc_short": "a fish", "desc_long": "a small yellow fish",
        "rect": rect or [10, 20, 110, 120],
    }  # fmt: skip


@pytest.fixture
def subregion(tmp_path: Path) -> Path:
    dump(tmp_path / "skippable" / "ann.json", [annotation(0, 3), annotation(1, 7, [200, 20, 100, 90])])
    dump(tmp_path / "non_skippable" / "bob.json", [annotation(0, 5)])
    return tmp_path


def prediction(author: str, identity: int, ranking: list[int], text: str = "long") -> dict[str, Any]:
    return {"author": author, "id": identity, "text": text, "ranking": ranking}


def test_subregion_by_hand(subregion: Path) -> None:
    frames = list(range(20))
    rows = [
        prediction("ann", 0, [3, *(f for f in frames if f != 3)]),
        prediction("ann", 1, frames),  # frame 7 at rank 8
        prediction("bob", 0, frames[::-1]),  # frame 5 at rank 15
        *(prediction(author, n, frames, "short") for author, n in (("ann", 0), ("ann", 1), ("bob", 0))),
    ]
    made = evaluate("subregion", data=subregion, predictions=dump_lines(subregion / "p.ndjson", rows))
    assert made.scores["skippable"]["long"] == {"R@1": 0.5, "R@10": 1.0, "R@100": 1.0, "R@1000": 1.0, "MNR": 4.5}
    assert made.scores["non-skippable"]["long"]["R@10"] == 0.0
    assert made.scores["all"]["long"]["MNR"] == pytest.approx((1 + 8 + 15) / 3)
    assert made.scores["all"]["short"]["MNR"] == pytest.approx((4 + 8 + 6) / 3)
    assert set(made.scores) == {"skippable", "non-skippable", "all"}
    assert said(made.warnings, "1 boxes had swapped corners")


def test_subregion_truncated_rankings_make_the_mean_rank_a_lower_bound(subregion: Path) -> None:
    rows = [prediction("ann", 0, [1, 2]), prediction("ann", 1, [7]), prediction("bob", 0, [5])]
    made = evaluate("subregion", data=subregion, predictions=dump_lines(subregion / "p.ndjson", rows))
    assert made.scores["all"]["long"]["R@1000"] == pytest.approx(2 / 3)
    assert made.scores["all"]["long"]["MNR"] == pytest.approx((3 + 1 + 1) / 3)
    assert said(made.warnings, "truncated", "1 of 3", "lower bound")
    assert said(made.warnings, "no rankings for the short texts")
    assert "short" not in made.scores["all"]


def test_subregion_rankings_of_nothing_have_no_mean_rank(subregion: Path) -> None:
    rows = [prediction("ann", 0, []), prediction("ann", 1, []), prediction("bob", 0, [1, 5])]
    made = evaluate("subregion", data=subregion, predictions=dump_lines(subregion / "p.ndjson", rows))
    assert math.isnan(made.scores["skippable"]["long"]["MNR"])
    assert made.scores["skippable"]["long"]["R@1000"] == 0.0
    assert made.scores["non-skippable"]["long"]["MNR"] == 2.0
    assert said(made.warnings, "2 of 3 rankings are empty")
    assert "| skippable long | 0.00 | 0.00 | 0.00 | 0.00 | – |" in render(made, "markdown")


def test_subregion_authors_in_both_sets_are_told_apart_by_folder(subregion: Path) -> None:
    dump(subregion / "non_skippable" / "ann.json", [annotation(0, 9)])
    rows = [
        prediction("skippable/ann", 0, [3]), prediction("ann", 1, [7]), prediction("bob", 0, [5]),
        prediction("non_skippable/ann", 0, [8, 9]),
    ]  # fmt: skip
    made = evaluate("subregion", data=subregion, predictions=dump_lines(subregion / "p.ndjson", rows))
    assert made.scores["non-skippable"]["long"]["MNR"] == 1.5
    rows[0]["author"] = "ann"
    with pytest.raises(DataError, match="in both sets"):
        evaluate("subregion", data=subregion, predictions=dump_lines(subregion / "p.ndjson", rows))


SUBREGION_ERRORS = [
    pytest.param([], "holds no rankings", id="no lines"),
    pytest.param([prediction("ann", 0, [3])], "2 queries have no ranking", id="queries left out"),
    pytest.param([prediction("eve", 0, [3])], "no annotation 0 by 'eve'", id="an unknown author"),
    pytest.param([prediction("ann", 0, [3])] * 2, "a second ranking", id="two rankings of a query"),
    pytest.param([prediction("ann", 0, [3, 3])], "frame 3 is ranked twice", id="a frame ranked twice"),
    pytest.param([prediction("ann", 0, [3], "medium")], "'medium' is none of", id="an unknown text"),
    pytest.param([{"author": "ann", "id": 0, "text": "long", "ranking": ["x"]}], "frame numbers", id="names"),
]


@pytest.mark.parametrize(("rows", "message"), SUBREGION_ERRORS)
def test_subregion_errors(subregion: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate("subregion", data=subregion, predictions=dump_lines(subregion / "p.ndjson", rows))
