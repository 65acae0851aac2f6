"""Thumbnails: the kept small JPEG, or one made from the file; in memory as long as there is room."""

from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl

import PIL.Image
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from wherein.collection import Collection
from wherein.errors import ImageError
from wherein.images.image import Pixels
from wherein.images.thumbnail import THUMB_SIDE
from wherein.server.library import Served, picture_of
from wherein.server.problems import Problem
from wherein.server.recent import Recent

SIDES: Final = (64, 128, 256, 512, 1024, 2048)
"""The sizes that a page may ask for, in pixels of the longer side: few, so that what one page made serves the next."""
_SIDES: Final = frozenset(map(str, SIDES))
_PATH: Final = re.compile(r"/api/v1/collections/([^/]+)/thumb")
_ROOM: Final = 128 << 20
"""Bytes of pictures that are kept in memory: some 8,000 of 16 kB. What no longer fits is made again, so that
half only costs time."""
_FRESH_SECONDS: Final = 2.0
"""For so long it is not looked again whether the image has changed."""
_QUALITY: Final = 84
"""JPEG quality of pictures that are made for the page."""


@dataclass(frozen=True, slots=True)
class Thumb:
    """A JPEG, its entity tag, and when it was last compared with the collection."""

    data: bytes
    etag: str
    checked: float


class Thumbs:
    """The thumbnails of all served collections, the least used forgotten first."""

    def __init__(self) -> None:
        self._kept = Recent[tuple[str, str, int], Thumb](_ROOM, size=lambda thumb: len(thumb.data))
        self.hits = self.misses = 0

    def fresh(self, name: str, image_id: str, side: int) -> Thumb | None:
        """One that needs no look at the collection."""
        thumb = self._kept.get((name, image_id, side))
        if thumb is None or time.monotonic() - thumb.checked > _FRESH_SECONDS:
            return None
        self.hits += 1
        return thumb

    async def get(self, served: Served, image_id: str, side: int) -> Thumb:
        """A thumbnail whose longer side has about `side` pixels."""
        key = (served.name, image_id, side)
        known = self._kept.get(key)

        def read(collection: Collection) -> Thumb:
            details = collection.details(image_id)
            etag = f'"{details.digest[:20]}-{"" if details.seconds is None else f"{details.seconds:g}-"}{side}"'
            if known is not None and known.etag == etag:
                return replace(known, checked=time.monotonic())
            return Thumb(make(collection, image_id, side), etag, time.monotonic())

        thumb = await served.reading(read)
        self.hits, self.misses = self.hits + (thumb.etag == (known and known.etag)), self.misses + (known is None)
        self._kept.keep(key, thumb)
        return thumb


def answer(thumb: Thumb, if_none_match: str) -> Response:
    """A thumbnail, or that the browser has it already."""
    headers = {"etag": thumb.etag, "cache-control": "private, max-age=300, stale-while-revalidate=86400"}
    if thumb.etag in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(thumb.data, media_type="image/jpeg", headers=headers)


class QuickThumbs:
    """Sends thumbnails that are in memory before the routes are looked at, which would take most of the time."""

    def __init__(self, app: ASGIApp, thumbs: Thumbs) -> None:
        self._app, self._thumbs = app, thumbs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        found = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        thumb = None if found is None else self._known(found[1], scope["query_string"])
        app = self._app if thumb is None else answer(thumb, Headers(scope=scope).get("if-none-match", ""))
        await app(scope, receive, send)

    def _known(self, name: str, query: bytes) -> Thumb | None:
        asked = dict(parse_qsl(query.decode("latin-1")))
        side = asked.get("side", "256")
        return self._thumbs.fresh(name, asked.get("image_id", ""), int(side)) if side in _SIDES else None


def make(collection: Collection, image_id: str, side: int) -> bytes:
    """A JPEG of an image; the kept thumbnail where that is large enough, or where its file cannot be read."""
    kept = collection.thumb(image_id)
    if side == THUMB_SIDE and kept is not None:
        return kept
    if side < THUMB_SIDE and kept is not None:
        return _jpeg(PIL.Image.open(io.BytesIO(kept)), side)
    try:
        return jpeg(picture_of(collection, image_id, side=side).pixels, side)
    except (ImageError, Problem):
        if kept is None:
            raise
        return kept


def jpeg(pixels: Pixels, side: int) -> bytes:
    """Pixels as a JPEG whose longer side has at most `side`."""
    return _jpeg(PIL.Image.fromarray(pixels), side)


def _jpeg(picture: PIL.Image.Image, side: int) -> bytes:
    picture.thumbnail((side, side), PIL.Image.Resampling.LANCZOS, reducing_gap=2.0)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=_QUALITY, progressive=side > THUMB_SIDE)
    return buffer.getvalue()
