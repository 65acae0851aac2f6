"""The bodies of requests: how large one may be, how soon it must be there, how much all may hold at once."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from wherein.server.settings import Settings

Receive = Callable[[], Awaitable[Any]]
SMALL_BYTES: Final = 64 << 10
"""A body up to here is taken whatever the others hold: a search in words, which large uploads must not keep out."""


class Bodies:
    """What the requests of one server hold in memory until they are answered."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.held = 0
        """Bytes, now."""

    def of(self, scope: dict[str, Any], receive: Receive) -> Body:
        """The body of a request; refused at once where it says that it is too large."""
        most = self._settings.max_upload_bytes
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdigit() or int(length) > most:
            raise too_large(most)
        return Body(self, receive, most=most, seconds=self._settings.upload_seconds)

    def take(self, count: int, *, own: int) -> None:
        """Hold more bytes of a body that has `own` already; refused where all together would be too many."""
        if own + count > SMALL_BYTES and self.held + count > self._settings.max_bodies_bytes:
            raise HTTPException(503, "other requests are sending all that the server takes at once. Ask again later.")
        self.held += count


class Body:
    """One body, as long as it is small enough and comes soon enough."""

    def __init__(self, bodies: Bodies, receive: Receive, *, most: int, seconds: float) -> None:
        self._bodies, self._receive, self._most, self._seconds = bodies, receive, most, seconds
        self._deadline, self._ended, self._own = time.monotonic() + seconds, False, 0

    async def receive(self) -> Any:
        """ASGI: the next piece, or that the client has gone."""
        if self._ended:
            return await self._receive()
        with anyio.move_on_after(max(0.0, self._deadline - time.monotonic())) as waiting:
            message = await self._receive()
        if waiting.cancelled_caught:
            raise HTTPException(408, f"the request took more than {self._seconds:g} s to arrive.")
        count = len(message.get("body", b""))
        self._ended = not message.get("more_body", False)
        if self._own + count > self._most:
            raise too_large(self._most)
        self._bodies.take(count, own=self._own)
        self._own += count
        return message

    def release(self) -> None:
        """The request is answered."""
        self._bodies.held -= self._own
        self._own = 0


def too_large(most: int) -> HTTPException:
    """The answer to a body that is larger than allowed."""
    return HTTPException(413, f"the request is larger than {most:,} bytes. Send a smaller image.")
