"""Boxes of examples: what patches of a label look like, and that they are left alone where they teach nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.training.examples import Examples
from wherein.training.places import place_vectors
from wherein.values.region import Box

BASIS = np.eye(6, dtype=np.float32)
WHERE = Box(0.0, 0.0, 0.5, 0.5)


def grid(*, marked: bool, noise: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Four by four patches of noise; a marked one shows something in its upper left quarter."""
    found = 0.2 * np.random.default_rng(noise).standard_normal((4, 4, 6)).astype(np.float32)
    if marked:
        found[:2, :2, 0] += 2.0
    return found


def taught(*, at: Box) -> tuple[np.ndarray[Any, np.dtype[np.float32]], tuple[str, ...]]:
    """What six images teach of which three show a mark."""
    grids = [grid(marked=row < 3, noise=row) for row in range(6)]
    marks = np.array([[1], [1], [1], [-1], [-1], [-1]], np.int8)
    boxes = {(row, 0): (at,) for row in range(3)}
    examples = Examples(("mark",), tuple("abcdef"), marks, boxes)
    usual = [grid(marked=False, noise=100 + row) for row in range(20)]
    return place_vectors(examples, grids.__getitem__, usual, basis=BASIS, texts=None, vectors=BASIS[5:6], seed=0)


def test_boxes_teach_what_patches_look_like() -> None:
    found, labels = taught(at=WHERE)
    assert labels == ("mark",)
    assert float(found[0, 0]) > 0.6, "the mark"
    assert float(found[0, 5]) > 0.6, "and what whole images are compared with"


def test_boxes_of_nothing_in_particular_change_nothing() -> None:
    examples = Examples(("mark",), ("a", "b"), np.array([[1], [-1]], np.int8))
    found, labels = place_vectors(
        examples,
        lambda row: grid(marked=False, noise=row),
        [grid(marked=False, noise=9)],
        basis=BASIS,
        texts=None,
        vectors=BASIS[5:6],
        seed=0,
    )
    assert labels == ()
    assert np.array_equal(found, BASIS[5:6])


@pytest.fixture
def photos(tmp_path: Path) -> Iterator[wherein.Collection]:
    """Grey pictures; the first six have a red spot, which is on another side in each, and the others a blue one."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(12):
        picture = np.full((128, 128, 3), 90 + 10 * number, np.uint8)
        left = 64 * (number % 2)
        picture[32:96, left : left + 64] = (230, 20, 20) if number < 6 else (20, 20, 230)
        PIL.Image.fromarray(picture).save(folder / f"{number:02}.png")
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder, layers=("global", "patches", "thumbs"))
        yield collection


def test_a_label_with_boxes_is_searched_in_places_by_what_they_show(photos: wherein.Collection) -> None:
    spots = [(number, [64 * (number % 2), 32, 64, 64], number < 6) for number in (0, 1, 2, 3, 6, 7, 8, 9)]
    document = {
        "images": [{"id": n, "file_name": f"{n:02}.png", "width": 128, "height": 128} for n, _, _ in spots],
        "categories": [{"id": 1, "name": "stop"}, {"id": 2, "name": "sea"}],
        "annotations": [{"id": n, "image_id": n, "category_id": 1 if red else 2, "bbox": box} for n, box, red in spots],
    }
    card = photos.train("spots", document)
    assert any("boxes taught" in note for note in card.notes)
    found = photos.search("label:stop", method="toy:spots+patches", k=6)
    assert {hit.image_id for hit in found} == {f"{n:02}.png" for n in range(6)}
    for hit in found:
        assert hit.box is not None
        middle = (hit.box.x1 + hit.box.x2) / 2
        assert (middle > 0.5) == (int(hit.image_id[:2]) % 2 == 1), "it points at the spot"
    assert {hit.confidence for hit in found} == {None}, "what is known of whole images says nothing of patches"
