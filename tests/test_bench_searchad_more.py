"""SearchAD beyond its evaluator: boxes of hits as a task, wordings, methods side by side, detectors and their words."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wherein import Box, Image
from wherein.bench.best import best_page
from wherein.bench.evaluation import Evaluation
from wherein.bench.journal import Journal
from wherein.bench.run import Plan
from wherein.bench.searchad.localization import localization
from wherein.bench.searchad.prompts import counted, look, prompts_page
from wherein.bench.searchad.task import chosen_texts
from wherein.bench.sweep import Sweep, sweep
from wherein.bench.task import Answers
from wherein.cli import app
from wherein.detectors import Detection
from wherein.errors import DataError, SpecError

BALL = "Object-Ball"
Go = Callable[..., Evaluation]


def answers(ranking: str, **boxes: Sequence[float]) -> Answers:
    """A ranking of the images a … d for one label, with the boxes of some hits."""
    kept: dict[str, Any] = {"ranking": ["abcd".index(letter) for letter in ranking]}
    kept["boxes"] = {str("abcd".index(name)): list(box) for name, box in boxes.items()}
    return Answers(image_ids=tuple("abcd"), kept={BALL: kept})


TRUTH: dict[str, Any] = {
    "a": [(BALL, (0.0, 0.0, 10.0, 10.0))],
    "b": [(BALL, (0.0, 0.0, 10.0, 10.0)), (BALL, (50.0, 50.0, 70.0, 70.0))],
    "c": [],
    "d": [(BALL, (0.0, 0.0, 5.0, 5.0))],  # too small: ignored
}


def test_no_box_scores_nothing_and_a_perfect_one_everything() -> None:
    assert localization({"a": [], "b": [], "c": [], "d": []}, answers("abcd")) == {}
    none = localization(TRUTH, answers("abcd"))
    assert none["overall"] == {"mAP@50": 0, "mAP@50:5:95": 0, "mIoU": 0, "pointing": 0}
    every = localization(TRUTH, answers("dabc", a=(0, 0, 10, 10), b=(50, 50, 70, 70)))
    assert every["overall"] == pytest.approx({"mAP@50": 1, "mAP@50:5:95": 1, "mIoU": 1, "pointing": 1})


def test_a_wrong_box_counts_as_a_wrong_answer_in_its_place() -> None:
    # a is first with a box that misses, b is second and right: precision 1/2 at b, over two relevant images
    made = localization(TRUTH, answers("abcd", a=(80, 80, 90, 90), b=(0, 0, 10, 8)))[BALL]
    assert made["mAP@50"] == pytest.approx((1 / 2) / 2)
    assert made["mAP@50:5:95"] == pytest.approx(0.6 * (1 / 2) / 2)  # 0.8 passes 0.5 … 0.75
    assert made["mIoU"] == pytest.approx((0 + 0.8) / 2)
    assert made["pointing"] == 0.5


def test_the_task_locates_every_relevant_image(searchad_data: Path, tmp_path: Path, go: Go) -> None:
    made = go("searchad", searchad_data, tmp_path / "run", method="toy+patches", task="localization")
    assert set(made.scores["localization"]) == {"overall", "Animal-Real-Cow", BALL, "Sign-Train-Sign"}
    journal = Journal(tmp_path / "run" / "answers.ndjson")
    assert {label: len(journal[label]["boxes"]) for label in journal} == dict.fromkeys(journal, 6)
    plain = go("searchad", searchad_data, tmp_path / "plain", method="toy+patches")
    assert plain.scores["overall"] == made.scores["overall"]
    assert "localization" not in plain.scores


def test_each_text_of_a_support_set_can_be_asked_alone(searchad_data: Path, tmp_path: Path, go: Go) -> None:
    from wherein.bench.searchad.dataset import load_queries

    support = next(one for one in load_queries(searchad_data) if one.label == BALL)
    assert chosen_texts(support, "text-2") == ("blue thing",)
    assert chosen_texts(support, "text-9") == ("a blue thing on a grey road",)
    with pytest.raises(SpecError, match="text-0 is none of first-keyword, keywords, all, text-N"):
        go("searchad", searchad_data, tmp_path / "x", texts="text-0")
    plan = Plan(benchmark="searchad", data=searchad_data, method="toy", out=tmp_path / "words")
    made = sweep(plan, Sweep(texts=("first-keyword", "text-3")))
    assert set(made.scores) == {"texts: first-keyword", "texts: text-3", "runs"}
    assert made.scores["texts: first-keyword"]["mean"]["overall"]["MAP"] > 0


def test_methods_stand_side_by_side_with_their_first_hits(searchad_data: Path, tmp_path: Path, go: Go) -> None:
    for name, method in (("one", "toy"), ("two", "toy+patches")):
        go("searchad", searchad_data, tmp_path / name, method=method)
    html = best_page([tmp_path / "one", tmp_path / "two"], queries=[BALL], k=3)
    assert html.count("<tr><th>") == 2
    assert html.count('class="right"') + html.count('class="wrong"') == 6
    assert html.count("data:image/webp") == 6
    assert "kitti/val/blue-" in html
    with pytest.raises(DataError, match="no query 'Ball' is in every run"):
        best_page([tmp_path / "one", tmp_path / "two"], queries=["Ball"])
    asked = ["bench", "best", str(tmp_path / "one"), str(tmp_path / "two"), "--html", str(tmp_path / "best.html")]
    assert CliRunner().invoke(app, asked).exit_code == 0
    assert (tmp_path / "best.html").read_text(encoding="utf-8").count("<h2>") == 3


class OneWord:
    """A detector that sees the upper left corner surely when it is asked for by a short word, else the lower right."""

    spec, digest, device, by_example = "word:one", "12345678", "cpu", False

    def find(self, image: Image, names: Sequence[str]) -> list[Detection]:
        """One box for one name."""
        side = 48 / image.size_wh[0], 48 / image.size_wh[1]
        (name,) = names
        if len(name) < 12:
            return [Detection(Box(0.0, 0.0, *side), 0.45, name)]
        return [Detection(Box(0.9, 0.9, 1.0, 1.0), 0.25, name)]

    def find_like(self, image: Image, example: Image) -> list[Detection]:
        """Never asked."""
        raise NotImplementedError


def test_words_and_thresholds_of_a_detector_are_counted(searchad_data: Path) -> None:
    seen = look(searchad_data, BALL, OneWord())
    low, _, high, highest = counted(seen)
    rows = dict(low.rows)
    # six images with one box of 8 … 48 pixels: a box of 48 pixels overlaps those of 40 and 48 by more than half
    assert rows["blue"] == pytest.approx({"found": 2 / 6, "right": 2 / 6, "wrong boxes_n": 4})
    assert rows["a blue thing on a grey road"] == {"found": 0, "right": 0, "wrong boxes_n": 6}
    assert dict(high.rows)["a blue thing on a grey road"]["wrong boxes_n"] == 0
    assert dict(highest.rows)["blue"]["found"] == 0
    assert len(rows) == 4  # two keywords, one description, all of them at once
    assert prompts_page(seen, label=BALL, detector="word:one").count("<figcaption>") == 4
    with pytest.raises(DataError, match="has no query for 'Ball'"):
        look(searchad_data, "Ball", OneWord())


def test_a_run_is_timed_with_and_without_an_index(
    searchad_data: Path, tmp_path: Path, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"seconds per query": 30.0, "setup seconds": 1.0, "seconds per image": 5.0}
    monkeypatch.setattr("wherein.bench.searchad.task.detector_times", lambda _images: row)  # the real one takes minutes
    found = go("searchad", searchad_data, tmp_path / "out", timing=True).scores["search time"]
    assert list(found) == ["no index", "compressed index", "grounded detector"]
    plain, coded = found["no index"], found["compressed index"]
    assert plain["MAP"] == coded["MAP"] > 0  # so few images are all compared
    assert coded["MAP lost"] == 0
    assert min(plain["seconds per query"], coded["seconds per query"], plain["setup seconds"]) > 0
    plainly = go("searchad", searchad_data, tmp_path / "plain").scores
    assert "search time" not in plainly
    assert plainly["overall"]["MAP"] == plain["MAP"]
