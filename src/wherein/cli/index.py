"""`wherein index`: folders → a collection."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from wherein.cli.options import RAY_HERE, DeviceOption, JsonOption, TrustOption, use_models
from wherein.cli.spelling import in_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wherein.collection import Collection
    from wherein.values.address import Location
    from wherein.values.records import AddReport, Progress

_LOCKED_SECONDS: Final = 0.5
"""Seconds between two tries to write while another process holds the collection."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("index")(index)


def index(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Folders, files, or addresses as s3://BUCKET/FOLDER; none: all known.")
    ] = None,
    collection: Annotated[
        Path | None,
        typer.Option("--collection", "-c", help="By default PATH/.wherein, or the collection above that holds PATH."),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="What describes the images: mini, hf:NAME, …; see `wherein models`.")
    ] = None,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            help="What to keep: global,patches,cells,dense,thumbs,local,proposals,pyramid, or grids such as static-9; "
            "the first five unless given; global always. What is kept already stays."
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; by default one a core.")] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS]",
            help="Let processes of Ray work: of this machine, or of a cluster: HOST:PORT, ray://HOST:PORT, auto.",
        ),
    ] = None,
    max_pixels: Annotated[int | None, typer.Option(min=1, help="The most pixels one image may decode to.")] = None,
    every: Annotated[
        str | None,
        typer.Option(help="Of videos, keep an image at least this often: 5s, 500ms, 2m. As last time, or 5s."),
    ] = None,
    detect: Annotated[
        str | None, typer.Option(metavar="NAMES", help='Look for these in every image: "pylon,deer,fallen tree".')
    ] = None,
    detector: Annotated[
        str | None, typer.Option(help="What looks for them, e.g. hf:google/owlv2-base-patch16-ensemble.")
    ] = None,
    device: DeviceOption = None,
    trust_remote_code: TrustOption = False,
    follow_links: Annotated[
        bool | None,
        typer.Option(
            "--follow-links/--no-follow-links",
            help="Take in what links lead to outside the folders. As last time, or no.",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every file, also where its size and date are as they were.")
    ] = False,
    index_: Annotated[
        str | None,
        typer.Option(
            "--index",
            help="How layers are searched: exact, compressed, compressed:BITS, or auto by size. As last time.",
        ),
    ] = None,
    drop_layer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Forget a layer, by its kind in `wherein info`, and do no more.")
    ] = None,
    unignore: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Bring back a file, or a folder of files, that was removed."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and keep the collection up to date.")] = False,
    json_: JsonOption = False,
) -> None:
    """Index folders of images and videos. Run it again at any time: only what changed is read."""
    from wherein.collection import open
    from wherein.images.picture import MAX_PIXELS
    from wherein.locations import check_new, home_of, nearest, targets_of

    use_models(device=device, trust_remote_code=trust_remote_code)
    sought = _sought(detect, detector)
    targets = targets_of(paths or [])
    kinds = None if not layers else tuple(dict.fromkeys(kind for given in layers for kind in given.split(",")))
    place = collection or (home_of(targets[0]) if targets else nearest(Path.cwd()))
    if targets:
        check_new(place, encoder=encoder, layers=kinds)
    with open(place, create=bool(targets)) as opened:
        if drop_layer is not None:
            typer.echo(f"layer {drop_layer} dropped: {opened.drop_layer(drop_layer):,} bytes freed")
            return
        if unignore:
            opened.unignore(*unignore)
        options: dict[str, Any] = {
            "encoder": encoder,
            "layers": kinds,
            "every": every,
            "follow_links": follow_links,
            "verify": verify,
            "index": index_,
            "workers": workers,
            "executor": "threads" if ray is None else f"ray:{ray}".removesuffix(f":{RAY_HERE}"),
            "max_pixels": max_pixels or MAX_PIXELS,
        }
        report = _add(opened, targets, options)
        if sought is not None:
            report = _detect(opened, sought, options) or report
        if json_:
            typer.echo(_as_json(report, opened))
        else:
            typer.echo(_summary(report, opened))
        if watch:
            _watch(opened, options)


def _sought(detect: str | None, detector: str | None) -> str | None:
    """The layer of what is to be detected, checked before anything is touched."""
    from wherein.errors import InputError
    from wherein.locations import check_kinds

    if (detect is None) != (detector is None):
        raise InputError("--detect says what to look for and --detector what looks: give both, or neither.")
    if detect is None:
        return None
    names = "|".join(name.strip() for name in detect.split(","))
    check_kinds([f"detected:{names}@{detector}"])
    return f"detected:{names}@{detector}"


def _detect(collection: Collection, sought: str, options: dict[str, Any]) -> AddReport | None:
    """Fill the layer of detected boxes, after saying how long that will take."""
    minutes = (collection.seconds_to_fill(sought) or 0.0) / 60
    named = f"{sought.partition('@')[0].count('|') + 1} names in {len(collection):,} images"
    typer.echo(f"looking for {named} takes about {minutes:,.0f} min; Ctrl-C stops, and it goes on from there", err=True)
    return _add(collection, [], options | {"layers": [sought]})


def _add(collection: Collection, targets: Sequence[Location], options: dict[str, Any]) -> AddReport:
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
    from wherein.output.present import visible

    skip = progress.skip
    return "" if skip is None else f"skipped {visible(skip.path)}: {visible(in_flags(skip.reason))}"


def _summary(report: AddReport, collection: Collection) -> str:
    counted = {
        "added": report.added,
        "changed": report.changed,
        "completed": report.completed,
        "renamed": report.renamed,
        "duplicates": report.duplicates,
        "removed": report.removed,
        "unchanged": report.unchanged,
        "skipped": len(report.skipped),
        "ignored": report.ignored,
    }
    words = " · ".join(f"{count:,} {word}" for word, count in counted.items() if count) or "nothing to do"
    found, living = collection.searchable, len(collection)
    said = "".join(f"\n{in_flags(note)}" for note in report.notes)
    if report.ignored:
        said += "\nfiles that were removed are ignored: `wherein index --unignore PATH` brings one back."
    lacking = "" if found == living else f"\n{living - found:,} more are not described by it: run `wherein index`."
    return (
        f"{words} · {report.seconds:.1f} s\n"
        f"{found:,} images can be searched in {collection.folder} (encoder {collection.encoder}){lacking}{said}"
    )


def _as_json(report: AddReport, collection: Collection) -> str:
    import json
    from dataclasses import asdict

    extra = {"images": collection.searchable, "collection": str(collection.folder), "encoder": collection.encoder}
    return json.dumps(asdict(report) | extra, ensure_ascii=False)


def _watch(collection: Collection, options: dict[str, Any]) -> None:
    typer.echo(f"watching {', '.join(map(str, collection.roots.values()))}; Ctrl-C stops", err=True)
    for changed in collection.watch():
        report = _add_when_free(collection, changed, options)
        if report.added or report.changed or report.renamed or report.removed or report.duplicates:
            typer.echo(_summary(report, collection))


def _add_when_free(collection: Collection, changed: list[Path], options: dict[str, Any]) -> AddReport:
    """Wait while another process writes; what changes meanwhile is told afterwards."""
    from wherein.errors import CollectionLocked

    told = False
    while True:
        try:
            return _add(collection, changed, options)
        except CollectionLocked as error:
            if not told:
                typer.echo(f"waiting: {in_flags(str(error))}", err=True)
            told = True
            time.sleep(_LOCKED_SECONDS)
