"""The one door to official scoring, and the papers' numbers beside it."""

import json
from pathlib import Path
from typing import Any

import pytest

from wherein.bench.evaluate import evaluate
from wherein.bench.reference import reference
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
    forb = dict(reference("forb"))
    assert forb["CLIP"] == pytest.approx({"all/overall/mAP@5": 0.8936, "all/overall/t-mAP@5": 0.6723})
    assert dict(reference("searchad"))["NARADIO, text"]["overall/MAP"] == pytest.approx(0.1427)
    assert dict(reference("subregion"))["Theoretical"]["skippable/long/MNR"] == 5684
    assert dict(reference("proxford"))["SSP"]["medium/mAP@50:5:95"] == pytest.approx(0.373)
    assert dict(reference("prparis"))["SSP"]["medium/mAP@50:5:95"] == pytest.approx(0.47)
