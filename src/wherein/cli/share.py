"""`wherein push` and `publish`: what other machines can use of a collection."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from wherein.cli.options import CollectionOption, JsonOption, open_collection

if TYPE_CHECKING:
    from wherein.values.records import Progress


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("push")(push)
    app.command("publish")(publish)


def push(
    index: Annotated[
        str, typer.Option(help="Where the rows go: milvus:HOST:PORT, milvus:https://HOST, milvus:FILE.db.")
    ],
    collection: CollectionOption = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers to push, as global,proposals; by default all that an index serves.")
    ] = None,
    index_type: Annotated[
        str | None,
        typer.Option(help="FLAT, IVF_FLAT, IVF_SQ8 or HNSW; by default what suits the number of rows."),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Push the embeddings to an index elsewhere; only what changed is sent. Then search with the same --index."""
    from rich import progress as rich_progress
    from rich.console import Console

    console = Console(stderr=True)
    columns = (rich_progress.TextColumn("{task.description}"), rich_progress.BarColumn())
    with (
        open_collection(collection) as opened,
        rich_progress.Progress(
            *columns,
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        ) as bar,
    ):
        task = bar.add_task("", total=None)

        def step(progress: Progress) -> None:
            bar.update(task, description=progress.stage, completed=progress.done, total=progress.total)

        reports = opened.push(
            index, layers=None if layers is None else layers.split(","), index_type=index_type, on_progress=step
        )
    if json_:
        typer.echo(json.dumps([asdict(one) for one in reports], ensure_ascii=False, indent=2))
        return
    for one in reports:
        typer.echo(
            f"{one.layer}: {one.sent:,} rows sent, {one.removed:,} removed; {one.rows:,} are there ({one.kind}), and "
            f"{one.recall:.1%} of the best ten are found  ({one.seconds:.1f} s)"
        )
    if not reports:
        typer.echo("nothing to push: no layer has rows yet")


def publish(
    url: Annotated[str, typer.Argument(help="Where to: s3://BUCKET/FOLDER, gs://…, or file:///FOLDER.")],
    collection: CollectionOption = None,
    json_: JsonOption = False,
) -> None:
    """Publish a collection, so that other machines can search it: `wherein search -c URL`. Only what is new is sent."""
    with open_collection(collection) as opened:
        sent, images = opened.publish(url)
    typer.echo(
        json.dumps({"files": sent, "images": images})
        if json_
        else f"{sent:,} files sent; {images:,} images are at {url}"
    )
