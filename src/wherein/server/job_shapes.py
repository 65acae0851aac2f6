"""Requests and answers about index jobs, as OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from wherein.server.shapes import ErrorBody, Name, Sent, Shape


class JobIn(Sent):
    """A folder to index."""

    folder: Annotated[str, Field(min_length=1, max_length=4096)]
    collection: Name | None = None
    """The collection that takes it in; without one, the folder becomes a collection of its own."""
    encoder: Annotated[str, Field(max_length=500)] | None = None
    layers: Annotated[list[Annotated[str, Field(max_length=100)]], Field(min_length=1, max_length=20)] | None = None
    """What is kept of each image; the engine's own choice unless given."""
    every: Annotated[float, Field(gt=0.0, le=86_400.0, allow_inf_nan=False)] | None = None
    """Of videos, keep an image at least every so many seconds; as last time, or 5."""
    verify: bool = False
    """Read every file, also where its size and date are as they were."""
    index: Annotated[str, Field(max_length=50, pattern="^[a-z0-9_:-]+$")] | None = None
    """How layers are searched: exact, compressed, compressed:BITS, or auto by size; as last time."""


class JobOut(Shape):
    """How far a job is."""

    id: str
    collection: str
    folder: str
    state: Literal["running", "done", "cancelled", "failed"]
    done: int
    total: int
    skipped: int
    last_skip: str | None
    report: dict[str, Any] | None
    error: ErrorBody | None


class FolderOut(Shape):
    """A folder below which the page may index."""

    path: str
    parent: str | None
    folders: list[str]
