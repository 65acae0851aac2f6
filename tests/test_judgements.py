"""What people judged: how far it moves a confidence, what it is kept as, and how it is taken back."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import wherein
from wherein import Judgement, Query
from wherein.cli import app
from wherein.errors import ImageNotFound, InputError
from wherein.search.calibrate import fit
from wherein.search.judgements import Curves, resemblance
from wherein.values.judgement import Curve, judged_name, name_of, read_judgements
from wherein.values.query import Part

TEXTS = "mini@c4885c3b whole odds text"
FOREST, DOG = Query.of("a forest"), Query.of("a dog")
EXAMPLE = Query((Part(image=b"picture"),))


def forest(curves: Curves, *, query: Query = FOREST) -> float:
    """The confidence of a hit that the shipped curve is 93 % sure of."""
    now = curves.of(TEXTS, query)
    assert now is not None
    return float(now.confidence(np.array([np.log(0.93 / 0.07)], np.float32))[0])


def wrong(count: int, *, query: Query = DOG, measure: float = 5.3) -> dict[str, dict[str, tuple[float, bool]]]:
    """So many wrong hits of a query, each of which the shipped curve is 99.5 % sure of."""
    return {TEXTS: {judged_name(query, f"{number}.jpg"): (measure, False) for number in range(count)}}


@pytest.mark.parametrize(
    ("judged", "least", "most"),
    [
        pytest.param(wrong(0), 0.929, 0.931, id="nothing judged changes nothing"),
        pytest.param(wrong(1), 0.90, 0.93, id="one wrong hit of another query moves it by three points at most"),
        pytest.param(wrong(6), 0.80, 0.90, id="six of them, where the landed version said 9 %, by a dozen"),
        pytest.param(wrong(50), 0.20, 0.60, id="fifty that agree move it far"),
        pytest.param(wrong(1, query=FOREST, measure=3.0), 0.80, 0.90, id="one of the same query moves it more"),
        pytest.param(wrong(50, query=FOREST, measure=3.0), 0.0, 0.25, id="fifty of the same query undo it"),
    ],
)
def test_a_handful_moves_little_and_many_that_agree_move_far(
    tmp_path: Path, judged: dict[str, dict[str, tuple[float, bool]]], least: float, most: float
) -> None:
    curves = Curves(tmp_path)
    curves.judge(judged if judged[TEXTS] else {})
    assert least <= forest(curves) <= most


def test_judgements_count_for_what_resembles_them(tmp_path: Path) -> None:
    curves = Curves(tmp_path)
    curves.judge(wrong(10, query=Query.of("a dark forest")))
    like, unlike = forest(curves), forest(curves, query=Query.of("an old bus"))
    assert like < unlike - 0.1
    assert resemblance("a dog", "the dog", words=True) == 1.0
    assert resemblance("a dog", "a forest", words=True) == pytest.approx(0.2)
    assert resemblance("photos/a.jpg", "photos/b.jpg", words=False) == pytest.approx(0.2)


def test_a_fit_by_hand_stays_between_a_known_curve_and_what_was_seen() -> None:
    known, x = Curve(0.0, 1.0), np.array([2.0], np.float32)
    few = fit(x, np.array([False]), prior=known)
    many = fit(np.repeat(x, 5000), np.zeros(5000, np.bool_), prior=known)
    before, after, long_after = (float(curve.confidence(x)[0]) for curve in (known, few, many))
    assert before > after > before - 0.1
    assert long_after < 0.02


def test_a_step_is_taken_back_alone_and_a_reset_takes_back_all(tmp_path: Path) -> None:
    curves = Curves(tmp_path)
    (first,) = curves.judge(wrong(30))
    (second,) = curves.judge({TEXTS: {judged_name(DOG, "0.jpg"): (5.3, True)}})
    assert (second.right, second.wrong) == (1, 29)
    assert curves.undo(second.step) == "1 judgement taken back."
    with pytest.raises(InputError, match="step 2 is not among those"):
        curves.undo(second.step)
    curves.judge({TEXTS: {judged_name(DOG, "new.jpg"): (5.3, True)}})
    assert curves.undo(first.step) == "30 judgements taken back."
    assert curves.reset() == "1 judgement forgotten: confidence is what it was before any."
    assert forest(curves) == pytest.approx(0.93, abs=1e-3)
    with pytest.raises(InputError, match="nothing is judged"):
        curves.undo()


def test_what_was_judged_changes_is_said_in_a_sentence(tmp_path: Path) -> None:
    (made,) = Curves(tmp_path).judge(wrong(6))
    assert made.changed == (
        "0 right and 6 wrong hits were judged: what was 90 % sure is now 51 % for this query and 77 % for unlike ones. "
        "At 50 %, 0 of 6 judged hits were right."
    )


def test_an_unknown_id_is_refused_and_leaves_no_trace(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    with pytest.raises(ImageNotFound, match=r"gone\.png"):
        collection.calibrate([Judgement(Query.of("red"), frozenset({"red.png"}), frozenset({"gone.png"}))])
    assert not (collection.folder / "kept" / "judged.json").exists()


def test_a_file_of_the_first_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    kept = {"format": 1, "judged": {TEXTS: {f"a dog → {number}.jpg": [5.3, 0] for number in range(50)}}}
    (tmp_path / "kept" / "judged.json").write_text(json.dumps(kept))
    assert forest(Curves(tmp_path)) < 0.6


def test_a_broken_file_of_judged_hits_is_said(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "judged.json").write_text("{")
    with pytest.raises(InputError, match="judge again"):
        Curves(tmp_path).of("any", DOG)


def test_examples_from_memory_are_told_apart() -> None:
    assert name_of(EXAMPLE) != name_of(Query((Part(image=b"other"),)))
    assert name_of(DOG) == "a dog"


def test_the_command_learns_and_rejects(collection: wherein.Collection, folder: Path, tmp_path: Path) -> None:
    collection.add(folder)
    run, here, judged = CliRunner(), ["-c", str(folder)], tmp_path / "judged.jsonl"
    refused = run.invoke(app, ["search", "red", "--min-confidence", "0.5", *here])
    assert isinstance(refused.exception, InputError)
    answers = {"red": ["red.png"], "blue": ["blue.png"], "green": [], "white": [], "black": []}
    lines = [{"parts": [{"text": text}], "right": right} for text, right in answers.items()]
    judged.write_text("\n".join(map(json.dumps, lines)))
    said = run.invoke(app, ["calibrate", str(judged), *here])
    assert "2 right, 18 wrong. 2 right and 18 wrong hits were judged. Hits get a confidence when" in said.stdout
    lines += [{"parts": [{"text": "red " * (number + 2)}], "right": ["red.png"]} for number in range(8)]
    judged.write_text("\n".join(map(json.dumps, lines)))
    made = run.invoke(app, ["calibrate", str(judged), "--json", *here])
    assert json.loads(made.stdout)[0]["right"] == 10
    found = run.invoke(app, ["search", "red", "--json", *here])
    confidence = {hit["image_id"]: hit["confidence"] for hit in json.loads(found.stdout)["hits"]}
    assert confidence["red.png"] > 0.5 > confidence["blue.png"]
    none = run.invoke(app, ["search", "white", "--min-confidence", "0.5", *here])
    assert (none.exit_code, none.stdout) == (1, "")
    assert "no match; nearest is " in none.stderr
    kept = json.loads(run.invoke(app, ["search", "white", "--min-confidence", "0.5", "--json", *here]).stdout)
    assert (kept["hits"], len(kept["rejected"])) == ([], 4)
    assert run.invoke(app, ["calibrate", "--undo", *here]).stdout == "52 judgements taken back.\n"
    assert run.invoke(app, ["calibrate", "--reset", *here]).stdout.startswith("20 judgements forgotten")
    assert isinstance(run.invoke(app, ["calibrate", str(judged), "--reset", *here]).exception, InputError)


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"right": 5}'])
def test_a_line_that_is_no_judgement_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "judged.jsonl"
    path.write_text(line)
    with pytest.raises(InputError, match="line 1: is no judgement"):
        list(read_judgements(path))
