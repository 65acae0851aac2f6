"""The routes, one file a group. Each has a `router` whose paths begin below /api/v1."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Depends, Path, Request

from wherein.server.jobs import Jobs
from wherein.server.library import Library, Served
from wherein.server.thumbs import Thumbs

ERROR_REF: Final = "#/components/schemas/ErrorAnswer"
ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"description": words, "content": {"application/json": {"schema": {"$ref": ERROR_REF}}}}
    for status, words in {
        400: "The body cannot be read",
        401: "The token is missing or wrong",
        403: "Not allowed here",
        404: "There is no such thing",
        408: "The request took too long to arrive",
        409: "Somebody else is writing",
        413: "Too large",
        421: "This name is not served",
        422: "What was asked cannot be done as it was said",
        503: "The collection cannot serve",
        507: "The disk is full",
    }.items()
}
"""The answers that every route may give instead of its own, for the documentation."""


# These are asynchronous so that they are called where requests are read: one in a thread would wait for a free one, and
# a server whose threads are all at work could not even say that it is well.
async def library_of(request: Request) -> Library:
    """The served collections."""
    found: Library = request.app.state.library
    return found


async def jobs_of(request: Request) -> Jobs:
    """The jobs that index, train, push or publish."""
    found: Jobs = request.app.state.jobs
    return found


async def thumbs_of(request: Request) -> Thumbs:
    """The thumbnails in memory."""
    found: Thumbs = request.app.state.thumbs
    return found


async def served_of(
    request: Request, name: Annotated[str, Path(max_length=200, description="The collection's name")]
) -> Served:
    """The collection that the path names."""
    library: Library = request.app.state.library
    return library.get(name)


LibraryHere = Annotated[Library, Depends(library_of)]
JobsHere = Annotated[Jobs, Depends(jobs_of)]
ThumbsHere = Annotated[Thumbs, Depends(thumbs_of)]
ServedHere = Annotated[Served, Depends(served_of)]
