"""What the server answers is what Python answers, whatever was asked before and whoever changed what since."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import wherein
from wherein.client import RemoteCollection, connect
from wherein.values.judgement import Judgement
from wherein.values.query import Part, Query
from wherein.values.ranking import Ranking
from wherein.values.region import Box

Paint = Callable[..., Path]
HERE = "/collections/pictures"
RED = [f"many/{number:02}.png" for number in range(12)]
BLUE = [f"many/{number:02}.png" for number in range(12, 30)]


@pytest.fixture
def many(collection: wherein.Collection, folder: Path, paint: Paint) -> wherein.Collection:
    """Thirty pictures more, twelve of them red, and judged hits, so that there are confidences."""
    for number in range(30):
        paint(folder / "many" / f"{number:02}.png", "red" if number < 12 else "blue", size_wh=(64 + number, 48))
    collection.add(folder)
    judge(collection, red=RED, white=[], yellow=[])
    return collection


@pytest.fixture
def address(many: wherein.Collection, folder: Path, serve: Callable[..., str]) -> str:
    """Where they are served."""
    return serve(folder)


@pytest.fixture
def remote(address: str) -> RemoteCollection:
    """They as a client sees them."""
    return connect(address)


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    """They as HTTP has them."""
    with httpx.Client(base_url=f"{address}/api/v1", trust_env=False) as client:
        yield client


def judge(collection: wherein.Collection, **right: list[str]) -> None:
    collection.calibrate([Judgement(Query.of(text), frozenset(ids), None) for text, ids in right.items()])


def same(there: Ranking, here: Ranking) -> None:
    """A served answer is a local one, but for where files lie."""
    for ours, theirs in ((there.hits, here.hits), (there.rejected, here.rejected)):
        assert [replace(hit, mask=None) for hit in ours] == [replace(hit, mask=None, path=None) for hit in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert (one.mask is None) == (other.mask is None)
            assert one.mask is None or other.mask is None or np.array_equal(one.mask, other.mask)
    assert replace(there, hits=(), rejected=()) == replace(here, hits=(), rejected=())


SOME = ["red.png", "holiday/half.png", RED[0], BLUE[0]]
FILTERS: list[dict[str, Any]] = [{}, {"folder": "holiday"}, {"tags": ["marked"]}, {"min_side": 70}, {"k": 1}]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_outlines_of_some_images_follow_filters_after_the_same_question(
    remote: RemoteCollection, many: wherein.Collection, filters: dict[str, Any]
) -> None:
    many.tag("marked", ["red.png"])
    remote.search("red")
    asked = {"among": SOME, "locate": True, **filters}
    same(remote.search("red", **asked), many.search("red", **asked))


def test_outlines_of_just_found_hits_pass_the_filters(http: httpx.Client) -> None:
    asked: dict[str, Any] = {"parts": [{"text": "red"}]}
    http.post(f"{HERE}/search", json={**asked, "k": 40})
    found = http.post(f"{HERE}/locate", json={**asked, "among": SOME, "folder": "many"}).json()
    assert ([hit["image_id"] for hit in found["hits"]], found["searched"]) == ([RED[0], BLUE[0]], 2)


def judged_again(many: wherein.Collection, folder: Path, paint: Paint) -> None:
    judge(many, red=[])


def taken_back(many: wherein.Collection, folder: Path, paint: Paint) -> None:
    many.uncalibrate(reset=True)


def painted_over(many: wherein.Collection, folder: Path, paint: Paint) -> None:
    paint(folder / RED[0], "blue", size_wh=(64, 48))
    many.add()


CHANGES = [judged_again, taken_back, painted_over]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_searches_and_outlines_follow_what_another_handle_changes(
    remote: RemoteCollection, many: wherein.Collection, folder: Path, paint: Paint, change: Callable[..., None]
) -> None:
    ways: list[dict[str, Any]] = [{"k": 5}, {"k": 4, "among": SOME, "locate": True}]
    before = [remote.search("red", **asked) for asked in ways]
    change(many, folder, paint)
    for asked, old in zip(ways, before, strict=True):
        there = remote.search("red", **asked)
        assert [(hit.image_id, hit.confidence) for hit in there] != [(hit.image_id, hit.confidence) for hit in old]
        same(there, many.search("red", **asked))


def test_outlines_of_hits_follow_a_judgement(http: httpx.Client) -> None:
    asked: dict[str, Any] = {"parts": [{"text": "red"}]}
    located = {**asked, "among": RED[:2], "k": 2}
    http.post(f"{HERE}/search", json=asked)
    before = http.post(f"{HERE}/locate", json=located).json()["hits"]
    judged = [{"parts": asked["parts"], "right": [], "wrong": RED}]
    assert http.post(f"{HERE}/calibrate", json={"judgements": judged}).status_code == 200
    after = http.post(f"{HERE}/locate", json=located).json()["hits"]
    assert all(new["confidence"] != old["confidence"] for old, new in zip(before, after, strict=True))


def test_searches_follow_what_another_handle_trains_and_forgets(
    remote: RemoteCollection, many: wherein.Collection
) -> None:
    many.tag("warm", RED[:6])
    many.tag("cold", BLUE[:6])
    many.train("moods", labels=["warm", "cold"])
    before = remote.search("label:warm", k=3)
    same(before, many.search("label:warm", k=3))
    many.untag("warm", RED[:6])
    many.tag("warm", BLUE[6:12])
    many.untag("cold", BLUE[:6])
    many.tag("cold", RED[:6])
    many.train("moods", labels=["warm", "cold"])
    after = remote.search("label:warm", k=3)
    assert [hit.image_id for hit in after] != [hit.image_id for hit in before]
    same(after, many.search("label:warm", k=3))
    many.remove_trained("moods")
    with pytest.raises(wherein.InputError, match="label"):
        remote.search("label:warm", k=3)


DECISIONS: list[dict[str, Any]] = [
    {"k": 14, "decide": True},
    {"k": 2, "decide": True},
    {"k": 1, "min_confidence": 0.9},
    {"k": 14, "precision": 0.5},
    {"k": 14, "false_alarms": 0.5},
    {"k": 2, "all": True, "min_confidence": 1.0},
    {"k": 5, "method": "patches", "decide": True},
]


@pytest.mark.parametrize("text", ["red", "red in the upper left", "purple"])
@pytest.mark.parametrize("options", DECISIONS, ids=str)
def test_decisions_are_those_of_python(
    remote: RemoteCollection, many: wherein.Collection, text: str, options: dict[str, Any]
) -> None:
    same(remote.search(text, **options), many.search(text, **options))


PAGED: list[tuple[dict[str, Any], int]] = [
    ({"parts": [{"text": "red"}], "decide": True}, 2),
    ({"parts": [{"text": "red"}], "decide": True}, 5),
    ({"parts": [{"text": "red"}]}, 3),
    ({"parts": [{"text": "red"}], "method": "patches", "min_confidence": 0.5}, 4),
    ({"parts": [{"words": "blue"}, {"text": "red", "weight": 0.9}], "min_confidence": 0.4}, 2),
    ({"parts": [{"text": "blue"}], "liked": [RED[0]], "disliked": [BLUE[0]], "decide": True}, 2),
]


@pytest.mark.parametrize(("asked", "k"), PAGED, ids=str)
def test_pages_hold_every_hit_and_every_rejected_one_once(http: httpx.Client, asked: dict[str, Any], k: int) -> None:
    whole = http.post(f"{HERE}/search", json={**asked, "k": 34}).json()
    pages = [http.post(f"{HERE}/search", json={**asked, "k": k, "offset": at}).json() for at in range(0, 40, k)]
    assert [len(page["hits"]) + len(page["rejected"]) for page in pages[: 34 // k]] == [k] * (34 // k)
    for side in ("hits", "rejected"):
        parts = [hit["image_id"] for page in pages for hit in page[side]]
        assert sorted(parts) == sorted(hit["image_id"] for hit in whole[side])


def test_all_hits_are_exported_as_they_are_found(http: httpx.Client) -> None:
    asked = {"parts": [{"text": "red"}], "k": 1, "all": True}
    found = [hit["image_id"] for hit in http.post(f"{HERE}/search", json=asked).json()["hits"]]
    assert len(found) > 1
    written = http.post(f"{HERE}/search/export", params={"format": "coco"}, json=asked).json()
    assert sorted(image["file_name"] for image in written["images"]) == sorted(found)


@pytest.mark.parametrize("said", ["words", "text"])
@pytest.mark.parametrize("region", [{"box": [0, 0, 0.5, 1]}, {"mask": {"size": [1, 2], "counts": [1, 1]}}], ids=str)
def test_a_region_of_a_text_is_refused_as_in_python(http: httpx.Client, said: str, region: dict[str, Any]) -> None:
    given = {"box": Box(0, 0, 0.5, 1)} if "box" in region else {"mask": np.array([[False, True]])}
    with pytest.raises(wherein.InputError) as error:
        Part(text="red", **given)
    answer = http.post(f"{HERE}/search", json={"parts": [{said: "red", **region}]})
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, str(error.value))


def test_an_upload_is_refused_by_the_names_of_all_that_is_wrong(http: httpx.Client, folder: Path) -> None:
    query = {"parts": [{"upload": "a", "weight": -1}], "minconfidence": 1, "k": 0, "locate": "yes"}
    plain = http.post(f"{HERE}/search", json=query).json()["error"]["message"]
    files = {"images": ("a", (folder / "red.png").read_bytes())}
    sent = http.post(f"{HERE}/search/upload", data={"query": json.dumps(query)}, files=files)
    assert (sent.status_code, sent.json()["error"]["message"]) == (422, plain.replace("body.", "body.query."))
    wrong = ("parts.0.weight: ", "minconfidence: ", "k: ", 'locate = \\"yes\\": ')
    assert all(f"body.query.{said}" in sent.text for said in wrong)
    no_json = http.post(f"{HERE}/search/upload", data={"query": "{"}, files=files).json()["error"]["message"]
    assert no_json.startswith("body.query: Invalid JSON: ")


QUOTED: list[tuple[str, dict[str, Any], str]] = [
    ("search", {"k": "3"}, 'body.k = "3": send a whole number, without quotes.'),
    ("search", {"k": True}, "body.k = true: send a whole number."),
    ("search", {"min_side": [1]}, "body.min_side = a list or an object: send a whole number."),
    ("search", {"locate": "true"}, 'body.locate = "true": send true or false, without quotes.'),
    ("search", {"locate": 1}, "body.locate = 1: send true or false."),
    ("search", {"precision": "0.9"}, 'body.precision = "0.9": send a number, without quotes.'),
    ("search", {"k": "\ud800" * 99}, 'body.k = "' + r"\ud800" * 9 + r"\ud80: send a whole number, without quotes."),
    (
        "search",
        {"parts": [{"text": "red", "weight": "2"}]},
        'body.parts.0.weight = "2": send a number, without quotes.',
    ),
    (
        "search",
        {"parts": [{"image_id": "red.png", "mask": {"size": [48, "64"], "counts": [0, 3072]}}]},
        'body.parts.0.mask.size.1 = "64": send a whole number, without quotes.',
    ),
    (
        "selections/mine/keep",
        {"items": [{"image_id": "red.png", "box": ["0", 0, 1, 1]}]},
        'body.items.0.box.0 = "0": send a number, without quotes.',
    ),
    ("check", {"repair": "no"}, 'body.repair = "no": send true or false, without quotes.'),
    ("uncalibrate", {"step": "1"}, 'body.step = "1": send a whole number, without quotes.'),
]


@pytest.mark.parametrize(("path", "body", "said"), QUOTED, ids=[case[2] for case in QUOTED])
def test_a_number_in_quotes_is_refused_by_its_field_and_what_to_send(
    served: str, path: str, body: dict[str, Any], said: str
) -> None:
    sent = ({"parts": [{"text": "red"}]} if path == "search" else {}) | body
    content, headers = json.dumps(sent), {"content-type": "application/json"}
    answer = httpx.post(f"{served}/api/v1{HERE}/{path}", content=content, headers=headers, trust_env=False)
    error = {"kind": "InvalidRequest", "message": f"{said} See /docs for what this route takes.", "status": 422}
    assert (answer.status_code, answer.json()["error"]) == (422, error)


def test_numbers_of_an_address_stay_texts(served: str) -> None:
    with httpx.Client(base_url=f"{served}/api/v1", trust_env=False) as http:
        found = http.get(f"{HERE}/images", params={"limit": "2", "min_side": "10", "group": "true"}).json()
        assert len(found["images"]) == 2
