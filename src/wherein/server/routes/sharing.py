"""Pushing rows to an index elsewhere, and publishing: jobs. Where to is said by whoever starts the server."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from wherein.server.job_shapes import JobOut
from wherein.server.routes import JobsHere, ServedHere
from wherein.server.shapes import Sent

router = APIRouter(tags=["sharing"])


class PushIn(Sent):
    """What is pushed, and into what kind of index."""

    layers: Annotated[list[Annotated[str, Field(max_length=100)]], Field(min_length=1, max_length=20)] | None = None
    """Kinds of layers; without any, all that an index serves."""
    index_type: Literal["FLAT", "IVF_FLAT", "IVF_SQ8", "HNSW"] | None = None


@router.post("/collections/{name}/push", status_code=201)
def push(running: JobsHere, served: ServedHere, asked: PushIn) -> JobOut:
    """Push what changed to the index of `serve --index milvus:…`, as a job; its report has a line for each layer."""
    return running.start_push(served.name, **asked.model_dump()).out()


@router.post("/collections/{name}/publish", status_code=201)
def publish(running: JobsHere, served: ServedHere) -> JobOut:
    """Publish below the address of `serve --publish URL`, under the collection's name, as a job."""
    return running.start_publishing(served.name).out()
