"""`wherein evaluate`: score prediction files of an official benchmark."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def register(app: typer.Typer) -> None:
    """Add `evaluate` to the command."""
    app.command("evaluate")(evaluate)


def evaluate(
    benchmark: Annotated[
        str,
        typer.Argument(help="searchad, forb, subregion, roxford5k, rparis6k, proxford or prparis."),
    ],
    data: Annotated[Path, typer.Option(help="The folder the benchmark was unpacked into.")],
    predictions: Annotated[
        Path, typer.Option(help="Predictions in the official format: a file, or FORB's folder of result files.")
    ],
    ranks: Annotated[
        Path | None, typer.Option(help="Ranks .npy for the database task of proxford and prparis.")
    ] = None,
    split: Annotated[
        Literal["train", "val"] | None, typer.Option(help="SearchAD's split: val (default) or train.")
    ] = None,
    protocol: Annotated[
        Literal["official", "paper"],
        typer.Option(help="The official evaluator's number, or the paper's formula where the two differ."),
    ] = "official",
    format_: Annotated[
        Literal["table", "json", "markdown", "latex"] | None,
        typer.Option("--format", help="How to print the scores; as a table unless given."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a report with every query and curve.")] = None,
) -> None:
    """Score predictions as the benchmark's own evaluator does."""
    from wherein.bench.evaluate import evaluate as score
    from wherein.bench.report import chosen_format, render

    shown = chosen_format(format_, json=json_)
    evaluation = score(benchmark, data=data, predictions=predictions, ranks=ranks, split=split, protocol=protocol)
    for warning in evaluation.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if html is not None:
        from wherein.bench.html import write_html

        html.parent.mkdir(parents=True, exist_ok=True)
        write_html(evaluation, html)
        typer.echo(f"report: {html}", err=True)
    typer.echo(render(evaluation, shown), nl=False)
