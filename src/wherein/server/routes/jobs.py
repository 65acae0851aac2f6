"""Indexing from the page: choose a folder, watch it, cancel it, go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from wherein.server.job_shapes import FolderOut, JobIn, JobOut
from wherein.server.jobs import Job
from wherein.server.routes import JobsHere, LibraryHere
from wherein.server.streams import Streams
from wherein.values.address import Location, inside

router = APIRouter(tags=["index jobs"])
_TICK = 0.15
"""Seconds between two looks at a job: a bar that moves several times a second."""


@router.get("/folders")
def folders(library: LibraryHere, running: JobsHere, path: Annotated[str, Query(max_length=4096)] = "") -> FolderOut:
    """The folders that may be indexed: the allowed roots, or what lies in one of their folders."""
    roots, places = library.index_roots(), library.places()
    if not path:
        return FolderOut(path="", parent=None, folders=[places.said(str(root)) for root in roots])
    real = running.allowed(path)
    here = [entry for entry in _folders(real) if any(inside(root, entry.resolve()) is not None for root in roots)]
    parent = "" if real in roots else places.said(str(real.parent))
    return FolderOut(
        path=places.said(str(real)), parent=parent, folders=sorted(places.said(str(entry)) for entry in here)
    )


def _folders(folder: Location) -> list[Path]:
    """What lies in a folder of this machine; one that lies elsewhere is indexed as a whole."""
    if not isinstance(folder, Path):
        return []
    try:
        return [entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []


@router.get("/jobs")
def jobs(running: JobsHere) -> list[JobOut]:
    """Every job since the server started."""
    return [job.out() for job in running.all()]


@router.post("/jobs", status_code=201)
def start(running: JobsHere, asked: JobIn) -> JobOut:
    """Index a folder below an allowed root."""
    chosen = asked.model_dump(exclude={"folder"})
    return running.start(asked.folder, **chosen).out()


@router.get("/jobs/{job_id}")
def job(running: JobsHere, job_id: str) -> JobOut:
    """How far a job is."""
    return running.get(job_id).out()


@router.post("/jobs/{job_id}/cancel")
def cancel(running: JobsHere, job_id: str) -> JobOut:
    """Stop a job; what it indexed stays."""
    return running.cancel(job_id).out()


@router.post("/jobs/{job_id}/resume", status_code=201)
def resume(running: JobsHere, job_id: str) -> JobOut:
    """A new job that goes on where this one stopped."""
    return running.resume(job_id).out()


@router.get(
    "/jobs/{job_id}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events `progress`, each a job"}},
)
async def events(running: JobsHere, job_id: str, request: Request) -> StreamingResponse:
    """Server-sent events: the job whenever it changed, until it has ended; after ten minutes ask again."""
    streams: Streams = request.app.state.streams
    client = "" if request.client is None else request.client.host
    return streams.answer(_events(running.get(job_id), request), client=client)


async def _events(job: Job, request: Request) -> AsyncIterator[bytes]:
    last = ""
    while not await request.is_disconnected():
        now = job.out()
        text = now.model_dump_json()
        yield f"event: progress\ndata: {text}\n\n".encode() if text != last else b""
        last = text
        if now.state != "running":
            return
        await anyio.sleep(_TICK)
