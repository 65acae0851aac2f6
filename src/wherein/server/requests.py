"""A request → a query → a page: some places of one ranking. A place holds a hit, or one that was rejected."""

from __future__ import annotations

import heapq
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from wherein.collection import Collection
from wherein.errors import ImageNotFound
from wherein.options import DEFAULT_K, Options
from wherein.output.exports import export
from wherein.server.library import MAX_PIXELS, Served, picture_of
from wherein.server.look_alikes import LookAlikes
from wherein.server.models import check_method
from wherein.server.parts import Room, part_of, query_of
from wherein.server.places import file_name
from wherein.server.problems import Problem
from wherein.server.questions import UNCUT, AnsweredSearch, question_of
from wherein.server.rankings import Answered
from wherein.server.shapes import (
    CalibrateIn,
    CalibrationOut,
    Corners,
    MatchesIn,
    MatchesOut,
    PartIn,
    PartOut,
    RankingOut,
    ReliabilityOut,
    SearchIn,
    UncalibratedOut,
    UncalibrateIn,
)
from wherein.values.judgement import Judgement
from wherein.values.query import Part, Query
from wherein.values.ranking import Hit, Ranking
from wherein.values.region import Box

_MATCHED_SIDE: Final = 1024
"""The longer side, about, at which an image is decoded whose points are matched: more than the 800 pixels at which
RootSIFT compares them."""
_LOCATED_AT_ONCE: Final = 6
"""Hits that are outlined in one turn: a tenth of a second, so that another search waits no longer."""
_GROWTH: Final = 4
"""How many times deeper the ranking is made when a page beyond its end is asked for, so that scrolling searches
rarely."""
_OPTIONS: Final = set(Options.__optional_keys__)
_Place = tuple[Hit, bool]
"""What is there, and whether it is a hit."""


async def ask(served: Served, asked: SearchIn, uploads: Mapping[str, bytes], *, max_pixels: int) -> RankingOut:
    """Search, or take the next page of a search that was made before."""

    def run(collection: Collection) -> RankingOut:
        query, page = _searched(served, collection, asked, uploads, max_pixels=max_pixels)
        upto = [*page.before, *(hit.image_id for hit in page.ranking)]
        likes = LookAlikes().of(collection, upto, key=None) if asked.group else {}
        return _out(asked, page.ranking, query, likes, seconds=page.seconds)

    return await served.searching(run, method=asked.method)


async def outline(served: Served, asked: SearchIn, *, max_pixels: int) -> RankingOut:
    """Outlines of hits that a search has just found, as it found them; where none has, another search locates."""
    located = asked.model_copy(update={"locate": True})

    def run(collection: Collection) -> RankingOut | list[str] | None:
        known = served.questions.get(question_of(asked))
        if known is None or asked.among is None or any(getattr(asked, name) not in (None, False) for name in UNCUT):
            return asked.among
        if known.state != collection.state:  # hits that have left since are no mistake of who saw them
            return [one for one in asked.among if one not in known.hits or _is_here(collection, one)]
        started = time.perf_counter()
        ranking = known.located(asked.among)
        if ranking is None:
            return asked.among
        ranking = replace(ranking, hits=ranking.hits[asked.offset : asked.offset + asked.k])
        return _out(located, ranking, known.query, {}, seconds=time.perf_counter() - started)

    found = await served.searching(run, method=asked.method)
    if isinstance(found, RankingOut):
        return found
    return await ask(served, located.model_copy(update={"among": found}), {}, max_pixels=max_pixels)


async def ask_lines(served: Served, asked: SearchIn, *, max_pixels: int) -> AsyncIterator[bytes]:
    """Search; then lines of JSON: the ranking without hits, and its hits, each as soon as it is located."""
    found = await ask(served, asked.model_copy(update={"locate": False}), {}, max_pixels=max_pixels)

    async def lines() -> AsyncIterator[bytes]:
        method = f"{found.method}+locate" if asked.locate else found.method
        yield found.model_copy(update={"method": method}).model_dump_json(exclude={"hits"}).encode() + b"\n"
        for start in range(0, len(found.hits), _LOCATED_AT_ONCE):
            some = found.hits[start : start + _LOCATED_AT_ONCE]
            if asked.locate:
                among = [hit.image_id for hit in some]
                wanted = asked.model_copy(update={"among": among, "k": len(among), "offset": 0, **UNCUT})
                outlined = {hit.image_id: hit for hit in (await outline(served, wanted, max_pixels=max_pixels)).hits}
                shown = ((hit, outlined.get(hit.image_id, hit)) for hit in some)
                some = [drawn.model_copy(update={"like": hit.like}) for hit, drawn in shown]
            for hit in some:
                yield hit.model_dump_json().encode() + b"\n"

    return lines()


async def write_hits(served: Served, asked: SearchIn, target: str, *, most: int | None, max_pixels: int) -> None:
    """Search, and write the page of hits as `wherein search --export` does: `coco:FILE`, `fiftyone:FOLDER`, …

    More hits than `most` are refused before anything is written.
    """

    def run(collection: Collection) -> None:
        _, page = _searched(served, collection, asked, {}, max_pixels=max_pixels)
        count, kind = len(page.ranking.hits), target.partition(":")[0]
        if most is not None and count > most:
            raise Problem(
                422, f"all: are {count:,} hits, and {kind} holds the pictures of {most} at most. Ask for k hits."
            )
        export(page.ranking, target, thumb_of=collection.thumb, file_of=collection.open_file)

    await served.searching(run, method=asked.method)


async def calibrate(served: Served, asked: CalibrateIn, *, max_pixels: int) -> list[CalibrationOut]:
    """Learn from judged hits how likely others are right."""

    def run(collection: Collection) -> list[CalibrationOut]:
        check_method(asked.method, collection.made_by)
        room = Room()

        def asked_by(parts: list[PartIn]) -> Query:
            made = (part_of(served, collection, part, {}, max_pixels=max_pixels) for part in parts)
            return Query(tuple(map(room.take, made)))

        judgements = [
            Judgement(asked_by(one.parts), frozenset(one.right), None if one.wrong is None else frozenset(one.wrong))
            for one in asked.judgements
        ]
        made = collection.calibrate(judgements, method=asked.method)
        return [CalibrationOut.model_validate(asdict(one)) for one in made]

    return await served.searching(run, method=asked.method)


async def reliability(served: Served) -> list[ReliabilityOut]:
    """How far confidence can be trusted, by what was judged."""

    def run(collection: Collection) -> list[ReliabilityOut]:
        return [ReliabilityOut.model_validate(asdict(one)) for one in collection.reliability()]

    return await served.searching(run)


async def uncalibrate(served: Served, asked: UncalibrateIn) -> UncalibratedOut:
    """Forget what was judged in one step, or all of it."""

    def run(collection: Collection) -> UncalibratedOut:
        return UncalibratedOut(changed=collection.uncalibrate(asked.step, reset=asked.reset))

    return await served.searching(run)


async def matches(served: Served, asked: MatchesIn) -> MatchesOut:
    """Which points of an example are seen again in an image."""

    def run(collection: Collection) -> MatchesOut:
        parts = tuple(part_of(served, collection, given, {}, max_pixels=MAX_PIXELS) for given in asked.parts)
        found = collection.matches(Query(parts), picture_of(collection, asked.image_id, side=_MATCHED_SIDE).pixels)
        return MatchesOut.model_validate(asdict(found))

    return await served.searching(run, method="sp")  # the slow lane: points are verified as by `sp`, in one image


def _hit_out(hit: Hit, *, polygons: bool, like: str | None = None) -> dict[str, Any]:
    """A hit as it is sent: its file by its name alone, and which better hit it looks like."""
    path = None if hit.path is None else file_name(hit.image_id)
    return hit.to_dict(polygons=polygons) | {"path": path, "like": like}


def _searched(
    served: Served, collection: Collection, asked: SearchIn, uploads: Mapping[str, bytes], *, max_pixels: int
) -> tuple[Query, _Page]:
    """What was asked, and the page of its ranking."""
    check_method(asked.method, collection.made_by)
    query = query_of(served, collection, asked, uploads, max_pixels=max_pixels)
    return query, _page_of(served, collection, asked, query, fresh=bool(uploads))


def _is_here(collection: Collection, image_id: str) -> bool:
    try:
        collection.details(image_id)
    except ImageNotFound:
        return False
    return True


def _out(asked: SearchIn, ranking: Ranking, query: Query, likes: Mapping[str, str], *, seconds: float) -> RankingOut:
    sent = replace(ranking, query=str(query), label=query.label, hits=(), rejected=()).to_dict() | {
        "parts": [_part_out(part) for part in query.parts],
        "offset": asked.offset,
        "seconds": seconds,
        "hits": [_hit_out(hit, polygons=asked.polygons, like=likes.get(hit.image_id)) for hit in ranking.hits],
        "rejected": [_hit_out(hit, polygons=asked.polygons) for hit in ranking.rejected],
    }
    return RankingOut.model_validate(sent)


def _part_out(part: Part) -> PartOut:
    where = _corners(part.where)
    return PartOut(said=str(part), text=part.text, where=where, weight=part.weight, negative=part.negative)


def _corners(box: Box | None) -> Corners | None:
    return None if box is None else box.xyxy


@dataclass(frozen=True, slots=True)
class _Page:
    """Some places of a ranking."""

    ranking: Ranking
    """What is at these places only."""
    before: tuple[str, ...]
    """The ids of the hits on the pages before."""
    seconds: float
    """What the search took."""


def _page_of(served: Served, collection: Collection, asked: SearchIn, query: Query, *, fresh: bool) -> _Page:
    """The page that a request asks for. The first is what Python answers; the next hold what follows, each once."""
    search = _Search(served, collection, asked, query, fresh)
    if asked.offset == 0:
        answer = search.exactly(asked.k)
        return _Page(answer.ranking, (), answer.seconds)
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


def _cut(answer: Answered, places: list[_Place], start: int, end: int | None) -> _Page:
    page = places[start:end]
    hits, rejected = (tuple(hit for hit, kept in page if kept is wanted) for wanted in (True, False))
    before = tuple(hit.image_id for hit, kept in places[:start] if kept)
    return _Page(replace(answer.ranking, hits=hits, rejected=rejected), before, answer.seconds)
