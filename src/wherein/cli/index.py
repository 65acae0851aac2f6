"""`wherein index`: folders → a collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wherein.cli.options import CollectionOption, JsonOption

if TYPE_CHECKING:
    from wherein.collection import Collection
    from wherein.sync import AddReport, Progress


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("index")(index)


def index(
    paths: Annotated[list[Path] | None, typer.Argument(help="Folders or files; none: all folders known.")] = None,
    collection: CollectionOption = None,
    encoder: Annotated[str | None, typer.Option(help="What describes the images, e.g. mini or onnx:FOLDER.")] = None,
    layers: Annotated[
        str | None, typer.Option(help="What to keep: global,patches,cells,dense,thumbs,local,proposals,pyramid.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; by default one a core.")] = None,
    max_pixels: Annotated[int | None, typer.Option(min=1, help="The most pixels one image may decode to.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and keep the collection up to date.")] = False,
    json_: JsonOption = False,
) -> None:
    """Index folders of images and videos. Run it again at any time: only what changed is read."""
    from wherein.collection import nearest, open
    from wherein.embed import DEFAULT_KINDS
    from wherein.image import MAX_PIXELS

    targets = [path.expanduser().absolute() for path in paths or []]
    _check_before_creating(targets, encoder)
    place = collection or (_home_of(targets[0]) if targets else nearest(Path.cwd()))
    with open(place, create=bool(targets)) as opened:
        options: dict[str, Any] = {
            "encoder": encoder,
            "layers": tuple(layers.split(",")) if layers else DEFAULT_KINDS,
            "workers": workers,
            "max_pixels": max_pixels or MAX_PIXELS,
        }
        report = _add(opened, targets, options)
        if json_:
            typer.echo(_as_json(report, opened))
        else:
            typer.echo(_summary(report, opened))
        if watch:
            _watch(opened, options)


def _check_before_creating(targets: list[Path], encoder: str | None) -> None:
    """A slip of the keyboard must not leave an empty collection behind."""
    from wherein.encoders import require_family
    from wherein.errors import InputError

    if encoder is not None:
        require_family(encoder)
    for target in targets:
        if not target.exists():
            raise InputError(f"{target}: does not exist. Check the spelling of the folder to index.")


def _home_of(target: Path) -> Path:
    return target if target.is_dir() else target.parent


def _add(collection: Collection, targets: list[Path], options: dict[str, Any]) -> AddReport:
    from rich import progress as rich_progress
    from rich.console import Console

    console = Console(stderr=True)
    bar = rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TextColumn("{task.fields[rate]}"),
        rich_progress.TimeRemainingColumn(compact=True),
        rich_progress.TextColumn("left"),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task("indexing", total=None, rate="")

        def step(progress: Progress) -> None:
            if progress.skip is not None:
                console.print(_skip_line(progress), highlight=False, markup=False, soft_wrap=True)
            speed = bar.tasks[0].speed
            rate = f"{speed:,.0f} files/s" if speed else ""
            bar.update(task, completed=progress.done, total=progress.total, rate=rate)

        try:
            return collection.add(*targets, **options, on_progress=step)
        except KeyboardInterrupt:
            bar.stop()
            console.print("stopped. What was indexed is safe; run the same command to go on.", highlight=False)
            raise


def _skip_line(progress: Progress) -> str:
    from wherein.present import visible

    skip = progress.skip
    return "" if skip is None else f"skipped {visible(skip.path)}: {visible(skip.reason)}"


def _summary(report: AddReport, collection: Collection) -> str:
    counted = {
        "added": report.added,
        "changed": report.changed,
        "renamed": report.renamed,
        "duplicates": report.duplicates,
        "removed": report.removed,
        "unchanged": report.unchanged,
        "skipped": len(report.skipped),
    }
    words = " · ".join(f"{count:,} {word}" for word, count in counted.items() if count) or "nothing to do"
    return (
        f"{words} · {report.seconds:.1f} s\n"
        f"{len(collection):,} images can be searched in {collection.folder} (encoder {collection.encoder})"
    )


def _as_json(report: AddReport, collection: Collection) -> str:
    import json
    from dataclasses import asdict

    extra = {"images": len(collection), "collection": str(collection.folder), "encoder": collection.encoder}
    return json.dumps(asdict(report) | extra, ensure_ascii=False)


def _watch(collection: Collection, options: dict[str, Any]) -> None:
    roots = collection.info().roots.values()
    typer.echo(f"watching {', '.join(map(str, roots))}; Ctrl-C stops", err=True)
    for changed in collection.watch():
        report = _add(collection, changed, options)
        if report.added or report.changed or report.renamed or report.removed or report.duplicates:
            typer.echo(_summary(report, collection))
