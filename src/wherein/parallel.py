"""How many workers this machine has room for, and the same work on many things at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def default_workers() -> int:
    """As many as the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(look: Callable[[_T], _R], items: Sequence[_T], *, workers: int | None = None) -> list[_R]:
    """What `look` answers for each shard or file, in their order; a thread a core, for what leaves Python's lock."""
    with ThreadPoolExecutor(workers or default_workers()) as pool:
        return list(pool.map(look, items))
