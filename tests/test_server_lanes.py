"""One slow request holds nobody up: lanes, deadlines, and clients that leave."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import wherein
from wherein.encoders.toy import ToyEncoder
from wherein.images.image import Pixels
from wherein.server.lanes import is_slow
from wherein.server.settings import Settings

Serve = Callable[..., str]
Paint = Callable[..., Path]
HERE = "/api/v1/collections/pictures"
SLOW = {"parts": [{"text": "red", "where": "left"}], "method": "theoretical"}
QUICK = {"parts": [{"text": "red"}]}


class Gate:
    """The toy encoder, which counts the batches it encodes and waits at a gate until it is opened."""

    def __init__(self) -> None:
        self.opened, self.batches = threading.Event(), 0


@pytest.fixture
def gate(collection: wherein.Collection, folder: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """More pictures than one batch holds, indexed; what encodes pictures afterwards waits."""
    for number in range(130):
        paint(folder / "many" / f"{number:03}.png", "red", "blue", size_wh=(40 + number, 30))
    collection.add(folder)
    made, quick = Gate(), ToyEncoder.images

    def images(self: ToyEncoder, batch: Pixels) -> Any:
        made.batches += 1
        assert made.opened.wait(30)
        return quick(self, batch)

    monkeypatch.setattr(ToyEncoder, "images", images)
    yield made
    made.opened.set()


def post(address: str, asked: dict[str, Any], *, timeout: float = 30.0) -> httpx.Response:
    return httpx.post(f"{address}{HERE}/search", json=asked, trust_env=False, timeout=timeout)


def asked(address: str) -> socket.socket:
    """A client that has asked the slow question, and does not listen."""
    host, port = address.removeprefix("http://").split(":")
    client, body = socket.create_connection((host, int(port))), json.dumps(SLOW).encode()
    head = f"POST {HERE}/search HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    return client


def test_metrics_say_how_many_wait_in_each_lane(gate: Gate, folder: Path, serve: Serve) -> None:
    address = serve(folder)

    def depth(lane: str) -> str:
        told = httpx.get(f"{address}/api/v1/metrics", trust_env=False).text
        found: list[str] = re.findall(rf'wherein_lane_depth{{collection="pictures",lane="{lane}"}} (\d+)', told)
        return found[0]

    waiting = [asked(address) for _ in range(3)]
    while depth("slow") != "3":
        time.sleep(0.01)
    assert depth("quick") == "0"
    for client in waiting:
        client.close()
    gate.opened.set()
    while depth("slow") != "0":
        time.sleep(0.01)


def test_a_server_whose_threads_are_all_at_work_answers_what_needs_none(
    collection: wherein.Collection, folder: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.add(folder)
    address, opened = serve(folder), threading.Event()
    host, port = address.removeprefix("http://").split(":")
    monkeypatch.setattr(wherein.Collection, "tag", lambda *_: opened.wait())
    body = json.dumps({"tag": "mine", "image_ids": ["red.png"]}).encode()
    head = f"POST {HERE}/tags HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    many = 41  # one more than there are threads for calls that wait
    clients = [socket.create_connection((host, int(port))) for _ in range(many)]
    try:
        for client in clients:
            client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        with httpx.Client(base_url=address, trust_env=False, timeout=20) as http:
            while f"wherein_requests_running {many + 1}" not in http.get("/api/v1/metrics").text:
                time.sleep(0.01)
            for path in ("/api/v1/health", "/", "/api/v1/collections", f"{HERE}/info"):
                assert http.get(path).status_code == 200
            assert http.post(f"{HERE}/search", json=QUICK).status_code == 200
    finally:
        opened.set()
        for client in clients:
            client.close()


def test_searches_that_were_given_up_hold_nobody_up(gate: Gate, folder: Path, serve: Serve) -> None:
    address = serve(folder)
    abandoned = [asked(address) for _ in range(6)]
    while not gate.batches:
        time.sleep(0.01)
    for client in abandoned:
        client.close()
    quick = post(address, QUICK)
    assert (quick.status_code, gate.batches) == (200, 1)
    gate.opened.set()
    slow = post(address, SLOW)
    assert (slow.status_code, len(slow.json()["hits"])) == (200, 20)
    assert gate.batches == 1 + 3  # the batch at hand when the six left, and those of the search that stayed


def test_a_search_that_takes_too_long_says_so_and_the_next_is_answered(gate: Gate, folder: Path, serve: Serve) -> None:
    address = serve(folder, settings=Settings(search_seconds=1.0))
    answer = post(address, SLOW)
    error = answer.json()["error"]
    assert (answer.status_code, error["kind"]) == (503, "TooSlow")
    assert "no answer after 1 s" in error["message"]
    assert "with a quicker method" in error["message"]
    assert post(address, QUICK).status_code == 200


def test_a_search_that_passes_its_deadline_stops_by_itself(gate: Gate, folder: Path, serve: Serve) -> None:
    address = serve(folder, settings=Settings(search_seconds=0.2))
    threading.Timer(0.5, gate.opened.set).start()
    error = post(address, SLOW).json()["error"]
    assert (error["kind"], error["status"]) == ("Stopped", 503)
    assert "took more than the 0.2 s" in error["message"]
    assert gate.batches <= 1


def test_only_slow_words_go_in_the_slow_lane() -> None:
    assert [is_slow(method) for method in ("", "mini+patches", "static-36~soft+locate")] == [False] * 3
    assert [is_slow(method) for method in ("mini+bow@65536+sp", "asmk:rootsift", "theoretical", "ground:a/b")] == [
        True
    ] * 4
