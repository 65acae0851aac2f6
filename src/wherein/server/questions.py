"""What was asked last: the query, its hits and what its examples look like, so that outlines need no new search."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wherein.server.shapes import SearchIn
from wherein.values.query import Query
from wherein.values.ranking import Hit, Ranking

_KEPT: Final = 32
"""Questions of one collection: a few people who each look at one ranking, with some megabytes of grids each."""

UNCUT: Final = {"min_confidence": None, "precision": None, "false_alarms": None, "decide": False, "all": False}
"""The options of a search that rejects nothing."""


def question_of(asked: SearchIn) -> str:
    """What was asked, however many hits were wanted and whichever of them are looked at."""
    return asked.model_dump_json(exclude={"k", "offset", "group", "polygons", "locate", "among", *UNCUT})


@dataclass(frozen=True, slots=True)
class AnsweredSearch:
    """A search that was answered, and what outlines its hits."""

    query: Query
    ranking: Ranking
    """The last answer."""
    hits: dict[str, Hit]
    """All hits that were answered so far, and those that were rejected."""
    outline: Callable[[Iterable[Hit]], Iterator[Hit]]
    state: tuple[object, ...]
    """What the collection was then: in another, nothing of this may hold any more."""

    def located(self, image_ids: Sequence[str]) -> Ranking | None:
        """These of its hits, outlined as they were found; None where it does not hold all of them."""
        if not self.hits.keys() >= set(image_ids):
            return None
        wanted = sorted(
            (self.hits[image_id] for image_id in set(image_ids)), key=lambda hit: (-hit.score, hit.image_id)
        )
        method = self.ranking.method if self.ranking.method.endswith("locate") else f"{self.ranking.method}+locate"
        found = tuple(self.outline(wanted))
        return replace(self.ranking, hits=found, rejected=(), method=method, searched=len(found))


class Questions:
    """The questions that were asked last, by what was asked; lanes may ask at once."""

    def __init__(self) -> None:
        self._kept = OrderedDict[str, AnsweredSearch]()
        self._turn = threading.Lock()

    def get(self, key: str) -> AnsweredSearch | None:
        """A question that is remembered."""
        with self._turn:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: str, answered: AnsweredSearch) -> None:
        """Remember what a question was answered; another page of the same ranking joins what is known."""
        with self._turn:
            known = self._kept.pop(key, answered)
            if known.state == answered.state:  # its outliner has looked at the examples already
                answered = replace(answered, hits=known.hits | answered.hits, outline=known.outline)
            self._kept[key] = answered
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
