"""Predicted labels: files, tags that leave what people said alone, reviews, and the way back."""

import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.errors import InputError, QueryError
from wherein.output.labels import export_labels

Either = wherein.Collection | wherein.RemoteCollection
COLOURS = {"red": (250, 10, 10), "blue": (10, 10, 250), "green": (0, 160, 0)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight pictures of each of three colours; four reds are tagged `warm`, four blues `cold`."""
    pictures = tmp_path / "photos"
    pictures.mkdir()
    for colour, value in COLOURS.items():
        for number in range(8):
            picture = np.full((64, 64, 3), value, np.uint8)
            picture[:, : 2 + 3 * number] = 128
            PIL.Image.fromarray(picture).save(pictures / f"{colour}{number}.png")
    with wherein.open(pictures, create=True, encoder="toy") as made:
        made.add(pictures)
        made.tag("warm", [f"red{n}.png" for n in range(4)])
        made.tag("cold", [f"blue{n}.png" for n in range(4)])
        made.train("mood")
    return pictures


@pytest.fixture
def collection(folder: Path) -> Iterator[wherein.Collection]:
    with wherein.open(folder) as opened:
        yield opened


@pytest.fixture(params=["here", "served"])
def either(request: pytest.FixtureRequest, folder: Path) -> Iterator[Either]:
    """The collection itself, and the same behind a server."""
    if request.param == "here":
        with wherein.open(folder) as opened:
            yield opened
    else:
        serve: Callable[..., str] = request.getfixturevalue("serve")
        yield wherein.connect(serve(folder))


def warm(collection: Either) -> set[str]:
    return set(collection.image_ids(tags=["warm"]))


def test_predictions_are_what_a_search_for_the_label_says(collection: wherein.Collection) -> None:
    found = collection.label("mood", labels=["warm"], min_confidence=0.0)
    searched = collection.search("label:warm", method="toy:mood", k=24, min_confidence=0.0)
    assert [(one.image_id, one.confidence) for one in found.predictions] == [
        (hit.image_id, hit.confidence) for hit in searched
    ]
    assert [one.score for one in found.predictions] == pytest.approx([hit.score for hit in searched], abs=1e-5)
    sure = collection.label("mood", labels=["warm"], min_confidence=0.5)
    assert {one.image_id for one in sure.predictions} == {f"red{n}.png" for n in range(8)}
    assert collection.label("mood", folder="nowhere").predictions == ()


def test_labels_become_tags_and_leave_what_people_said_alone(either: Either) -> None:
    before = warm(either)
    either.answer("mood", "warm", "red7.png", right=False)
    found = either.label("mood", labels=["warm"], tag=True)
    assert (found.tagged, found.left) == (3, 5)  # four bear it already, of one a person said that it is none
    assert warm(either) == before | {"red4.png", "red5.png", "red6.png"}
    again = either.label("mood", labels=["warm"], tag=True)
    assert (again.tagged, again.left) == (0, 5)
    assert "red4.png" in {one.image_id for one in either.review("mood", "warm")}, "nobody has confirmed it yet"
    assert either.unlabel(found.step) == "3 tags taken off again."
    assert warm(either) == before


def test_only_images_that_pass_the_filters_are_labelled(either: Either) -> None:
    every = {one.image_id for one in either.label("mood", labels=["warm"]).predictions}
    tagged = {one.image_id for one in either.label("mood", labels=["warm"], tags="warm").predictions}
    assert tagged == every & warm(either) != every
    assert either.label("mood", folder="nowhere", tag=True).tagged == 0
    with pytest.raises(wherein.WhereinError, match="foldr"):
        either.label("mood", foldr="nowhere")  # type: ignore[call-arg]


def test_what_a_label_tagged_teaches_it_nothing_until_a_person_agrees(collection: wherein.Collection) -> None:
    collection.label("mood", tag=True)
    again = {one.label: (one.right, one.wrong) for one in collection.train("mood", "again").labels}
    assert again == {"warm": (4, 4), "cold": (4, 4)}
    collection.answer("mood", "warm", "red5.png", right=True)
    collection.answer("mood", "warm", "green1.png", right=False)
    again = {one.label: (one.right, one.wrong) for one in collection.train("mood", "again").labels}
    assert again["warm"] == (5, 5)


def test_a_review_begins_with_what_is_least_certain_and_asks_nothing_twice(either: Either) -> None:
    queue = either.review("mood", "warm", k=100)
    doubts = [abs(float(one.confidence or 0.0) - 0.5) for one in queue]
    assert doubts == sorted(doubts)
    known = {f"{colour}{n}.png" for colour in ("red", "blue") for n in range(4)}
    assert {one.image_id for one in queue}.isdisjoint(known)
    first = queue[0].image_id
    answer = either.answer("mood", "warm", first, right=True)
    assert first in warm(either)
    assert first not in {one.image_id for one in either.review("mood", "warm", k=100)}
    assert either.unlabel(answer.step) == "1 answer was taken back."
    assert first not in warm(either)
    assert first == either.review("mood", "warm", k=1)[0].image_id


def test_answers_change_what_a_label_means_after_training_again(collection: wherein.Collection) -> None:
    sure = {
        one.image_id: one.score for one in collection.label("mood", labels=["warm"], min_confidence=0.0).predictions
    }
    for number in range(8):
        collection.answer("mood", "warm", f"green{number}.png", right=True)
    collection.train("mood", "again")
    now = {one.image_id: one.score for one in collection.label("mood", labels=["warm"], min_confidence=0.0).predictions}
    assert all(now[f"green{n}.png"] > sure[f"green{n}.png"] for n in range(8))


def test_a_no_takes_a_tag_off_and_its_undo_puts_it_back(collection: wherein.Collection) -> None:
    collection.answer("mood", "warm", "red0.png", right=False)
    assert "red0.png" not in warm(collection)
    collection.unlabel()
    assert "red0.png" in warm(collection)
    with pytest.raises(InputError, match="can be taken back"):
        collection.unlabel()


def test_predictions_are_written_as_coco_and_csv(collection: wherein.Collection, tmp_path: Path) -> None:
    found = collection.label("mood")
    document = json.loads(export_labels(found, f"coco:{tmp_path / 'labels.json'}").read_text())
    assert [one["name"] for one in document["categories"]] == ["cold", "warm"]
    assert len(document["annotations"]) == len(found.predictions) == 16
    assert all(0.5 <= one["score"] <= 1.0 and one["bbox"] == [0, 0, 64, 64] for one in document["annotations"])
    taught = collection.train("copy", tmp_path / "labels.json")
    assert {one.label: one.right for one in taught.labels} == {"cold": 8, "warm": 8}
    rows = list(csv.DictReader(io.StringIO(export_labels(found, f"csv:{tmp_path / 'labels.csv'}").read_text())))
    assert [(row["image_id"], row["label"], float(row["confidence"])) for row in rows] == [
        (one.image_id, one.label, one.confidence) for one in found.predictions
    ]
    with pytest.raises(InputError, match="coco:FILE or csv:FILE"):
        export_labels(found, "xml:labels")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda found: found.label("nothing"), "nothing trained is called 'nothing'"),
        (lambda found: found.label("mood", labels=["wram"]), "Did you mean 'warm'"),
        (lambda found: found.label("mood", min_confidence=2.0), "from 0 to 1"),
        (lambda found: found.review("mood", "wram"), "Did you mean 'warm'"),
        (lambda found: found.answer("mood", "warm", "nowhere.png", right=True), "nowhere.png"),
        (lambda found: found.answer("mood", "warm", "red0.png", right="no"), "right = 'no': give True or False"),
        (lambda found: found.search("label:wram"), "no label 'wram' has been learnt; there are: cold, warm. Did you"),
    ],
    ids=[
        "an unknown name",
        "an unknown label",
        "a confidence above one",
        "a review of nothing",
        "an unknown image",
        "an answer that is neither yes nor no",
        "a search for an unknown label",
    ],
)
def test_what_cannot_be_labelled_is_refused_and_leaves_no_trace(
    collection: wherein.Collection, call: Callable[[wherein.Collection], object], said: str
) -> None:
    with pytest.raises(wherein.WhereinError, match=re.escape(said)):
        call(collection)
    assert not (collection.folder / "kept" / "answers.json").exists()


def test_a_label_that_nothing_bears_any_more_is_left_out_and_said_to_be(collection: wherein.Collection) -> None:
    cold = collection.image_ids(tags=["cold"])
    collection.untag("cold", cold)
    collection.tag("other", cold)
    again = collection.train("mood", "again")
    assert [one.label for one in again.labels] == ["warm"]
    assert "cold: left out, no image bears it any more." in again.notes


def test_a_label_needs_no_method_where_one_head_knows_it(collection: wherein.Collection) -> None:
    plain = [hit.image_id for hit in collection.search("label:warm", k=8)]
    assert plain == [hit.image_id for hit in collection.search("label:warm", method="toy:mood", k=8)]
    collection.train("second")
    with pytest.raises(QueryError, match="search by the method toy:mood"):
        collection.search("label:warm")


def wherein_says(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wherein", *words, "-c", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_writes_tags_reviews_and_takes_back(folder: Path, tmp_path: Path) -> None:
    done = wherein_says(folder, "label", "mood", "--tag", "--export", f"csv:{tmp_path / 'labels.csv'}")
    assert done.returncode == 0, done.stderr
    assert "8 tags given; 8 were left as people had said." in done.stderr
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 17
    done = wherein_says(folder, "label", "mood", "--review", "warm", "-k", "3", "--json")
    assert len(json.loads(done.stdout)) == 3
    done = wherein_says(folder, "label", "mood", "--review", "warm", "--no", "green0.png")
    assert done.stdout.splitlines() == ["green0.png: is not warm; kept for the next training."], (
        "the list is not told again"
    )
    done = wherein_says(folder, "label", "mood", "--review", "warm", "--no", "green1.png", "--json")
    assert [(one["image_id"], one["right"]) for one in json.loads(done.stdout)] == [("green1.png", False)]
    assert wherein_says(folder, "label", "--undo").stdout == "1 answer was taken back.\n"
    assert wherein_says(folder, "label", "--undo").stdout == "1 answer was taken back.\n"
    assert wherein_says(folder, "label", "--undo").stdout == "8 tags taken off again.\n"
    assert wherein_says(folder, "label").returncode == 2


def test_a_served_collection_trains_marks_and_forgets(folder: Path, serve: Callable[..., str]) -> None:
    remote = wherein.connect(serve(folder))
    card = remote.train("again", "tags", labels=["warm"])
    assert [one.label for one in card.labels] == ["warm"]
    assert [one.name for one in remote.trained()] == ["again", "mood"]
    assert remote.export_trained("again")[:2] == b"PK"
    remote.remove_trained("again")
    assert [one.name for one in remote.trained()] == ["mood"]
    marks = remote.marks(right=["red0.png", "red1.png", "red2.png"], wrong=["blue0.png"])
    found = remote.search(list(marks), k=8)
    assert {hit.image_id for hit in found} == {f"red{n}.png" for n in range(8)}
    assert "learned what is meant" in " ".join(found.notes)


def test_ctrl_c_ends_a_training_and_the_same_command_goes_on(folder: Path, tmp_path: Path) -> None:
    labels = range(1200)  # enough that it is at work for seconds
    images = [{"id": n, "file_name": f"red{n}.png", "width": 64, "height": 64} for n in range(8)]
    document = {
        "images": images,
        "categories": [{"id": n, "name": f"label {n}"} for n in labels],
        "annotations": [{"id": n, "image_id": n % 8, "category_id": n} for n in labels],
    }
    (tmp_path / "labels.json").write_text(json.dumps(document))
    with wherein.open(folder) as collection:
        collection.add(encoder="mini", layers=["global"])
    words = [sys.executable, "-m", "wherein", "train", "many", "-c", str(folder)]
    words += ["--from", str(tmp_path / "labels.json"), "--encoder", "mini"]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore Ctrl-C
    )
    begun = folder / ".wherein" / "derived" / "training"
    while process.poll() is None and not list(begun.glob("many.*.npz")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    with wherein.open(folder) as collection:
        assert [card.name for card in collection.trained()] == ["mood"]
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert not list(begun.glob("many.*.npz"))
