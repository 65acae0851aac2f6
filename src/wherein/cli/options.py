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
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def open_collection(path: Path | None) -> Collection:
    """The collection that was named, or the nearest one."""
    from wherein.collection import nearest, open

    return open(path if path is not None else nearest(Path.cwd()))
