"""`wherein bench statistics`: what is in a benchmark's data, as a page, charts and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wherein.cli.options import JsonOption


def statistics(
    benchmark: Annotated[str, typer.Argument(help="searchad, subregion or forb.")],
    data: Annotated[Path, typer.Option("--data", help="The folder the benchmark was unpacked into.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Where page and charts go; by default bench-runs/BENCHMARK/statistics.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Count what is in the data: a page, an SVG file for each chart, tables beside the paper's."""
    import json

    from wherein.bench.contents import contents, write
    from wherein.bench.report import rich_table, terminal_text

    made = contents(benchmark, data)
    files = write(made, out or Path("bench-runs") / benchmark / "statistics")
    for note in made.notes:
        typer.echo(f"warning: {note}", err=True)
    if json_:
        typer.echo(json.dumps(made.to_dict(), ensure_ascii=False, indent=1))
    else:
        for table in made.tables:
            typer.echo(terminal_text(table.title, rich_table(table)), nl=False)
    typer.echo(f"look at {files[0]}; {len(made.charts)} charts beside it", err=True)
