"""Fine-tuning with torch: it learns, ends early, goes on where it stopped, and the model is an encoder as any other."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.bench.evaluation import Evaluation
from wherein.cli import main
from wherein.encoders import load
from wherein.errors import InputError, MissingExtra
from wherein.images.image import Pixels
from wherein.training.examples import Examples
from wherein.training.full import History, Recipe, TrainingViews, fine_tune
from wherein.training.towers import require_trainable
from wherein.training.tuning import around, shown_of
from wherein.values.records import Progress
from wherein.values.region import Box

QUICK = Recipe(rate=3e-3, rounds=4, fixed_rounds=2, batch=8)


@pytest.fixture(scope="module")
def model(toy: Callable[[str], Path]) -> Path:
    """A tiny CLIP."""
    return toy("clip")


def shown(count: int = 24) -> TrainingViews:
    """Noisy pictures of two colours, for the texts `red` and `blue`."""
    random = np.random.default_rng(0)
    colours = np.array([[220, 30, 30], [30, 30, 220]])[np.arange(count) % 2]
    pictures = np.clip(colours[:, None, None] + random.integers(-30, 31, (count, 32, 32, 3)), 0, 255).astype(np.uint8)
    marks = np.where(np.arange(count)[:, None] % 2 == np.arange(2), 1, -1).astype(np.int8)

    def images(numbers: Sequence[int]) -> Pixels:
        return pictures[list(numbers)]

    return TrainingViews(images, marks, count, list(range(count)), (("red", "a red photo"), ("blue",)))


def test_a_model_learns_which_pictures_a_text_means(model: Path, tmp_path: Path) -> None:
    best, history = fine_tune(load(f"hf:{model}"), shown(), tmp_path / "work", recipe=QUICK)
    assert history.after >= history.before
    tuned, texts = load(f"hf:{best}"), ["red", "blue"]
    before, after = (
        one.images(shown().images(range(24))).global_ @ one.texts(texts).T for one in (load(f"hf:{model}"), tuned)
    )
    margin = [
        float((np.diff(scores, axis=1)[:, 0] * np.where(np.arange(24) % 2, 1, -1)).mean()) for scores in (before, after)
    ]
    assert margin[1] > margin[0] + 0.05


def test_a_stopped_training_goes_on_and_gives_the_same_weights(model: Path, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(done: int, _total: int) -> None:
        if done == 2:
            raise Stop

    endless = Recipe(rate=3e-3, rounds=4, fixed_rounds=4, batch=8, patience=9)
    few = shown(8)  # too few to hold any out: every round is kept
    through, history = fine_tune(load(f"hf:{model}"), few, tmp_path / "through", recipe=endless)
    with pytest.raises(Stop):
        fine_tune(load(f"hf:{model}"), few, tmp_path / "stopped", recipe=endless, on_step=stop)
    again, resumed = fine_tune(load(f"hf:{model}"), few, tmp_path / "stopped", recipe=endless)
    assert history == resumed == History(0.0, [0.0] * 4, 4, history.kept)
    assert history.kept < 1.0
    one, two = (load(f"hf:{folder}").texts(["red", "blue"]) for folder in (through, again))
    assert np.array_equal(one, two)


def test_boxes_are_images_of_their_own_and_say_nothing_of_what_else_is_there() -> None:
    marks = np.array([[1, 1, -1], [-1, -1, 1]], np.int8)
    boxes = {(0, 1): (Box(0.5, 0.5, 1.0, 1.0), Box(0.0, 0.0, 0.01, 0.5))}
    examples = Examples(("cat", "dog", "tree"), ("a", "b"), marks, boxes, texts={"tree": ("an oak", "a birch")})
    pictures = {"a": np.zeros((40, 80, 3), np.uint8), "b": np.full((30, 30, 3), 255, np.uint8)}
    pictures["a"][20:, 40:] = 200
    found = shown_of(examples, load("toy"), lambda image_id: pictures[image_id])
    assert (found.whole, list(found.owners)) == (2, [0, 1, 0])
    assert found.marks.tolist() == [[1, 1, -1], [-1, -1, 1], [0, 1, -1]]
    assert found.texts == (("a photo of cat", "cat"), ("a photo of dog", "dog"), ("an oak", "a birch"))
    assert found.images([2]).mean() > found.images([0]).mean()
    assert around(Box(0.5, 0.5, 1.0, 1.0)).xyxy == pytest.approx((0.4, 0.4, 1.0, 1.0))


def test_a_fine_tuned_model_is_trained_kept_and_searched_as_an_encoder(model: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(6):
        PIL.Image.fromarray(shown().images([number])[0]).save(photos / f"{number}.png")
    with wherein.open(photos, create=True, encoder=f"hf:{model}") as collection:
        collection.add(photos, layers=["global"])
        collection.tag("red", ["0.png", "2.png"])
        collection.tag("blue", ["1.png", "3.png"])
        seen = list[Progress]()
        card = collection.train("colours", kind="full", on_progress=seen.append)
        assert (card.spec, card.kind, seen[-1].done) == (f"hf:{model}:colours", "full", seen[-1].total)
        assert "too few to hold some out" in " ".join(card.notes)
        assert not list((collection.folder / "derived" / "training").glob("colours*"))
        with pytest.raises(wherein.WhereinError, match="wherein index --encoder"):
            collection.search("red", method=card.spec)
        collection.add(encoder=card.spec, layers=["global"])
        assert collection.encoder == card.spec
        before = collection.search("red", k=6)
        assert {hit.image_id for hit in before} == {f"{n}.png" for n in range(6)}
    with wherein.open(photos) as collection:
        assert [hit.image_id for hit in collection.search("red", k=6)] == [hit.image_id for hit in before]
        with pytest.raises(InputError, match="has no labels"):
            collection.label("colours")


def test_the_command_says_that_images_must_be_described_anew(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(2):
        PIL.Image.fromarray(shown().images([number])[0]).save(photos / f"{number}.png")
    with wherein.open(photos, create=True, encoder=f"hf:{model}") as collection:
        collection.add(photos, layers=["global"])
        collection.tag("red", ["0.png"])
        collection.tag("blue", ["1.png"])
    monkeypatch.setattr(sys, "argv", ["wherein", "train", "colours", "--kind", "full", "-c", str(photos)])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr().out
    assert stopped.value.code in (None, 0)
    assert f"wherein index --encoder hf:{model}:colours" in said
    assert "search with it" not in said


def test_what_torch_cannot_train_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="the kind head or the kind adapter"):
        require_trainable(load("toy"))
    gone: Any = None
    monkeypatch.setitem(sys.modules, "torch", gone)
    with pytest.raises(MissingExtra, match=r"pip install 'wherein\[hf\]'"):
        require_trainable(load("toy"))


def test_searchad_is_fine_tuned_on_train_and_measured_on_val(
    model: Path, tmp_path: Path, searchad_data: Path, go: Callable[..., Evaluation]
) -> None:
    found = go("searchad", searchad_data, tmp_path / "out", method=f"hf:{model}", train="full")
    assert set(found.scores["sources"]) == {"kitti"}
    assert found.scores["sources"]["kitti"]["labels"] == 3
    assert "too few to hold some out" in " ".join(found.warnings)
