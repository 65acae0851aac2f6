"""Options that several commands share, and opening the collection they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from wherein.collection import Collection
    from wherein.values.query import Query

CollectionOption = Annotated[
    Path | None,
    typer.Option("--collection", "-c", help="The collection; by default the nearest .wherein, upwards from here."),
]
FolderOption = Annotated[
    str | None, typer.Option("--in", help="Images below this folder; a glob where no folder is called so.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
NullOption = Annotated[
    bool, typer.Option("--null", "-0", help="Names in a pipe end with a zero byte instead of a new line.")
]


def query_of(texts: list[str], images: list[str], avoided: list[str], file: Path | None, where: str | None) -> Query:
    """What was asked for; a place that was given holds for every part that names none in a file."""
    from dataclasses import replace

    from wherein.values.query import Query, parse_image, parse_negative, parse_text, read_query
    from wherein.values.region import place

    parts = [*map(parse_text, texts), *map(parse_image, images), *map(parse_negative, avoided)]
    from_file = read_query(file).parts if file is not None else ()
    if where is not None:
        box = place(where)
        parts = [replace(part, where=box, said_where=None) for part in parts]
        from_file = tuple(replace(part, where=part.where or box) for part in from_file)
    return Query((*from_file, *parts))


def open_collection(path: Path | None) -> Collection:
    """The collection that was named, or the nearest one."""
    from wherein.collection import open
    from wherein.indexing.locations import nearest

    return open(path if path is not None else nearest(Path.cwd()))
