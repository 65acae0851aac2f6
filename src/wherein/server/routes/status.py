"""Is it well, and how is it used: health and metrics."""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from starlette.datastructures import MutableHeaders

import wherein
from wherein.server.routes import JobsHere, LibraryHere, ThumbsHere
from wherein.server.shapes import Shape

router = APIRouter(tags=["status"])
_LOG: Final = logging.getLogger("wherein.server")
SLOW_SECONDS: Final = 5.0
"""A request that took longer is told as a warning: people have begun to wonder by then."""
BOUNDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Seconds by which requests are counted; each about three times the one before."""


class HealthOut(Shape):
    """Whether the server answers, and which version it is."""

    status: str
    version: str
    collections: int


@router.get("/health")
async def health(library: LibraryHere) -> HealthOut:
    """Answers without a token, for supervisors."""
    return HealthOut(status="ok", version=wherein.__version__, collections=len(library.names()))


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request, library: LibraryHere, jobs: JobsHere, thumbs: ThumbsHere) -> PlainTextResponse:
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
    lines += counted.lines() + _process_lines()
    states = Counter(job.state for job in jobs.all())
    lines += [
        "# TYPE wherein_collections gauge",
        f"wherein_collections {len(library.names())}",
        "# TYPE wherein_jobs gauge",
        *(f'wherein_jobs{{state="{state}"}} {count}' for state, count in sorted(states.items())),
        "# TYPE wherein_event_streams gauge",
        f"wherein_event_streams {len(request.app.state.streams)}",
        "# TYPE wherein_lane_depth gauge",
        *(
            f'wherein_lane_depth{{collection="{_label(name)}",lane="{lane}"}} {depth}'
            for name in library.names()
            for lane, depth in library.get(name).depths().items()
        ),
        "# TYPE wherein_thumbs_total counter",
        f'wherein_thumbs_total{{from="memory"}} {thumbs.hits}',
        f'wherein_thumbs_total{{from="collection"}} {thumbs.misses}',
    ]
    return PlainTextResponse("\n".join(lines) + "\n")


def _label(text: str) -> str:
    """A text as Prometheus reads it between quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _process_lines() -> list[str]:
    """What the process itself takes, where the system tells."""
    lines = list[str]()
    with suppress(OSError, ValueError):
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        lines += ["# TYPE process_resident_memory_bytes gauge", f"process_resident_memory_bytes {resident}"]
        count = len(list(Path("/proc/self/fd").iterdir()))
        lines += ["# TYPE process_open_fds gauge", f"process_open_fds {count}"]
    return [*lines, "# TYPE process_threads gauge", f"process_threads {threading.active_count()}"]


class Requests:
    """Counts requests and their time by route; wraps the application."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, int]]()
        self.seconds = defaultdict[str, float](float)
        self.slowest = defaultdict[str, float](float)
        self.within = Counter[tuple[str, float]]()
        self.running = 0
        self.began = time.time()

    def lines(self) -> list[str]:
        """How requests are spread over time, and how many are being answered now, as Prometheus reads it."""
        lines = ["# TYPE wherein_requests_running gauge", f"wherein_requests_running {self.running}"]
        lines += ["# TYPE wherein_start_time_seconds gauge", f"wherein_start_time_seconds {self.began:.3f}"]
        lines.append("# TYPE wherein_request_seconds histogram")
        for route, total in sorted(self.seconds.items()):
            count = sum(many for (own, _), many in self.counts.items() if own == route)
            bounds = [(f"{bound:g}", self.within[route, bound]) for bound in BOUNDS]
            lines += [
                f'wherein_request_seconds_bucket{{route="{route}",le="{bound}"}} {many}'
                for bound, many in [*bounds, ("+Inf", count)]
            ]
            lines.append(f'wherein_request_seconds_sum{{route="{route}"}} {total:.6f}')
            lines.append(f'wherein_request_seconds_count{{route="{route}"}} {count}')
        lines.append("# TYPE wherein_request_seconds_slowest gauge")
        lines += [f'wherein_request_seconds_slowest{{route="{r}"}} {s:.6f}' for r, s in sorted(self.slowest.items())]
        return lines

    def around(self, app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """The application, counted."""

        async def counted(scope: dict[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            started, status = time.perf_counter(), 0
            request_id = secrets.token_hex(8)
            scope.setdefault("state", {})["request_id"] = request_id
            self.running += 1

            async def noted(message: dict[str, Any]) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    MutableHeaders(scope=message)["x-request-id"] = request_id
                await send(message)

            try:
                await app(scope, receive, noted)
            finally:
                self.running -= 1
                self._note(scope, status, time.perf_counter() - started)

        return counted

    def _note(self, scope: dict[str, Any], status: int, seconds: float) -> None:
        """Count a request and tell it as one line of JSON; one that took long is told to whoever looks for warnings."""
        route = getattr(scope.get("route"), "path", "other")
        self.counts[route, status] += 1
        self.seconds[route] += seconds
        self.slowest[route] = max(self.slowest[route], seconds)
        for bound in BOUNDS:
            self.within[route, bound] += seconds <= bound
        told = {
            "request": scope["state"]["request_id"],
            "method": scope["method"],
            "route": route,
            "status": status,
            "seconds": round(seconds, 3),
        }
        slow = seconds > SLOW_SECONDS
        _LOG.log(logging.WARNING if slow or status >= 500 else logging.DEBUG, "%s", json.dumps(told | {"slow": slow}))
