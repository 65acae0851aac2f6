"""The one door to official scoring, and the papers' numbers beside it."""

import json
from pathlib import Path
from typing import Any

import pytest

from wherein.bench.evaluate import evaluate
from wherein.bench.reference import PAPERS, left_out, paper_tables, reference, run_conditions
from wherein.bench.tables import is_plain
from wherein.errors import DataError


def dump(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_unknown_names_and_missing_folders_are_refused(tmp_path: Path) -> None:
    here = dump(tmp_path / "p.json", {})
    for change, message in (
        ({"benchmark": "imagenet"}, "choose one of searchad, forb"),
        ({"protocol": "mine"}, "choose one of official, paper"),
        ({"data": tmp_path / "none"}, "is not a folder"),
        ({"predictions": tmp_path / "none"}, "does not exist"),
        ({"ranks": here}, "--ranks belongs to proxford"),
        ({"split": "test"}, "no public split 'test'"),
        ({"benchmark": "forb", "split": "train"}, "--split belongs to searchad; forb"),
    ):
        asked: dict[str, Any] = {"benchmark": "searchad", "data": tmp_path, "predictions": here, **change}
        with pytest.raises(DataError, match=message):
            evaluate(asked.pop("benchmark"), **asked)


def test_reference_numbers_are_fractions_under_the_paths_of_the_scores() -> None:
    clip = dict(reference("forb", {})[0].rows)["CLIP"]
    assert clip["all/overall/mAP@5"] == pytest.approx(0.8936)
    assert clip["all/hard/t-mAP@5"] == pytest.approx(0.4427)
    long = next(table for table in reference("subregion", {}) if table.source.endswith("Table 2"))
    assert dict(long.rows)["Theoretical"]["skippable/long/MNR"] == 5684
    plain = run_conditions("prparis", {})
    ranked = next(table for table in reference("prparis", plain) if table.source.endswith("Table 2"))
    assert dict(ranked.rows)["SSP, ranked by DELG"]["medium/mAP@50:5:95"] == pytest.approx(0.47)


def test_the_class_wise_tables_of_searchad_have_the_mean_that_the_paper_prints() -> None:
    for number, modality in ((11, "language"), (12, "vision")):
        tables = {table.source: table for table in reference("searchad", {"split": "test", "modality": modality})}
        printed = dict(tables["SearchAD, Table 5"].rows)
        for method, row in tables[f"SearchAD, Table {number}"].rows:
            assert len(row) == 90
            assert sum(row.values()) / 90 == pytest.approx(printed[method]["overall/MAP"], abs=1e-4)


def test_a_run_stands_only_beside_tables_of_its_own_split_queries_and_protocol() -> None:
    asked = run_conditions("searchad", {"modality": "vision"})
    assert [table.label for table in reference("searchad", asked) if "7" in table.source] == [
        "SearchAD, Table 7 (validation split, image queries)"
    ]
    assert all(table.conditions.get("split", "val") == "val" for table in reference("searchad", asked))
    mrp = dict(next(t for t in reference("searchad", asked) if "7" in t.source).rows)["NARADIO"]["overall/MRP"]
    assert mrp == pytest.approx(0.1210)
    assert any("measured with split test, this run with val" in line for line in left_out("searchad", asked))
    assert {t.source for t in reference("forb", run_conditions("forb", {}))} == {"FORB, Table 6"}
    assert len(reference("forb", run_conditions("forb", {"longest_side": 480}))) == 3
    many = run_conditions("roxford5k", {}, distractors=1_001_001)
    assert dict(reference("roxford5k", many)[0].rows)["DELG"]["medium/mAP"] == pytest.approx(0.637)
    assert reference("roxford5k", run_conditions("roxford5k", {}, distractors=12)) == ()


def test_every_key_of_the_papers_is_a_path_of_a_scores_document() -> None:
    for benchmark in PAPERS:
        for table in paper_tables(benchmark):
            for method, row in table.rows:
                assert row, (table.source, method)
                for key, value in row.items():
                    assert "/" in key
                    assert is_plain(key) or 0 <= value <= 1, (table.source, method, key)
