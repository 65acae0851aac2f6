"""`zoom`: the first hits looked at again, in their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein import Box, Part
from wherein.errors import QueryError

RED, GREY = (255, 0, 0), (128, 128, 128)
CORNER = Box(0.0, 0.0, 0.125, 0.125)


@pytest.fixture
def photos(tmp_path: Path) -> wherein.Collection:
    """`small` shows red in the very corner; `near` more of it, beside the corner; two more show none."""
    shown = {"small": (slice(0, 16), slice(0, 16)), "near": (slice(18, 40), slice(18, 40)), "one": None, "two": None}
    for name, place in shown.items():
        pixels = np.full((128, 128, 3), GREY, np.uint8)
        if place is not None:
            pixels[place] = RED
        PIL.Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    collection = wherein.open(tmp_path, create=True, encoder="toy")
    collection.add(tmp_path)
    return collection


def test_what_a_cell_blurs_is_seen_from_near(photos: wherein.Collection) -> None:
    asked = Part(text="red", where=CORNER)
    assert photos.search(asked, method="static-9~alone")[0].image_id == "near.png"
    zoomed = photos.search(asked, method="static-9~alone+zoom")
    assert zoomed[0].image_id == "small.png"
    assert zoomed.score_kind == "standardised"
    assert [hit.score for hit in zoomed] == sorted((hit.score for hit in zoomed), reverse=True)


def test_a_file_that_is_gone_is_ranked_by_what_is_kept(photos: wherein.Collection) -> None:
    (photos.folder.parent / "small.png").unlink()
    hits = photos.search(Part(text="red", where=CORNER), method="static-9~alone+zoom")
    assert {hit.image_id for hit in hits} == {"small.png", "near.png", "one.png", "two.png"}
    assert hits[0].image_id == "near.png"
    assert "zoom could not read 1 of the 4 files it looked at: they are ranked as before." in hits.notes


def test_without_a_place_there_is_nothing_to_look_at(photos: wherein.Collection) -> None:
    with pytest.raises(QueryError, match="name a place"):
        photos.search("red", method="patches+zoom")
