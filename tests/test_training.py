"""Heads: what a few examples teach, what bad labels are told, and that a stopped training goes on."""

import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.errors import InputError, QueryError, SpecError
from wherein.search.head import TEXT_MOST, Usual, as_common_here, learn_head, learn_label, standings, told_by
from wherein.training.examples import as_numbers, from_coco, from_judgements, from_numbers, from_tags, texts_of
from wherein.training.kept import Checkpoint, check_name, split_spec
from wherein.values.judgement import Curve
from wherein.values.records import Progress
from wherein.values.region import Box
from wherein.values.training import Card, said_label

COLOURS = {"red": (250, 10, 10), "blue": (10, 10, 250), "green": (0, 160, 0)}


def painted(folder: Path, name: str, colour: tuple[int, int, int], *, stripe: int) -> None:
    """A picture of one colour with a grey stripe as wide as said, so that no two are alike."""
    picture = np.full((64, 64, 3), colour, np.uint8)
    picture[:, : 2 + stripe] = 128
    folder.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(picture).save(folder / f"{name}.png")


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[wherein.Collection]:
    """Six pictures of each of three colours, indexed with the toy encoder."""
    for colour, value in COLOURS.items():
        for number in range(6):
            painted(tmp_path / "photos", f"{colour}{number}", value, stripe=3 * number)
    with wherein.open(tmp_path / "photos", create=True, encoder="toy") as opened:
        opened.add(tmp_path / "photos", layers=("global", "patches", "thumbs"))
        yield opened


def tag_two_each(collection: wherein.Collection) -> None:
    """Call the red ones `warm` and the blue ones `cold`: names that the encoder cannot know."""
    collection.tag("warm", [f"red{n}.png" for n in range(4)])
    collection.tag("cold", [f"blue{n}.png" for n in range(4)])


def test_a_trained_label_finds_what_its_tag_means_and_says_how_sure_it_is(collection: wherein.Collection) -> None:
    tag_two_each(collection)
    card = collection.train("mood", "tags")
    assert (card.spec, card.kind, card.images) == ("toy:mood", "head", 8)
    assert [(one.label, one.right, one.wrong) for one in card.labels] == [("cold", 4, 4), ("warm", 4, 4)]
    ranking = collection.search("label:warm", method="toy:mood", k=18)
    assert {hit.image_id for hit in ranking[:6]} == {f"red{n}.png" for n in range(6)}
    sure = {hit.image_id: hit.confidence for hit in ranking}
    assert all(value is not None for value in sure.values())
    assert min(float(sure[f"red{n}.png"] or 0) for n in range(6)) > max(
        float(sure[f"blue{n}.png"] or 0) for n in range(6)
    )
    assert collection.search("label:cold", method="toy:mood", k=1, min_confidence=0.5)[0].image_id.startswith("blue")


def test_plain_words_mean_what_they_meant_and_labels_add_to_them(collection: wherein.Collection) -> None:
    tag_two_each(collection)
    collection.train("mood")
    plain = [(hit.image_id, hit.score) for hit in collection.search("green", k=18)]
    assert [(hit.image_id, hit.score) for hit in collection.search("green", method="toy:mood", k=18)] == plain
    both = collection.search(["label:warm", "green"], method="toy:mood", k=18)
    assert both.score_kind == "standardised"
    assert {hit.image_id for hit in both[:12]} == {f"{colour}{n}.png" for colour in ("red", "green") for n in range(6)}
    located = collection.search("label:warm", method="toy:mood", k=1, locate=True)[0]
    assert located.mask is not None


@pytest.mark.parametrize(
    ("ask", "method", "said"),
    [
        ("label:warm", "toy", "search by the method toy:mood"),
        ("label:wram", "toy:mood", "Did you mean 'warm'?"),
        ("label:lamp", "", "teach it first"),
    ],
)
def test_a_label_that_is_not_known_is_answered_with_the_way_out(
    collection: wherein.Collection, ask: str, method: str, said: str
) -> None:
    tag_two_each(collection)
    collection.train("mood")
    with pytest.raises(QueryError, match=said.replace("?", r"\?")):
        collection.search(ask, method=method)


@pytest.mark.parametrize(
    "name", ["dense", "toy", "patches", "sp", "dba", "8", "no spaces", "", "a/b", "../x", "a:b", "x" * 65]
)
def test_names_that_cannot_be_written_or_mean_something_already_are_refused(
    collection: wherein.Collection, name: str
) -> None:
    tag_two_each(collection)
    with pytest.raises(InputError, match=r"taken|cannot be a name"):
        collection.train(name)
    assert collection.trained() == []


def test_a_name_stands_after_the_last_colon() -> None:
    assert split_spec("hf:org/name:pylons") == ("hf:org/name", "pylons")
    check_name("pylons", "hf:org/name")
    assert said_label(" Label: traffic cone ") == "traffic cone"
    assert said_label("a label: on a box") is None


def test_what_was_trained_is_listed_exported_taken_in_and_removed(collection: wherein.Collection) -> None:
    tag_two_each(collection)
    card = collection.train("mood")
    (listed,) = collection.trained()
    assert listed == card
    assert Card.from_dict(json.loads(json.dumps(listed.to_dict()))) == listed
    data = collection.export_trained("mood")
    collection.remove_trained("mood")
    assert collection.trained() == []
    with pytest.raises(SpecError, match="nothing is trained here yet"):
        collection.trained_card("mood")
    with pytest.raises(SpecError, match="toy:mood does not exist"):
        collection.search("red", method="toy:mood")
    assert collection.import_trained(data, name="again").spec == "toy:again"
    assert collection.search("label:warm", method="toy:again", k=1)[0].image_id.startswith("red")
    with pytest.raises(InputError, match="no archive"):
        collection.import_trained(b"not a zip")


def coco(entries: dict[str, list[tuple[str, list[float] | None]]]) -> dict[str, Any]:
    """A COCO document of 64 × 64 images and what each shows."""
    names = sorted({label for shown in entries.values() for label, _ in shown})
    annotations = [
        {"id": number, "image_id": image, "category_id": names.index(label), **({} if box is None else {"bbox": box})}
        for number, (image, (label, box)) in enumerate(
            (image, one) for image, shown in enumerate(entries.values()) for one in shown
        )
    ]
    return {
        "images": [{"id": n, "file_name": name, "width": 64, "height": 64} for n, name in enumerate(entries)],
        "categories": [{"id": n, "name": name} for n, name in enumerate(names)],
        "annotations": annotations,
    }


def test_links_in_what_was_trained_are_neither_exported_nor_backed_up(
    collection: wherein.Collection, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("nobody may know")
    tag_two_each(collection)
    collection.train("mood")
    (collection.folder / "kept" / "trained" / "mood" / "extra.txt").symlink_to(secret)
    (collection.folder / "kept" / "trained" / "elsewhere").symlink_to(tmp_path)
    with zipfile.ZipFile(io.BytesIO(collection.export_trained("mood"))) as archive:
        assert sorted(archive.namelist()) == ["card.json", "numbers.npz"]
    collection.backup(tmp_path / "backup")
    assert not list((tmp_path / "backup").rglob("*.txt"))


def test_damaged_numbers_are_told_and_come_back(collection: wherein.Collection) -> None:
    tag_two_each(collection)
    collection.train("mood")
    (numbers,) = (collection.folder / "kept" / "trained" / "mood").glob("*.npz")
    before = [hit.score for hit in collection.search("label:warm", method="toy:mood")]
    data = bytearray(numbers.read_bytes())
    data[len(data) // 2] ^= 4
    numbers.write_bytes(data)
    with wherein.open(collection.folder) as opened, pytest.raises(InputError, match="brings it back from its copy"):
        opened.search("label:warm", method="toy:mood")
    assert collection.check().broken == (numbers,)
    with wherein.open(collection.folder) as opened:
        assert [hit.score for hit in opened.search("label:warm", method="toy:mood")] == before


def test_what_an_older_version_trained_is_read_and_replaced(collection: wherein.Collection) -> None:
    tag_two_each(collection)
    collection.train("mood")
    folder = collection.folder / "kept" / "trained" / "mood"
    (numbers,) = folder.glob("*.npz")
    numbers.rename(folder / "numbers.npz")
    document = json.loads((folder / "card.json").read_text())
    del document["files"]
    (folder / "card.json").write_text(json.dumps(document))
    shutil.rmtree(collection.folder / "copies" / "kept" / "trained")
    with wherein.open(collection.folder) as opened:
        assert len(opened.search("label:warm", method="toy:mood")) > 0
        opened.train("mood")
        assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".npz"]
        assert not (folder / "numbers.npz").exists()
        assert opened.check().broken == ()
        opened.remove_trained("mood")
        assert opened.check().broken == ()
        assert opened.trained() == []


def test_a_coco_file_teaches_and_says_what_it_left_out(collection: wherein.Collection, tmp_path: Path) -> None:
    shown: dict[str, list[tuple[str, list[float] | None]]] = {
        f"red{n}.png": [("warm", [4.0, 4.0, 20.0, 20.0])] for n in range(3)
    }
    shown |= {f"blue{n}.png": [("cold", None)] for n in range(3)}
    shown |= {"left.png": [("warm", None)], "green0.png": [("warm", [5.0, 5.0, 0.0, 9.0])], "green1.png": []}
    file = tmp_path / "labels.json"
    file.write_text(json.dumps(coco(shown)))
    card = collection.train("boxed", file)
    assert card.source == "labels.json"
    assert [(one.label, one.right, one.wrong) for one in card.labels] == [("cold", 3, 5), ("warm", 3, 4)]
    assert card.notes == (
        "1 of 9 images of the file are not in the collection and were left out: left.png.",
        "1 annotations were left out: their boxes are empty or outside the image.",
        "warm: boxes taught what patches of it look like.",
    )


def test_judgements_teach_their_query_as_a_label() -> None:
    judged = {"a dog → a.jpg": [0.3, 1.0], "a dog → b.jpg": [0.2, 0.0], "a cat → b.jpg": [0.4, 1.0]}
    examples = from_judgements([judged])
    assert examples.labels == ("a cat", "a dog")
    assert examples.marks.tolist() == [[0, 1], [1, -1]]
    usable = examples.usable()
    assert (usable.labels, usable.notes) == (("a dog",), ("a cat: left out, it has no wrong example.",))


@pytest.mark.parametrize(
    ("tagged", "said"),
    [
        ({}, "no image of the collection bears a label"),
        ({"warm": ["red0.png"]}, "only one label is there \\(warm\\)"),
        ({"warm": ["red0.png"], "cold": ["red0.png"]}, "nothing says what is not one"),
    ],
    ids=["no tags", "one tag", "two tags on the same images"],
)
def test_labels_that_teach_nothing_are_refused_with_the_way_out(
    collection: wherein.Collection, tagged: dict[str, list[str]], said: str
) -> None:
    for tag, image_ids in tagged.items():
        collection.tag(tag, image_ids)
    with pytest.raises(InputError, match=said):
        collection.train("mood")
    assert collection.trained() == []
    assert not (collection.folder / "kept" / "trained").exists()


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"images": 3, "categories": [], "annotations": []},
        {"images": [{"id": 1}], "categories": [], "annotations": []},
        coco({"red0.png": [("warm", None)]}) | {"annotations": [{"image_id": 7, "category_id": 0}]},
        coco({"red0.png": [("warm", None)]}) | {"annotations": ["?"]},
    ],
)
def test_files_that_are_no_coco_are_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"COCO|not among the file's"):
        from_coco(broken, lambda name: name, name="labels.json")


def test_images_that_left_since_they_were_labelled_are_counted(collection: wherein.Collection) -> None:
    collection.search("red", k=1)
    collection._curves.judge(
        {
            "toy text": {
                f"warm → {name}": (0.5, right)
                for name, right in [("red0.png", True), ("red1.png", True), ("blue0.png", False), ("gone.png", False)]
            }
        }
    )
    card = collection.train("mood", "judgements")
    assert card.images == 3
    assert card.notes[-1].startswith("1 labelled images are not in the collection any more")


def test_a_stopped_training_goes_on_and_gives_the_same_numbers(collection: wherein.Collection) -> None:
    tag_two_each(collection)
    collection.tag("fresh", [f"green{n}.png" for n in range(3)])
    uncut = collection.train("uncut")

    def stop(progress: Progress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collection.train("mood", on_progress=stop)
    assert [card.name for card in collection.trained()] == ["uncut"]
    told = list[int]()
    card = collection.train("mood", on_progress=lambda progress: told.append(progress.done))
    assert told == [3]  # two were known
    assert card.labels == uncut.labels
    first, second = (collection._here.numbers(name)["vectors"] for name in ("mood", "uncut"))
    np.testing.assert_array_equal(first, second)
    assert list((collection.folder / "derived" / "training").iterdir()) == []


def test_another_training_does_not_take_up_what_was_left(tmp_path: Path) -> None:
    one, other = (Checkpoint.of(tmp_path, "a", "toy", np.arange(n)) for n in (3, 4))
    one.write({"x": np.arange(2)})
    found = one.read()
    assert found is not None
    assert found["x"].tolist() == [0, 1]
    assert other.read() is None
    one.clear()
    assert one.read() is None


def test_held_out_values_are_those_of_a_training_without_the_example() -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((12, 6)).astype(np.float32)
    right, usual = np.arange(12) < 5, Usual.of(random.standard_normal((40, 6)).astype(np.float32))
    text = random.standard_normal(6).astype(np.float32)
    learnt, by_text = learn_label(rows, right, usual, text=text)
    together = learnt.plus(by_text, 0.3)
    # A wrong example that is left out must leave the other weights as they were, so it is made to count nothing.
    design = np.c_[usual.centred(np.concatenate([rows, usual.sample])), np.ones(52)]
    from wherein.search import head

    weights = np.r_[np.where(right, 1 / 5, (1 - head.UNLABELLED) / 7), np.full(40, head.UNLABELLED / 40)]
    scores = usual.sample @ text
    added = 0.3 * (np.concatenate([rows, usual.sample]) @ text - scores.mean()) / scores.std()
    wanted = np.r_[np.where(right, 1.0, -1.0), np.full(40, -1.0)] - added
    for left_out in ([0], [7], [0, 7], [4, 11]):
        kept = weights.copy()
        kept[left_out] = 0.0
        gram = (design * kept[:, None]).T @ design + np.diag([head.RIDGE] * 6 + [1e-9])
        found = np.linalg.solve(gram, (design * kept[:, None]).T @ wanted)
        unseen = (design @ found + added)[left_out]
        if len(left_out) == 1:
            assert together.held_out[left_out[0]] == pytest.approx(unseen[0], abs=1e-4)
        else:
            assert together.margins[left_out[0], left_out[1] - 5] == pytest.approx(unseen[0] - unseen[1], abs=1e-4)


def test_standings_count_the_wrong_ones_above() -> None:
    nan = np.nan
    margins = np.array([[2, 1], [0, -1], [-4, nan], [nan, nan]], np.float32)
    assert standings(margins).tolist() == [1.0, pytest.approx(1 / 3), 0.5]


def test_names_that_mean_nothing_are_learnt_from_examples_and_known_ones_lean_on_the_text() -> None:
    random = np.random.default_rng(1)
    centres = np.eye(16, dtype=np.float32)[:4]
    rows = np.repeat(centres, 4, axis=0) + 0.9 * random.standard_normal((16, 16)).astype(np.float32)
    marks = np.where(np.repeat(np.eye(4), 4, axis=0) > 0, 1, -1).astype(np.int8)
    usual = Usual.of((centres[random.integers(0, 4, 300)] + 0.9 * random.standard_normal((300, 16))).astype(np.float32))
    labels = list("abcd")
    cosines = {
        known: [
            float(vector @ centre)
            for vector, centre in zip(
                learn_head(rows, marks, usual, labels=labels, texts=texts)[0].vectors, centres, strict=True
            )
        ]
        for known, texts in ((True, centres), (False, centres[::-1].copy()))
    }
    assert np.mean(cosines[True]) > np.mean(cosines[False]) + 0.1
    assert np.mean(cosines[False]) > 0.3


def test_a_text_counts_as_far_as_it_tells_right_examples_from_what_is_usual() -> None:
    random = np.random.default_rng(2)
    usual = Usual.of(random.standard_normal((400, 16)).astype(np.float32))
    text = np.eye(16, dtype=np.float32)[0]
    high, mixed, low = (np.outer(by, text).astype(np.float32) for by in ([4, 4, 4], [4, 0, -3], [-2, -2, -2]))
    assert told_by(text, high, usual) == TEXT_MOST
    assert 0.0 < told_by(text, mixed, usual) < 0.1
    assert told_by(text, low, usual) == 0.0


def test_examples_that_are_added_in_blocks_are_solved_as_all_at_once() -> None:
    random = np.random.default_rng(5)
    rows = random.standard_normal((600, 8)).astype(np.float32)
    usual, right = Usual.of(random.standard_normal((50, 8)).astype(np.float32)), np.arange(600) < 300
    from wherein.search import head

    weights = np.r_[np.where(right, 1 / 300, (1 - head.UNLABELLED) / 300), np.full(50, head.UNLABELLED / 50)]
    design = np.c_[usual.centred(np.concatenate([rows, usual.sample])), np.ones(650)]
    gram = (design * weights[:, None]).T @ design + np.diag([head.RIDGE] * 8 + [1e-9])
    found = np.linalg.solve(gram, (design * weights[:, None]).T @ np.r_[np.where(right, 1.0, -1.0), np.full(50, -1.0)])
    learnt, _ = learn_label(rows, right, usual)
    np.testing.assert_allclose(learnt.values(rows), design[:600] @ found, atol=1e-5)


def test_a_confidence_knows_how_common_the_right_ones_are() -> None:
    curve = Curve(0.0, 4.0)
    values = np.r_[np.full(10, 1.5), np.full(990, -1.5)].astype(np.float32)
    moved = as_common_here(curve, values, share=0.5)
    assert moved.slope == 4.0
    assert moved.confidence(values).mean() == pytest.approx(0.01, abs=0.005)


def test_tags_are_labels_and_only_the_wanted_ones_are_learnt() -> None:
    examples = from_tags({"cat": ["1", "2"], "dog": ["2", "3"]})
    assert examples.marks.tolist() == [[1, -1], [1, 1], [-1, 1]]
    assert examples.usable(["dog"]).labels == ("dog",)
    with pytest.raises(InputError, match="Did you mean 'dog'"):
        examples.usable(["dgo"])


def test_examples_are_kept_with_their_boxes_and_texts() -> None:
    plain = from_tags({"x7": ["a.png"], "cone": ["b.png"]})
    boxes = {(0, 1): (Box(0.0, 0.1, 0.5, 1.0), Box(0.2, 0.2, 0.3, 0.3))}
    kept = from_numbers(as_numbers(replace(plain, boxes=boxes, texts={"x7": ("a red car", "crimson")})))
    assert (kept.labels, kept.image_ids, kept.boxes) == (plain.labels, plain.image_ids, boxes)
    assert kept.texts == {"x7": ("a red car", "crimson")}
    assert np.array_equal(kept.marks, plain.marks)
    assert from_numbers({}).boxes == {}


def test_a_label_means_the_mean_of_its_texts_or_its_name() -> None:
    known = {"a red car": [1, 0, 0], "crimson": [0, 1, 0], "traffic cone": [0, 0, 2]}

    def embed(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.array([known[text] for text in texts], np.float32)

    examples = from_tags({"x7": ["a.png"], "traffic_cone": ["b.png"]})
    found = texts_of(replace(examples, texts={"x7": ("a red car", "crimson")}), embed)
    np.testing.assert_allclose(found, [[0, 0, 1], [0.5**0.5, 0.5**0.5, 0]], atol=1e-6)


@pytest.mark.parametrize("kind", ["tail", ""])
def test_a_kind_that_does_not_exist_is_refused(collection: wherein.Collection, kind: str) -> None:
    tag_two_each(collection)
    with pytest.raises(InputError, match="give one of head, adapter, full"):
        collection.train("mood", kind=kind)
    assert collection.trained() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one["annotations"][0].update(image_id=9), r"annotation 7: its image_id 9 is not among .*images"),
        (lambda one: one["annotations"][0].update(category_id="x"), r"annotation 7: its category_id 'x' is not among"),
        (lambda one: one["annotations"][0].pop("category_id"), r'annotation 7: has no "category_id"'),
        (lambda one: one["annotations"][0].update(bbox=[1, 2, 3]), r"its bbox \[1, 2, 3\] is not four numbers"),
        (
            lambda one: one["annotations"][0].update(bbox=["a", 1, 2, 3]),
            r"its bbox \['a', 1, 2, 3\] is not four numbers",
        ),
        (lambda one: one["categories"][0].update(name=" "), "category 1: has no name"),
    ],
)
def test_a_coco_file_that_contradicts_itself_is_told_where_and_why(
    change: Callable[[dict[str, Any]], object], said: str
) -> None:
    document: dict[str, Any] = {
        "images": [{"id": 1, "file_name": "a.png", "width": 10, "height": 10}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 7, "image_id": 1, "category_id": 1, "bbox": [0, 0, 5, 5]}],
    }
    change(document)
    with pytest.raises(InputError, match=said):
        from_coco(document, lambda name: name, name="labels.json")
