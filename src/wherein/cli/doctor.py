"""`wherein doctor`: what is installed, what the limits are, whether all is well."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from wherein.cli.options import CollectionOption, JsonOption
from wherein.cli.spelling import in_flags


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(collection: CollectionOption = None, json_: JsonOption = False) -> None:
    """Say what is installed, which limits hold and whether all is well; exit code 1 where something is not."""
    from wherein.doctor import examine

    found = examine(collection or _nearest())
    if json_:
        typer.echo(json.dumps([asdict(one) for one in found], ensure_ascii=False, indent=1))
    else:
        for one in found:
            typer.echo(f"{'' if one.well else '! '}{one.name}: {in_flags(one.said)}")
    if not all(one.well for one in found):
        raise typer.Exit(1)


def _nearest() -> Path | None:
    """The collection here or above, if there is one."""
    from wherein.errors import CollectionNotFound
    from wherein.locations import nearest

    try:
        return nearest(Path.cwd())
    except CollectionNotFound:
        return None
