"""Adapters: what they move, what they leave alone, and that they abstain where nothing is gained."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.arrays import unit
from wherein.errors import InputError
from wherein.training.adapter import KEPT, alike, learn_move
from wherein.values.records import Progress

DIM = 48


def directions(count: int, seed: int) -> np.ndarray:
    return unit(np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32))


def scene(*, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Names of four labels, twenty images of each in a direction that its name only hints at, and who shows what."""
    names, meant = directions(4, 1), directions(4, 2)
    random = np.random.default_rng(3)
    images = np.repeat(meant + 0.2 * names, 20, axis=0) + noise * random.standard_normal((80, DIM))
    marks = np.where(np.repeat(np.arange(4), 20)[None] == np.arange(4)[:, None], 1, -1).astype(np.int8)
    return names, unit(images.astype(np.float32)), marks


def test_names_learn_what_they_mean_here_and_usual_texts_stay() -> None:
    names, images, marks = scene(noise=0.15)
    usual = directions(500, 4)
    move = learn_move(names, images, marks, usual, seed=0)
    assert move.after > move.before + 0.05
    assert move.kept >= KEPT
    moved = unit(usual + usual @ move.matrix)
    assert float(np.einsum("nd,nd->n", usual, moved).mean()) == pytest.approx(move.kept, abs=1e-4)
    own, other = ((names + names @ move.matrix) @ images.T)[marks == 1], ((names) @ images.T)[marks == 1]
    assert own.mean() > other.mean()


def test_it_abstains_where_labels_mean_nothing() -> None:
    names, images, marks = scene(noise=0.15)
    shuffled = np.random.default_rng(0).permutation(80)
    move = learn_move(names, images, marks[:, shuffled], directions(500, 4), seed=0)
    assert move.abstains
    assert not move.matrix.any()
    assert move.before == move.after


def test_one_example_each_cannot_be_held_out_so_nothing_is_moved() -> None:
    names, images, _ = scene(noise=0.15)
    marks = np.where(np.eye(4), 1, -1).astype(np.int8)
    assert learn_move(names, images[::20], marks, directions(50, 4), seed=0).abstains


def test_the_same_seed_gives_the_same_numbers() -> None:
    names, images, marks = scene(noise=0.3)
    one, two = (learn_move(names, images, marks, directions(100, 4), seed=5) for _ in range(2))
    assert np.array_equal(one.matrix, two.matrix)


def test_images_are_alike_where_they_show_the_same() -> None:
    marks = np.array([[1, -1], [1, 1], [-1, 1], [0, 1]], np.int8)
    assert alike(marks).tolist() == [[0, 1, -1, -1], [1, 0, 1, 1], [-1, 1, 0, 1], [-1, 1, 1, 0]]


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[wherein.Collection]:
    """Ten pictures each of three colours, tagged `warm`, `cold` and `fresh`."""
    photos = tmp_path / "photos"
    photos.mkdir()
    tags = {"warm": (230, 90, 20), "cold": (20, 60, 200), "fresh": (40, 180, 60)}
    random = np.random.default_rng(0)
    for tag, colour in tags.items():
        for number in range(10):
            picture = np.clip(np.array(colour) + random.integers(-60, 61, (48, 48, 3)), 0, 255).astype(np.uint8)
            picture[:, : 2 * number] = random.integers(0, 256, 3)
            PIL.Image.fromarray(picture).save(photos / f"{tag}{number}.png")
    with wherein.open(photos, create=True, encoder="mini") as opened:
        opened.add(photos, layers=["global", "patches"])
        for tag in tags:
            opened.tag(tag, [f"{tag}{n}.png" for n in range(10)])
        yield opened


def test_an_adapter_is_an_encoder_for_every_query(collection: wherein.Collection) -> None:
    seen = list[Progress]()
    card = collection.train("here", kind="adapter", on_progress=seen.append)
    assert (card.spec, card.kind, card.labels) == ("mini:here", "adapter", ())
    assert [before <= after for _, before, after in card.figures] == [True, True]
    assert (seen[-1].done, seen[-1].total) == (seen[-1].total, seen[-1].total)
    plain, moved = (collection.search("cold", method=method, k=30) for method in ("mini", "mini:here"))
    right = [sum(hit.image_id.startswith("cold") for hit in found[:10]) for found in (plain, moved)]
    assert right[1] >= right[0]
    assert card.figures[0][2] == card.figures[0][1] or [h.score for h in plain] != [h.score for h in moved]
    example = collection.folder.parent / "warm0.png"
    assert collection.search(example, method="mini:here", k=1)[0].image_id == "warm0.png"
    assert collection.search("cold", method="mini:here+patches", k=3, locate=True)[0].mask is not None
    with pytest.raises(InputError, match="has no labels"):
        collection.label("here")
    again = collection.train("here", "again")
    assert (again.kind, again.figures) == ("adapter", card.figures)


def test_an_adapter_that_was_stopped_goes_on(collection: wherein.Collection) -> None:
    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.done > progress.total / 2:
            raise Stop

    whole = collection.train("unbroken", kind="adapter")
    with pytest.raises(Stop):
        collection.train("here", kind="adapter", on_progress=stop)
    seen = list[Progress]()
    again = collection.train("here", kind="adapter", on_progress=seen.append)
    assert seen[0].done > seen[0].total / 2
    assert again.figures == whole.figures
