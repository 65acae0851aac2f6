"""Options that several commands share, and opening the collection they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from wherein.collection import Collection

CollectionOption = Annotated[
    Path | None,
    typer.Option("--collection", "-c", help="The collection; by default the nearest .wherein, upwards from here."),
]
FolderOption = Annotated[str | None, typer.Option("--in", help="Images below this folder; a glob.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
NullOption = Annotated[
    bool, typer.Option("--null", "-0", help="Names in a pipe end with a zero byte instead of a new line.")
]


def open_collection(path: Path | None) -> Collection:
    """The collection that was named, or the nearest one."""
    from wherein.collection import nearest, open

    return open(path if path is not None else nearest(Path.cwd()))
