"""What first searches of their kind need, made in a thread of its own: one after the other, as they were asked for."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import wherein
from wherein.errors import NotPrepared
from wherein.server.lanes import patiently


class Preparing:
    """Makes what searches wait for, through a handle of its own.

    What nobody waits for any more goes on, since somebody will ask again, until somebody waits for something else:
    then it stops, and its finished pieces are kept. What was not begun when its client left is never begun.
    """

    def __init__(self, folder: Path, *, name: str) -> None:
        self._folder, self._closed = folder, threading.Event()
        self._pool = ThreadPoolExecutor(1, f"prepare {name}")
        self._waiting = set[Future[None]]()
        """Those that somebody waits for, begun or not."""

    async def wait_for(self, wanted: NotPrepared, *, seconds: float | None) -> None:
        """Returns when it is made, by this call or an earlier one."""
        left = threading.Event()
        future = self._pool.submit(self._make, wanted, left)
        self._waiting.add(future)
        try:
            await patiently(future, seconds=seconds)
        finally:
            left.set()
            future.cancel()
            self._waiting.discard(future)

    def close(self) -> None:
        """Stop what runs at its next step, forget what waits."""
        self._closed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _make(self, wanted: NotPrepared, left: threading.Event) -> None:
        def step(_: object) -> None:
            if self._closed.is_set() or (left.is_set() and self._waiting):
                raise wanted

        with wherein.open(self._folder) as collection:
            collection.prepare(wanted.query, method=wanted.method, on_progress=step)
