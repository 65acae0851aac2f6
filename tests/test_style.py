"""Plain words are read as photographs; words of style find drawings as before."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

import wherein
from wherein.arrays import Floats
from wherein.demo import PHOTOS
from wherein.encoders import load
from wherein.index.rows import in_memory
from wherein.search.style import RAMP, Drawn, asks_for_style, photo_direction, style_note


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wherein.Collection]:
    """The demonstration's photographs, and a drawn cat on white."""
    folder = tmp_path_factory.mktemp("mixed")
    for photo in PHOTOS.glob("*.jpg"):
        (folder / photo.name).write_bytes(photo.read_bytes())
    cv2.imwrite(str(folder / "drawn.png"), drawn_cat())
    with wherein.open(folder, create=True) as collection:
        collection.add(folder)
        yield collection


def drawn_cat() -> np.ndarray:
    """Clip art of a cat's face: flat colours, thick lines, nothing behind it."""
    canvas = np.full((400, 400, 3), 255, np.uint8)
    orange, black, pink = (60, 160, 250), (20, 20, 20), (180, 150, 250)
    for ear in ([[90, 170], [110, 50], [190, 120]], [[310, 170], [290, 50], [210, 120]]):
        cv2.fillPoly(canvas, [np.array(ear, np.int32)], orange)
        cv2.polylines(canvas, [np.array(ear, np.int32)], True, black, 6)
    cv2.ellipse(canvas, (200, 220), (130, 115), 0, 0, 360, orange, -1)
    cv2.ellipse(canvas, (200, 220), (130, 115), 0, 0, 360, black, 6)
    for x in (150, 250):
        cv2.ellipse(canvas, (x, 195), (22, 28), 0, 0, 360, (255, 255, 255), -1)
        cv2.ellipse(canvas, (x, 200), (9, 18), 0, 0, 360, black, -1)
    cv2.fillPoly(canvas, [np.array([[185, 245], [215, 245], [200, 262]], np.int32)], pink)
    for side in (-1, 1):
        cv2.ellipse(canvas, (200 + 22 * side, 264), (22, 18), 0, 0, 180, black, 5)
        for dy in (-12, 8, 28):
            cv2.line(canvas, (200 + 60 * side, 250 + dy // 2), (200 + 165 * side, 240 + dy), black, 4)
    return canvas


@pytest.mark.parametrize("text", ["cartoon dog", "Company LOGOS", "a sketch", "dog clip art", "a map", "emojis"])
def test_words_of_style_are_heard(text: str) -> None:
    assert asks_for_style(text)


@pytest.mark.parametrize("text", ["", "dog", "a forest", "an iconic heartthrob", "mapping drones"])
def test_other_words_mean_photographs(text: str) -> None:
    assert not asks_for_style(text)


def shares_of(rows: Floats) -> Floats:
    """How drawn each of the images of these embeddings looks."""
    everything = np.arange(len(rows))
    return Drawn(in_memory(rows, everything), load("mini"), everything).shares(everything)


def test_only_the_side_of_the_drawings_loses() -> None:
    direction = photo_direction(load("mini"))
    assert direction is not None
    rows = np.outer(np.array([0.2, 0.1, 0.0, -RAMP / 2, -1.0], np.float32), direction)
    assert shares_of(rows).tolist() == pytest.approx([0.0, 0.0, 0.0, 0.5, 1.0])
    # where most of a collection is drawn, the usual drawing keeps its score
    assert shares_of(rows[3:].repeat(2, axis=0)[:3]).tolist() == pytest.approx([0.0, 0.0, 1.0])
    assert shares_of(rows[:0]).shape == (0,)


def test_a_drawing_that_would_have_been_shown_is_told() -> None:
    scores, after = np.array([1.0, -1.0, 1.0, -1.0], np.float32), np.array([-2.0, -1.0, 1.0, -2.5], np.float32)
    assert style_note(scores, after, last=-1.0)[0].startswith("2 drawings stand lower")
    assert style_note(scores, after, last=-3.0) == ()


def test_the_toy_encoder_tells_no_drawing_from_a_photograph() -> None:
    assert photo_direction(load("toy")) is None


def test_a_bare_word_finds_the_photograph_and_a_word_of_style_the_drawing(mixed: wherein.Collection) -> None:
    plain = mixed.search("cat", k=3)
    assert plain[0].image_id == "cat.jpg"
    assert "drawn.png" not in [hit.image_id for hit in plain]
    assert plain.notes[0].startswith("1 drawing stands lower, because plain words are read as photographs.")
    others = [one for one in mixed.image_ids() if one != "drawn.png"]
    assert mixed.search("cat", k=3, among=others).notes == (), "what was not searched does not stand lower"
    switched_off = mixed.search("cat", k=3, method="whole~any-style")
    assert "drawn.png" in [hit.image_id for hit in switched_off]
    assert switched_off.notes == ()
    assert mixed.search("cat clip art", k=1)[0].image_id == "drawn.png"


def test_examples_and_photographs_keep_their_scores(mixed: wherein.Collection, tmp_path: Path) -> None:
    picture = tmp_path / "asked.png"
    cv2.imwrite(str(picture), drawn_cat())
    assert mixed.search(picture, k=1)[0].image_id == "drawn.png"
    before = {hit.image_id: hit.score for hit in mixed.search("cat", k=50, method="whole~any-style")}
    after = {hit.image_id: hit.score for hit in mixed.search("cat", k=50)}
    photographs = ("cat.jpg", "coffee.jpg", "astronaut.jpg", "rocket.jpg")
    assert [after[name] for name in photographs] == [before[name] for name in photographs]
    assert after["drawn.png"] < before["drawn.png"]
