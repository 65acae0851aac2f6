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

_REASONS: Final = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large"}
"""What HTTP calls the answers that are given before there is a request."""
_FRAMING: Final = 16
"""Bytes beside the body that its own framing may take, for each byte of it: a chunk of one byte takes six."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one server bears."""

    connections: int = 512
    """Connections open at once: half of the 1,024 files that a process may often open; browsers use six each."""
    head_bytes: int = 64 << 10
    """Bytes of a request before its body: eight times what other servers take, for searches in an address."""
    head_seconds: float = 10.0
    """Seconds from the first byte of a request, or from connecting, to the end of its headers."""
    idle_seconds: float = 5.0
    """Seconds between two requests on one connection."""
    unread_seconds: float = 30.0
    """Seconds that an answer may wait for its client to read on."""


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
    """One connection. When there are too many, the one that has been silent longest makes place.

    Idle ones go first, then those whose client keeps the server waiting; one whose answer is being made stays.
    """

    bounds: Bounds
    others: OrderedDict[BoundedProtocol, None]
    """All connections of the server, the one that was heard last at the end."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head_bytes, self._in_head = 0, True
        self._beside_bytes = 0
        """What came after the headers and is not of the body: how it is cut into chunks, and trailers."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection in, or refuse it where all the others are at work."""
        super().connection_made(transport)
        if len(self.others) >= self.bounds.connections:
            waiting = (other for other in self.others if other.waits_for_client)
            given_up = next((other for other in self.others if other.is_idle), next(waiting, self))
            given_up.transport.abort()
            if given_up is self:
                return
            self.others.pop(given_up, None)
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

    @property
    def waits_for_client(self) -> bool:
        """Whether a request is not all there yet, or its answer is not being read."""
        return not self.is_idle and (self.cycle.more_body or self.flow.write_paused)

    def data_received(self, data: bytes) -> None:
        """Read on, as long as the headers are small enough."""
        if self in self.others:
            self.others.move_to_end(self)
        if self._in_head:
            self._head_bytes += len(data)
            self._expect_head()
        else:
            self._beside_bytes += len(data)
        super().data_received(data)
        if max(self._head_bytes if self._in_head else 0, self._beside_bytes) > self.bounds.head_bytes:
            self._refuse(431, f"the headers are larger than {self.bounds.head_bytes:,} bytes. Send a shorter request.")

    def on_headers_complete(self) -> None:
        """The request is known; its body is the application's business."""
        self._head_bytes, self._beside_bytes, self._in_head = 0, 0, False
        self._expect_nothing()
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; what follows a body in the place of headers is read by nobody."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """The application bounds the body itself."""
        self._beside_bytes = max(0, self._beside_bytes - (1 + _FRAMING) * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """What comes next is another request."""
        self._beside_bytes, self._in_head = 0, True
        self._expect_nothing()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Whoever is answered already has only so long to send the rest of the request."""
        super().on_response_complete()
        if not self._in_head and self.is_idle and self._head_timer is None:
            self._head_timer = self.loop.call_later(self.bounds.head_seconds, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """What cannot be read as a request is answered in the one shape of errors, too."""
        self._refuse(400, f"{msg.rstrip('.')}: this is no request of HTTP/1.1.")

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

    def _expect_nothing(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

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
