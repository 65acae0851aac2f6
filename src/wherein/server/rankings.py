"""The rankings that pages were cut from last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from wherein.values.ranking import Ranking

_KEPT: Final = 64
"""Rankings of one collection in memory: a few pages of some dozen people, at most 20 MB."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A ranking, how many places were asked of it, and the seconds it took."""

    ranking: Ranking
    depth: int
    seconds: float

    def reaches(self, place: int) -> bool:
        """Whether no longer ranking would say more of the places before this one."""
        return self.depth >= place or len(self.ranking.hits) + len(self.ranking.rejected) < self.depth


class Rankings:
    """The rankings that pages were cut from last; lanes may ask at once."""

    def __init__(self) -> None:
        self._kept = OrderedDict[tuple[object, ...], Answered]()
        self._turn = threading.Lock()

    def get(self, key: tuple[object, ...]) -> Answered | None:
        """A ranking that is kept."""
        with self._turn:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: tuple[object, ...], found: Answered) -> None:
        """Keep a ranking; the one nobody asked for longest is forgotten."""
        with self._turn:
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
