"""What a request asks for, as a query: its parts, their examples, and marks on hits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from wherein.arrays import Mask
from wherein.collection import Collection
from wherein.server.library import Served, check_upload, example_of
from wherein.server.problems import Problem
from wherein.server.shapes import PartIn, SearchIn
from wherein.values.masks import from_rle
from wherein.values.query import Part, Query, marked, parse_text
from wherein.values.region import Box, place

EXAMPLE_BYTES: Final = 512 << 20
"""Bytes of all example files in one request, which are held while it is answered: some hundred photographs."""


def query_of(
    served: Served, collection: Collection, asked: SearchIn, uploads: Mapping[str, bytes], *, max_pixels: int
) -> Query:
    """All that is asked for: the parts, and marked hits, which become parts."""
    room = Room()
    parts = [room.take(part_of(served, collection, part, uploads, max_pixels=max_pixels)) for part in asked.parts]
    parts += [
        room.take(marked(image_id, example_of(collection, image_id), right=right))
        for image_ids, right in ((asked.liked, True), (asked.disliked, False))
        for image_id in image_ids
    ]
    return Query(tuple(parts))


class Room:
    """What the examples of one request may take, before all of them are read."""

    def __init__(self) -> None:
        self._left = EXAMPLE_BYTES

    def take(self, part: Part) -> Part:
        """A part whose example still has room."""
        self._left -= len(part.image) if isinstance(part.image, bytes) else 0
        if self._left < 0:
            raise Problem(413, f"the examples of one request have {EXAMPLE_BYTES:,} bytes at most. Name fewer.")
        return part


def part_of(
    served: Served, collection: Collection, part: PartIn, uploads: Mapping[str, bytes], *, max_pixels: int
) -> Part:
    """One part of a request; it names exactly one thing to look for."""
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
