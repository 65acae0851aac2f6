"""Selections: changed by several people at once, renamed, and left by images that leave the collection."""

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import wherein

HERE = "/collections/pictures"


@pytest.fixture
def http(served: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{served}/api/v1", trust_env=False, verify=False) as client:
        yield client


def ids(http: httpx.Client) -> dict[str, list[str]]:
    """The images of every selection."""
    return {one["name"]: [item["image_id"] for item in one["items"]] for one in http.get(f"{HERE}/selections").json()}


def keep(http: httpx.Client, name: str, *image_ids: str, **more: Any) -> httpx.Response:
    items = [{"image_id": image_id, **more} for image_id in image_ids]
    return http.post(f"{HERE}/selections/{name}/keep", json={"items": items})


def test_images_are_kept_and_dropped_one_by_one(http: httpx.Client) -> None:
    assert keep(http, "mine", "red.png", "blue.png").json()["gone"] == []
    keep(http, "mine", "holiday/half.png")
    assert ids(http) == {"mine": ["red.png", "blue.png", "holiday/half.png"]}
    labelled = keep(http, "mine", "red.png", label="fire").json()["items"]
    assert [(item["image_id"], item["label"]) for item in labelled][:2] == [("red.png", "fire"), ("blue.png", None)]
    left = http.post(f"{HERE}/selections/mine/drop", json={"image_ids": ["red.png", "never.png"]})
    assert (left.status_code, ids(http)) == (200, {"mine": ["blue.png", "holiday/half.png"]})
    assert http.post(f"{HERE}/selections/other/drop", json={"image_ids": []}).status_code == 404


def test_only_images_of_the_collection_are_kept(http: httpx.Client) -> None:
    refused = keep(http, "mine", "red.png", "none.png")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (404, "ImageNotFound")
    assert ids(http) == {}


def test_a_new_name_never_costs_another_selection_its_images(http: httpx.Client) -> None:
    keep(http, "a", "red.png")
    keep(http, "b", "blue.png")
    refused = http.post(f"{HERE}/selections/a/rename", json={"to": "b"})
    assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "Conflict")
    assert ids(http) == {"a": ["red.png"], "b": ["blue.png"]}
    assert http.post(f"{HERE}/selections/a/rename", json={"to": "c"}).json()["name"] == "c"
    assert http.post(f"{HERE}/selections/c/rename", json={"to": "c"}).status_code == 200
    assert ids(http) == {"b": ["blue.png"], "c": ["red.png"]}
    assert http.post(f"{HERE}/selections/a/rename", json={"to": "d"}).status_code == 404


@pytest.fixture
def left(http: httpx.Client) -> httpx.Client:
    """A selection of three images, of which one has left the collection since."""
    keep(http, "mine", "red.png", "blue.png", "holiday/half.png")
    assert http.post(f"{HERE}/remove", json={"image_ids": ["blue.png"]}).json() == {"files": 1}
    return http


def test_a_selection_goes_on_when_one_of_its_images_is_gone(left: httpx.Client) -> None:
    (mine,) = left.get(f"{HERE}/selections").json()
    assert mine["gone"] == ["blue.png"]
    assert keep(left, "mine", "holiday/third.png").status_code == 200
    assert left.put(f"{HERE}/selections/mine", json={"items": mine["items"]}).status_code == 200
    dropped = left.post(f"{HERE}/selections/mine/drop", json={"image_ids": ["blue.png"]}).json()
    assert dropped["gone"] == []
    assert ids(left) == {"mine": ["red.png", "holiday/half.png"]}
    assert keep(left, "mine", "blue.png").status_code == 404


def test_exports_leave_out_what_is_gone_and_say_so(left: httpx.Client) -> None:
    files = {}
    for format_ in ("paths", "csv", "coco", "yolo"):
        files[format_] = left.get(f"{HERE}/export", params={"format": format_, "selection": "mine"})
        assert (files[format_].status_code, files[format_].headers["wherein-left-out"]) == (200, "1"), format_
    assert files["paths"].text.splitlines() == ["red.png", "holiday/half.png"]
    rows = list(csv.DictReader(io.StringIO(files["csv"].text)))
    assert [row["image_id"] for row in rows] == ["red.png", "holiday/half.png"]
    assert [image["file_name"] for image in files["coco"].json()["images"]] == ["red.png", "holiday/half.png"]
    names = zipfile.ZipFile(io.BytesIO(files["yolo"].content)).namelist()
    assert sorted(names)[-2:] == ["labels/holiday/half.txt", "labels/red.txt"]


def test_a_study_asks_about_no_image_that_is_gone(http: httpx.Client, folder: Path) -> None:
    keep(http, "mine", "red.png", "blue.png", "holiday/half.png", "holiday/third.png", box=[0, 0, 1, 1])
    assert "there are 1" in refused_study(http)
    http.post(f"{HERE}/remove", json={"image_ids": ["blue.png"]})
    assert "there are 0" in refused_study(http)
    with wherein.open(folder) as collection:
        collection.unignore("blue.png")
        collection.add(folder)
    assert "there are 1" in refused_study(http)


def refused_study(http: httpx.Client) -> str:
    """Why a study of what was kept so far is refused."""
    return str(http.post(f"{HERE}/studies/first", json={}).json()["error"]["message"])


BROKEN: list[dict[str, Any]] = [
    {"box": [0.5, 0.5, 0.1, 0.1]},
    {"box": [0.5, 0.5, 0.5, 0.9]},
    {"mask": {"size": [2, 2], "counts": [99]}},
    {"mask": {"size": [2, 2], "counts": []}},
]


@pytest.mark.parametrize("region", BROKEN, ids=str)
def test_a_broken_region_is_refused_and_nothing_is_stored(http: httpx.Client, region: dict[str, Any]) -> None:
    keep(http, "mine", "blue.png")
    items = [{"image_id": "holiday/half.png"}, {"image_id": "red.png", **region}]
    for answer in (
        http.put(f"{HERE}/selections/mine", json={"items": items}),
        http.post(f"{HERE}/selections/mine/keep", json={"items": items}),
    ):
        assert answer.status_code == 422
        assert answer.json()["error"]["message"].startswith("red.png: ")
    assert ids(http) == {"mine": ["blue.png"]}
    assert http.get(f"{HERE}/export", params={"selection": "mine", "format": "coco"}).status_code == 200


@pytest.mark.parametrize("region", BROKEN[1:3], ids=str)
def test_an_export_names_the_image_whose_region_an_older_version_kept_broken(
    http: httpx.Client, folder: Path, region: dict[str, Any]
) -> None:
    kept = folder / ".wherein" / "kept" / "selections.json"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"mine": [{"image_id": "blue.png"}, {"image_id": "red.png", **region}]}))
    answer = http.get(f"{HERE}/export", params={"selection": "mine", "format": "coco"})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith("red.png: its region is broken")
