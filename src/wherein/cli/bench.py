"""`wherein bench run` and `wherein bench report`: measure a method on a benchmark, compare runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wherein.cli.benchmark_options import BenchmarkCommand, given_options
from wherein.cli.best import best
from wherein.cli.options import JsonOption
from wherein.cli.papers import papers
from wherein.cli.prompts import prompts as detector_prompts
from wherein.cli.statistics import statistics

if TYPE_CHECKING:
    from wherein.bench.evaluation import Evaluation
    from wherein.bench.run import Plan, RunProgress
    from wherein.bench.sweep import Sweep

FormatOption = Annotated[
    str | None, typer.Option("--format", help="What to print: table (default), json, markdown or latex.")
]


def register(app: typer.Typer) -> None:
    """Add the group `bench`."""
    group = typer.Typer(help="Run a method on a benchmark; compare runs.", no_args_is_help=True)
    group.command(cls=BenchmarkCommand)(run)
    group.command()(report)
    group.command()(best)
    group.command()(papers)
    group.command("prompts")(detector_prompts)
    group.command()(statistics)
    app.add_typer(group, name="bench")


def run(
    context: typer.Context,
    benchmark: Annotated[
        str,
        typer.Argument(
            help="captions, covers, facades, objects, masks, road, underwater, classes, "
            "coco, flickr30k, xm3600, searchad, forb, subregion, roxford5k, rparis6k, proxford, prparis."
        ),
    ],
    data: Annotated[Path, typer.Option("--data", help="The folder the benchmark was unpacked into.")],
    method: Annotated[str, typer.Option("--method", help="A method spec: mini, mini+patches, mini+static-9@0.1.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the run is kept; by default bench-runs/BENCHMARK/METHOD.")
    ] = None,
    collection: Annotated[
        Path | None,
        typer.Option("--collection", help="Keep the images' collection here, not under --out: methods can share it."),
    ] = None,
    json_: JsonOption = False,
    format_: FormatOption = None,
) -> None:
    """Index the data once, ask every query, write predictions, score them. A stopped run goes on when repeated."""
    from wherein.bench.report import chosen_format
    from wherein.bench.run import Plan
    from wherein.bench.sweep import read_variant

    shown = chosen_format(format_, json=json_)
    options, sweep = read_variant(benchmark, given_options(context))
    where = out or default_out(benchmark, method)
    plan = Plan(benchmark=benchmark, data=data, method=method, out=where, options=options, home=collection)
    _print(_run(plan, sweep), shown)
    typer.echo(f"kept in {plan.out}; look at {plan.out / 'report.html'}", err=True)


def default_out(benchmark: str, method: str) -> Path:
    """A folder per benchmark and method, below the working directory."""
    return Path("bench-runs") / benchmark / re.sub(r"[^\w.+@~-]+", "_", method)


def _run(plan: Plan, sweep: Sweep | None) -> Evaluation:
    from wherein.bench.run import run as run_plan
    from wherein.bench.sweep import sweep as run_sweep

    try:
        with _progress() as watch:
            return run_plan(plan, watch=watch) if sweep is None else run_sweep(plan, sweep, watch=watch)
    except KeyboardInterrupt:
        typer.echo(f"stopped; the same command goes on from here ({plan.out})", err=True)
        raise


def _print(evaluation: Evaluation, format_: str) -> None:
    from wherein.bench.report import render

    for warning in evaluation.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(render(evaluation, format_), nl=False)


@contextmanager
def _progress() -> Iterator[Callable[[RunProgress], None]]:
    """A progress bar on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, int] = {}

        def watch(step: RunProgress) -> None:
            if step.doing not in tasks:
                tasks[step.doing] = bar.add_task(step.doing, total=step.total)
            bar.update(bar.task_ids[tasks[step.doing]], completed=step.done, total=step.total)

        yield watch


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Folders of finished runs; the first is the base.")
    ],
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with every query's delta.")] = None,
    json_: JsonOption = False,
    format_: FormatOption = None,
) -> None:
    """Compare runs: figures side by side, wins and losses per query, significance."""
    from wherein.bench import compare_report
    from wherein.bench.compare import compare
    from wherein.bench.report import chosen_format

    known = {
        "table": compare_report.as_text,
        "json": compare_report.as_json,
        "markdown": compare_report.as_markdown,
        "latex": compare_report.as_latex,
    }
    shown = chosen_format(format_, json=json_)
    comparison = compare(runs)
    for warning in comparison.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(known[shown](comparison), nl=False)
    if html is not None:
        compare_report.write_html(comparison, html)
        typer.echo(f"look at {html}", err=True)
