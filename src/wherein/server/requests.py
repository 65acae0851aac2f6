"""A request → a query → a page of a ranking. Marks on hits become parts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from wherein.arrays import Mask
from wherein.collection import Collection
from wherein.errors import ImageNotFound
from wherein.output.exports import export
from wherein.server.library import MAX_PIXELS, Served, check_upload, example_of, picture_of
from wherein.server.look_alikes import LookAlikes
from wherein.server.models import check_method
from wherein.server.pages import Page, page_of
from wherein.server.places import file_name
from wherein.server.problems import Problem
from wherein.server.questions import UNCUT, question_of
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
from wherein.values.masks import from_rle
from wherein.values.query import Part, Query, marked, parse_text
from wherein.values.ranking import Hit, Ranking
from wherein.values.region import Box, place

_MATCHED_SIDE: Final = 1024
"""The longer side, about, at which an image is decoded whose points are matched: more than the 800 pixels at which
RootSIFT compares them."""
_LOCATED_AT_ONCE: Final = 6
"""Hits that are outlined in one turn: a tenth of a second, so that another search waits no longer."""
EXAMPLE_BYTES: Final = 512 << 20
"""Bytes of all example files in one request, which are held while it is answered: some hundred photographs."""


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
        room = _Room()

        def query_of(parts: list[PartIn]) -> Query:
            made = (_part(served, collection, part, {}, max_pixels=max_pixels) for part in parts)
            return Query(tuple(map(room.take, made)))

        judgements = [
            Judgement(query_of(one.parts), frozenset(one.right), None if one.wrong is None else frozenset(one.wrong))
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
        parts = tuple(_part(served, collection, given, {}, max_pixels=MAX_PIXELS) for given in asked.parts)
        found = collection.matches(Query(parts), picture_of(collection, asked.image_id, side=_MATCHED_SIDE).pixels)
        return MatchesOut.model_validate(asdict(found))

    return await served.searching(run, method="sp")  # the slow lane: points are verified as by `sp`, in one image


def _hit_out(hit: Hit, *, polygons: bool, like: str | None = None) -> dict[str, Any]:
    """A hit as it is sent: its file by its name alone, and which better hit it looks like."""
    path = None if hit.path is None else file_name(hit.image_id)
    return hit.to_dict(polygons=polygons) | {"path": path, "like": like}


def _searched(
    served: Served, collection: Collection, asked: SearchIn, uploads: Mapping[str, bytes], *, max_pixels: int
) -> tuple[Query, Page]:
    """What was asked, and the page of its ranking."""
    check_method(asked.method, collection.made_by)
    query = _query(served, collection, asked, uploads, max_pixels=max_pixels)
    return query, page_of(served, collection, asked, query, fresh=bool(uploads))


def _is_here(collection: Collection, image_id: str) -> bool:
    try:
        collection.details(image_id)
    except ImageNotFound:
        return False
    return True


def _query(
    served: Served, collection: Collection, asked: SearchIn, uploads: Mapping[str, bytes], *, max_pixels: int
) -> Query:
    room = _Room()
    parts = [room.take(_part(served, collection, part, uploads, max_pixels=max_pixels)) for part in asked.parts]
    parts += [
        room.take(marked(image_id, example_of(collection, image_id), right=right))
        for image_ids, right in ((asked.liked, True), (asked.disliked, False))
        for image_id in image_ids
    ]
    return Query(tuple(parts))


class _Room:
    """What the examples of one request may take, before all of them are read."""

    def __init__(self) -> None:
        self._left = EXAMPLE_BYTES

    def take(self, part: Part) -> Part:
        """A part whose example still has room."""
        self._left -= len(part.image) if isinstance(part.image, bytes) else 0
        if self._left < 0:
            raise Problem(413, f"the examples of one request have {EXAMPLE_BYTES:,} bytes at most. Name fewer.")
        return part


def _part(
    served: Served, collection: Collection, part: PartIn, uploads: Mapping[str, bytes], *, max_pixels: int
) -> Part:
    given = [n for n in ("words", "text", "image_id", "example", "upload") if getattr(part, n) is not None]
    if len(given) != 1:
        raise Problem(
            422, f"a part is exactly one of words, text, image_id, example, upload; this one has {len(given)}."
        )
    box = None if part.box is None else Box(*part.box)
    mask = _mask(part)
    where = None if part.where is None else place(part.where) if isinstance(part.where, str) else Box(*part.where)
    if part.words is not None:
        read = parse_text(part.words)
        weight = part.weight * read.weight
        said = {} if where is None else {"where": where, "said_where": None}
        return replace(read, weight=weight, negative=part.negative, box=box, mask=mask, **said)  # type: ignore[arg-type]
    if part.text is not None:
        return Part(
            text=part.text,
            box=box,
            mask=mask,
            weight=part.weight,
            negative=part.negative,
            where=where,
            said_where=None if where is None else part.said_where,
        )
    if part.image_id is not None:
        image = example_of(collection, part.image_id)
    elif part.example is not None:
        image = served.example(part.example)
    else:
        image = _uploaded(uploads, str(part.upload), max_pixels=max_pixels)
    return Part(
        image=image,
        box=box,
        weight=part.weight,
        negative=part.negative,
        where=where,
        mask=mask,
        image_id=part.image_id,
    )


def _mask(part: PartIn) -> Mask | None:
    if part.mask is None:
        return None
    return from_rle({"size": list(part.mask.size), "counts": part.mask.counts})


def _uploaded(uploads: Mapping[str, bytes], name: str, *, max_pixels: int) -> bytes:
    if name not in uploads:
        raise Problem(422, f"upload {name!r}: the request has no file of that name. Send it as multipart/form-data.")
    check_upload(uploads[name], max_pixels=max_pixels, name=name)
    return uploads[name]


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
