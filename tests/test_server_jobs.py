"""Indexing over HTTP: progress as it happens, cancelled, gone on with, never two at once."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import wherein
from wherein.encoders.toy import ToyEncoder
from wherein.images.image import Pixels
from wherein.server import streams
from wherein.values.records import Progress

Serve = Callable[..., str]
Paint = Callable[..., Path]


@pytest.fixture
def http(served: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{served}/api/v1", trust_env=False, verify=False, timeout=30) as client:
        yield client


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The toy encoder takes a moment for every batch, until the event is set."""
    hurry, quick = threading.Event(), ToyEncoder.images

    def images(self: ToyEncoder, batch: Pixels) -> Any:
        hurry.wait(1.0)
        return quick(self, batch)

    monkeypatch.setattr(ToyEncoder, "images", images)
    return hurry


def events(http: httpx.Client, job_id: str) -> Iterator[dict[str, Any]]:
    with http.stream("GET", f"/jobs/{job_id}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def many(folder: Path, paint: Paint, count: int) -> None:
    for number in range(count):
        paint(folder / "many" / f"{number:03}.png", "red", "blue", size_wh=(70 + number, 48))


def test_a_job_reports_until_it_is_done(http: httpx.Client, folder: Path, paint: Paint) -> None:
    many(folder, paint, 30)
    (folder / "many" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    job = http.post("/jobs", json={"folder": str(folder), "collection": "pictures"})
    assert job.status_code == 201
    *_, last = events(http, job.json()["id"])
    assert (last["state"], last["done"], last["skipped"]) == ("done", last["total"], 1)
    assert (last["report"]["added"], last["report"]["unchanged"]) == (30, 4)
    assert "broken.png" in last["last_skip"]
    assert http.get("/collections/pictures").json()["images"] == 34


def test_a_cancelled_job_keeps_what_it_did_and_goes_on(
    http: httpx.Client, folder: Path, paint: Paint, slow: threading.Event
) -> None:
    many(folder, paint, 200)
    job = http.post("/jobs", json={"folder": str(folder), "collection": "pictures"}).json()
    for now in events(http, job["id"]):
        if now["state"] == "running" and now["done"] > 4:
            http.post(f"/jobs/{job['id']}/cancel")
    assert now["state"] == "cancelled"
    assert 4 < now["done"] < 204
    kept = http.get("/collections/pictures").json()["images"]
    assert 4 < kept < 204
    slow.set()
    again = http.post(f"/jobs/{job['id']}/resume").json()
    *_, last = events(http, again["id"])
    assert (last["state"], last["report"]["unchanged"]) == ("done", kept)
    assert http.get("/collections/pictures").json()["images"] == 204


def test_streams_of_events_are_bounded_and_given_back(
    http: httpx.Client, folder: Path, paint: Paint, slow: threading.Event
) -> None:
    many(folder, paint, 40)
    job = http.post("/jobs", json={"folder": str(folder), "collection": "pictures"}).json()
    path = f"/jobs/{job['id']}/events"
    with ExitStack() as followers:
        for _ in range(streams.EACH):
            assert followers.enter_context(http.stream("GET", path)).status_code == 200
        refused = http.get(path)
        assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "Busy")
        assert f"wherein_event_streams {streams.EACH}\n" in http.get("/metrics").text
        assert http.get(f"/jobs/{job['id']}").status_code == 200
    while "wherein_event_streams 0\n" not in http.get("/metrics").text:
        time.sleep(0.02)
    slow.set()
    *_, last = events(http, job["id"])
    assert last["state"] == "done"


def test_a_stream_ends_in_time_and_the_client_opens_another(
    served: str, folder: Path, paint: Paint, slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SECONDS", 0.2)
    many(folder, paint, 40)
    steps = list[Progress]()

    def step(progress: Progress) -> None:
        steps.append(progress)
        if len(steps) > 3:  # every stream sends at least once
            slow.set()

    report = wherein.connect(served).add(folder, on_progress=step)
    assert (report.added, steps[-1].done) == (40, steps[-1].total)
    assert len(steps) > 3


def test_one_job_at_a_time(http: httpx.Client, folder: Path, paint: Paint, slow: threading.Event) -> None:
    many(folder, paint, 60)
    first = http.post("/jobs", json={"folder": str(folder), "collection": "pictures"}).json()
    second = http.post("/jobs", json={"folder": str(folder), "collection": "pictures"})
    assert (second.status_code, second.json()["error"]["kind"]) == (409, "Conflict")
    while not (folder / ".wherein" / "writer.json").exists():  # the job has begun, but may not write yet
        time.sleep(0.01)
    slow.set()
    *_, last = events(http, first["id"])
    assert last["state"] == "done"
    assert [job["state"] for job in http.get("/jobs").json()] == ["done"]


def test_small_writes_succeed_while_it_indexes(
    http: httpx.Client, folder: Path, paint: Paint, slow: threading.Event
) -> None:
    many(folder, paint, 60)
    job = http.post("/jobs", json={"folder": str(folder), "collection": "pictures"}).json()
    while not (folder / ".wherein" / "writer.json").exists():  # the job has begun, but may not write yet
        time.sleep(0.01)
    judgements = [{"parts": [{"text": "red"}], "right": ["red.png"]}]

    def client(number: int) -> list[int]:
        body = {"tag": f"tag {number % 2}", "image_ids": ["red.png"]}
        paths = (("tags", body), ("untag", body), ("tags", body), ("calibrate", {"judgements": judgements}))
        with httpx.Client(base_url=http.base_url, trust_env=False, timeout=30) as own:
            return [own.post(f"/collections/pictures/{path}", json=sent).status_code for path, sent in paths]

    with ThreadPoolExecutor(4) as clients:
        assert list(clients.map(client, range(4))) == [[200] * 4] * 4
    assert http.get(f"/jobs/{job['id']}").json()["state"] == "running"
    assert http.get("/collections/pictures/tags").json() == {"tag 0": 1, "tag 1": 1}
    locked = http.post("/collections/pictures/compact")
    assert (locked.status_code, locked.json()["error"]["kind"]) == (409, "CollectionLocked")
    http.post(f"/jobs/{job['id']}/cancel")
    slow.set()


def test_a_folder_can_become_a_collection_of_its_own(http: httpx.Client, folder: Path) -> None:
    job = http.post("/jobs", json={"folder": str(folder / "holiday"), "encoder": "toy"}).json()
    *_, last = events(http, job["id"])
    assert (last["state"], last["collection"]) == ("done", "holiday")
    assert http.get("/collections/holiday").json()["images"] == 2


def test_only_encoders_that_a_job_can_use_are_offered_the_default_first(http: httpx.Client) -> None:
    offered = http.get("/encoders").json()
    assert offered[:2] == ["mini", "toy"]
    assert not {"hf", "onnx", "openclip", "naclip", "radio"} & set(offered)


def test_an_unknown_encoder_is_said(http: httpx.Client, folder: Path) -> None:
    job = http.post("/jobs", json={"folder": str(folder), "collection": "pictures", "encoder": "nope"}).json()
    *_, last = events(http, job["id"])
    assert (last["state"], last["error"]["kind"]) == ("failed", "SpecError")


def test_jobs_end_with_the_server(
    collection: wherein.Collection, folder: Path, paint: Paint, serve: Serve, slow: threading.Event
) -> None:
    collection.add(folder)
    many(folder, paint, 200)
    address = serve(folder)
    httpx.post(f"{address}/api/v1/jobs", json={"folder": str(folder), "collection": "pictures"}, trust_env=False)
    time.sleep(0.3)
    names = {thread.name for thread in threading.enumerate()}
    assert "index pictures" in names
