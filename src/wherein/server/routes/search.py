"""Searching: JSON, multipart with images, a stream of lines; and refining by marks on hits."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import anyio
from fastapi import APIRouter, File, Form, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.background import BackgroundTask

from wherein.images import isolated
from wherein.server.problems import Problem
from wherein.server.requests import ask, ask_lines, matches, outline, write_hits
from wherein.server.requests import calibrate as learn
from wherein.server.requests import reliability as trusted
from wherein.server.requests import uncalibrate as unlearn
from wherein.server.routes import LibraryHere, ServedHere
from wherein.server.shapes import (
    CalibrateIn,
    CalibrationOut,
    ExampleOut,
    MatchesIn,
    MatchesOut,
    RankingOut,
    ReliabilityOut,
    SearchIn,
    UncalibratedOut,
    UncalibrateIn,
)
from wherein.server.thumbs import jpeg


class _LargeForm(Request):
    """A request whose form may be as large as a request may be: Starlette takes a megabyte of each field, else."""

    def form(self, **limits: Any) -> Any:
        """The fields and files."""
        return super().form(**{"max_part_size": self.app.state.library.settings.max_upload_bytes, **limits})


class _Route(APIRoute):
    """A route that reads forms so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers."""
        answer = super().get_route_handler()

        async def answered(request: Request) -> Response:
            return await answer(_LargeForm(request.scope, request.receive))

        return answered


router = APIRouter(tags=["search"], route_class=_Route)
PICTURED_MOST: Final = 200
"""The most hits whose pictures are put into one file."""


@router.post("/collections/{name}/search")
async def search(served: ServedHere, library: LibraryHere, asked: SearchIn) -> RankingOut:
    """The k best images from `offset` on. Pages of one search, all of one k, are cut from one ranking.

    Where hits are rejected, a page has fewer than k: `offset` counts the places of hits and of rejected ones alike.
    """
    return await ask(served, asked, {}, max_pixels=library.settings.max_upload_pixels)


@router.post("/collections/{name}/search/upload")
async def search_upload(
    served: ServedHere,
    library: LibraryHere,
    query: Annotated[str, Form(description="A search as JSON; parts name their `upload`")],
    images: Annotated[list[UploadFile], File(description="The images, by file name")],
) -> RankingOut:
    """Search with images that come along. A part's `upload` is the file name of one of them."""
    try:
        asked = SearchIn.model_validate_json(query)
    except ValidationError as error:
        wrong = error.errors(include_url=False)
        raise RequestValidationError([{**one, "loc": ("body", "query", *one["loc"])} for one in wrong]) from None
    uploads = {image.filename or str(number): await image.read() for number, image in enumerate(images)}
    return await ask(served, asked, uploads, max_pixels=library.settings.max_upload_pixels)


@router.post(
    "/collections/{name}/search/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {}}, "description": "The ranking, then a line per hit"}},
)
async def search_stream(served: ServedHere, library: LibraryHere, asked: SearchIn) -> StreamingResponse:
    """As /search, as lines of JSON: first the ranking without hits, then a hit a line, best first.

    With `locate`, the ranking comes before anything is outlined, and each hit when it is.
    """
    lines = await ask_lines(served, asked, max_pixels=library.settings.max_upload_pixels)
    return StreamingResponse(lines, media_type="application/x-ndjson")


@router.post("/collections/{name}/search/export", response_class=FileResponse)
async def export_hits(
    served: ServedHere,
    library: LibraryHere,
    asked: SearchIn,
    format: Annotated[Literal["coco", "fiftyone", "overlays"], Query(description="What to write")],
) -> FileResponse:
    """As /locate, as a file: COCO JSON, or a zip of a FiftyOne-readable folder or of outlined pictures."""
    if format != "coco" and asked.k > PICTURED_MOST:
        raise Problem(422, f"k = {asked.k}: {format} holds the pictures of {PICTURED_MOST} hits at most; lower k.")
    home = Path(await anyio.to_thread.run_sync(tempfile.mkdtemp))
    done = BackgroundTask(shutil.rmtree, home, ignore_errors=True)
    written = home / ("hits.json" if format == "coco" else "hits")
    try:
        located = asked.model_copy(update={"locate": True})
        most = None if format == "coco" else PICTURED_MOST
        pixels = library.settings.max_upload_pixels
        await write_hits(served, located, f"{format}:{written}", most=most, max_pixels=pixels)
        if format != "coco":
            written = Path(await anyio.to_thread.run_sync(shutil.make_archive, str(written), "zip", str(written)))
    except BaseException:
        await done()
        raise
    return FileResponse(written, filename=written.name, background=done)


@router.post("/collections/{name}/feedback")
async def feedback(served: ServedHere, library: LibraryHere, asked: SearchIn) -> RankingOut:
    """Search again with what was liked and disliked: a liked image counts 0.75, a disliked one −0.25.

    From three liked and one disliked on, the search learns from them what is meant, and says so in its notes.
    """
    if not asked.liked and not asked.disliked:
        raise Problem(422, "feedback needs marks: name images in `liked` or `disliked`.")
    return await ask(served, asked, {}, max_pixels=library.settings.max_upload_pixels)


@router.post("/collections/{name}/calibrate")
async def calibrate(served: ServedHere, library: LibraryHere, asked: CalibrateIn) -> list[CalibrationOut]:
    """Judge hits; the confidence of every later search with that method follows."""
    return await learn(served, asked, max_pixels=library.settings.max_upload_pixels)


@router.get("/collections/{name}/reliability")
async def reliability(served: ServedHere) -> list[ReliabilityOut]:
    """What confidence said of judged hits, and how many of them were right, tenth by tenth."""
    return await trusted(served)


@router.post("/collections/{name}/uncalibrate")
async def uncalibrate(served: ServedHere, asked: UncalibrateIn) -> UncalibratedOut:
    """Take back what one step of judging changed, or with `reset` everything that was judged."""
    return await unlearn(served, asked)


@router.post("/collections/{name}/locate")
async def locate(served: ServedHere, library: LibraryHere, asked: SearchIn) -> RankingOut:
    """As /search, with the pixels that matched outlined in every hit; `among` names the images to look at.

    Hits that the same question with the same filters has just found are outlined as they were found, without another
    search: what is expected and noted is then what that search said of all images.
    """
    return await outline(served, asked, max_pixels=library.settings.max_upload_pixels)


@router.post("/collections/{name}/matches")
async def match_points(served: ServedHere, asked: MatchesIn) -> MatchesOut:
    """The points of an example that are seen again in an image: what its match lines join."""
    return await matches(served, asked)


@router.post("/collections/{name}/examples", status_code=201)
async def put_example(served: ServedHere, library: LibraryHere, request: Request) -> ExampleOut:
    """Send an image (the body is its bytes), to search with it afterwards by its name."""
    data = await request.body()
    if not data:
        raise Problem(422, "the body is empty: send the bytes of an image.")
    pixels = library.settings.max_upload_pixels
    name, size_wh = await anyio.to_thread.run_sync(
        lambda: served.keep_example(data, max_pixels=pixels), limiter=served.decoding
    )
    return ExampleOut(example=name, size_wh=size_wh)


@router.get("/collections/{name}/examples/{example}", response_class=Response)
async def example(served: ServedHere, library: LibraryHere, example: str) -> Response:
    """An uploaded image, as a JPEG of at most 1024 pixels."""
    if len(example) != 32 or not set(example) <= set("0123456789abcdef"):
        raise Problem(404, f"example {json.dumps(example)}: is no name of an uploaded image.")
    pixels = library.settings.max_upload_pixels

    def preview() -> bytes:
        shown = isolated.decode(served.example(example), max_pixels=pixels, at_least=lambda _: 1024, name="the example")
        return jpeg(shown.pixels, 1024)

    data = await anyio.to_thread.run_sync(preview, limiter=served.decoding)
    return Response(data, media_type="image/jpeg", headers={"cache-control": "private, max-age=86400, immutable"})
