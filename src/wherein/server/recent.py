"""What was used last, kept in memory as long as there is room."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from cachetools import LRUCache

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key; what nobody asked for longest is forgotten first. Lanes may ask at once."""

    def __init__(
        self,
        room: int,
        *,
        size: Callable[[Value], int] = lambda _: 1,
        joined: Callable[[Value, Value], Value] = lambda _known, new: new,
    ) -> None:
        """`size` is what a value takes of the room; `joined` is what a known and a new value of one key become."""
        self._kept: LRUCache[Key, Value] = LRUCache(room, getsizeof=size)
        self._joined, self._turn = joined, threading.Lock()

    def get(self, key: Key) -> Value | None:
        """A value that is kept."""
        with self._turn:
            return self._kept.get(key)

    def keep(self, key: Key, value: Value) -> None:
        """Keep a value, unless it alone is larger than the room."""
        with self._turn:
            known = self._kept.pop(key, None)
            value = value if known is None else self._joined(known, value)
            if self._kept.getsizeof(value) <= self._kept.maxsize:
                self._kept[key] = value
