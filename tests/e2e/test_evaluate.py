"""`wherein evaluate` and `wherein searchad` as people run them: streams, exit codes, formats, files."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CAT, DOG = "Animal-Real-Cat", "Animal-Real-Dog"


def wherein(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wherein", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def dump(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.fixture
def searchad(tmp_path: Path) -> Path:
    large = [0, 0, 30, 30]
    annotations = {
        "acdc/0.png": [{"label": CAT, "bbox": large}],
        "acdc/1.png": [{"label": DOG, "bbox": large}],
        "kitti/2.png": [],
    }
    dump(tmp_path / "searchad_annotations_val.json", annotations)
    dump(tmp_path / "searchad_test_mapping_id_to_imagepath.json", {"4": "acdc/t.png", "5": "ECP/u.png"})
    dump(tmp_path / "predictions.json", {
        CAT: ["kitti/2.png", "acdc/0.png", "acdc/1.png"], DOG: ["acdc/1.png", "kitti/2.png", "acdc/0.png"],
    })  # fmt: skip
    return tmp_path


def test_json_is_one_document_on_stdout_and_warnings_are_on_stderr(searchad: Path) -> None:
    done = wherein("evaluate", "searchad", "--data", searchad, "--predictions", searchad / "predictions.json", "--json")
    assert done.returncode == 0
    scores = json.loads(done.stdout)
    assert scores["overall"]["MAP"] == pytest.approx(0.75)
    assert scores["classes"][CAT] == pytest.approx({"MAP": 0.5, "MRP": 0, "P@5": 1 / 3, "P@25": 1 / 3, "P@100": 1 / 3})
    assert scores["categories"]["Animal"]["MAP"] == 0.75
    assert "warning: 88 of 90 labels have no ranking" in done.stderr


@pytest.mark.parametrize(
    ("format_", "mark"),
    [("table", "75.00"), ("markdown", "| overall | 75.00"), ("latex", r"\toprule"), ("json", '"MAP"')],
)
def test_every_format_shows_the_scores(searchad: Path, format_: str, mark: str) -> None:
    page = searchad / "report" / "page.html"
    done = wherein(
        "evaluate", "searchad", "--data", searchad, "--predictions", searchad / "predictions.json",
        "--format", format_, "--html", page,
    )  # fmt: skip
    assert done.returncode == 0
    assert mark in done.stdout
    text = page.read_text(encoding="utf-8")
    assert CAT in text
    assert "NARADIO" in text
    assert "precision" in text


def test_bad_input_is_one_line_and_exit_code_2(searchad: Path) -> None:
    broken = searchad / "broken.json"
    broken.write_text('{"Animal-Real-Cat": [\n"a",,]}')
    for words, message in (
        (("evaluate", "searchad", "--data", searchad, "--predictions", searchad / "none"), "does not exist"),
        (("evaluate", "imagenet", "--data", searchad, "--predictions", broken), "unknown benchmark 'imagenet'"),
        (("evaluate", "searchad", "--data", searchad, "--predictions", broken), "broken.json, line 2"),
        (("evaluate", "forb", "--data", searchad, "--predictions", searchad), "no FORB truth"),
    ):
        done = wherein(*words)
        assert done.returncode == 2
        assert done.stdout == ""
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_pixel_benchmark_with_ranks(tmp_path: Path) -> None:
    truth = {
        "imlist": ["a", "b"],
        "qimlist": ["q"],
        "gnd": [{"easy": [0], "hard": [1], "junk": [], "bbx": [0, 0, 9, 9]}],
    }
    (tmp_path / "gnd_roxford5k.pkl").write_bytes(pickle.dumps(truth))
    outline = [[0, 0], [50, 0], [50, 50], [0, 50]]
    for image in (0, 1):
        dump(tmp_path / "labels" / f"{image}.json", {"shapes": [{"points": outline}]})
    labels = {"0_0": "labels/0.json", "0_1": "labels/1.json"}
    np.save(tmp_path / "oxford_pair2labelpath.npy", labels, allow_pickle=True)  # type: ignore[arg-type]
    matches = {"qimlist_0_imlist_0": outline, "qimlist_0_imlist_1": []}
    np.save(tmp_path / "matches.npy", matches, allow_pickle=True)  # type: ignore[arg-type]
    np.save(tmp_path / "ranks.npy", np.array([[1], [0]]))
    files = ("--data", tmp_path, "--predictions", tmp_path / "matches.npy", "--ranks", tmp_path / "ranks.npy", "--json")
    scores = json.loads(wherein("evaluate", "proxford", *files).stdout)
    assert scores["medium"]["mAP@50:5:95"] == pytest.approx(0.25)  # image 1 failed and still stands first
    assert scores["medium"]["mIoU"] == {"D": 0.5, "S": 0.5}
    assert scores["ious"] == {"0_0": [1.0, 1.0], "0_1": [0.0, 0.0]}
    images = wherein("evaluate", "roxford5k", "--data", tmp_path, "--predictions", tmp_path / "ranks.npy", "--json")
    assert json.loads(images.stdout)["medium"] == {"mAP": 1.0, "mP@1": 1.0, "mP@5": 1.0, "mP@10": 1.0}


def test_searchad_check_says_what_is_missing(searchad: Path) -> None:
    done = wherein("searchad", "check", "--data", searchad)
    assert done.returncode == 1
    assert "MISSING  searchad_annotations_train.json" in done.stdout
    assert "MISSING  ECP/" in done.stdout
    document = json.loads(wherein("searchad", "check", "--data", searchad, "--json").stdout)
    assert document["complete"] is False


def test_searchad_stats_and_truth(searchad: Path) -> None:
    done = wherein("searchad", "stats", "--data", searchad, "--split", "val")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-3].split() == [DOG, "1", "1"]
    written = wherein("searchad", "truth", "--data", searchad, "--out", searchad / "out")
    assert json.loads(Path(written.stdout.splitlines()[0]).read_text()) == {CAT: ["acdc/0.png"], DOG: ["acdc/1.png"]}


def test_searchad_submit_writes_the_file(searchad: Path) -> None:
    predictions = dump(searchad / "test.json", {CAT: ["ECP/u.png", "acdc/t.png"]})
    out = searchad / "submission.json"
    words = ["--data", searchad, "--predictions", predictions, "--out", out, "--team", "t", "--model", "m"]
    done = wherein("searchad", "submit", *words, "--affiliation", "a", "--mode", "Vision", "--trained")
    assert done.returncode == 0
    document = json.loads(out.read_text())
    assert document["predictions"] == {CAT: [5, 4]}
    assert document["metadata"]["SearchAD Train"] == "Yes"
    assert "labels without a ranking" in done.stderr
