"""Deadlines: work stops at a checkpoint, and says why."""

from collections.abc import Iterator

import pytest

from wherein.errors import Stopped
from wherein.limits import Limit, checkpoint, limited


def clock(*seconds: float) -> Iterator[float]:
    yield 0.0
    yield from seconds


def test_without_a_limit_nothing_stops() -> None:
    checkpoint(1, of=1_000_000)


def test_who_left_is_not_worked_for() -> None:
    limit = Limit()
    with limited(limit):
        checkpoint()
        limit.leave()
        with pytest.raises(Stopped, match="nobody waits"):
            checkpoint()
    checkpoint()


def test_a_deadline_stops() -> None:
    ticks = clock(9.0, 11.0)
    with limited(Limit(seconds=10, clock=lambda: next(ticks))):
        checkpoint()
        with pytest.raises(Stopped, match=r"took more than the 10 s that are allowed\. Search fewer images"):
            checkpoint()


def test_what_cannot_be_done_in_time_is_said_early() -> None:
    ticks = clock(0.5, 2.0, 2.0)
    with limited(Limit(seconds=10, clock=lambda: next(ticks))):
        checkpoint(1, of=100)  # too early to tell
        checkpoint(20, of=100)
        with pytest.raises(Stopped, match="would take about 20 s, and 10 s are allowed"):
            checkpoint(10, of=100)
