"""Quality control of labelled boxes as SearchAD's: every box is reviewed by two people, and a sample by a third.

What is reviewed are the images of selections that bear a label: curated hits, each with its box.
"""

from __future__ import annotations

import math
import random
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query

from wherein.server import documents
from wherein.server.library import Served
from wherein.server.problems import Problem
from wherein.server.routes import ServedHere
from wherein.server.shapes import ImageId, ItemIn, Name, Sent, Shape

router = APIRouter(tags=["reviews"])
Verdict = Literal["right", "wrong"]
REVIEWS: Final = 2
"""People who look at every box: the paper's images were reviewed at least twice."""
SAMPLE: Final = 0.1
"""The share of a batch that somebody else looks at again, drawn at random: the paper's 10 %."""
REQUIRED: Final = 0.98
"""The accuracy that the paper asks of a batch."""


class ReviewIn(Sent):
    """What somebody says of one labelled box."""

    author: Name
    selection: Name
    image_id: ImageId
    verdict: Verdict


class ReviewOut(Shape):
    """The next labelled box to look at; none when nothing is left for this author."""

    selection: str | None
    item: ItemIn | None
    stage: int
    """0 and 1: the reviews that every box gets; 2: the check of the sample."""
    left: int


class BatchOut(Shape):
    """How far a selection is, and whether it is good enough."""

    selection: str
    boxes: int
    reviewed: int
    """Boxes that two people have looked at."""
    accepted: int
    """Of those, boxes that both called right."""
    sample: int
    checked: int
    accuracy: float | None
    """Of the checked sample: the share that the third person called right."""
    passes: bool | None
    """Whether the whole sample is checked and accurate enough."""


@router.get("/collections/{name}/reviews")
def batches(served: ServedHere) -> list[BatchOut]:
    """Every selection with labels, and how its quality stands."""
    reviews = documents.read(served, "reviews", {})
    return [_batch(name, items, reviews.get(name, {})) for name, items in sorted(_labelled(served).items())]


@router.get("/collections/{name}/reviews/next")
def next_review(served: ServedHere, author: Annotated[Name, Query()]) -> ReviewOut:
    """A labelled box that this author has not looked at."""
    reviews, waiting = documents.read(served, "reviews", {}), []
    for name, items in sorted(_labelled(served).items()):
        drawn = sample_of(name, [item["image_id"] for item in items])
        for number, item in enumerate(items):
            said = reviews.get(name, {}).get(item["image_id"], {})
            if author not in said and len(said) < (REVIEWS + 1 if item["image_id"] in drawn else REVIEWS):
                waiting.append((len(said), name, number, item))
    if not waiting:
        return ReviewOut(selection=None, item=None, stage=0, left=0)
    stage, name, _, item = min(waiting, key=lambda one: one[:3])
    return ReviewOut(selection=name, item=ItemIn.model_validate(item), stage=stage, left=len(waiting))


@router.post("/collections/{name}/reviews", status_code=201)
def review(served: ServedHere, asked: ReviewIn) -> ReviewOut:
    """Keep a verdict; the author's next box comes back."""
    items = _labelled(served).get(asked.selection, [])
    if asked.image_id not in [item["image_id"] for item in items]:
        raise Problem(422, f"{asked.image_id} bears no label in the selection {asked.selection}.")
    with documents.changed(served, "reviews", {}) as known:
        said = known.setdefault(asked.selection, {}).setdefault(asked.image_id, {})
        if asked.author in said:
            raise Problem(409, f"{asked.author} has reviewed this box already: each look is somebody else's.")
        said[asked.author] = asked.verdict
    return next_review(served, asked.author)


def sample_of(selection: str, image_ids: list[str]) -> set[str]:
    """A tenth of a batch, at least one, drawn by the selection's name: the same as long as its labelled images are."""
    count = min(len(image_ids), max(1, math.ceil(SAMPLE * len(image_ids))))
    return set(random.Random(selection).sample(sorted(image_ids), count))


def _labelled(served: Served) -> dict[str, list[dict[str, Any]]]:
    kept = documents.read(served, "selections", {})
    labelled = {name: [item for item in items if item.get("label")] for name, items in kept.items()}
    return {name: items for name, items in labelled.items() if items}


def _batch(name: str, items: list[dict[str, Any]], reviews: dict[str, dict[str, str]]) -> BatchOut:
    said = {item["image_id"]: list(reviews.get(item["image_id"], {}).values()) for item in items}
    full = [verdicts[:REVIEWS] for verdicts in said.values() if len(verdicts) >= REVIEWS]
    drawn = sample_of(name, list(said))
    checks = [said[one][REVIEWS] for one in sorted(drawn) if len(said[one]) > REVIEWS]
    accuracy = sum(verdict == "right" for verdict in checks) / len(checks) if checks else None
    return BatchOut(
        selection=name,
        boxes=len(items),
        reviewed=len(full),
        accepted=sum(all(verdict == "right" for verdict in verdicts) for verdicts in full),
        sample=len(drawn),
        checked=len(checks),
        accuracy=accuracy,
        passes=None if accuracy is None or len(checks) < len(drawn) else accuracy >= REQUIRED,
    )
