"""Streams of events: how many one client and all may hold open, and for how long."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi.responses import StreamingResponse

from wherein.server.problems import Problem

EACH: Final = 8
"""Streams of one address: a browser holds six connections to a server, and a script follows a job or two beside it."""
ALL: Final = 64
"""Streams of a server: an eighth of its connections, so that followers keep nobody out who asks something."""
SECONDS: Final = 600.0
"""A stream ends after so long; browsers and the Python client then open another. What one stream sends is bounded by
this and by how often a job is looked at: four thousand events, a few megabytes."""


class Streams:
    """The streams that are open, by their clients' addresses."""

    def __init__(self) -> None:
        self._open = Counter[str]()

    def __len__(self) -> int:
        return self._open.total()

    def answer(self, events: AsyncIterator[bytes], *, client: str) -> StreamingResponse:
        """The answer that sends events as they come; refused where too many are sent already."""
        if self._open[client] >= EACH or len(self) >= ALL:
            message = f"{self._open[client]} streams of events go to this address, {len(self)} in all. "
            raise Problem(503, f"{message}Close one, or ask for the job itself now and then.", kind="Busy")
        self._open[client] += 1
        return _Events(self, client, _until(events, time.monotonic() + SECONDS))

    def close(self, client: str) -> None:
        """One of a client's streams has ended."""
        self._open -= Counter({client: 1})


class _Events(StreamingResponse):
    """Events to one client, counted until they end, however they end."""

    def __init__(self, streams: Streams, client: str, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._streams, self._client = streams, client

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.close(self._client)


async def _until(events: AsyncIterator[bytes], end: float) -> AsyncIterator[bytes]:
    """The events up to a moment of the clock; an empty one is a look that found nothing new."""
    async for event in events:
        if event:
            yield event
        if time.monotonic() >= end:
            return
