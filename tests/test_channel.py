"""Messages between a process and its decoders arrive whole, or the end is told."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wherein.images.channel import Channel

LARGE = 24 << 20
"""Bytes of a message that no socket takes at once."""


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    """Two ends of one pair."""
    ours, theirs = (Channel(end) for end in socket.socketpair())
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize("size", [0, 1, 70_000, LARGE], ids=["empty", "one byte", "some", "more than fits"])
def test_a_message_arrives_as_it_was_sent(ends: tuple[Channel, Channel], size: int) -> None:
    message = os.urandom(size)
    sender = threading.Thread(target=ends[0].send, args=({"name": "ä" * 300}, message))
    sender.start()
    assert ends[1].receive() == ({"name": "ä" * 300}, message)
    ends[0].send("next")
    assert ends[1].receive() == ("next", b"")
    sender.join()


def test_a_signal_in_between_loses_nothing(ends: tuple[Channel, Channel]) -> None:
    came = list[int]()
    before = signal.signal(signal.SIGALRM, lambda number, _: came.append(number))
    message = os.urandom(LARGE)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        sender = threading.Thread(target=ends[0].send, args=("large", message))
        sender.start()
        assert ends[1].receive() == ("large", message)
        sender.join()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert came


def test_the_end_of_the_other_is_told_also_within_a_message() -> None:
    raw, theirs = socket.socketpair()
    channel = Channel(theirs)
    assert not channel.waits(0.0)
    raw.sendall((100).to_bytes(8, "big") + bytes(8) + b"half")
    raw.close()
    assert channel.waits(1.0)
    with pytest.raises(EOFError):
        channel.receive()
    channel.close()


def test_an_open_file_is_lent(ends: tuple[Channel, Channel], tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"content")
    with path.open("rb") as file:
        ends[0].lend(file.fileno())
        with os.fdopen(ends[1].lent(), "rb") as lent:
            assert lent.read() == b"content"
