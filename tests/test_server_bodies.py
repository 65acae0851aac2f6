"""What requests may hold of the server's memory, all together: bodies, masks, examples; and who prepares what."""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.errors import NotPrepared
from wherein.kernels.codebook import Codebook
from wherein.server import parts
from wherein.server.preparing import Preparing
from wherein.server.settings import Settings

Serve = Callable[..., str]
HERE = "/api/v1/collections/pictures"
HTTP = httpx.Client(trust_env=False, timeout=30)
RED = {"parts": [{"text": "red"}]}


@pytest.fixture
def filled(collection: wherein.Collection, folder: Path) -> Path:
    collection.add(folder)
    return folder


def sending(address: str, path: str, *, length: int, sent: int) -> socket.socket:
    """A client that has sent a part of a body."""
    host, port = address.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)), timeout=20)
    client.sendall(f"POST {HERE}{path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n\r\n".encode())
    client.sendall(b"x" * sent)
    return client


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["kind"]


def test_large_bodies_together_stay_within_a_budget_and_small_ones_always_pass(filled: Path, serve: Serve) -> None:
    address = serve(filled, settings=Settings(max_bodies_bytes=1_000_000))
    held = [sending(address, "/examples", length=500_000, sent=480_000) for _ in range(2)]
    time.sleep(1.0)  # until they have arrived
    data = (filled / "red.png").read_bytes() + b" " * 200_000
    assert kind(HTTP.post(f"{address}{HERE}/examples", content=data)) == (503, "Busy")
    assert HTTP.post(f"{address}{HERE}/search", json=RED).status_code == 200
    for client in held:
        client.close()
    until = time.monotonic() + 20
    while HTTP.post(f"{address}{HERE}/examples", content=data).status_code != 201:  # what they held is given back
        assert time.monotonic() < until


def test_a_body_that_does_not_come_says_so_where_json_is_read(filled: Path, serve: Serve) -> None:
    address = serve(filled, settings=Settings(upload_seconds=0.3))
    with sending(address, "/search", length=100, sent=1) as client:
        assert client.makefile("rb").readline().split()[1] == b"408"


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_failure_of_the_server(
    filled: Path, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    address = serve(filled)
    for _ in range(3):
        sending(address, "/examples", length=1000, sent=10).close()
    assert HTTP.post(f"{address}{HERE}/search", json=RED).status_code == 200
    time.sleep(0.3)
    assert not [record for record in caplog.records if record.exc_info]


def test_masks_are_counted_before_they_are_unfolded(served: str) -> None:
    mask = {"size": [12_000, 12_000], "counts": [0, 144_000_000]}
    part = {"image_id": "red.png", "mask": mask}
    for path, asked in (
        ("/search", {"parts": [part]}),
        ("/matches", {"parts": [part], "image_id": "red.png"}),
        ("/calibrate", {"judgements": [{"parts": [part], "right": ["red.png"]}]}),
    ):
        answer = HTTP.post(f"{served}{HERE}{path}", json=asked)
        assert kind(answer) == (422, "InvalidRequest")
        assert "144,000,000 pixels in all" in answer.json()["error"]["message"]
    small = {"size": [48, 64], "counts": [0, 48 * 64]}
    asked = {"parts": [{"image_id": "red.png", "mask": small}]}
    assert HTTP.post(f"{served}{HERE}/search", json=asked).status_code == 200


def test_the_examples_of_a_request_stay_within_a_budget(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = RED | {"liked": ["red.png", "blue.png"], "disliked": ["holiday/half.png"]}
    assert HTTP.post(f"{served}{HERE}/search", json=asked).status_code == 200
    monkeypatch.setattr(parts, "EXAMPLE_BYTES", 200)
    assert kind(HTTP.post(f"{served}{HERE}/feedback", json=asked | {"k": 3})) == (413, "TooLarge")


# --- first searches of their kind ------------------------------------------------------------------------


class Training:
    """What codebooks are being learnt, each of which waits at a gate."""

    def __init__(self) -> None:
        self.sizes, self.open = list[int](), threading.Event()

    def __call__(self, sample: Any, *, words: int, piece: Any, **more: Any) -> Codebook:
        self.sizes.append(words)
        assert self.open.wait(30)
        piece(0, 1, lambda: np.zeros((1, 1), np.float32))  # a step, at which it may be stopped
        return Codebook(np.zeros((1, sample.shape[1]), np.float32))


def test_what_clients_left_before_it_was_begun_is_never_prepared(
    collection: wherein.Collection,
    folder: Path,
    cover: Callable[..., Any],
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(4):
        PIL.Image.fromarray(cover(number)).save(folder / f"cover{number}.png")
    collection.add(folder, layers=["global", "local"])
    training = Training()
    monkeypatch.setattr(Codebook, "train", training)
    address = serve(folder)
    image = {"parts": [{"image_id": "cover1.png"}]}
    for size in (300, 301, 302):
        with pytest.raises(httpx.ReadTimeout):
            HTTP.post(f"{address}{HERE}/search", json=image | {"method": f"bow@{size}"}, timeout=1.0)
    assert training.sizes == [300]
    threading.Timer(0.5, training.open.set).start()
    assert HTTP.post(f"{address}{HERE}/search", json=image | {"method": "bow@400"}).status_code == 200
    assert training.sizes == [300, 400]  # the first stopped at its next step, for somebody who waits
    derived = [path.name for path in (folder / ".wherein" / "derived").rglob("codebook@*.npy")]
    assert [name for name in derived if name.startswith("codebook@300.npy")] == []


def test_what_is_prepared_alone_goes_on_though_its_client_left(
    collection: wherein.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    import anyio

    begun, ended = threading.Event(), threading.Event()

    def prepare(self: wherein.Collection, *given: Any, on_progress: Callable[[object], None], **more: Any) -> None:
        begun.set()
        for _ in range(10):
            time.sleep(0.05)
            on_progress(None)
        ended.set()

    monkeypatch.setattr(wherein.Collection, "prepare", prepare)
    preparing = Preparing(collection.folder, name="test")

    async def leave() -> None:
        with anyio.move_on_after(0.2):
            await preparing.wait_for(NotPrepared("not yet"), seconds=None)

    with ThreadPoolExecutor(1) as another:  # a browser of other tests may have its own loop in this thread
        another.submit(anyio.run, leave).result()
    assert begun.is_set()
    assert ended.wait(20)
    preparing.close()


UNREADABLE = [
    ("no UTF-8", b'{"parts": [{"text": "\xff\xfe red"}]}', "it is no UTF-8 at byte "),
    ("nested too deep", b'{"parts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "lie too deep in one another"),
    ("a number of 5,000 digits", b'{"k": ' + b"1" * 5000 + b"}", "Exceeds the limit (4300 digits)"),
]


@pytest.mark.parametrize(("content", "said"), [one[1:] for one in UNREADABLE], ids=[one[0] for one in UNREADABLE])
def test_a_body_that_cannot_be_read_is_told_why(served: str, content: bytes, said: str) -> None:
    answer = HTTP.post(f"{served}{HERE}/search", content=content, headers={"content-type": "application/json"})
    assert kind(answer) == (400, "BadRequest")
    message = answer.json()["error"]["message"]
    assert message.startswith(f"the body of {HERE}/search cannot be read: ")
    assert said in message
    assert "See /docs" in message or "Write its JSON in UTF-8." in message
