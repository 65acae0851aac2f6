"""How long work may go on. Whoever waits for an answer may leave or set a deadline; long work asks now and then.

    with limited(Limit(seconds=60)):      # in this thread
        collection.search(…)              # raises Stopped at its next checkpoint

Without a limit, nothing is ever stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from wherein.errors import Stopped

_ENOUGH_SECONDS: Final = 1.0
"""After this long it is fair to say how long the rest will take: the first steps also load what all of them need."""


class Limit:
    """The patience of one who waits: some seconds, or until they leave."""

    def __init__(self, *, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock, self._started = clock, clock()
        self._left = threading.Event()

    def leave(self) -> None:
        """Nobody waits any more; may be called from another thread."""
        self._left.set()

    def check(self, *, done: int, of: int) -> None:
        """Raise Stopped where going on is of no use, with `done` of all steps behind."""
        if self._left.is_set():
            raise Stopped("nobody waits for this answer any more.")
        if self.seconds is None:
            return
        spent = self._clock() - self._started
        if spent > self.seconds:
            raise Stopped(f"took more than the {self.seconds:g} s that are allowed. {WAY_OUT}")
        if done and spent > _ENOUGH_SECONDS and spent / done * of > self.seconds:
            raise Stopped(f"would take about {spent / done * of:.0f} s, and {self.seconds:g} s are allowed. {WAY_OUT}")


WAY_OUT: Final = "Search fewer images (a folder, a tag, dates) or with a quicker method."
_limit: ContextVar[Limit | None] = ContextVar("limit", default=None)


@contextmanager
def limited(limit: Limit) -> Iterator[None]:
    """Let what is called inside stop at a checkpoint when the limit is reached."""
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def checkpoint(done: int = 0, *, of: int = 0) -> None:
    """Called between steps of long work: raises Stopped where its limit is reached."""
    limit = _limit.get()
    if limit is not None:
        limit.check(done=done, of=of)
