"""The sub-region study's annotation tool: regions with a short and a long description, in two runs.

In the first run (`skippable`) an image without anything of interest may be skipped, in the second it may not.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field

from wherein.bench.subregion.dataset import FRAME_WH, FRAMES, SETS
from wherein.server import documents
from wherein.server.library import Served
from wherein.server.problems import Problem
from wherein.server.routes import ServedHere
from wherein.server.shapes import Corners, ImageId, Name, Sent, Shape
from wherein.values.region import Box

router = APIRouter(tags=["annotate"])
Set = Literal["skippable", "non-skippable"]
LARGEST: Final = 0.3
"""The share of the image that a region may cover at most, as in the study."""
MEMORY: Final = "memory"
"""The folder of the export with what was described from memory: data of its own, so that both can be measured."""
NEEDED: Final = 20
"""How many annotations the study asked of every author."""


class RegionIn(Sent):
    """A region and what is in it."""

    box: Corners
    short: Annotated[str, Field(min_length=1, max_length=200)]
    long: Annotated[str, Field(min_length=1, max_length=2000)]


class AnnotationIn(Sent):
    """What an author saw in an image; no regions: skipped."""

    author: Name
    set: Set
    image_id: ImageId
    regions: Annotated[list[RegionIn], Field(max_length=50)]
    memory_seconds: Annotated[float, Field(gt=0.0, le=600.0, allow_inf_nan=False)] | None = None
    """How long the image was seen before it was described from memory; None: it was seen all the while."""


class PromptOut(Shape):
    """The next image to annotate, and how far the author is."""

    image_id: str | None
    may_skip: bool
    done: int
    """Annotations of this author, in both runs."""
    needed: int
    largest: float
    seen: int
    """Images of this run that the author has seen."""


class AuthorOut(Shape):
    """How far an author is."""

    author: str
    skippable: int
    non_skippable: int
    missing: int
    """Annotations that the study still asks for."""


@router.get("/collections/{name}/annotations")
def authors(served: ServedHere) -> list[AuthorOut]:
    """Every author, and how many regions each described in each run."""
    found = []
    for author, runs in sorted(documents.read(served, "annotations", {}).items()):
        first, second = (sum(len(entry["regions"]) for entry in runs.get(run, [])) for run in SETS)
        missing = max(0, NEEDED - first - second)
        found.append(AuthorOut(author=author, skippable=first, non_skippable=second, missing=missing))
    return found


@router.get("/collections/{name}/annotations/next")
async def next_image(served: ServedHere, author: Annotated[Name, Query()], set: Annotated[Set, Query()]) -> PromptOut:
    """An image that the author has not seen, in an order of their own."""
    image_ids = await served.reading(lambda found: found.image_ids())
    mine = documents.read(served, "annotations", {}).get(author, {})
    seen = {entry["image_id"] for run in mine.values() for entry in run}
    order = sorted(frozenset(image_ids) - seen)
    random.Random(f"{author} {set}").shuffle(order)
    done = sum(len(entry["regions"]) for run in mine.values() for entry in run)
    return PromptOut(
        image_id=order[0] if order else None,
        may_skip=set == "skippable",
        done=done,
        needed=NEEDED,
        largest=LARGEST,
        seen=len(mine.get(set, [])),
    )


@router.post("/collections/{name}/annotations", status_code=201)
async def annotate(served: ServedHere, asked: AnnotationIn) -> PromptOut:
    """Keep what an author saw in an image; the next one comes back."""
    await served.reading(lambda found: found.details(asked.image_id))
    if not asked.regions and asked.set != "skippable":
        raise Problem(422, "in the second run no image may be skipped: describe at least one region.")
    for region in asked.regions:
        area = Box(*region.box).area
        if area > LARGEST + 1e-9:
            raise Problem(422, f"a region covers {area:.0%} of the image; at most {LARGEST:.0%} are allowed.")
    with documents.changed(served, "annotations", {}) as known:
        run = known.setdefault(asked.author, {}).setdefault(asked.set, [])
        if any(entry["image_id"] == asked.image_id for entry in run):
            raise Problem(409, f"{asked.author} has annotated {asked.image_id} already.")
        entry = {"image_id": asked.image_id, "regions": [region.model_dump() for region in asked.regions]}
        run.append(entry if asked.memory_seconds is None else entry | {"memory_seconds": asked.memory_seconds})
    return await next_image(served, asked.author, asked.set)


@router.get("/collections/{name}/annotations/export", response_class=Response)
async def export_annotations(served: ServedHere) -> Response:
    """A zip as the benchmark reads it: one JSON list per author and run, and which frame each number is."""
    image_ids = await served.reading(lambda found: found.image_ids())
    # The benchmark counts frames by sorted folder, then sorted file.
    frames = sorted(image_ids, key=lambda image_id: image_id.split("/"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, records in written(served, frames).items():
            archive.writestr(path, json.dumps(records, ensure_ascii=False, indent=1))
        listed = "".join(f"{frame}\n" for frame in frames)
        archive.writestr(FRAMES, listed)
        for path, records in written(served, frames, memory=True).items():
            archive.writestr(f"{MEMORY}/{path}", json.dumps(records, ensure_ascii=False, indent=1))
            archive.writestr(f"{MEMORY}/{FRAMES}", listed)
    headers = {"content-disposition": "attachment; filename=annotations.zip"}
    return Response(buffer.getvalue(), media_type="application/zip", headers=headers)


def written(served: Served, frames: list[str], *, memory: bool = False) -> dict[str, list[dict[str, Any]]]:
    """path → the annotations of one author and run, boxes in pixels of a 682 × 384 frame.

    With `memory`, those that were described from memory, and only authors who did so.
    """
    numbers = {frame: number for number, frame in enumerate(frames)}
    width, height = FRAME_WH
    files = dict[str, list[dict[str, Any]]]()
    for author, runs in documents.read(served, "annotations", {}).items():
        for run, entries in runs.items():
            mine = [entry for entry in entries if ("memory_seconds" in entry) == memory]
            described = [(entry, region) for entry in mine for region in entry["regions"]]
            if memory and not described:
                continue
            files[f"{SETS[run]}/{author}.json"] = [
                {
                    "id": number,
                    "frameIdx": numbers[entry["image_id"]],
                    "desc_short": region["short"],
                    "desc_long": region["long"],
                    "rect": [side * size for side, size in zip(region["box"], (width, height) * 2, strict=True)],
                }
                | ({"memory_seconds": entry["memory_seconds"]} if memory else {})
                for number, (entry, region) in enumerate(described)
                if entry["image_id"] in numbers
            ]
    return files
