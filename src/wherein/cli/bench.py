"""`wherein bench run` and `wherein bench report`: measure a method on a benchmark, compare runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wherein.cli.best import best
from wherein.cli.options import JsonOption
from wherein.cli.papers import papers
from wherein.cli.prompts import prompts as detector_prompts
from wherein.cli.statistics import statistics

if TYPE_CHECKING:
    from wherein.bench.evaluation import Evaluation
    from wherein.bench.run import Plan, Step
    from wherein.bench.sweep import Sweep

FormatOption = Annotated[
    str | None, typer.Option("--format", help="What to print: table (default), json, markdown or latex.")
]


def register(app: typer.Typer) -> None:
    """Add the group `bench`."""
    group = typer.Typer(help="Run a method on a benchmark; compare runs.", no_args_is_help=True)
    group.command()(run)
    group.command()(report)
    group.command()(best)
    group.command()(papers)
    group.command("prompts")(detector_prompts)
    group.command()(statistics)
    app.add_typer(group, name="bench")


def run(
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
    split: Annotated[
        str | None,
        typer.Option(help="searchad: val (default), train or test; coco, flickr30k: test (default), val or train."),
    ] = None,
    modality: Annotated[
        str | None, typer.Option(help="searchad: language (default), vision or multimodal queries.")
    ] = None,
    texts: Annotated[
        str | None,
        typer.Option(
            help="searchad: first-keyword, keywords, all (default: with descriptions), or text-N: the N-th alone."
        ),
    ] = None,
    random_sets: Annotated[
        int | None, typer.Option(help="searchad: that many random support sets instead of the curated one (paper: 20).")
    ] = None,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="searchad: how much depends on the wording: one run per kind of text.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the random support sets.")] = None,
    size_thirds: Annotated[bool, typer.Option("--size-thirds", help="searchad: smallest and largest objects.")] = False,
    confusion: Annotated[bool, typer.Option("--confusion", help="searchad: what the top 50 of a label show.")] = False,
    perturb: Annotated[
        list[str] | None,
        typer.Option(help="subregion: SHIFT,SIZE spread of the box, five draws each; `paper` for all four levels."),
    ] = None,
    overlaps: Annotated[
        str | None, typer.Option(help="subregion: overlaps of the method's grid to sweep, as 0,0.1,0.2.")
    ] = None,
    target_only: Annotated[
        bool, typer.Option("--target-only", help="subregion: all frames but the target keep their whole-image score.")
    ] = False,
    box_statistics: Annotated[
        bool, typer.Option("--box-statistics", help="subregion: IoU of boxes and grid cells.")
    ] = False,
    task: Annotated[
        str | None,
        typer.Option(
            help="proxford, prparis: database (default) or pairs; searchad: ranking (default) or localization."
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="proxford, prparis: ask with the box (default) or the mask of each query.")
    ] = None,
    out_of_domain: Annotated[
        Path | None,
        typer.Option(help="forb: a folder of photos for which nothing should be found: thresholds from them."),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="xm3600: a code such as de (default en), or all for the mean of 36 languages.")
    ] = None,
    longest_side: Annotated[
        int | None, typer.Option(min=16, help="Reduce every image to that many pixels first (forb's paper: 480).")
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="Official benchmarks: official (default) or paper.")] = None,
    distractors: Annotated[Path | None, typer.Option(help="Search the images of this folder as well.")] = None,
    prompt: Annotated[
        list[str] | None, typer.Option(help="classes, road: a text instead of the default ones; may be repeated.")
    ] = None,
    json_: JsonOption = False,
    format_: FormatOption = None,
) -> None:
    """Index the data once, ask every query, write predictions, score them. A stopped run goes on when repeated."""
    from wherein.bench.report import chosen_format
    from wherein.bench.run import Plan
    from wherein.bench.task import Options

    shown = chosen_format(format_, json=json_)
    options = Options(
        split=split,
        modality=modality,
        texts=texts,
        seed=seed,
        prompt=tuple(prompt) if prompt else None,
        target_only=target_only or None,
        distractors=None if distractors is None else str(distractors.absolute()),
        task=task,
        query=query,
        out_of_domain=None if out_of_domain is None else str(out_of_domain.absolute()),
        language=None if language == "all" else language,
        longest_side=longest_side,
        protocol=protocol,
        size_thirds=size_thirds or None,
        confusion=confusion or None,
        box_statistics=box_statistics or None,
    )
    where = out or default_out(benchmark, method)
    plan = Plan(benchmark=benchmark, data=data, method=method, out=where, options=options, home=collection)
    evaluation = _run(
        plan, _sweep(random_sets, perturb or [], overlaps, prompts=prompts, every_language=language == "all")
    )
    _print(evaluation, shown)
    typer.echo(f"kept in {plan.out}; look at {plan.out / 'report.html'}", err=True)


def default_out(benchmark: str, method: str) -> Path:
    """A folder per benchmark and method, below the working directory."""
    return Path("bench-runs") / benchmark / re.sub(r"[^\w.+@~-]+", "_", method)


def _sweep(
    random_sets: int | None, perturb: list[str], overlaps: str | None, *, prompts: bool, every_language: bool
) -> Sweep | None:
    from wherein.bench.boxes import PERTURBATIONS, SEEDS
    from wherein.bench.captioned.dataset import LANGUAGES
    from wherein.bench.sweep import WORDINGS, Sweep, parse_spread
    from wherein.errors import SpecError

    if prompts and (random_sets is not None or perturb or overlaps):
        raise SpecError("--prompts varies the texts alone; leave --random-sets, --perturb and --overlaps away")
    if every_language:
        return Sweep(languages=LANGUAGES)
    if prompts:
        return Sweep(texts=WORDINGS)
    if random_sets is None and not perturb and overlaps is None:
        return None
    if random_sets is not None and random_sets < 1:
        raise SpecError(f"--random-sets {random_sets}: draw at least one; the paper draws 20")
    spreads = PERTURBATIONS if "paper" in perturb else tuple(map(parse_spread, perturb))
    try:
        levels = tuple(float(word) for word in overlaps.split(",")) if overlaps else ()
    except ValueError:
        raise SpecError(f"--overlaps {overlaps!r} is not a list of fractions such as 0,0.1,0.2") from None
    return Sweep(overlaps=levels, perturbations=spreads, draws=random_sets or (SEEDS if spreads else 1))


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
def _progress() -> Iterator[Callable[[Step], None]]:
    """A progress bar on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, int] = {}

        def watch(step: Step) -> None:
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
