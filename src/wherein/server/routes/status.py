"""Is it well, and how is it used: health and metrics."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

import wherein
from wherein.server.routes import LibraryHere, ThumbsHere
from wherein.server.shapes import Shape

router = APIRouter(tags=["status"])
_LOG: Final = logging.getLogger("wherein.server")


class HealthOut(Shape):
    """The server answers."""

    status: str
    version: str
    collections: int


@router.get("/health")
async def health(library: LibraryHere) -> HealthOut:
    """Answers without a token, for supervisors."""
    return HealthOut(status="ok", version=wherein.__version__, collections=len(library.names()))


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request, thumbs: ThumbsHere) -> PlainTextResponse:
    """Counts and times, as Prometheus reads them."""
    counted: Requests = request.app.state.requests
    lines = ["# TYPE wherein_requests_total counter"]
    lines += [
        f'wherein_requests_total{{route="{route}",status="{status}"}} {count}'
        for (route, status), count in sorted(counted.counts.items())
    ]
    lines.append("# TYPE wherein_request_seconds_total counter")
    lines += [
        f'wherein_request_seconds_total{{route="{route}"}} {value:.6f}'
        for route, value in sorted(counted.seconds.items())
    ]
    lines += [
        "# TYPE wherein_thumbs_total counter",
        f'wherein_thumbs_total{{from="memory"}} {thumbs.hits}',
        f'wherein_thumbs_total{{from="collection"}} {thumbs.misses}',
    ]
    return PlainTextResponse("\n".join(lines) + "\n")


class Requests:
    """Counts requests and their time by route; wraps the application."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, int]]()
        self.seconds = defaultdict[str, float](float)

    def around(self, app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """The application, counted."""

        async def counted(scope: dict[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            started, status = time.perf_counter(), 0

            async def noted(message: dict[str, Any]) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await app(scope, receive, noted)
            finally:
                route = getattr(scope.get("route"), "path", "other")
                self.counts[route, status] += 1
                seconds = time.perf_counter() - started
                self.seconds[route] += seconds
                _LOG.debug("%s %s: %d in %.3f s", scope["method"], route, status, seconds)

        return counted
