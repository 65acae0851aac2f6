"""What the server bears before a request is one: idle sockets, slow and endless headers, clients that do not read."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import wherein
from wherein.server.connections import Bounds

Serve = Callable[..., str]
PATH = "/api/v1/collections"


@pytest.fixture
def filled(collection: wherein.Collection, folder: Path) -> Path:
    collection.add(folder)
    return folder


def connected(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def everything(client: socket.socket) -> bytes:
    """What comes until the other side closes; nothing where it just hangs up."""
    said = b""
    try:
        while piece := client.recv(1 << 16):
            said += piece
    except ConnectionResetError:
        return said
    return said


def answers(address: str) -> bool:
    return httpx.get(f"{address}{PATH}", trust_env=False, timeout=20).status_code == 200


def test_idle_sockets_shut_nobody_out(filled: Path, serve: Serve) -> None:
    address = serve(filled, bounds=Bounds(connections=8))
    idle = [connected(address) for _ in range(40)]
    assert answers(address)
    hung_up = [client for client in idle[:30] if everything(client) == b""]
    assert len(hung_up) == 30  # those who waited longest made place
    for client in idle:
        client.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nhost: a"], ids=["nothing", "half a header"])
def test_headers_that_never_end_are_not_waited_for(filled: Path, serve: Serve, sent: bytes) -> None:
    address = serve(filled, bounds=Bounds(head_seconds=0.3))
    with connected(address) as client:
        client.sendall(sent)
        answer = everything(client)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"took more than 0.3 s to arrive" in answer
    assert answers(address)


def test_headers_without_end_are_not_kept(filled: Path, serve: Serve) -> None:
    address = serve(filled, bounds=Bounds(head_bytes=20_000))
    with connected(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 19_000)
        client.sendall(b"b" * 2_000)
        assert everything(client).startswith(b"HTTP/1.1 431 ")
    assert answers(address)


def test_a_body_is_not_a_header(filled: Path, serve: Serve) -> None:
    address = serve(filled, bounds=Bounds(head_bytes=2_000, head_seconds=20.0))
    with httpx.Client(base_url=address, trust_env=False, timeout=20) as client:
        for _ in range(3):  # on one connection
            sent = client.post(f"{PATH}/pictures/examples", content=(filled / "red.png").read_bytes() + b" " * 99_000)
            assert sent.status_code == 201
            assert client.get(PATH).status_code == 200


def test_who_does_not_read_is_hung_up_on(collection: wherein.Collection, folder: Path, serve: Serve) -> None:
    more = b" " * 30_000_000  # than any buffer on the way holds
    (folder / "red.png").write_bytes((folder / "red.png").read_bytes() + more)
    collection.add(folder)
    address = serve(folder, bounds=Bounds(unread_seconds=0.3))
    with connected(address) as client:
        client.sendall(f"GET {PATH}/pictures/original?image_id=red.png HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        time.sleep(1.5)
        assert len(everything(client)) < len(more)
    assert answers(address)


def heard(client: socket.socket, sent: bytes, *, most: int) -> int:
    """How many bytes of it are taken before the other side hangs up, at most so many."""
    taken = 0
    try:
        while taken < most:
            client.sendall(sent)
            taken += len(sent)
    except OSError:
        return taken
    return taken


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("trailer", [b"a: " + b"b" * 9_000 + b"\r\n", b"b" * 9_000], ids=["many", "one without end"])
def test_what_follows_a_body_in_the_place_of_headers_is_not_kept(
    filled: Path, serve: Serve, method: str, trailer: bytes
) -> None:
    address = serve(filled, bounds=Bounds(head_bytes=20_000))
    with connected(address) as client:
        head = f"{method} {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
        client.sendall(head.encode())
        assert heard(client, trailer, most=100_000_000) < 100_000_000  # buffers on the way take some megabytes
    assert answers(address)


def test_a_body_in_small_chunks_is_taken(filled: Path, serve: Serve) -> None:
    address = serve(filled, bounds=Bounds(head_bytes=2_000))
    body = (filled / "red.png").read_bytes() + b" " * 5_000
    sent = httpx.post(
        f"{address}{PATH}/pictures/examples", content=(body[n : n + 1] for n in range(len(body))), trust_env=False
    )
    assert sent.status_code == 201


def test_bodies_that_do_not_come_shut_nobody_out(filled: Path, serve: Serve) -> None:
    address = serve(filled, bounds=Bounds(connections=8))
    head = f"POST {PATH}/pictures/search HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99\r\n\r\n{{"
    slow = [connected(address) for _ in range(8)]
    for client in slow:
        client.sendall(head.encode())
    time.sleep(0.5)
    assert answers(address)
    assert everything(slow[0]) == b""  # who was silent longest made place
    for client in slow:
        client.close()


def test_who_is_answered_cannot_go_on_sending_for_ever(filled: Path, serve: Serve) -> None:
    address = serve(filled, bounds=Bounds(head_seconds=0.5))
    with connected(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000\r\n\r\n")
        with pytest.raises(OSError):  # noqa: PT012 — it is the waiting that ends it
            for _ in range(200):
                client.sendall(b"x")
                time.sleep(0.05)


def test_what_is_no_request_is_answered_in_the_shape_of_errors(filled: Path, serve: Serve) -> None:
    address = serve(filled)
    with connected(address) as client:
        client.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        answer = everything(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"kind": "BadRequest"' in answer
