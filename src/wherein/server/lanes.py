"""Lanes: each has its own handle on a collection and one thread, in which calls take their turns.

Quick searches and slow ones go in lanes of their own, so that nobody with a quick question waits for a slow one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TypeVar

import wherein
from wherein import plugins
from wherein.collection import Collection
from wherein.limits import WAY_OUT, Limit, limited
from wherein.server.problems import Problem

T = TypeVar("T")

QUICK_WORDS: Final = frozenset(
    {"whole", "append-short", "append-long", "patches", "static", "proposals", "pyramid", "locate", "qe"}
)
"""Words of a method that read nothing but what is kept, in a fraction of a second."""
SLOW_WORDS: Final = frozenset({"dba", *(one for kind in ("words", "steps", "kernels") for one in plugins.table(kind))})
"""Every word of a method, those of QUICK_WORDS too, which `is_slow` takes out. The rest read files, compare keypoints,
load detectors or prepare an index, in seconds to minutes."""
WAITING_MOST: Final = 128
"""Calls that may wait in one lane; more would be answered after everybody has left.

The three lanes of a collection together then leave a quarter of the connections that a server bears to others.
"""
_SOON_SECONDS: Final = 0.05
"""A call that is done by then is not watched: most are."""
_GRACE_SECONDS: Final = 1.0
"""What a call has beyond its deadline to stop by itself and say why."""

receive_of_request: ContextVar[Callable[[], Awaitable[Any]] | None] = ContextVar("receive", default=None)
"""Where the request that is being answered comes from: it says when its client has gone."""


def is_slow(method: str) -> bool:
    """Whether a search by that method goes in the slow lane."""
    words = {word.partition("~")[0].partition("@")[0].partition(":")[0] for word in method.split("+")}
    return not words.isdisjoint(SLOW_WORDS - QUICK_WORDS)


class Lane:
    """A handle on a collection that serves one call at a time, in the order they came."""

    def __init__(self, folder: Path, *, name: str, opened: Collection | None = None) -> None:
        self._folder, self._handle = folder, opened
        if opened is not None:
            opened.prepares = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._limits = set[Limit]()

    @property
    def depth(self) -> int:
        """Calls that run or wait."""
        return len(self._limits)

    async def run(self, call: Callable[[Collection], T], *, seconds: float | None) -> T:
        """Call with the handle when it is its turn; given up when the client leaves, or `seconds` have passed."""
        if self.depth > WAITING_MOST:
            raise Problem(503, f"{WAITING_MOST} requests wait here already. Ask again in a moment.", kind="Busy")
        limit = Limit(seconds=seconds)
        self._limits.add(limit)
        future = self._pool.submit(self._work, call, limit)
        future.add_done_callback(lambda _: self._limits.discard(limit))
        try:
            return await patiently(future, seconds=seconds)
        finally:
            # Where the call still waits it is taken out of the line, where it runs it stops at its next checkpoint.
            future.cancel()
            limit.leave()

    def close(self) -> None:
        """Stop what runs, forget what waits, close the handle."""
        for limit in tuple(self._limits):
            limit.leave()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._handle is not None:
            self._handle.close()

    def _work(self, call: Callable[[Collection], T], limit: Limit) -> T:
        with limited(limit):
            if self._handle is None:
                self._handle = wherein.open(self._folder)
                self._handle.prepares = False
            return call(self._handle)


async def patiently(future: Future[T], *, seconds: float | None) -> T:
    """What a call answers, as long as its client waits for it, and at most so long."""
    answer = asyncio.wrap_future(future)
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may come when nobody asks any more
    await asyncio.wait({answer}, timeout=_SOON_SECONDS)
    if answer.done():
        return answer.result()
    gone = asyncio.ensure_future(_client_gone())
    try:
        patience = None if seconds is None else seconds + _GRACE_SECONDS
        watched: set[asyncio.Future[Any]] = {answer, gone}
        await asyncio.wait(watched, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
    if answer.done():
        return answer.result()
    if gone.done():
        raise Problem(503, "the client has gone.", kind="Gone")
    kept = "What was prepared for later searches is kept: ask again later."
    raise Problem(503, f"there is no answer after {seconds:g} s. {kept} {WAY_OUT}", kind="TooSlow")


async def _client_gone() -> None:
    """Returns when the client of this request has closed its connection."""
    receive = receive_of_request.get()
    while receive is not None:
        if (await receive())["type"] == "http.disconnect":
            return
    await asyncio.Event().wait()
