"""Messages between this process and one of its decoders, over a pair of sockets.

Each message is a head, in JSON, and a body: the bytes of a photograph, or its pixels. The body is received in one
piece, so that it is copied into the kernel and out of it and no further.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from typing import Any, Final

_LENGTHS: Final = struct.Struct("!QQ")
"""How the lengths of head and body are written."""
_ROOM: Final = 4 << 20
"""Bytes that may be on their way, where the system allows as many: most photographs, so that nobody waits for half of
one (`benchmarks/indexing.py`)."""


class Channel:
    """One end of a pair of sockets. What fails raises OSError, and the other end's end is an EOFError."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)

    def fileno(self) -> int:
        """The number of the socket."""
        return self._end.fileno()

    def send(self, head: Any, body: bytes | memoryview = b"") -> None:
        """Send one message, all at once; returns when all of it is on its way."""
        told = json.dumps(head).encode()
        first = _LENGTHS.pack(len(told), len(body)) + told
        sent = self._end.sendmsg([first, body])
        if sent < len(first):  # a signal came, or there was no room for all
            self._end.sendall(first[sent:])
            sent = len(first)
        if sent < len(first) + len(body):
            self._end.sendall(memoryview(body)[sent - len(first) :])

    def receive(self) -> tuple[Any, bytes]:
        """The head and the body of the next message, waited for."""
        of_head, of_body = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        head = json.loads(self._exactly(of_head))
        return head, self._exactly(of_body) if of_body else b""

    def waits(self, seconds: float) -> bool:
        """Whether a message has come, or the other end has closed, within some seconds."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def lend(self, descriptor: int) -> None:
        """Give the other process an open file."""
        socket.send_fds(self._end, [b"f"], [descriptor])

    def lent(self) -> int:
        """The open file that the other process gives."""
        _, descriptors, _, _ = socket.recv_fds(self._end, 1, 1)
        if not descriptors:
            raise EOFError
        return descriptors[0]

    def close(self) -> None:
        """End it: the other end is told."""
        self._end.close()

    def _exactly(self, count: int) -> bytes:
        received = self._end.recv(count, socket.MSG_WAITALL)
        if len(received) == count:
            return received
        pieces = [received]
        while received and count > (got := sum(map(len, pieces))):  # a signal came in between
            pieces.append(received := self._end.recv(count - got, socket.MSG_WAITALL))
        if not received:
            raise EOFError
        return b"".join(pieces)
