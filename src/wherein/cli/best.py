"""`wherein bench best`: the first hits of several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def best(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders of finished runs of one benchmark.")],
    html: Annotated[Path, typer.Option("--html", help="The page to write.")],
    query: Annotated[
        list[str] | None,
        typer.Option(
            help="A query by its name, such as Animal-Real-Cow; may be repeated. By default where runs differ most."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=20, help="Hits of each method.")] = 5,
) -> None:
    """Show the first hits of several methods side by side, a row for each method, right ones framed."""
    from wherein.bench.best import best_page

    html.write_text(best_page(runs, queries=query or (), k=k), encoding="utf-8")
    typer.echo(f"look at {html}", err=True)
