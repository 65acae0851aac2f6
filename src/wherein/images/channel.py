"""Messages between this process and one of its decoders, over a pair of sockets.

Each message is its length, then its bytes, which are received in one piece: a photograph, or its pixels, is copied into
the kernel and out of it and no further.
"""

from __future__ import annotations

import select
import socket
import struct
from typing import Final

_LENGTH: Final = struct.Struct("!Q")
"""How the length of a message is written."""
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

    def send(self, message: bytes | memoryview) -> None:
        """Send one message; returns when all of it is on its way."""
        self._end.sendall(_LENGTH.pack(memoryview(message).nbytes))
        self._end.sendall(message)

    def receive(self) -> bytes:
        """The next message, waited for."""
        return self._exactly(*_LENGTH.unpack(self._exactly(_LENGTH.size)))

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
