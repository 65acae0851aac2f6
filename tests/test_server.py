"""The routes: what they answer, and how they say no."""

import csv
import io
import json
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.encoders.toy import ToyEncoder
from wherein.images.image import Pixels
from wherein.search.outlines import Outliner
from wherein.server.app import create_app
from wherein.server.settings import Settings

Paint = Callable[..., Path]


@pytest.fixture
def http(served: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{served}/api/v1", trust_env=False, verify=False) as client:
        yield client


HERE = "/collections/pictures"


def found(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [hit["image_id"] for hit in answer.json()["hits"]]


def test_collections_say_what_they_hold_and_how_they_can_be_searched(http: httpx.Client) -> None:
    (one,) = http.get("/collections").json()
    assert (one["name"], one["images"], one["encoder"]) == ("pictures", 4, "toy")
    assert {"whole", "patches", "static-9@0.1"} <= set(one["methods"])


def test_images_come_in_pages_to_the_last_one(http: httpx.Client) -> None:
    pages = [http.get(f"{HERE}/images", params={"offset": n, "limit": 3}).json() for n in (0, 3, 6)]
    assert [page["total"] for page in pages] == [4, 4, 4]
    ids = [image["image_id"] for page in pages for image in page["images"]]
    assert ids == ["blue.png", "holiday/half.png", "holiday/third.png", "red.png"]
    assert pages[0]["images"][0]["size_wh"] == [64, 48]


FILTERS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("none", {}, ["red.png", "holiday/half.png", "holiday/third.png", "blue.png"]),
    ("a folder", {"folder": "holiday"}, ["holiday/half.png", "holiday/third.png"]),
    ("a size nothing has", {"min_side": 65}, []),
    ("a size all have", {"min_side": 64, "k": 1}, ["red.png"]),
    ("a date in the future", {"after": "2100-01-01"}, []),
    ("a tag nothing bears", {"tags": ["nothing"]}, []),
]


@pytest.mark.parametrize(("filters", "expected"), [case[1:] for case in FILTERS], ids=[case[0] for case in FILTERS])
def test_search_filters(http: httpx.Client, filters: dict[str, Any], expected: list[str]) -> None:
    assert found(http.post(f"{HERE}/search", json={"parts": [{"words": "red"}], **filters})) == expected


def test_words_are_read_as_a_person_writes_them_and_text_is_not(http: httpx.Client) -> None:
    read = http.post(f"{HERE}/search", json={"parts": [{"words": "red in the upper left^2"}]}).json()
    (part,) = read["parts"]
    assert (part["text"], part["where"], part["weight"]) == ("red", [0.0, 0.0, 0.5, 0.5], 2.0)
    assert read["notes"] == ["read “top-left” as a place: 0,0,0.5,0.5"]
    literal = http.post(f"{HERE}/search", json={"parts": [{"text": "red in the upper left"}]}).json()
    assert literal["parts"][0]["text"] == "red in the upper left"


def test_a_place_finds_what_is_there(http: httpx.Client) -> None:
    asked = {"parts": [{"text": "blue", "where": "left"}], "method": "static-5~best", "k": 1}
    answer = http.post(f"{HERE}/search", json=asked).json()
    assert answer["hits"][0]["image_id"] == "blue.png"
    assert answer["hits"][0]["box"] is not None


def test_pages_of_a_search_join_to_the_whole_ranking(http: httpx.Client) -> None:
    asked = {"parts": [{"words": "red"}]}
    whole = found(http.post(f"{HERE}/search", json=asked))
    pages = [found(http.post(f"{HERE}/search", json={**asked, "k": 1, "offset": n})) for n in range(5)]
    assert [hit for page in pages for hit in page] == whole


def test_a_stream_is_the_same_ranking_line_by_line(http: httpx.Client) -> None:
    asked = {"parts": [{"words": "red"}]}
    answer = http.post(f"{HERE}/search/stream", json=asked)
    assert answer.headers["content-type"] == "application/x-ndjson"
    head, *hits = [json.loads(line) for line in answer.text.splitlines()]
    whole = http.post(f"{HERE}/search", json=asked).json()
    assert hits == whole.pop("hits")
    assert {**head, "seconds": 0} == {**whole, "seconds": 0}


def test_an_image_that_comes_along(http: httpx.Client, folder: Path) -> None:
    query = {"parts": [{"upload": "mine"}], "k": 1}
    files = {"images": ("mine", (folder / "blue.png").read_bytes())}
    assert found(http.post(f"{HERE}/search/upload", data={"query": json.dumps(query)}, files=files)) == ["blue.png"]


def test_an_example_is_kept_and_can_be_searched_with_by_region(http: httpx.Client, folder: Path) -> None:
    sent = http.post(f"{HERE}/examples", content=(folder / "holiday" / "half.png").read_bytes())
    assert sent.status_code == 201
    name = sent.json()["example"]
    asked = {"parts": [{"example": name, "box": [0.55, 0, 1, 1]}], "k": 1}
    assert found(http.post(f"{HERE}/search", json=asked)) == ["blue.png"]
    picture = http.get(f"{HERE}/examples/{name}")
    assert picture.headers["content-type"] == "image/jpeg"
    assert PIL.Image.open(io.BytesIO(picture.content)).size == (64, 48)


def test_marks_refine_the_ranking(http: httpx.Client) -> None:
    asked: dict[str, Any] = {"parts": [{"words": "red"}], "k": 2}
    assert found(http.post(f"{HERE}/search", json=asked))[0] == "red.png"
    refined = {**asked, "liked": ["holiday/half.png"], "disliked": ["red.png"]}
    assert found(http.post(f"{HERE}/feedback", json=refined))[0] == "holiday/half.png"
    refused = http.post(f"{HERE}/feedback", json=asked)
    assert (refused.status_code, refused.json()["error"]["kind"]) == (422, "InvalidRequest")


def test_match_lines_join_the_same_points(http: httpx.Client, folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    whole = PIL.Image.fromarray(pixels).resize((640, 480), PIL.Image.Resampling.BICUBIC)
    whole.save(folder / "whole.png")
    whole.crop((160, 120, 480, 360)).resize((480, 360)).save(folder / "part.png")
    with wherein.open(folder) as collection:
        collection.add(folder)
    example = {"image_id": "whole.png", "box": [0.2, 0.2, 0.8, 0.8]}
    found = http.post(f"{HERE}/matches", json={"parts": [{"text": "x"}, example], "image_id": "part.png"}).json()
    assert found["part"] == 1
    assert found["inliers"] >= 20
    here, there = np.array(found["lines"])[:, :2], np.array(found["lines"])[:, 2:]
    assert np.abs(0.25 + there / 2 - here).max() < 0.02
    other = http.post(f"{HERE}/matches", json={"parts": [example], "image_id": "blue.png"}).json()
    assert (other["inliers"], other["lines"]) == (0, [])


def test_look_alikes_name_the_better_one(http: httpx.Client, folder: Path, paint: Paint) -> None:
    with wherein.open(folder) as collection:
        paint(folder / "zred.png", "red", size_wh=(80, 60))
        collection.add(folder)
    hits = http.post(f"{HERE}/search", json={"parts": [{"words": "red"}], "group": True}).json()["hits"]
    assert {hit["image_id"]: hit["like"] for hit in hits}["zred.png"] == "red.png"
    assert [hit["like"] for hit in hits].count(None) == 4


def test_thumbnails_have_sizes_and_are_not_sent_twice(http: httpx.Client, folder: Path, paint: Paint) -> None:
    with wherein.open(folder) as collection:
        paint(folder / "large.png", "green", size_wh=(1500, 900))
        collection.add(folder)
    for side, size in ((64, (64, 39)), (256, (256, 154)), (1024, (1024, 614))):
        answer = http.get(f"{HERE}/thumb", params={"image_id": "large.png", "side": side})
        assert answer.headers["content-type"] == "image/jpeg"
        assert "max-age" in answer.headers["cache-control"]
        assert PIL.Image.open(io.BytesIO(answer.content)).size == size
    tag = answer.headers["etag"]
    again = http.get(f"{HERE}/thumb", params={"image_id": "large.png", "side": 1024}, headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert http.get(f"{HERE}/thumb", params={"image_id": "large.png", "side": 65}).status_code == 422


def test_a_changed_file_gets_another_thumbnail(http: httpx.Client, folder: Path, paint: Paint) -> None:
    first = http.get(f"{HERE}/thumb", params={"image_id": "red.png"})
    with wherein.open(folder) as collection:
        paint(folder / "red.png", "green", size_wh=(66, 48))
        collection.add(folder)
    import time

    time.sleep(2.1)  # a thumbnail is compared with the collection every two seconds
    second = http.get(f"{HERE}/thumb", params={"image_id": "red.png"})
    assert first.headers["etag"] != second.headers["etag"]


def test_a_renamed_file_is_found_under_its_new_name(http: httpx.Client, folder: Path) -> None:
    asked = {"parts": [{"words": "red"}], "k": 1}
    assert found(http.post(f"{HERE}/search", json=asked)) == ["red.png"]
    (folder / "red.png").rename(folder / "crimson.png")
    with wherein.open(folder) as collection:
        collection.add(folder)
    assert found(http.post(f"{HERE}/search", json=asked)) == ["crimson.png"]


def test_details_name_the_neighbours_in_a_video(http: httpx.Client, folder: Path, film: Callable[..., Path]) -> None:
    film(folder / "clip.mp4", ["red", "blue"])
    with wherein.open(folder) as collection:
        collection.add(folder)
    known = http.get(f"{HERE}/image", params={"image_id": "clip.mp4#t=2"}).json()
    assert (known["seconds"], known["frames"]) == (2.0, ["clip.mp4#t=0", "clip.mp4#t=2"])
    picture = http.get(f"{HERE}/thumb", params={"image_id": "clip.mp4#t=2", "side": 512})
    red, _, blue = PIL.Image.open(io.BytesIO(picture.content)).convert("RGB").getpixel((32, 24))  # type: ignore[misc]
    assert blue > 200 > red
    assert http.get(f"{HERE}/image", params={"image_id": "red.png"}).json()["frames"] == []


def test_tags_are_put_on_and_taken_off(http: httpx.Client) -> None:
    assert http.post(f"{HERE}/tags", json={"tag": "warm", "image_ids": ["red.png"]}).json() == {"warm": 1}
    assert http.get(f"{HERE}/image", params={"image_id": "red.png"}).json()["tags"] == ["warm"]
    assert found(http.post(f"{HERE}/search", json={"parts": [{"words": "red"}], "tags": ["warm"]})) == ["red.png"]
    assert http.post(f"{HERE}/untag", json={"tag": "warm", "image_ids": ["red.png"]}).json() == {}


@pytest.fixture
def selection(http: httpx.Client) -> str:
    items = [
        {"image_id": "red.png", "box": [0.25, 0.0, 0.75, 0.5], "label": "fire"},
        {"image_id": "holiday/half.png", "mask": {"size": [2, 2], "counts": [0, 2, 2]}},
    ]
    assert http.put(f"{HERE}/selections/my picks", json={"items": items}).status_code == 200
    return "my picks"


def export(http: httpx.Client, **query: str) -> httpx.Response:
    answer = http.get(f"{HERE}/export", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"].startswith("attachment")
    return answer


def test_selections_are_kept_with_the_collection(http: httpx.Client, selection: str, folder: Path) -> None:
    (one,) = http.get(f"{HERE}/selections").json()
    assert (one["name"], [item["image_id"] for item in one["items"]]) == (selection, ["red.png", "holiday/half.png"])
    assert (folder / ".wherein" / "kept" / "selections.json").is_file()
    assert http.delete(f"{HERE}/selections/{selection}").status_code == 204
    assert http.get(f"{HERE}/selections").json() == []
    assert http.delete(f"{HERE}/selections/{selection}").status_code == 404


def test_outlines_are_sent_as_run_lengths_and_where_asked_as_polygons(http: httpx.Client) -> None:
    asked = {"parts": [{"text": "red"}], "locate": True, "k": 4}
    plain = http.post(f"{HERE}/search", json=asked).json()["hits"]
    drawn = http.post(f"{HERE}/search", json=asked | {"polygons": True}).json()["hits"]
    assert [hit["mask"] for hit in plain] == [hit["mask"] for hit in drawn]
    assert all(hit["polygons"] is None for hit in plain)
    half = next(hit for hit in drawn if hit["image_id"] == "holiday/half.png")
    xs = [x for loop in half["polygons"] for x, _ in loop]
    assert (min(xs), max(xs)) == pytest.approx((0.0, 0.5), abs=0.02)  # its left half


def test_hits_are_exported_as_the_command_does(http: httpx.Client) -> None:
    asked = {"parts": [{"text": "red"}], "k": 2}
    coco = http.post(f"{HERE}/search/export?format=coco", json=asked).json()
    assert [len(coco["images"]), len(coco["annotations"])] == [2, 2]
    assert coco["categories"][0]["name"] == "red"
    folder = zipfile.ZipFile(io.BytesIO(http.post(f"{HERE}/search/export?format=fiftyone", json=asked).content))
    assert "labels.json" in folder.namelist()
    assert sum(name.startswith("data/0") for name in folder.namelist()) == 2
    drawn = zipfile.ZipFile(io.BytesIO(http.post(f"{HERE}/search/export?format=overlays", json=asked).content))
    assert [name[:5] for name in sorted(drawn.namelist()) if name.endswith(".png")] == ["0001-", "0002-"]
    many = http.post(f"{HERE}/search/export?format=overlays", json=asked | {"k": 201})
    assert many.status_code == 422
    assert "lower k" in many.json()["error"]["message"]


def test_a_box_that_leaves_the_image_is_answered_as_in_python(http: httpx.Client) -> None:
    for part in ({"text": "red", "where": [-0.5, 0.5, 0.2, 0.9]}, {"image_id": "red.png", "box": [0.6, 0.1, 0.2, 0.5]}):
        answer = http.post(f"{HERE}/search", json={"parts": [part]})
        assert answer.status_code == 422
        assert answer.json()["error"]["kind"] == "RegionError"
        assert "corner" in answer.json()["error"]["message"] or "no area" in answer.json()["error"]["message"]


def test_export_as_paths(http: httpx.Client, selection: str) -> None:
    lines = export(http, format="paths", selection=selection).text.splitlines()
    assert lines == ["red.png", "holiday/half.png"]


def test_export_as_csv(http: httpx.Client, selection: str) -> None:
    first, second = csv.DictReader(io.StringIO(export(http, format="csv", selection=selection).text))
    assert (first["image_id"], first["label"], first["x1"], first["y2"]) == ("red.png", "fire", "0.25", "0.5")
    assert (second["label"], second["x1"]) == (selection, "")


def test_export_as_coco_in_pixels(http: httpx.Client, selection: str) -> None:
    coco = export(http, format="coco", selection=selection).json()
    assert [image["file_name"] for image in coco["images"]] == ["red.png", "holiday/half.png"]
    first, second = coco["annotations"]
    assert (first["bbox"], first["area"]) == ([16.0, 0.0, 32.0, 24.0], 768.0)
    assert second["segmentation"]["size"] == [48, 64]
    assert second["area"] == 48 * 32  # the left half
    assert [category["name"] for category in coco["categories"]] == ["fire", "my picks"]
    assert [first["iscrowd"], second["iscrowd"]] == [0, 0]
    assert isinstance(second["segmentation"]["counts"], str)


def test_export_as_yolo(http: httpx.Client, selection: str) -> None:
    archive = zipfile.ZipFile(io.BytesIO(export(http, format="yolo", selection=selection).content))
    assert archive.read("labels/red.txt").decode() == "0 0.500000 0.250000 0.500000 0.500000\n"
    assert archive.read("classes.txt").decode() == "fire\nmy picks\n"


def test_a_tag_can_be_exported(http: httpx.Client) -> None:
    http.post(f"{HERE}/tags", json={"tag": "cold", "image_ids": ["blue.png"]})
    assert export(http, format="paths", tag="cold").text.endswith("blue.png\n")


SUBMITTED = {"team": "Us", "model": "toy", "affiliation": "none", "mode": "Language"}


def test_a_searchad_submission_begins_with_what_was_kept(searchad_data: Path, serve: Callable[..., str]) -> None:
    with wherein.open(searchad_data, create=True, encoder="toy") as collection:
        collection.add(searchad_data)
    address = f"{serve(searchad_data)}/api/v1/collections/searchad"
    with httpx.Client(base_url=address, trust_env=False, verify=False) as client:
        assert client.get(address).json()["searchad"] is True
        found = client.get("/searchad", params=SUBMITTED).json()
        assert set(found["predictions"]) == {"Animal-Real-Cow", "Object-Ball", "Sign-Train-Sign"}
        assert sorted(found["predictions"]["Animal-Real-Cow"]) == [0, 1, 2, 3, 4, 5]
        assert (found["metadata"]["Team Name"], found["metadata"]["Default Queries"]) == ("Us", "Yes")
        last = found["predictions"]["Animal-Real-Cow"][-1]
        items = {"items": [{"image_id": f"kitti/val/red-{last}.png"}]}
        assert client.put("/selections/Animal-Real-Cow", json=items).status_code == 200
        again = client.get("/searchad", params=SUBMITTED).json()
        assert again["predictions"]["Animal-Real-Cow"] == [last, *found["predictions"]["Animal-Real-Cow"][:-1]]
        assert again["metadata"]["Default Queries"] == "No"


def test_other_collections_have_no_submission(http: httpx.Client) -> None:
    assert http.get(HERE).json()["searchad"] is False
    answer = http.get(f"{HERE}/searchad", params=SUBMITTED)
    assert (answer.status_code, "not SearchAD's" in answer.json()["error"]["message"]) == (422, True)


def test_health_and_metrics(http: httpx.Client) -> None:
    assert http.get("/health").json() == {"status": "ok", "version": wherein.__version__, "collections": 1}
    http.post(f"{HERE}/search", json={"parts": [{"words": "red"}]})
    assert 'search",status="200"} 1' in http.get("/metrics").text


def search(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"json": {"parts": list(parts), **more}}


BROKEN = {"content": b"{", "headers": {"content-type": "application/json"}}
FLAT = {"image_id": "red.png", "box": [1, 1, 1, 1]}
REFUSED: list[tuple[str, str, str, dict[str, Any], int, str]] = [
    ("no such route", "GET", "/nothing", {}, 404, "NotFound"),
    ("a wrong method", "DELETE", "/health", {}, 405, "MethodNotAllowed"),
    ("no such collection", "GET", "/collections/other", {}, 404, "CollectionNotFound"),
    ("no such image", "GET", f"{HERE}/image?image_id=none.png", {}, 404, "ImageNotFound"),
    ("no parts", "POST", f"{HERE}/search", search(), 422, "InvalidRequest"),
    ("a misspelt field", "POST", f"{HERE}/search", {"json": {"part": []}}, 422, "InvalidRequest"),
    ("a part that is nothing", "POST", f"{HERE}/search", search({}), 422, "InvalidRequest"),
    ("an empty text", "POST", f"{HERE}/search", search({"text": " "}), 422, "QueryError"),
    ("only negatives", "POST", f"{HERE}/search", search({"text": "a", "negative": True}), 422, "QueryError"),
    ("an unknown method", "POST", f"{HERE}/search", search({"text": "a"}, method="x"), 422, "SpecError"),
    ("a box without area", "POST", f"{HERE}/search", search(FLAT), 422, "RegionError"),
    ("an upload that is no image", "POST", f"{HERE}/examples", {"content": b"hello"}, 422, "UnreadableImage"),
    ("an unknown example", "POST", f"{HERE}/search", search({"example": "0" * 32}), 404, "NotFound"),
    ("JSON that is none", "POST", f"{HERE}/search", BROKEN, 422, "InvalidRequest"),
    ("an unknown selection", "GET", f"{HERE}/export?format=csv&selection=no", {}, 404, "NotFound"),
    ("a format nobody knows", "GET", f"{HERE}/export?format=pdf&tag=a", {}, 422, "InvalidRequest"),
]


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "kind"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_every_error_has_one_shape(
    http: httpx.Client, method: str, path: str, sent: dict[str, Any], status: int, kind: str
) -> None:
    answer = http.request(method, path, **sent)
    error = answer.json()["error"]
    assert (answer.status_code, error["kind"], error["status"]) == (status, kind, status)
    assert error["message"].endswith((".", "…"))
    assert set(error) == {"kind", "message", "status"}


def test_every_route_describes_its_errors_in_the_one_shape(folder: Path, collection: wherein.Collection) -> None:
    description = create_app([folder], Settings()).openapi()
    assert description["paths"]
    for path, methods in description["paths"].items():
        for about in methods.values():
            schema = about["responses"]["422"]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorAnswer"}, path


ODD: list[tuple[str, dict[str, Any], int]] = [
    ("the first day there is", {"after": "0001-01-01"}, 200),
    ("the last day there is", {"before": "9999-12-31T23:59:59"}, 200),
    ("a place without a size", {"parts": [{"text": "red", "where": [0, 0, 1e-300, 1e-300]}]}, 422),
    ("a region without a size", {"parts": [{"image_id": "red.png", "box": [0, 0, 1, 1e-300]}]}, 422),
]


@pytest.mark.parametrize(("asked", "status"), [case[1:] for case in ODD], ids=[case[0] for case in ODD])
def test_odd_values_are_answered_or_refused(http: httpx.Client, asked: dict[str, Any], status: int) -> None:
    answer = http.post(f"{HERE}/search", json={"parts": [{"text": "red"}], **asked})
    assert answer.status_code == status, answer.text
    if status == 200:
        assert len(found(answer)) == 4


@pytest.mark.parametrize("depth", [300, 900, 990, 3000, 50_000])
@pytest.mark.parametrize("path", ["search", "tags", "calibrate", "selections/mine/keep"])
def test_json_that_is_too_deep_is_refused(http: httpx.Client, depth: int, path: str) -> None:
    body = b'{"parts": ' + b"[" * depth + b"]" * depth + b"}"
    answer = http.post(f"{HERE}/{path}", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]["status"] == answer.status_code


def test_one_image_sent_by_many_at_once(served: str, folder: Path) -> None:
    data = (folder / "red.png").read_bytes()

    def send(_: int) -> int:
        return httpx.post(f"{served}/api/v1{HERE}/examples", content=data, trust_env=False, timeout=30).status_code

    with ThreadPoolExecutor(16) as senders:
        assert Counter(senders.map(send, range(100))) == {201: 100}
    assert [path.suffix for path in (folder / ".wherein" / "derived" / "examples").iterdir()] == [""]


def test_an_empty_collection_says_so_and_answers(serve: Callable[..., str], tmp_path: Path) -> None:
    wherein.open(tmp_path / "new", create=True, encoder="toy").close()
    with httpx.Client(base_url=f"{serve(tmp_path / 'new')}/api/v1/collections/new", trust_env=False) as http:
        for asked in ({"parts": [{"text": "red"}]}, {"parts": [{"text": "red", "where": "left"}], "locate": True}):
            answer = http.post("/search", json=asked)
            assert (answer.status_code, answer.json()["hits"], answer.json()["searched"]) == (200, [], 0)
            assert answer.json()["notes"][0].startswith("nothing is indexed yet")
        head, *hits = http.post("/search/stream", json={"parts": [{"text": "red"}]}).text.splitlines()
        assert (json.loads(head)["searched"], hits) == (0, [])
        assert http.get("/map").json()["image_ids"] == []
        assert http.get("/images").json()["total"] == 0


@pytest.fixture
def judged(http: httpx.Client, collection: wherein.Collection, folder: Path, paint: Paint) -> httpx.Client:
    """Thirty pictures, and words whose hits are judged: confidences are those of `whole`."""
    for number in range(30):
        paint(folder / "many" / f"{number:02}.png", "red" if number < 12 else "blue", size_wh=(64 + number, 48))
    collection.add(folder)
    right = {"red": [f"many/{number:02}.png" for number in range(12)], "white": [], "yellow": []}
    judgements = [{"parts": [{"text": text}], "right": ids} for text, ids in right.items()]
    (made,) = http.post(f"{HERE}/calibrate", json={"judgements": judgements}).json()
    assert made["curve"] is not None
    return http


REFINED: list[tuple[str, dict[str, Any]]] = [
    ("marks on hits", {"liked": ["many/00.png"], "disliked": ["blue.png"]}),
    ("a place", {"parts": [{"text": "red", "where": "left"}]}),
    ("patches", {"method": "patches"}),
    ("segrank", {"method": "segrank"}),
]


@pytest.mark.parametrize("asked", [case[1] for case in REFINED], ids=[case[0] for case in REFINED])
def test_the_least_confidence_counts_however_it_is_asked(judged: httpx.Client, asked: dict[str, Any]) -> None:
    body = {"parts": [{"text": "red"}], "k": 34, "min_confidence": 0.5, **asked}
    answer = judged.post(f"{HERE}/search", json=body).json()
    kept, rejected = ({hit["image_id"] for hit in answer[name]} for name in ("hits", "rejected"))
    assert {f"many/{number:02}.png" for number in range(12)} <= kept
    assert {"blue.png", *(f"many/{number:02}.png" for number in range(12, 30))} <= rejected
    assert all(hit["confidence"] >= 0.5 for hit in answer["hits"])
    assert "the confidence says how likely an image shows red at all" in answer["notes"][-1]
    pages = [found(judged.post(f"{HERE}/search", json={**body, "k": 5, "offset": n})) for n in range(0, 40, 5)]
    assert [hit for page in pages for hit in page] == [hit["image_id"] for hit in answer["hits"]]


def test_a_method_without_confidence_says_so(http: httpx.Client) -> None:
    answer = http.post(f"{HERE}/search", json={"parts": [{"text": "red"}], "min_confidence": 0.5, "method": "patches"})
    assert len(found(answer)) == 4
    assert "hits of method patches have no confidence here" in answer.json()["notes"][-1]


def test_two_clients_that_write_at_once_wait_for_each_other(http: httpx.Client, folder: Path, served: str) -> None:
    paths: list[tuple[str, dict[str, Any]]]
    paths = [("remove", {"image_ids": [name]}) for name in ("red.png", "blue.png", "holiday/half.png")]
    paths += [("tags", {"tag": str(number), "image_ids": ["holiday/third.png"]}) for number in range(9)]

    def send(what: tuple[str, dict[str, Any]]) -> int:
        return httpx.post(f"{served}/api/v1{HERE}/{what[0]}", json=what[1], trust_env=False, timeout=30).status_code

    with ThreadPoolExecutor(12) as senders:
        assert Counter(senders.map(send, paths)) == {200: 12}
    assert http.get(f"{HERE}/tags").json() == {str(number): 1 for number in range(9)}
    assert http.get(HERE).json()["images"] == 1


@pytest.fixture
def encoded_batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pictures each call of the toy encoder encoded."""
    counted, images = list[int](), ToyEncoder.images

    def count(self: ToyEncoder, batch: Pixels) -> Any:
        counted.append(len(batch))
        return images(self, batch)

    monkeypatch.setattr(ToyEncoder, "images", count)
    return counted


def test_outlines_of_a_ranking_are_made_without_searching_again(
    http: httpx.Client, folder: Path, encoded_batches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = http.post(f"{HERE}/examples", content=(folder / "holiday" / "half.png").read_bytes()).json()["example"]
    asked: dict[str, Any] = {"parts": [{"example": name}, {"text": "green", "negative": True}]}
    expected = http.post(f"{HERE}/search", json={**asked, "locate": True}).json()["hits"]
    asked["parts"][1]["text"] = "black"  # another question, which nobody asked before
    searched, search = list[object](), wherein.Collection.search

    def counted(self: wherein.Collection, *given: Any, **how: Any) -> wherein.Ranking:
        searched.append(how)
        return search(self, *given, **how)

    monkeypatch.setattr(wherein.Collection, "search", counted)
    encoded_batches.clear()
    ids = found(http.post(f"{HERE}/search", json=asked))
    outlined = [http.post(f"{HERE}/locate", json={**asked, "among": [one], "k": 1}).json() for one in ids]
    assert (len(searched), encoded_batches) == (1, [1, 1])  # once to search with the example, once to look for it
    assert [one["hits"][0]["image_id"] for one in outlined] == ids
    assert {one["method"] for one in outlined} == {"whole+locate"}
    assert all(one["hits"][0]["mask"] for one in outlined)
    assert {hit["image_id"] for hit in expected} == set(ids)


def test_hits_that_left_are_not_outlined(http: httpx.Client, collection: wherein.Collection) -> None:
    asked = {"parts": [{"text": "red"}]}
    ids = found(http.post(f"{HERE}/search", json=asked))
    collection.remove("red.png")
    assert found(http.post(f"{HERE}/locate", json={**asked, "among": ids[:2]})) == [ids[1]]


def test_a_stream_sends_the_ranking_before_anything_is_outlined(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, located = threading.Event(), Outliner.located

    def waiting(self: Outliner, *given: Any, **how: Any) -> Any:
        assert gate.wait(20)
        return located(self, *given, **how)

    monkeypatch.setattr(Outliner, "located", waiting)
    asked = {"parts": [{"text": "red"}], "locate": True}
    with http.stream("POST", f"{HERE}/search/stream", json=asked, timeout=30) as answer:
        lines = answer.iter_lines()
        head = json.loads(next(lines))
        assert (head["method"], head["searched"], gate.is_set()) == ("whole+locate", 4, False)
        gate.set()
        hits = [json.loads(line) for line in lines]
    whole = http.post(f"{HERE}/search", json=asked).json()
    assert [(hit["image_id"], hit["mask"]) for hit in hits] == [(hit["image_id"], hit["mask"]) for hit in whole["hits"]]


def test_look_alikes_are_told_while_browsing_page_by_page(
    http: httpx.Client, collection: wherein.Collection, folder: Path, paint: Paint
) -> None:
    for number in range(5):
        paint(folder / "many" / f"{number}.png", "red" if number % 2 else "yellow", size_wh=(64 + number, 48))
    collection.add(folder)

    def likes(limit: int, offset: int = 0, *, group: bool = True) -> dict[str, str | None]:
        asked = {"offset": offset, "limit": limit, "group": group}
        found = http.get(f"{HERE}/images", params=asked).json()["images"]
        return {one["image_id"]: one["like"] for one in found}

    pages: dict[str, str | None] = {}
    for offset in (0, 2, 4, 6, 8):
        pages |= likes(2, offset)
    assert likes(100) == pages
    told = {image_id: like for image_id, like in pages.items() if like}
    assert told == {
        "many/2.png": "many/0.png",
        "many/3.png": "many/1.png",
        "many/4.png": "many/0.png",
        "red.png": "many/1.png",
    }
    assert set(likes(100, group=False).values()) == {None}


def test_a_request_cannot_say_where_an_index_lies(served: str, folder: Path, serve: Callable[..., str]) -> None:
    from wherein.server.settings import Settings

    elsewhere = serve(folder, settings=Settings(index="milvus:127.0.0.1:9"))
    asked: dict[str, Any] = {"parts": [{"text": "red"}]}
    expected = httpx.post(f"{served}/api/v1/collections/pictures/search", json=asked).json()["hits"]
    for address, index, status, said in (
        (served, "milvus:127", 422, "only the address that this server was started with"),
        (served, "milvus", 422, "only the address that this server was started with"),
        (served, "exact", 200, ""),
        (elsewhere, "exact", 200, ""),
        (elsewhere, "milvus", 503, "the index that this server asks cannot be used now"),
        (elsewhere, "auto", 503, "the index that this server asks cannot be used now"),
    ):
        answer = httpx.post(f"{address}/api/v1/collections/pictures/search", json={**asked, "index": index}, timeout=60)
        assert (answer.status_code, said in answer.text, ":9" in answer.text) == (status, True, False)
        if status == 200:
            assert [hit["image_id"] for hit in answer.json()["hits"]] == [hit["image_id"] for hit in expected]
