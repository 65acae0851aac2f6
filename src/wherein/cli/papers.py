"""`wherein bench papers`: every table of results in the papers, with the split and protocol it was measured under."""

from __future__ import annotations

from typing import Annotated

import typer

from wherein.cli.options import JsonOption


def papers(
    benchmark: Annotated[
        str | None,
        typer.Argument(
            help="searchad, forb, subregion, proxford, prparis, roxford5k, rparis6k, coco, flickr30k or xm3600; all by "
            "default."
        ),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Print the papers' numbers, and others' on captions, each table with its split and protocol."""
    import json
    from dataclasses import asdict

    from wherein.bench.reference import PAPERS, paper_tables
    from wherein.bench.report import figure_label, terminal_text, turned_table
    from wherein.bench.tables import Table
    from wherein.errors import SpecError

    if benchmark not in (None, *PAPERS):
        raise SpecError(f"no paper here has a benchmark {benchmark!r}; choose one of {', '.join(PAPERS)}")
    chosen = {name: paper_tables(name) for name in PAPERS if benchmark in (None, name)}
    if json_:
        document = {name: [asdict(table) for table in tables] for name, tables in chosen.items()}
        typer.echo(json.dumps(document, ensure_ascii=False, indent=1))
        return
    for name, tables in chosen.items():
        for table in tables:
            columns = tuple(method for method, _ in table.rows)
            rows = tuple(
                (figure_label(key), {method: row[key] for method, row in table.rows if key in row})
                for key in table.figures()
            )
            shown = turned_table(Table(table.label, columns, rows, figures_are_rows=True))
            lines = [table.note] if table.note else []
            typer.echo(terminal_text(f"{name} · {table.label}", shown, *lines), nl=False)
