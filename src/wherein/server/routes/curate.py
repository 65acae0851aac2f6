"""Curating: tags, and selections for other programs."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import Response

from wherein.bench.searchad.dataset import LABELS
from wherein.bench.searchad.tools import Metadata
from wherein.collection import Collection
from wherein.server import documents
from wherein.server.exports import TYPES, Format, export
from wherein.server.models import check_method
from wherein.server.problems import Problem
from wherein.server.routes import ServedHere
from wherein.server.routes.selections import require
from wherein.server.shapes import ItemIn, Line, Name, TagIn
from wherein.server.submission import submission

router = APIRouter(tags=["curate"])


@router.get("/collections/{name}/tags")
async def tags(served: ServedHere) -> dict[str, int]:
    """Every tag and how many images bear it."""
    return (await served.info()).tags


@router.post("/collections/{name}/tags")
async def tag(served: ServedHere, asked: TagIn) -> dict[str, int]:
    """Tag images; the tags as they are now."""
    await served.writing(lambda found: found.tag(asked.tag, asked.image_ids))
    return await tags(served)


@router.post("/collections/{name}/untag")
async def untag(served: ServedHere, asked: TagIn) -> dict[str, int]:
    """Take a tag off images; the tags as they are now."""
    await served.writing(lambda found: found.untag(asked.tag, asked.image_ids))
    return await tags(served)


@router.get("/collections/{name}/export", response_class=Response)
async def export_file(
    served: ServedHere,
    format: Annotated[Format, Query(description="What to write")],
    selection: Annotated[Name | None, Query()] = None,
    tag: Annotated[Name | None, Query()] = None,
) -> Response:
    """A selection, or all images with a tag, as a file; `wherein-left-out` counts images that left the collection."""
    if (selection is None) == (tag is None):
        raise Problem(422, "say what to export: either a selection or a tag.")
    known = documents.read(served, "selections", {})
    name = str(selection or tag)
    if selection is not None:
        require(known, selection)
        items = [ItemIn(**item) for item in known[selection]]
        data, left_out = await served.reading(lambda found: export(found, items, name=name, format_=format))
    else:
        data, left_out = await served.reading(
            lambda found: export(
                found, [ItemIn(image_id=i) for i in found.image_ids(tags=[name])], name=name, format_=format
            )
        )
    kind, suffix = TYPES[format]
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}.{suffix}"
    headers = {"content-disposition": disposition, "wherein-left-out": str(left_out)}
    return Response(data, media_type=kind, headers=headers)


@router.get("/collections/{name}/searchad", response_class=Response)
async def searchad(
    served: ServedHere,
    team: Annotated[Line, Query()],
    model: Annotated[Line, Query()],
    affiliation: Annotated[Line, Query(description="Paper, code or affiliation")],
    mode: Annotated[Literal["Language", "Vision", "Multimodal"], Query(description="The search mode")],
    trained: Annotated[bool, Query(description="Was the SearchAD train split used?")] = False,
    method: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """The file to submit to SearchAD: what is kept under each label first, then its default query's ranking."""
    known, living = documents.read(served, "selections", {}), await served.living()
    chosen = {
        label: [item["image_id"] for item in items if item["image_id"] in living] for label, items in known.items()
    }
    metadata = Metadata(team, model, affiliation, mode, trained, not set(chosen) & set(LABELS))

    def write(collection: Collection) -> bytes:
        check_method(method, collection.made_by)
        return submission(collection, chosen, metadata=metadata, method=method)

    data = await served.searching(write, unhurried=True)
    headers = {"content-disposition": "attachment; filename=submission.json"}
    return Response(data, media_type="application/json", headers=headers)
