"""Selections, kept with the collection: images are kept and dropped one by one, so that nobody overwrites another."""

from __future__ import annotations

from collections.abc import Collection as Ids
from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import Field

from wherein.errors import ImageNotFound, RegionError
from wherein.server import documents
from wherein.server.library import Served
from wherein.server.problems import Problem
from wherein.server.routes import ServedHere
from wherein.server.shapes import ImageIds, ItemIn, Name, Sent, Shape
from wherein.values.masks import check_runs
from wherein.values.region import Box

router = APIRouter(tags=["selections"])
MOST: Final = 10_000
"""How many images a selection holds at most."""


class SelectionIn(Sent):
    """Images for a selection."""

    items: Annotated[list[ItemIn], Field(max_length=MOST)]


class SelectionOut(Shape):
    """A named selection, kept with the collection."""

    name: str
    items: list[ItemIn]
    gone: list[str]
    """Those of its images that have left the collection; exports leave them out."""


class DropIn(Sent):
    """Images to take out of a selection."""

    image_ids: ImageIds


class RenameIn(Sent):
    """What a selection is called from now on."""

    to: Name


@router.get("/collections/{name}/selections")
async def selections(served: ServedHere) -> list[SelectionOut]:
    """Every selection, by name."""
    known, living = documents.read(served, "selections", {}), await served.living()
    return [_out(name, items, living) for name, items in sorted(known.items())]


@router.put("/collections/{name}/selections/{selection}")
async def put_selection(served: ServedHere, selection: Name, asked: SelectionIn) -> SelectionOut:
    """Keep a selection under a name, in place of what it held."""
    living = await served.living()
    with documents.changed(served, "selections", {}) as known:
        _check(served, asked.items, known.get(selection, []), living)
        known[selection] = [_entry(item) for item in asked.items]
        return _out(selection, known[selection], living)


@router.post("/collections/{name}/selections/{selection}/keep")
async def keep(served: ServedHere, selection: Name, asked: SelectionIn) -> SelectionOut:
    """Add images to a selection, or say anew what is known of those it holds; it is made where there is none."""
    living = await served.living()
    with documents.changed(served, "selections", {}) as known:
        _check(served, asked.items, known.get(selection, []), living)
        known[selection] = _merged(known.get(selection, []), asked.items)
        if len(known[selection]) > MOST:
            raise Problem(422, f"a selection holds at most {MOST:,} images. Begin another.")
        return _out(selection, known[selection], living)


@router.post("/collections/{name}/selections/{selection}/drop")
async def drop(served: ServedHere, selection: Name, asked: DropIn) -> SelectionOut:
    """Take images out of a selection; those it does not hold are no error."""
    living, leaving = await served.living(), set(asked.image_ids)
    with documents.changed(served, "selections", {}) as known:
        require(known, selection)
        known[selection] = [item for item in known[selection] if item["image_id"] not in leaving]
        return _out(selection, known[selection], living)


@router.post("/collections/{name}/selections/{selection}/rename")
async def rename(served: ServedHere, selection: Name, asked: RenameIn) -> SelectionOut:
    """Give a selection another name, which no other bears."""
    living = await served.living()
    with documents.changed(served, "selections", {}) as known:
        require(known, selection)
        if asked.to in known and asked.to != selection:
            raise Problem(409, f"there is a selection {asked.to!r} already. Choose another name.")
        known[asked.to] = known.pop(selection)
        return _out(asked.to, known[asked.to], living)


@router.delete("/collections/{name}/selections/{selection}", status_code=204)
def forget(served: ServedHere, selection: Name) -> None:
    """Forget a selection; its images stay."""
    with documents.changed(served, "selections", {}) as known:
        require(known, selection)
        del known[selection]


def require(known: dict[str, Any], selection: str) -> None:
    """A selection that is not kept is answered with those that are."""
    if selection not in known:
        raise Problem(404, f"there is no selection {selection!r}; there are: {', '.join(sorted(known)) or 'none'}.")


def _check(served: Served, items: list[ItemIn], held: list[dict[str, Any]], living: Ids[str]) -> None:
    """What is new must be in the collection; what was kept once may have left it since. Regions must be whole."""
    before = {item["image_id"] for item in held}
    for item in items:
        if item.image_id not in living and item.image_id not in before:
            raise ImageNotFound(f"{item.image_id}: no image of that id in {served.folder}.")
        try:
            _check_region(item)
        except RegionError as error:
            raise RegionError(f"{item.image_id}: {error}") from None


def _check_region(item: ItemIn) -> None:
    """Refuse a box or a mask that no export could write; nothing is unfolded for that."""
    if item.box is not None:
        Box(*item.box)
    if item.mask is not None:
        check_runs(item.mask.counts, size=item.mask.size)


def _merged(held: list[dict[str, Any]], items: list[ItemIn]) -> list[dict[str, Any]]:
    """What is said anew takes the place of what was held; the rest follows."""
    fresh = {item.image_id: _entry(item) for item in items}
    return [*(fresh.pop(item["image_id"], item) for item in held), *fresh.values()]


def _entry(item: ItemIn) -> dict[str, Any]:
    return item.model_dump(exclude_none=True)


def _out(name: str, items: list[dict[str, Any]], living: Ids[str]) -> SelectionOut:
    gone = [item["image_id"] for item in items if item["image_id"] not in living]
    return SelectionOut(name=name, items=[ItemIn(**item) for item in items], gone=gone)
