"""`wherein bench prompts`: how a detector's boxes depend on the words and the threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def prompts(
    label: Annotated[str, typer.Argument(help="A label of SearchAD, such as Object-Rollator.")],
    data: Annotated[Path, typer.Option("--data", help="The folder SearchAD was unpacked into.")],
    detector: Annotated[str, typer.Option("--detector", help="hf:IDEA-Research/grounding-dino-base, …")],
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the boxes drawn.")] = None,
    split: Annotated[str, typer.Option(help="val or train.")] = "val",
    images: Annotated[int, typer.Option(min=1, help="Images of the label that are looked at.")] = 20,
) -> None:
    """Count what a detector finds with every wording of a label's default query, at several thresholds."""
    from wherein.bench.report import rich_table, terminal_text
    from wherein.bench.searchad.prompts import counted, look, prompts_page
    from wherein.models import load_detector

    seen = look(data, label, load_detector(detector), split=split, most=images)
    for table in counted(seen):
        typer.echo(terminal_text(table.title, rich_table(table)), nl=False)
    if html is not None:
        html.write_text(prompts_page(seen, label=label, detector=detector), encoding="utf-8")
        typer.echo(f"look at {html}", err=True)
