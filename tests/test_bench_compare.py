"""Runs compared query by query, and runs that cannot be."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from wherein import Grid
from wherein.bench.boxes import clipped
from wherein.bench.compare import compare, gain
from wherein.bench.compare_report import as_json, as_latex, as_markdown, as_text, summary_table, write_html
from wherein.bench.evaluation import Evaluation
from wherein.errors import DataError
from wherein.values.region import iou

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
    go("subregion", subregion_data, tmp_path / "b", method="toy+patches~alone")
    (shift,) = compare([tmp_path / "a", tmp_path / "b"]).targets
    assert shift.gain > 0, "a patch shows the colour alone, the whole image does not"
    assert shift.similarity.n == 12


def test_the_fit_of_cells_is_correlated_with_the_gain_in_rank(tmp_path: Path, subregion_data: Path, go: Go) -> None:
    path = subregion_data / "skippable" / "anna.json"
    records = json.loads(path.read_text())
    for number, record in enumerate(records):
        record["rect"] = [0, 0, 60 * (number + 1), 40 * (number + 1)]
    path.write_text(json.dumps(records))
    go("subregion", subregion_data, tmp_path / "a", method="toy")
    go("subregion", subregion_data, tmp_path / "b", method="toy+static-9")
    made = compare([tmp_path / "a", tmp_path / "b"])
    (fit,) = made.fits
    queries = {query.query_id: query for query in made.runs[1].evaluation.queries}
    boxes = [clipped(query.detail["box"], size_wh=(682, 384)) for query in queries.values()]
    ious = [max(iou(box, cell) for cell in Grid(9).boxes()) for box in boxes]
    before = {query.query_id: query.metrics["rank"] for query in made.runs[0].evaluation.queries}
    gains = [before[name] - query.metrics["rank"] for name, query in queries.items()]
    assert fit.overlap == pytest.approx(np.mean(ious))
    if np.std(gains) > 0:
        assert fit.correlation.statistic == pytest.approx(np.corrcoef(ious, gains)[0, 1])
    assert "correlation of IoU and gain in rank" in as_text(made)


def test_similarities_on_two_scales_are_not_compared(tmp_path: Path, subregion_data: Path, go: Go) -> None:
    for name, method in (("whole", "toy"), ("fused", "toy+static-9"), ("other", "toy:2")):
        go("subregion", subregion_data, tmp_path / name, method=method)
    asked = json.loads((tmp_path / "other/run.json").read_text())
    (tmp_path / "other/run.json").write_text(json.dumps(asked | {"weights": "others"}))
    made = compare([tmp_path / "whole", tmp_path / "fused", tmp_path / "other"])
    assert made.targets == ()
    assert "scores are cosine in toy and standardised in toy+static-9" in made.warnings[0]
    assert "toy and toy:2 have different encoders" in made.warnings[1]
    assert "Pearson" not in as_text(made)
    assert "not compared" in as_markdown(made)


def test_runs_made_before_the_kind_of_scores_was_kept_are_not_compared_by_them(
    tmp_path: Path, subregion_data: Path, go: Go
) -> None:
    for name, method in (("a", "toy"), ("b", "toy+patches~alone")):
        go("subregion", subregion_data, tmp_path / name, method=method)
    answers = tmp_path / "a/answers.ndjson"
    answers.write_text(answers.read_text().replace('"score_kind":"cosine",', ""))
    made = compare([tmp_path / "a", tmp_path / "b"])
    assert made.targets == ()
    assert "of an unknown kind in toy" in made.warnings[0]


def test_every_group_has_a_row_and_says_which_it_is(tmp_path: Path, subregion_data: Path, go: Go) -> None:
    for method in ("toy", "toy+static-9"):
        go("subregion", subregion_data, tmp_path / method, method=method)
    table = summary_table(compare([tmp_path / "toy", tmp_path / "toy+static-9"]))
    groups = [f"{name} {text}" for name in ("skippable", "non-skippable", "all") for text in ("short", "long")]
    assert [label for label, _ in table.rows] == [
        f"{group} · {method}" for group in groups for method in ("toy", "toy+static-9")
    ]
    assert table.columns == ("R@1", "R@10", "R@100", "R@1000", "MNR", "seconds", "bytes")


def test_conditions_that_differ_are_told_and_label_the_runs(
    tmp_path: Path, paint_square: Paint, covers_data: Path, go: Go
) -> None:
    paint_square(tmp_path / "more/copy.png", "red", "red", "red", "white")
    go("covers", covers_data, tmp_path / "a")
    go("covers", covers_data, tmp_path / "b", distractors=str(tmp_path / "more"), longest_side=32)
    made = compare([tmp_path / "a", tmp_path / "b"])
    assert [run.name for run in made.runs] == ["toy", "toy [distractors more, longest-side 32]"]
    assert f"distractors is none or {tmp_path / 'more'}" in made.warnings[0]
    assert "longest-side is none or 32" in made.warnings[1]


def test_a_default_said_aloud_is_no_difference(tmp_path: Path, searchad_data: Path, go: Go) -> None:
    go("searchad", searchad_data, tmp_path / "a")
    go("searchad", searchad_data, tmp_path / "b", split="val", modality="language", texts="all")
    made = compare([tmp_path / "a", tmp_path / "b"])
    assert made.warnings == ()
    assert [run.name for run in made.runs] == ["toy (a)", "toy (b)"]


def test_other_splits_and_protocols_are_refused(tmp_path: Path, searchad_data: Path, go: Go) -> None:
    go("searchad", searchad_data, tmp_path / "a")
    go("searchad", searchad_data, tmp_path / "train", split="train")
    go("searchad", searchad_data, tmp_path / "paper", protocol="paper")
    with pytest.raises(DataError, match="different splits cannot be compared: train, val"):
        compare([tmp_path / "a", tmp_path / "train"])
    with pytest.raises(DataError, match="different protocols cannot be compared: official, paper"):
        compare([tmp_path / "a", tmp_path / "paper"])
    assert json.loads((tmp_path / "paper/run.json").read_text())["protocol"] == "paper"


def test_shared_queries_are_counted_of_the_larger_run(tmp_path: Path, captions_data: Path, go: Go) -> None:
    from shutil import copytree

    go("captions", copytree(captions_data, tmp_path / "more"), tmp_path / "b")
    kept = (captions_data / "captions.jsonl").read_text().splitlines(keepends=True)
    (captions_data / "captions.jsonl").write_text("".join(kept[:4]))
    go("captions", captions_data, tmp_path / "a")
    made = compare([tmp_path / "a", tmp_path / "b"])
    assert any("share 8 of 12 queries" in warning for warning in made.warnings)
    assert any("data is" in warning for warning in made.warnings)


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
