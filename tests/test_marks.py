"""Few-shot search: what ✓ and ✗ on images of the collection teach, how it is told, and that un-marking undoes it."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

import wherein
from wherein.cli import main
from wherein.errors import ImageNotFound, QueryError
from wherein.search.fewshot import learn_feedback
from wherein.search.head import Usual
from wherein.values.query import Part, Query

NOTE = "learned what is meant from 3 right images (✓) and 2 wrong ones (✗)"
RIGHT = [f"meant{n}.png" for n in range(3)]
WRONG = ["other0.png", "other1.png"]


@pytest.fixture
def streets(tmp_path: Path, paint: Callable[..., Path]) -> Path:
    """Red pictures with a little green, which are meant; with a little blue, which are not; and some of one colour."""
    folder = tmp_path / "streets"
    for number in range(6):
        rest = ["red"] * (6 + number)
        paint(folder / f"meant{number}.png", *rest, "green", size_wh=(128, 64))
        paint(folder / f"other{number}.png", *rest, "blue", size_wh=(128, 64))
    for colour in ("red", "blue", "yellow", "white", "black"):
        paint(folder / f"{colour}.png", colour)
    return folder


@pytest.fixture
def collection(streets: Path) -> Iterator[wherein.Collection]:
    with wherein.open(streets, create=True, encoder="toy") as opened:
        opened.add(streets, layers=("global", "patches", "thumbs"))
        yield opened


def ids(ranking: wherein.Ranking) -> list[str]:
    return [hit.image_id for hit in ranking]


def unmarked(parts: tuple[Part, ...]) -> list[Part]:
    """The same examples with the same weights, as if they were no images of the collection: they move the query."""
    return [Part(image=part.image, weight=part.weight, negative=part.negative) for part in parts]


def test_the_learned_vector_is_of_unit_length_and_stands_between_right_and_wrong() -> None:
    numbers = np.random.default_rng(3)
    usual = numbers.normal(size=(200, 16)).astype(np.float32)
    usual /= np.linalg.norm(usual, axis=1, keepdims=True)
    right, wrong = usual[:3], usual[3:5]
    for text in (None, usual[5]):
        vector = learn_feedback(right, wrong, Usual.of(usual), text=text)
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
        assert (right @ vector).min() > (wrong @ vector).max()


def test_words_that_tell_the_marks_are_leant_on_and_others_are_not() -> None:
    random = np.random.default_rng(4)
    usual = Usual.of(random.standard_normal((300, 16)).astype(np.float32))
    text, seen = np.eye(16, dtype=np.float32)[:2]
    wrong = -3 * seen + 0.3 * random.standard_normal((2, 16)).astype(np.float32)
    for by, leant in ((4.0, True), (-1.0, False)):
        right = 3 * seen + by * text + 0.3 * random.standard_normal((3, 16)).astype(np.float32)
        alone, told = (learn_feedback(right, wrong, usual, text=words) for words in (None, text))
        assert (float(told @ text) > float(alone @ text) + 0.05) is leant


def test_three_right_and_some_wrong_teach_what_moving_the_query_does_not(collection: wherein.Collection) -> None:
    meant = {f"meant{n}.png" for n in range(6)}
    marks = collection.marks(right=RIGHT, wrong=WRONG)
    moved = collection.search(["red", *unmarked(marks)], k=6)
    assert "red.png" in ids(moved)
    assert not any(note.startswith("learned") for note in moved.notes)
    learned = collection.search(["red", *marks], k=6)
    assert set(ids(learned)) == meant
    assert NOTE in learned.notes
    assert (learned.score_kind, {hit.confidence for hit in learned}) == ("cosine", {None})
    assert set(ids(collection.search(list(marks), k=6))) == meant, "marks alone are enough"


@pytest.mark.parametrize(("right", "wrong"), [(RIGHT[:2], WRONG), (RIGHT, []), ([RIGHT[0]] * 3, WRONG)])
def test_with_fewer_marks_everything_stays_as_it_is(
    collection: wherein.Collection, right: list[str], wrong: list[str]
) -> None:
    collection.search(["red", *collection.marks(right=RIGHT, wrong=WRONG)])
    marks = collection.marks(right=right, wrong=wrong)
    found, moved = (collection.search(["red", *parts], k=17) for parts in (marks, unmarked(marks)))
    assert [(hit.image_id, hit.score) for hit in found] == [(hit.image_id, hit.score) for hit in moved]
    assert found.notes == moved.notes


def test_places_regions_and_texts_to_avoid_count_beside_what_was_learned(collection: wherein.Collection) -> None:
    marks = collection.marks(right=RIGHT, wrong=WRONG)
    avoided = collection.search(["red", Part(text="blue", negative=True), *marks], k=17)
    assert (avoided.score_kind, avoided.notes[0]) == ("standardised", NOTE)
    assert set(ids(avoided)[:6]) == {f"meant{n}.png" for n in range(6)}
    placed = collection.search(["green on the right", *marks], method="patches", k=6, locate=True)
    assert NOTE in placed.notes
    assert set(ids(placed)) == {f"meant{n}.png" for n in range(6)}


def test_a_search_that_decides_is_as_sure_as_the_words_alone_are(collection: wherein.Collection) -> None:
    decided = collection.search(["red", *collection.marks(right=RIGHT, wrong=WRONG)], min_confidence=0.0)
    assert any(NOTE in note for note in decided.notes)
    assert "confidence" in decided.notes[-1]


def test_marks_are_images_of_the_collection(collection: wherein.Collection) -> None:
    with pytest.raises(ImageNotFound):
        collection.marks(right=["nowhere.png"])
    with pytest.raises(QueryError, match="image_id"):
        Part(text="red", image_id="red.png")
    assert str(Query(collection.marks(right=["red.png"]))) == "red.png^0.75"


def test_marks_on_the_page_are_learned_from_and_unmarking_undoes_it(
    collection: wherein.Collection, streets: Path, serve: Callable[..., str]
) -> None:
    address = f"{serve(streets)}/api/v1/collections/streets"
    with httpx.Client(trust_env=False, timeout=30) as http:

        def asked(liked: list[str], disliked: list[str]) -> dict[str, object]:
            body = {"parts": [{"words": "red"}], "k": 6, "liked": liked, "disliked": disliked}
            found: dict[str, object] = http.post(f"{address}/search", json=body).raise_for_status().json()
            return {"hits": found["hits"], "notes": found["notes"]}

        before = asked(RIGHT[:2], WRONG)
        learned = asked(RIGHT, WRONG)
        here = collection.search(["red", *collection.marks(right=RIGHT, wrong=WRONG)], k=6)
        assert [hit["image_id"] for hit in learned["hits"]] == ids(here)  # type: ignore[attr-defined]
        assert learned["notes"] == list(here.notes)
        assert asked(RIGHT[:2], WRONG) == before
        assert NOTE not in before["notes"]  # type: ignore[operator]


@pytest.mark.parametrize("inside", [True, False], ids=["as files", "as ids"])
def test_the_command_learns_from_files_and_ids(
    collection: wherein.Collection,
    streets: Path,
    inside: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command(*words: str) -> object:
        monkeypatch.setattr(sys, "argv", ["wherein", "search", "red", *words, "-c", str(streets), "--json"])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code

    monkeypatch.chdir(streets if inside else streets.parent)
    right, wrong = [f"--image={name}" for name in RIGHT], [f"--not={name}" for name in WRONG]
    assert command(*right, *wrong, "-k", "6") in (None, 0)
    written = capsys.readouterr()
    assert f"note: {NOTE}" in written.err
    found = json.loads(written.out)
    assert {hit["image_id"] for hit in found["hits"]} == {f"meant{n}.png" for n in range(6)}
    assert found["query"] == " + ".join(["red", *RIGHT, *(f"-{name}" for name in WRONG)])
    assert command("--not=lost.png") == 2
    assert "lost.png" in capsys.readouterr().err
