"""Pages of a search: which places of one ranking a request asks for. A place holds a hit, or one that was rejected."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, replace
from typing import Final

from wherein.collection import Collection
from wherein.options import DEFAULT_K, Options
from wherein.server.library import Served
from wherein.server.questions import AnsweredSearch, question_of
from wherein.server.rankings import Answered
from wherein.server.shapes import SearchIn
from wherein.values.query import Query
from wherein.values.ranking import Hit, Ranking

_GROWTH: Final = 4
"""How many times deeper the ranking is made when a page beyond its end is asked for, so that scrolling searches
rarely."""
_OPTIONS: Final = set(Options.__optional_keys__)
_Place = tuple[Hit, bool]
"""What is there, and whether it is a hit."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some places of a ranking."""

    ranking: Ranking
    """What is at these places only."""
    before: tuple[str, ...]
    """The ids of the hits on the pages before."""
    seconds: float
    """What the search took."""


def page_of(served: Served, collection: Collection, asked: SearchIn, query: Query, *, fresh: bool) -> Page:
    """The page that a request asks for. The first is what Python answers; the next hold what follows, each once."""
    search = _Search(served, collection, asked, query, fresh)
    if asked.offset == 0:
        answer = search.exactly(asked.k)
        return Page(answer.ranking, (), answer.seconds)
    if asked.all:
        answer = search.exactly(asked.k)
        return _cut(answer, _places(answer.ranking), asked.offset, None)
    answer = search.reaching(asked.offset + asked.k)
    places, start = _places(answer.ranking), asked.offset
    if asked.k < DEFAULT_K:
        # On a short first page sure hits from further below stand in for unsure ones, which then follow.
        first = _places(search.exactly(asked.k).ranking)
        shown = {hit.image_id for hit, _ in first}
        places = [*first, *(place for place in places if place[0].image_id not in shown)]
        start -= asked.k - len(first) if start >= asked.k else 0
    return _cut(answer, places, start, start + asked.k)


@dataclass(frozen=True, slots=True)
class _Search:
    """The search of a request, as deep as its pages need it."""

    served: Served
    collection: Collection
    asked: SearchIn
    query: Query
    fresh: bool
    """Whether it brought images along: then nobody asks the same again."""

    def exactly(self, k: int) -> Answered:
        """What Python answers when asked for k hits."""
        key = (*self._key(), k)
        return self._kept(key) or self._searched(k, key)

    def reaching(self, place: int) -> Answered:
        """A ranking of this place and those before it, in the order of their scores."""
        least = max(place, DEFAULT_K)  # in a shorter one, sure hits come forward
        if self.asked.precision is not None or self.asked.false_alarms is not None:
            return self.exactly(least)  # what is kept depends on how many places there are
        key = (*self._key(), "pages")
        known = self._kept(key)
        if known is not None and known.reaches(place):
            return known
        return self._searched(max(least, _GROWTH * (self.asked.k if known is None else known.depth)), key)

    def _key(self) -> tuple[object, ...]:
        return self.collection.state, self.asked.model_dump_json(exclude={"k", "offset", "group", "polygons"})

    def _kept(self, key: tuple[object, ...]) -> Answered | None:
        return None if self.fresh else self.served.rankings.get(key)

    def _searched(self, depth: int, key: tuple[object, ...]) -> Answered:
        started, state = time.perf_counter(), self.collection.state
        options = {**self.asked.model_dump(include=_OPTIONS), "index": self.served.index_of(self.asked.index)}
        ranking = self.collection.search(self.query, **{**options, "k": depth})
        answer = Answered(ranking, depth, time.perf_counter() - started)
        if not self.fresh:
            self.served.rankings.keep(key, answer)
            if self.asked.among is None:
                hits = {hit.image_id: hit for hit in (*ranking.hits, *ranking.rejected)}
                outline = self.collection.outliner(self.query, method=self.asked.method)
                answered = AnsweredSearch(self.query, ranking, hits, outline, state)
                self.served.questions.keep(question_of(self.asked), answered)
        return answer


def _places(ranking: Ranking) -> list[_Place]:
    """The places of a ranking, best first."""
    sides = ([(hit, True) for hit in ranking.hits], [(hit, False) for hit in ranking.rejected])
    return list(heapq.merge(*sides, key=lambda place: -place[0].score))


def _cut(answer: Answered, places: list[_Place], start: int, end: int | None) -> Page:
    page = places[start:end]
    hits, rejected = (tuple(hit for hit, kept in page if kept is wanted) for wanted in (True, False))
    before = tuple(hit.image_id for hit, kept in places[:start] if kept)
    return Page(replace(answer.ranking, hits=hits, rejected=rejected), before, answer.seconds)
