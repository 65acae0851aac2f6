"""Connections: how many, how long one may take to say what it wants, how much it may say, how slowly it may listen.

An application sees a request when its headers are complete; what comes before is bounded here.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wherein.server.problems import body

_REASONS: Final = {408: "Request Timeout", 431: "Request Header Fields Too Large"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one server bears."""

    connections: int = 512
    """Open at once: half the files that a process may open on most systems; browsers use six each."""
    head_bytes: int = 64 << 10
    """Of a request before its body: eight times what other servers take, for searches in an address."""
    head_seconds: float = 10.0
    """From the first byte of a request, or from connecting, to the end of its headers."""
    idle_seconds: float = 5.0
    """Between two requests on one connection."""
    unread_seconds: float = 30.0
    """How long an answer may wait for its client to read on."""


def config(app: Any, *, bounds: Bounds | None = None, **more: Any) -> uvicorn.Config:
    """How uvicorn serves the application: with bounds on its connections."""
    borne = bounds or Bounds()
    kept = OrderedDict[BoundedProtocol, None]()

    class Protocol(BoundedProtocol):
        """The connections of this server."""

        bounds = borne
        others = kept

    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        log_level="warning",
        server_header=False,
        timeout_keep_alive=max(1, round(borne.idle_seconds)),
        **more,
    )


class BoundedProtocol(HttpToolsProtocol):
    """One connection. When there are too many, the one that has been idle longest makes place."""

    bounds: Bounds
    others: OrderedDict[BoundedProtocol, None]
    """All connections of the server, the one that was heard last at the end."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head_bytes, self._in_head = 0, True
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection in, or refuse it where all the others are at work."""
        super().connection_made(transport)
        if len(self.others) >= self.bounds.connections:
            idle = next((other for other in self.others if other.is_idle), None)
            (self if idle is None else idle).transport.abort()
            if idle is None:
                return
            self.others.pop(idle, None)
        self.others[self] = None
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.others.pop(self, None)
        for timer in (self._head_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Read on, as long as the headers are small enough."""
        if self in self.others:
            self.others.move_to_end(self)
        if self._in_head:
            self._head_bytes += len(data)
            self._expect_head()
        super().data_received(data)
        if self._in_head and self._head_bytes > self.bounds.head_bytes:
            self._refuse(431, f"the headers are larger than {self.bounds.head_bytes:,} bytes. Send a shorter request.")

    def on_headers_complete(self) -> None:
        """The request is known; its body is the application's business."""
        self._head_bytes, self._in_head = 0, False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """What comes next is another request."""
        self._in_head = True
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client reads more slowly than it is answered."""
        super().pause_writing()
        self._unread_timer = self.loop.call_later(self.bounds.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads on."""
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        super().resume_writing()

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.bounds.head_seconds, self._too_slow)

    def _too_slow(self) -> None:
        self._refuse(408, f"the headers took more than {self.bounds.head_seconds:g} s to arrive.")

    def _refuse(self, status: int, message: str) -> None:
        """Say why in the one shape of errors, and close."""
        if self.transport.is_closing():
            return
        content = json.dumps(body(status, message)).encode()
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        self.transport.close()
