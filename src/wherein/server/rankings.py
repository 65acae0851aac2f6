"""The rankings that pages were cut from last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wherein.values.ranking import Ranking

RANKINGS: Final = 64
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
