"""The real command: `wherein bench run` and `wherein bench report`, stopped by a real kill and started again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255), "green": (0, 160, 0), "yellow": (255, 255, 0)}


def wherein(*words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    done = subprocess.run(
        [sys.executable, "-m", "wherein", *map(str, words)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr
    return done


def make_captions(root: Path, *, captions: int = 1) -> Path:
    """One photo per colour with many captions."""
    (root / "images").mkdir(parents=True)
    records = []
    for name, rgb in COLOURS.items():
        PIL.Image.new("RGB", (32, 32), rgb).save(root / f"images/{name}.png")
        records.append({"image": f"images/{name}.png", "captions": [f"{name} {n}" for n in range(captions)]})
    (root / "captions.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return root


def figures(document: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on the machine."""
    measured_here = ("timing", "bytes_per_image")  # a run that was stopped may have written its rows in other pieces
    return {name: value for name, value in document.items() if name not in measured_here}


def test_run_prints_one_json_document_and_keeps_the_rest_off_stdout(tmp_path: Path) -> None:
    data = make_captions(tmp_path / "data")
    done = wherein("bench", "run", "captions", "--data", data, "--method", "toy", "--out", tmp_path / "out", "--json")
    document = json.loads(done.stdout)
    assert document["text"] == {"R@1": 1.0, "R@5": 1.0, "R@10": 1.0, "MedR": 1.0}
    assert document["timing"]["seconds_per_query"] > 0
    assert document["bytes_per_image"] > 0
    assert "report.html" in done.stderr
    assert figures(json.loads((tmp_path / "out/scores.json").read_text())) == figures(document)


def test_a_killed_run_goes_on_and_gives_the_same_result(tmp_path: Path) -> None:
    data = make_captions(tmp_path / "data", captions=60)
    words: list[str | Path] = ["bench", "run", "captions", "--data", data, "--method", "toy", "--json", "--out"]
    whole = json.loads(wherein(*words, tmp_path / "whole").stdout)

    out = tmp_path / "killed"
    running = subprocess.Popen(
        [sys.executable, "-m", "wherein", *map(str, [*words, out])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    journal = out / "answers.ndjson"
    deadline = time.monotonic() + 60
    while not journal.is_file() or journal.read_bytes().count(b'"question"') < 5:
        assert time.monotonic() < deadline, "the run did not begin"
        assert running.poll() is None, "the run ended before it could be stopped"
        time.sleep(0.002)
    os.kill(running.pid, signal.SIGKILL)
    running.wait(timeout=30)
    before = journal.read_bytes().count(b'"question"')
    assert 5 <= before < 240
    assert not (out / "scores.json").exists()

    again = json.loads(wherein(*words, out).stdout)
    assert figures(again) == figures(whole)
    evaluations = [json.loads((folder / "evaluation.json").read_text()) for folder in (tmp_path / "whole", out)]
    assert evaluations[0]["queries"] == evaluations[1]["queries"]
    assert journal.read_bytes().count(b'"question"') == 240


def test_report_compares_runs(tmp_path: Path) -> None:
    data = make_captions(tmp_path / "data", captions=3)
    for method in ("toy", "toy+patches"):
        wherein("bench", "run", "captions", "--data", data, "--method", method, "--out", tmp_path / method)
    page = tmp_path / "page.html"
    done = wherein("bench", "report", tmp_path / "toy", tmp_path / "toy+patches", "--json", "--html", page)
    document = json.loads(done.stdout)
    assert list(document["runs"]) == ["toy", "toy+patches"]
    assert {one["figure"] for one in document["differences"]} >= {"rank", "R@1"}
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "p Wilcoxon" in wherein("bench", "report", tmp_path / "toy", tmp_path / "toy+patches").stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nothing", "--method", "toy"], "no benchmark is called"),
        (["covers", "--method", "toy"], "the folder looks like captions"),
        (["captions", "--method", "what"], "nothing is called 'what'"),
        (["underwater", "--method", "toy", "--perturb", "x"], "not SHIFT,SIZE"),
        (["captions", "--method", "toy", "--split", "val"], "captions has no option --split; it has --distractors"),
        (["captions", "--method", "toy", "--random-sets", "0"], "captions has no option --random-sets"),
        (["searchad", "--method", "toy", "--random-sets", "0"], "draw at least one"),
        (["searchad", "--method", "toy", "--split", "dev"], "--split dev is none of val, train, test"),
    ],
    ids=[
        "unknown benchmark",
        "wrong shape",
        "unknown method",
        "unreadable spread",
        "option of another benchmark",
        "several runs of another benchmark",
        "no runs at all",
        "a word that is no choice",
    ],
)
def test_bad_input_is_one_clear_line_and_code_2(tmp_path: Path, words: list[str], why: str) -> None:
    data = make_captions(tmp_path / "data")
    done = wherein("bench", "run", *words, "--data", data, "--out", tmp_path / "out", code=2)
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_import_of_the_command_is_free() -> None:
    code = "import sys, wherein.cli.bench; print([m for m in ('numpy', 'scipy', 'PIL', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
