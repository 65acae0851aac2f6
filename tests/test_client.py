"""`wherein.connect`: the same objects and the same answers as the local collection and the command."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import PIL.Image
import pytest
from typer.testing import CliRunner

import wherein
from wherein.cli import app
from wherein.client import connect
from wherein.errors import CollectionError, CollectionNotFound, InputError
from wherein.server.settings import Settings
from wherein.values.query import Part
from wherein.values.region import Box

HALVES = np.zeros((20, 20, 3), np.uint8)
HALVES[:, :10, 0] = HALVES[:, 10:, 2] = 255
QUERIES: list[tuple[str, Any, dict[str, Any]]] = [
    ("a text", "red", {}),
    ("a text with a weight and a place", "blue in the upper left^2", {}),
    ("text and a negative", ["red", Part(text="blue", negative=True)], {"k": 3}),
    ("a place and a method", Part(text="green", where=Box(0.5, 0, 1, 1)), {"method": "static-5~best"}),
    ("an array", np.full((20, 20, 3), (255, 0, 0), np.uint8), {"k": 2}),
    ("a picture", PIL.Image.new("RGB", (30, 20), "blue"), {"folder": "holiday"}),
    ("an image with a box", "FILE", {"method": "patches"}),
    ("an image with a mask", Part(image=HALVES, mask=HALVES[:, :, 2] > 0), {"method": "whole+locate"}),
    ("among some", "red", {"among": ["blue.png", "holiday/half.png"]}),
    ("outlined", "red", {"method": "whole+locate"}),
    ("only one answer", "green", {"k": 1, "min_side": 10}),
    ("nothing passes", "green", {"min_side": 9999}),
    ("numbers of NumPy's", "red", {"k": np.int64(2), "min_side": np.uint8(5)}),
]


@pytest.mark.parametrize(("query", "options"), [case[1:] for case in QUERIES], ids=[case[0] for case in QUERIES])
def test_answers_are_equal(
    served: str, collection: wherein.Collection, folder: Path, query: Any, options: dict[str, Any]
) -> None:
    if isinstance(query, str) and query == "FILE":
        query = Part(image=folder / "holiday" / "half.png", box=Box(0, 0, 0.5, 1))
    here, there = collection.search(query, **options), connect(served).search(query, **options)
    assert [replace(hit, mask=None) for hit in there] == [replace(hit, mask=None, path=None) for hit in here]
    for one, other in zip(there, here, strict=True):
        assert (one.mask is None) == (other.mask is None)
        assert one.mask is None or other.mask is None or np.array_equal(one.mask, other.mask)
    assert replace(there, hits=()) == replace(here, hits=())


def test_the_command_gives_the_same(served: str, folder: Path) -> None:
    run = CliRunner().invoke(app, ["search", "red", "--not", "blue", "--json", "-c", str(folder)])
    said = json.loads(run.stdout)
    found = connect(served).search(["red", Part(text="blue", negative=True)])
    assert [(hit["image_id"], hit["score"]) for hit in said["hits"]] == [(hit.image_id, hit.score) for hit in found]


def test_pictures_and_what_belongs_to_them(served: str, collection: wherein.Collection) -> None:
    with connect(served) as remote:
        assert remote.thumb("red.png") == collection.thumb("red.png")
        assert remote.details("red.png") == replace(collection.details("red.png"), path=None)
        assert remote.frames("red.png") == ["red.png"]
        named = {"folder": Path("pictures/.wherein"), "roots": {"": Path("pictures")}}
        assert remote.info() == replace(collection.info(), **named)  # type: ignore[arg-type]
        assert "pictures" in repr(remote)


def test_a_token_in_the_address(collection: wherein.Collection, folder: Path, serve: Callable[..., str]) -> None:
    collection.add(folder)
    address = serve(folder, settings=Settings(token="secret"))
    assert len(connect(f"{address}/?token=secret")) == 4
    assert len(connect(address, token="secret")) == 4
    with pytest.raises(InputError, match="asks for its token"):
        connect(address)


def test_addresses_that_cannot_be(served: str) -> None:
    with pytest.raises(InputError, match="no address"):
        connect("pictures")
    with pytest.raises(CollectionError, match="Is `wherein serve` running"):
        connect("http://127.0.0.1:1")
    with pytest.raises(CollectionNotFound, match="serves pictures, not other"):
        connect(served, collection="other")


def test_a_detailed_mask_is_searched_with(served: str, collection: wherein.Collection) -> None:
    random = np.random.default_rng(0)
    for side in (500, 1600):  # the run lengths of the second are more than a megabyte
        part = Part(image=PIL.Image.new("RGB", (side, side), "blue"), mask=random.random((side, side)) > 0.5)
        there, here = connect(served).search(part), collection.search(part)
        assert [(hit.image_id, hit.score) for hit in there] == [(hit.image_id, hit.score) for hit in here]


def test_no_label_means_none(served: str, collection: wherein.Collection) -> None:
    collection.tag("warm", ["red.png"])
    collection.tag("cold", ["blue.png"])
    collection.train("moods")
    for tag in (False, True):
        there, here = (one.label("moods", labels=[], tag=tag) for one in (connect(served), collection))
        assert (there, there.predictions) == (here, ())
    with pytest.raises(InputError, match="nothing trained is called"):
        connect(served).label("nothing", labels=[])


LIMITS: list[tuple[str, str, dict[str, Any], str]] = [
    ("hits", "red", {"k": 5001}, "body.k: Input should be less than or equal to 5000. "),
    ("images", "red", {"among": ["red.png"] * 501}, "body.among: List should have at most 500 items"),
    ("a text", "red " * 501, {}, "body.parts.0.text: String should have at most 2000 characters. "),
]


@pytest.mark.parametrize(("query", "options", "said"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS])
def test_a_limit_that_only_the_server_has_says_so(
    served: str, collection: wherein.Collection, query: str, options: dict[str, Any], said: str
) -> None:
    assert collection.search(query, **options).hits
    with pytest.raises(InputError) as error:
        connect(served).search(query, **options)
    assert said in str(error.value)
    assert "limit is this server's, not the collection's: ask for less at once" in str(error.value)


def test_what_no_door_takes_is_no_limit_of_the_server(served: str) -> None:
    asked = {"parts": [{"text": "red"}], "min_confidence": 1.5}
    said = httpx.post(f"{served}/api/v1/collections/pictures/search", json=asked, trust_env=False).json()["error"]
    assert (said["status"], "limit" in said["message"]) == (422, False)
