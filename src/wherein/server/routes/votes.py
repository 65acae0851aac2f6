"""How difficult an image is as a query, by the votes of several people, as FORB's authors labelled theirs."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response

from wherein.server import documents
from wherein.server.routes import ServedHere
from wherein.server.shapes import ImageId, Name, Sent, Shape

router = APIRouter(tags=["votes"])
Difficulty = Literal["easy", "medium", "hard"]
LEVELS: Final = ("easy", "medium", "hard")
FACTORS: Final = (
    "occlusion", "blur", "truncation", "colour distortion", "perspective distortion", "texture complexity",
    "how much of the photo the thing fills",
)  # fmt: skip
"""What the paper asks its annotators to weigh."""
ENOUGH: Final = 3
"""Votes with which most can decide: the fewest of which two agree. The paper says "different annotators", not how
many."""


class VoteIn(Sent):
    """What one person thinks of one image."""

    author: Name
    image_id: ImageId
    difficulty: Difficulty


class BallotOut(Shape):
    """The next image to vote on; none when the author has seen all."""

    image_id: str | None
    left: int
    factors: list[str]


class VotesOut(Shape):
    """The votes on one image, and what most of them say; null where no level has more than every other."""

    image_id: str
    votes: dict[str, str]
    difficulty: Difficulty | None


@router.get("/collections/{name}/votes")
def votes(served: ServedHere) -> list[VotesOut]:
    """Every image that was voted on."""
    known = documents.read(served, "votes", {})
    return [VotesOut(image_id=one, votes=cast, difficulty=majority(cast)) for one, cast in sorted(known.items())]


@router.get("/collections/{name}/votes/next")
async def next_ballot(served: ServedHere, author: Annotated[Name, Query()]) -> BallotOut:
    """An image that this author has not voted on; those that others began come first, those with enough votes last."""
    known = documents.read(served, "votes", {})
    image_ids = await served.reading(lambda found: found.image_ids())
    order = [one for one in image_ids if author not in known.get(one, {})]
    random.Random(author).shuffle(order)
    cast = {one: len(known.get(one, {})) for one in order}
    order.sort(key=lambda one: (cast[one] >= ENOUGH, -cast[one] if cast[one] < ENOUGH else cast[one]))
    return BallotOut(image_id=order[0] if order else None, left=len(order), factors=list(FACTORS))


@router.post("/collections/{name}/votes", status_code=201)
async def vote(served: ServedHere, asked: VoteIn) -> BallotOut:
    """Keep a vote; an author who votes again on an image changes it."""
    await served.reading(lambda found: found.details(asked.image_id))
    with documents.changed(served, "votes", {}) as known:
        known.setdefault(asked.image_id, {})[asked.author] = asked.difficulty
    return await next_ballot(served, asked.author)


@router.get("/collections/{name}/votes/export", response_class=Response)
def export_votes(served: ServedHere) -> Response:
    """ndjson with fields of FORB's truth: query_image and difficulty, and the votes; undecided ones are left out."""
    lines = []
    for image_id, cast in sorted(documents.read(served, "votes", {}).items()):
        decided = majority(cast)
        if decided is not None:
            record: dict[str, Any] = {"query_image": image_id, "difficulty": decided, "votes": cast}
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    headers = {"content-disposition": "attachment; filename=difficulty.ndjson"}
    return Response("".join(lines), media_type="application/x-ndjson", headers=headers)


def majority(cast: dict[str, str]) -> Any:
    """The level with more votes than every other, or None."""
    ranked = Counter(cast.values()).most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]
