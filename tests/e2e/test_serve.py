"""`wherein serve` as a user starts it."""

import re
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

import wherein


@contextmanager
def serving(*words: str) -> Iterator[str]:
    """The line it prints when it is ready; stopped in the end, as Ctrl-C does."""
    command = [sys.executable, "-m", "wherein", "serve", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        yield process.stderr.readline()
    finally:
        process.send_signal(2)
        assert process.wait(timeout=20) in (0, 130)
        assert process.stderr is not None
        process.stderr.close()


def get(url: str, **options: dict[str, str]) -> httpx.Response:
    return httpx.get(url, trust_env=False, verify=False, timeout=20, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("named", [(), ("-c",)], ids=["a folder", "a collection, as other commands name it"])
def test_on_this_machine_no_token_is_needed(
    collection: wherein.Collection, folder: Path, named: tuple[str, ...]
) -> None:
    collection.add(folder)
    with serving(*named, str(folder), "--port", "0") as line:
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/", line)
        assert "token" not in line
        assert get(f"{address}api/v1/collections").json()[0]["images"] == 4
        assert "<title>wherein</title>" in get(address).text


def test_reachable_from_elsewhere_it_makes_up_a_token(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    with serving("-c", str(folder), "--host", "0.0.0.0", "--port", "0") as line:
        ((address, token),) = re.findall(r"(http://127\.0\.0\.1:\d+/)\?token=(\S{20,})", line)
        assert get(f"{address}api/v1/collections").status_code == 401
        headers = {"authorization": f"Bearer {token}"}
        assert get(f"{address}api/v1/collections", headers=headers).status_code == 200


@pytest.mark.parametrize("token", ["", " "])
def test_a_blank_token_keeps_nobody_out_and_is_refused(
    collection: wherein.Collection, folder: Path, token: str
) -> None:
    words = ["serve", "-c", str(folder), "--host", "0.0.0.0", "--port", "0", "--token", token]
    command = [sys.executable, "-m", "wherein", *words]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr.splitlines()) == (
        2,
        ["wherein: --token: is blank, and would keep nobody out. Give one, or leave the option out."],
    )


def test_bound_to_all_it_answers_at_the_address_it_is_reached_at(collection: wherein.Collection, folder: Path) -> None:
    with serving("-c", str(folder), "--host", "0.0.0.0", "--port", "0", "--token", "secret") as line:
        (port,) = re.findall(r":(\d+)/", line)
        headers = {"authorization": "Bearer secret"}
        for at, host, status in (
            ("127.0.0.2", "127.0.0.2", 200),
            ("127.0.0.1", "127.0.0.2", 421),
            ("127.0.0.2", "evil.example", 421),
        ):
            answer = get(f"http://{at}:{port}/api/v1/collections", headers={**headers, "host": f"{host}:{port}"})
            assert answer.status_code == status, (at, host)


def test_a_port_that_is_taken_is_said_in_one_line(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    with serving("-c", str(folder), "--port", "0") as line:
        port = re.findall(r":(\d+)/", line)[0]
        command = [sys.executable, "-m", "wherein", "serve", "-c", str(folder), "--port", port]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 2
        assert run.stderr.startswith(f"wherein: 127.0.0.1:{port}: cannot listen there")
        assert len(run.stderr.splitlines()) == 1


def test_neither_idle_sockets_nor_endless_headers_shut_anybody_out(
    collection: wherein.Collection, folder: Path
) -> None:
    collection.add(folder)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))  # what most systems let a server open
    try:
        with serving("-c", str(folder), "--port", "0") as line, ExitStack() as opened:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(2048, before[0]), before[1]))
            at = ("127.0.0.1", int(re.findall(r":(\d+)/", line)[0]))
            for _ in range(1100):
                opened.enter_context(socket.create_connection(at, timeout=20))
            assert get(f"http://127.0.0.1:{at[1]}/api/v1/collections").json()[0]["images"] == 4
            endless = opened.enter_context(socket.create_connection(at, timeout=20))
            endless.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\na: " + b"b" * 80_000)
            assert endless.recv(100).startswith(b"HTTP/1.1 431 ")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
