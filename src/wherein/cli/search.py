"""`wherein search`: a query → a table, JSON, paths or a page."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wherein.cli.options import (
    CollectionOption,
    DeviceOption,
    FolderOption,
    IndexOption,
    JsonOption,
    NullOption,
    TrustOption,
    open_collection,
    query_of,
    use_models,
    with_known_images,
)
from wherein.cli.spelling import in_flags
from wherein.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from wherein.collection import Collection
    from wherein.values.query import Query
    from wherein.values.ranking import Ranking
    from wherein.values.records import Progress


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("search")(search)


def search(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT…", help="What to look for; `TEXT^2` weighs.")
    ] = None,
    images: Annotated[
        list[str] | None,
        typer.Option(
            "--image", help="An example: a FILE or an image's id, FILE#x1,y1,x2,y2, FILE#mask=PNG or VIDEO#t=SECONDS."
        ),
    ] = None,
    not_: Annotated[list[str] | None, typer.Option("--not", help="A text, a file or an image's id to avoid.")] = None,
    where: Annotated[
        str | None, typer.Option(help="Where it should be: x1,y1,x2,y2 in [0,1], or top-left, centre, …")
    ] = None,
    query: Annotated[Path | None, typer.Option(help="A whole support set, from a JSON file.")] = None,
    method: Annotated[str, typer.Option(help="How to search, e.g. whole, patches, mini+patches~max.")] = "",
    k: Annotated[int, typer.Option("-k", help="How many hits.")] = 20,
    folder: FolderOption = None,
    after: Annotated[str | None, typer.Option(help="Only from this date on: 2024-05-01, 2024-05 or 2024.")] = None,
    before: Annotated[str | None, typer.Option(help="Only before this date.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="Only images with this tag.")] = None,
    frames: Annotated[
        bool, typer.Option("--frames", help="Every image of a video as a hit; else the best stands for its clip.")
    ] = False,
    index: IndexOption = "auto",
    min_confidence: Annotated[
        float | None, typer.Option(help="Reject hits less likely to be right than this: 0.5.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="Keep as many hits as possible while this share of them is right: 0.9.")
    ] = None,
    false_alarms: Annotated[
        float | None, typer.Option(help="Keep hits while at most so many are expected to be wrong: 1.")
    ] = None,
    decide: Annotated[
        bool,
        typer.Option("--decide", help="Reject what is less likely right than wrong; exits 1 where nothing is left."),
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="As many hits as images are expected to be right, whatever -k is.")
    ] = False,
    weaker: Annotated[
        bool, typer.Option("--weaker", help="Show hits too that are less likely right than wrong.")
    ] = False,
    scores: Annotated[
        bool, typer.Option("--scores", help="Show the method's own scores beside the confidence.")
    ] = False,
    collection: CollectionOption = None,
    json_: JsonOption = False,
    paths: Annotated[bool, typer.Option("--paths", help="Print file paths only, one a line, for pipes.")] = False,
    null: NullOption = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with thumbnails.")] = None,
    locate: Annotated[
        bool | None,
        typer.Option("--locate/--no-locate", help="Outline what matched in each hit; done for pages and exports."),
    ] = None,
    export: Annotated[
        str | None, typer.Option(metavar="KIND:PATH", help="coco:FILE, fiftyone:FOLDER or overlays:FOLDER.")
    ] = None,
    device: DeviceOption = None,
    trust_remote_code: TrustOption = False,
) -> None:
    """Search by text, by example images and regions, by any sum of those.

    Exits 1 where no hit is left: no image passes the filters, or a decision (--decide, --min-confidence, --precision,
    --false-alarms) rejects all. Without a decision the nearest images are hits, however weak, and it exits 0.
    """
    use_models(device=device, trust_remote_code=trust_remote_code)
    asked = query_of(texts or [], images or [], not_ or [], query, where, ids=True)
    with open_collection(collection) as opened:
        _prepare(opened, asked, method)
        ranking = opened.search(
            with_known_images(asked, opened),
            k=k,
            method=method,
            folder=folder,
            after=after,
            before=before,
            tags=tuple(tags or ()),
            frames=frames,
            index=index,
            min_confidence=min_confidence,
            precision=precision,
            false_alarms=false_alarms,
            decide=decide,
            all=all_,
            locate=(html or export) is not None and _has_patches(opened) if locate is None else locate,
        )
        if ranking.decided and any(hit.confidence is None for hit in ranking):
            raise InputError(f"{ranking.notes[-1]} Or leave out --min-confidence, --precision and the like.")
        if export is not None:
            from wherein.output.exports import export as write

            typer.echo(f"wrote {write(ranking, export, thumb_of=opened.thumb, file_of=opened.open_file)}", err=True)
        shown = replace(ranking, cut=0.0) if weaker else ranking
        end = None if not paths else "\0" if null else "\n"
        _show(shown, opened, json_=json_, end=end, html=html, scores=scores)
    if not ranking:
        raise typer.Exit(1)


def _prepare(collection: Collection, asked: Query, method: str) -> None:
    """Make what only a first search of its kind makes, with a bar on stderr; after Ctrl-C the next one goes on."""
    from rich import progress as rich_progress
    from rich.console import Console

    console = Console(stderr=True)
    columns = (rich_progress.TextColumn("{task.description}"), rich_progress.BarColumn())
    with rich_progress.Progress(
        *columns, rich_progress.MofNCompleteColumn(), console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task, told = bar.add_task("", total=None, visible=False), list[str]()

        def step(progress: Progress) -> None:
            if progress.stage not in told:
                told.append(progress.stage)
                console.print(
                    f"{progress.stage} (once; kept, also when this is stopped)", highlight=False, markup=False
                )
            bar.update(task, description=progress.stage, completed=progress.done, total=progress.total, visible=True)

        collection.prepare(asked, method=method, on_progress=step)


def _has_patches(collection: Collection) -> bool:
    """Whether hits can be located without being asked to: a collection may do without patches."""
    layers = collection.info().layers
    return any(layer.kind == "patches" and layer.encoder == collection.encoder for layer in layers)


def _show(
    ranking: Ranking, collection: Collection, *, json_: bool, end: str | None, html: Path | None, scores: bool
) -> None:
    """Tell what was found; with `end`, only paths, each once and followed by it. Weaker hits are only counted."""
    from wherein.output import present

    for note in ranking.notes:
        typer.echo(f"note: {in_flags(note)}", err=True)
    if html is not None:
        present.write_page(ranking, html, thumb_of=collection.thumb)
        typer.echo(f"wrote {html}", err=True)
    if json_:
        typer.echo(present.as_json(ranking))
    elif end is not None:
        for path in dict.fromkeys(str(hit.path or hit.image_id) for hit in ranking.strong):
            sys.stdout.write(f"{path}{end}")
    elif not ranking.strong:
        typer.echo(present.no_match(ranking), err=True)
    elif html is None:
        _print_table(present.as_table(ranking, scores=scores))
    for line in () if json_ else present.how_many(ranking):
        typer.echo(line, err=True)


def _print_table(table: Table) -> None:
    from rich.console import Console

    class Pipe(Console):
        """A console that tells when its reader has gone, where rich would end the program with 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    Pipe().print(table)
