"""How many workers this machine has room for, and the same work on many things at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_LIMITING: Final = threading.Lock()
"""Held by the one who took threads from BLAS and gives them back: two at once would give back what the other left."""
_T = TypeVar("_T")
_R = TypeVar("_R")


def default_workers() -> int:
    """As many as the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(look: Callable[[_T], _R], items: Sequence[_T], *, workers: int | None = None) -> list[_R]:
    """What `look` answers for each of some addresses or files, in their order; a thread a core unless told."""
    with ThreadPoolExecutor(workers or default_workers()) as pool:
        return list(pool.map(look, items))


def on_every_core(look: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """What `look` answers for each of some shards, in their order; for numeric work, which leaves Python's lock.

    This thread works too and the others are kept, because to start them takes as long as to scan a shard.
    """
    found = dict[int, _R]()
    numbers = iter(range(len(items)))  # a thread takes the next one when it is done with its last

    def work() -> None:
        for number in numbers:
            found[number] = look(items[number])

    helping = [_helpers(os.getpid()).submit(work) for _ in range(min(default_workers(), len(items)) - 1)]
    try:
        work()
    finally:
        begun = [one for one in helping if not one.cancel()]
        failures = [one.exception() for one in begun]
    for failure in failures:
        if failure is not None:
            raise failure
    return [found[number] for number in range(len(items))]


@lru_cache(maxsize=1)
def _helpers(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 — a copy of a process has none of its threads
    return ThreadPoolExecutor(max(1, default_workers() - 1), thread_name_prefix="scan")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Products of matrices use one thread meanwhile; where calls overlap, until the first of them is done.

    Those of a search are too small to share: a second thread waits for the first, and keeps a core busy with waiting.
    """
    if not _LIMITING.acquire(blocking=False):
        yield
        return
    try:
        with _blas().limit(limits=1, user_api="blas"):
            yield
    finally:
        _LIMITING.release()


@cache
def _blas() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
