"""Training over HTTP: a job with progress, the card, the archive, and what is refused."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import PIL.Image
import pytest

import wherein

Serve = Callable[..., str]


@pytest.fixture
def http(tmp_path: Path, serve: Serve) -> Iterator[httpx.Client]:
    """A served collection of red and blue pictures with tags."""
    folder = tmp_path / "moods"
    folder.mkdir()
    for colour, value in (("red", (250, 10, 10)), ("blue", (10, 10, 250))):
        for number in range(5):
            picture = np.full((64, 64, 3), value, np.uint8)
            picture[:, : 2 + 4 * number] = 128
            PIL.Image.fromarray(picture).save(folder / f"{colour}{number}.png")
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        collection.tag("warm", [f"red{n}.png" for n in range(4)])
        collection.tag("cold", [f"blue{n}.png" for n in range(4)])
    with httpx.Client(base_url=f"{serve(folder)}/api/v1", trust_env=False, timeout=30) as client:
        yield client


def ended(http: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    """The job when it has ended."""
    while job["state"] == "running":
        time.sleep(0.02)
        job = http.get(f"/jobs/{job['id']}").json()
    return job


def test_a_job_trains_and_its_label_is_searched_exported_and_forgotten(http: httpx.Client) -> None:
    job = ended(http, http.post("/collections/moods/train", json={"name": "mood"}).json())
    assert (job["state"], job["done"], job["total"]) == ("done", 2, 2)
    assert (job["report"]["spec"], job["report"]["kind"]) == ("toy:mood", "head")
    asked = {"parts": [{"words": "label:warm"}], "method": "toy:mood", "k": 5}
    found = http.post("/collections/moods/search", json=asked).json()
    assert {hit["image_id"] for hit in found["hits"]} == {f"red{n}.png" for n in range(5)}
    assert all(hit["confidence"] > 0.5 for hit in found["hits"])
    (card,) = http.get("/collections/moods/trained").json()
    assert [one["label"] for one in card["labels"]] == ["cold", "warm"]
    assert http.get("/collections/moods/trained/mood").content[:2] == b"PK"
    assert http.delete("/collections/moods/trained/mood").json() == {"name": "mood"}
    assert http.delete("/collections/moods/trained/mood").status_code == 422
    assert http.post("/collections/moods/search", json=asked).status_code == 422


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": "dense"}, "is taken"),
        ({"name": "mood", "labels": ["wram"]}, "Did you mean 'warm'"),
        ({"name": "mood", "source": {"images": []}}, "no COCO file"),
        ({"name": "mood", "source": "judgements"}, "no hit has been judged right or wrong yet"),
    ],
)
def test_what_cannot_be_trained_fails_with_the_reason(http: httpx.Client, body: dict[str, Any], said: str) -> None:
    job = ended(http, http.post("/collections/moods/train", json=body).json())
    assert job["state"] == "failed"
    assert said in job["error"]["message"]
    assert http.get("/collections/moods/trained").json() == []


@pytest.mark.parametrize("body", [{"name": "mood", "source": "/etc/passwd"}, {"name": "mood", "encoder": "onnx:/tmp"}])
def test_a_request_cannot_name_files(http: httpx.Client, body: dict[str, Any]) -> None:
    assert http.post("/collections/moods/train", json=body).status_code == 422


def test_what_was_answered_changes_what_is_found_once_it_is_trained_again(http: httpx.Client) -> None:
    ended(http, http.post("/collections/moods/train", json={"name": "mood"}).json())
    asked = {"parts": [{"words": "label:warm"}], "k": 10, "min_confidence": 0.0}

    def scores() -> dict[str, float]:
        found = http.post("/collections/moods/search", json=asked).json()
        return {hit["image_id"]: hit["score"] for hit in found["hits"]}

    before = scores()
    queue = http.get("/collections/moods/trained/mood/review", params={"label": "warm"}).json()
    assert {one["image_id"] for one in queue} == {"red4.png", "blue4.png"}
    answered = {"label": "warm", "image_id": "blue4.png", "right": True}
    assert http.post("/collections/moods/trained/mood/answers", json=answered).status_code == 201
    assert scores() == before
    ended(http, http.post("/collections/moods/train", json={"name": "mood", "source": "again"}).json())
    assert scores() != before
    kinds = {"coco": b'{"info"', "csv": b"image_id,label,confidence"}
    for kind, begins in kinds.items():
        found = http.get("/collections/moods/trained/mood/labels", params={"format": kind, "min_confidence": 0})
        assert found.content.startswith(begins)


def test_a_training_that_is_cancelled_goes_on_and_nothing_else_is_trained_meanwhile(
    tmp_path: Path, serve: Serve
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(64):
        picture = np.clip(np.array([30 * (number % 8), 200, 90]) + random.integers(-25, 26, (16, 16, 3)), 0, 255)
        PIL.Image.fromarray(picture.astype(np.uint8)).save(folder / f"{number}.png")
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        for tag in range(8):
            collection.tag(f"shade {tag}", [f"{number}.png" for number in range(tag, 64, 8)])
    with httpx.Client(base_url=f"{serve(folder)}/api/v1", trust_env=False, timeout=30) as http:
        body = {"name": "shades", "kind": "adapter"}
        job = http.post("/collections/many/train", json=body).json()
        second = http.post("/collections/many/train", json={"name": "other"})
        assert (second.status_code, "at work already" in second.json()["error"]["message"]) == (409, True)
        assert http.post(f"/jobs/{job['id']}/cancel").status_code == 200
        assert ended(http, job)["state"] == "cancelled"
        assert http.get("/collections/many/trained").json() == []
        resumed = ended(http, http.post(f"/jobs/{job['id']}/resume").json())
        assert (resumed["state"], resumed["report"]["spec"]) == ("done", "toy:shades")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"category_id": 9}, "category_id 9 is not among"),
        ({"image_id": 9}, "image_id 9 is not among"),
        ({"bbox": [1, 2]}, "is not four numbers"),
        ({"bbox": [1, 2, 0, 0]}, "boxes are empty"),
    ],
)
def test_labels_that_contradict_themselves_are_told_where(
    http: httpx.Client, change: dict[str, Any], said: str
) -> None:
    names = ("red0.png", "blue0.png")
    images = [{"id": n, "file_name": name, "width": 64, "height": 64} for n, name in enumerate(names)]
    annotations = [{"id": n, "image_id": n, "category_id": 0, "bbox": [0, 0, 9, 9]} for n in range(1)]
    annotations[0] |= change
    source = {"images": images, "categories": [{"id": 0, "name": "warm"}], "annotations": annotations}
    job = ended(http, http.post("/collections/moods/train", json={"name": "mood", "source": source}).json())
    assert (job["state"], said in job["error"]["message"]) == ("failed", True)
