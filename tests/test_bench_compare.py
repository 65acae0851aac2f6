"""Runs compared query by query, and runs that cannot be."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from wherein.bench.compare import compare, gain
from wherein.bench.compare_report import as_json, as_latex, as_markdown, as_text, write_html
from wherein.bench.evaluation import Evaluation
from wherein.errors import DataError

Paint = Callable[..., Path]
Go = Callable[..., Evaluation]


def test_runs_are_compared_query_by_query(
    tmp_path: Path, colours: tuple[str, ...], paint_square: Paint, covers_data: Path, go: Go
) -> None:
    paint_square(covers_data / "database/near.png", "red", "red", "red", "white")
    go("covers", covers_data, tmp_path / "a", method="toy")
    go("covers", covers_data, tmp_path / "b", method="toy+patches")
    comparison = compare([tmp_path / "a", tmp_path / "b"])
    (ap, *_) = comparison.differences
    assert (ap.run, ap.figure) == ("toy+patches", "AP")
    assert ap.wins + ap.losses + ap.ties == len(colours)
    mean = np.mean([q.metrics["AP"] for q in comparison.runs[1].evaluation.queries]) - np.mean(
        [q.metrics["AP"] for q in comparison.runs[0].evaluation.queries]
    )
    assert ap.mean.mean == pytest.approx(mean)
    document = json.loads(as_json(comparison))
    assert document["base"] == "toy"
    assert document["differences"][0]["randomisation"]["p"] <= 1
    for text in (as_text(comparison), as_markdown(comparison), as_latex(comparison)):
        assert "toy+patches" in text
    write_html(comparison, tmp_path / "page/report.html")
    assert "Queries, worst first" in (tmp_path / "page/report.html").read_text(encoding="utf-8")


def test_known_items_are_compared_by_similarity_and_rank(tmp_path: Path, subregion_data: Path, go: Go) -> None:
    go("subregion", subregion_data, tmp_path / "a", method="toy")
    go("subregion", subregion_data, tmp_path / "b", method="toy+patches")
    (shift,) = compare([tmp_path / "a", tmp_path / "b"]).targets
    assert shift.gain > 0, "a patch shows the colour alone, the whole image does not"
    assert shift.similarity.n == 12


def test_ranks_improve_downwards() -> None:
    assert gain("rank", 10, 4) == 6
    assert gain("medium mAP", 0.5, 0.75) == 0.25


def test_runs_that_cannot_be_compared_are_refused(
    tmp_path: Path, covers_data: Path, captions_data: Path, go: Go
) -> None:
    go("covers", covers_data, tmp_path / "a")
    go("captions", captions_data, tmp_path / "b")
    with pytest.raises(DataError, match="different benchmarks"):
        compare([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(DataError, match="no run folder"):
        compare([tmp_path])
    with pytest.raises(DataError, match="twice"):
        compare([tmp_path / "a", tmp_path / "a"])
