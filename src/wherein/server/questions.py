"""What was asked last: the query, its hits and what its examples look like, so that outlines need no new search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wherein.server.shapes import SearchIn
from wherein.values.query import Query
from wherein.values.ranking import Hit, Ranking

QUESTIONS: Final = 32
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

    def joined(self, page: AnsweredSearch) -> AnsweredSearch:
        """What is known when another page of the same ranking is answered."""
        if self.state != page.state:
            return page
        # The outliner of the first has looked at the examples already.
        return replace(page, hits=self.hits | page.hits, outline=self.outline)
