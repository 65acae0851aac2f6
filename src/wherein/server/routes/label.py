"""The labelling tool of the paper on pixel retrieval: masks of pairs, in three stages by three people."""

from __future__ import annotations

import io
from typing import Annotated, Any, Final, Literal

import anyio
import numpy as np
import PIL.Image
from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field

import wherein
from wherein.errors import InputError
from wherein.server import documents, labelling
from wherein.server.library import Library, Served
from wherein.server.problems import Problem
from wherein.server.routes import LibraryHere, ServedHere
from wherein.server.shapes import ImageId, ItemIn, MaskOut, Name, Sent, Shape
from wherein.values.masks import from_rle

router = APIRouter(tags=["label"])
MOST_PIXELS: Final = 4_000_000
"""The most pixels of a mask that is sent; the page draws at most 512 × 512."""


class PairOut(Shape):
    """The next pair to work on; without an image nothing is left for this author."""

    selection: str | None
    query: ItemIn | None
    image_id: str | None
    stage: int
    """0 annotate, 1 and 2 refine and inspect."""
    doing: str
    mask: MaskOut | None
    """What the stage before drew."""
    left: int
    """Pairs that still miss a stage."""
    segmenter: bool = False
    """Whether the server has a segmenter to snap with."""


class LabelIn(Sent):
    """What an author drew for a pair."""

    author: Name
    selection: Name
    image_id: ImageId
    mask: MaskOut
    seconds: Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)] = 0.0


class SnapIn(Sent):
    """A mask whose edges are to be moved to those of its image."""

    image_id: ImageId
    mask: MaskOut
    by: Literal["edges", "segmenter"] = "edges"
    """A guided filter, or the segmenter that the server was started with."""


class AgreementOut(Shape):
    """How alike the masks of the stages are, pair by pair."""

    mean: float | None
    pairs: list[dict[str, Any]]


@router.get("/collections/{name}/labels/next")
def next_label(served: ServedHere, library: LibraryHere, author: Annotated[Name, Query()]) -> PairOut:
    """A pair that this author has not worked on, those furthest on first."""
    return _next(served, library, author)


@router.post("/collections/{name}/labels", status_code=201)
async def label(served: ServedHere, library: LibraryHere, asked: LabelIn) -> PairOut:
    """Keep a mask as the next stage of its pair; the author's next pair comes back."""
    await served.reading(lambda found: found.details(asked.image_id))
    _mask(asked.mask)
    groups = documents.read(served, "selections", {})
    if asked.image_id not in [item["image_id"] for item in groups.get(asked.selection, [])[1:]]:
        raise Problem(422, f"{asked.image_id} is no image to label of the selection {asked.selection}.")
    with documents.changed(served, "labels", {}) as known:
        entries = known.setdefault(asked.selection, {}).setdefault(asked.image_id, [])
        if any(entry["author"] == asked.author for entry in entries):
            raise Problem(409, f"{asked.author} has worked on this pair already: each stage is somebody else's.")
        if len(entries) >= len(labelling.STAGES):
            raise Problem(409, "all three stages of this pair are done.")
        entries.append({"author": asked.author, "mask": asked.mask.model_dump(), "seconds": asked.seconds})
    return _next(served, library, asked.author)


@router.post("/collections/{name}/labels/snap")
async def snap(served: ServedHere, library: LibraryHere, asked: SnapIn) -> MaskOut:
    """The mask with its edges moved to those of the image, by a filter or by the server's segmenter."""
    mask, segmenter = _mask(asked.mask), library.settings.segmenter if asked.by == "segmenter" else ""
    if asked.by == "segmenter" and not segmenter:
        raise Problem(422, "this server has no segmenter: start it with --segmenter onnx:FOLDER, or snap by edges.")
    thumb = await served.reading(lambda found: found.thumb(asked.image_id))
    if thumb is None:
        raise Problem(422, f"{asked.image_id} has no thumbnail to look for edges in: index with the layer thumbs.")
    with PIL.Image.open(io.BytesIO(thumb)) as opened:
        picture = np.asarray(opened.convert("RGB"))
    snapped = await anyio.to_thread.run_sync(lambda: wherein.snap(mask, picture, segmenter=segmenter))
    return MaskOut.model_validate(labelling.kept(snapped))


@router.get("/collections/{name}/labels/agreement")
def labels_agreement(served: ServedHere) -> AgreementOut:
    """IoU between the masks of one stage and the next, each by another author."""
    rows = labelling.agreement(documents.read(served, "labels", {}))
    ious = [iou for row in rows for iou in row["ious"]]
    return AgreementOut(mean=float(np.mean(ious)) if ious else None, pairs=rows)


@router.get("/collections/{name}/labels/export", response_class=Response)
async def export_labels(served: ServedHere) -> Response:
    """A zip in the format of PROxford: truth, labelme files of pairs and queries, and the agreement."""
    groups, labels = documents.read(served, "selections", {}), documents.read(served, "labels", {})
    wanted = {image for images in labels.values() for image in images}
    wanted |= {items[0]["image_id"] for items in groups.values() if items}
    sizes = await served.reading(
        lambda found: {one: found.details(one).size_wh for one in wanted & set(found.image_ids())}
    )
    headers = {"content-disposition": "attachment; filename=labels.zip"}
    return Response(labelling.exported(groups, labels, sizes), media_type="application/zip", headers=headers)


def _next(served: Served, library: Library, author: str) -> PairOut:
    known = bool(library.settings.segmenter)
    groups, labels = documents.read(served, "selections", {}), documents.read(served, "labels", {})
    left = sum(
        len(labels.get(name, {}).get(item["image_id"], [])) < len(labelling.STAGES)
        for name, items in groups.items()
        for item in items[1:]
    )
    pair = labelling.next_pair(groups, labels, author)
    if pair is None:
        return PairOut(
            selection=None, query=None, image_id=None, stage=0, doing="", mask=None, left=left, segmenter=known
        )
    name, image_id, stage = pair
    done = labels.get(name, {}).get(image_id, [])
    return PairOut(
        selection=name,
        query=ItemIn.model_validate(groups[name][0]),
        image_id=image_id,
        stage=stage,
        doing=labelling.STAGES[stage],
        mask=MaskOut.model_validate(done[-1]["mask"]) if done else None,
        left=left,
        segmenter=known,
    )


def _mask(given: MaskOut) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if given.size[0] * given.size[1] > MOST_PIXELS:
        raise Problem(
            413, f"a mask of {given.size[1]} × {given.size[0]} is too large; send at most {MOST_PIXELS:,} pixels."
        )
    try:
        mask = from_rle(given.model_dump())  # type: ignore[arg-type]
    except InputError as error:
        raise Problem(422, f"the mask cannot be read: {error}") from None
    return mask
