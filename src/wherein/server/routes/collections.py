"""Collections and their images: lists, details, thumbnails, originals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response
from starlette.background import BackgroundTask

from wherein import plugins
from wherein.collection import Collection
from wherein.files import on_disk
from wherein.models import families_that_name_no_model
from wherein.server.library import Served, original_of
from wherein.server.places import NamedFolders, file_name
from wherein.server.problems import Problem
from wherein.server.routes import LibraryHere, ServedHere, ThumbsHere
from wherein.server.shapes import CollectionOut, DetailsOut, ImageId, ImageLine, ImagesIn, ImagesOut, filters_of
from wherein.server.submission import searchad_root
from wherein.server.thumbs import answer
from wherein.values.method import DBA, Method, search_words

router = APIRouter(tags=["collections"])
_GRIDS = ("static-5", "static-9", "static-9@0.1", "static-36")
ImageIdQuery = Annotated[ImageId, Query(description="The image's id in the collection")]


@router.get("/collections")
async def collections(library: LibraryHere) -> list[CollectionOut]:
    """Every served collection."""
    return [await _describe(library.get(name), library.places()) for name in library.names()]


@router.get("/collections/{name}")
async def collection(served: ServedHere, library: LibraryHere) -> CollectionOut:
    """One collection: its size, tags, and how it can be searched."""
    return await _describe(served, library.places())


async def _describe(served: Served, places: NamedFolders) -> CollectionOut:
    info = await served.info()
    own = ("", info.encoder)
    kinds = {layer.kind for layer in info.layers if layer.encoder in own or layer.kind.startswith("local")}
    words = [
        *search_words(),
        *(kind for kind in sorted(kinds) if kind.startswith("static-")),
        *_GRIDS,
        *plugins.table("kernels"),
    ]
    return CollectionOut(
        name=served.name,
        folder=places.said(str(info.folder)),
        encoder=info.encoder,
        images=info.images,
        roots=[places.said(str(path)) for path in info.roots.values()],
        tags=info.tags,
        layers=[layer.kind for layer in info.layers],
        methods=[word for word in dict.fromkeys(words) if kinds.issuperset(Method.parse(word).layers)],
        steps=[DBA, *plugins.table("steps")],
        searchad=searchad_root(list(info.roots.values())) is not None,
    )


@router.get("/encoders")
async def encoders() -> list[str]:
    """The encoders that a new collection can be filled with, the default first; a request names no model."""
    return families_that_name_no_model()


@router.get("/collections/{name}/images")
async def images(
    served: ServedHere,
    asked: Annotated[ImagesIn, Query()],
) -> ImagesOut:
    """Images by id, a page at a time, to the last one."""

    filters = filters_of(asked)
    passing = await served.listed(filters)
    end = asked.offset + asked.limit

    def look_alikes(found: Collection) -> dict[str, str]:
        return served.look_alikes.of(found, passing[:end], key=(found.version, found.encoder, repr(filters)))

    likes = await served.searching(look_alikes) if asked.group else {}

    def read(found: Collection) -> ImagesOut:
        lines = [
            ImageLine(image_id=image_id, size_wh=found.details(image_id).size_wh, like=likes.get(image_id))
            for image_id in passing[asked.offset : end]
        ]
        return ImagesOut(total=len(passing), offset=asked.offset, images=lines)

    return await served.reading(read)


@router.get("/collections/{name}/image")
async def image(served: ServedHere, image_id: ImageIdQuery) -> DetailsOut:
    """What is known about one image, and its neighbours in the video."""

    def read(found: Collection) -> DetailsOut:
        known = found.details(image_id)
        return DetailsOut(
            image_id=known.image_id,
            size_wh=known.size_wh,
            taken=known.taken,
            seconds=known.seconds,
            path=None if known.path is None else file_name(known.image_id),
            file_bytes=known.file_bytes,
            digest=known.digest,
            tags=list(known.tags),
            frames=found.frames(image_id) if known.seconds is not None else [],
        )

    return await served.reading(read)


Sides = Literal["64", "128", "256", "512", "1024", "2048"]


@router.get("/collections/{name}/thumb", response_class=Response, responses={304: {"description": "Not modified"}})
async def thumb(
    request: Request,
    served: ServedHere,
    kept: ThumbsHere,
    image_id: ImageIdQuery,
    side: Annotated[Sides, Query(description="Pixels of the longer side, at most")] = "256",
) -> Response:
    """A JPEG of an image. It carries an ETag and may be kept by the browser for a while."""
    found = kept.fresh(served.name, image_id, int(side)) or await kept.get(served, image_id, int(side))
    return answer(found, request.headers.get("if-none-match", ""))


_TYPES = {
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".avif": "image/avif",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
}


@router.get("/collections/{name}/original", response_class=FileResponse)
async def original(served: ServedHere, image_id: ImageIdQuery) -> FileResponse:
    """The image's own file; only files inside the collection's folders are ever sent."""

    def read(found: Collection) -> tuple[BinaryIO, Path]:
        return on_disk(original_of(found, image_id)), Path(file_name(image_id))

    file, path = await served.reading(read)
    kind = _TYPES.get(path.suffix.lower(), "application/octet-stream")
    try:
        name = path.name.encode().decode()
    except UnicodeError:
        file.close()
        raise Problem(404, "the file's name is not valid Unicode.") from None
    disposition = "inline" if kind.startswith("image/") else "attachment"
    headers = {"content-security-policy": "sandbox; default-src 'none'", "cache-control": "private, max-age=60"}
    return FileResponse(
        f"/dev/fd/{file.fileno()}",  # the file that was checked, whatever its path leads to by now
        media_type=kind,
        filename=name,
        content_disposition_type=disposition,
        headers=headers,
        stat_result=os.fstat(file.fileno()),
        background=BackgroundTask(file.close),
    )
