"""`wherein info`, `check`, `backup`, `restore`, `compact`, `tag`, `remove`, `calibrate`: looking after a collection."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wherein.cli.options import CollectionOption, FolderOption, JsonOption, NullOption, open_collection, place_of

if TYPE_CHECKING:
    from wherein.collection import Collection
    from wherein.values.judgement import Reliability
    from wherein.values.records import AddReport, CheckReport, Info

ImagesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="IMAGE…", help="Image ids or paths; `-` reads them from a pipe.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (info, check, backup, restore, compact, tag, remove, calibrate):
        app.command()(command)


def info(
    collection: CollectionOption = None,
    ignored: Annotated[bool, typer.Option("--ignored", help="List the files that were removed instead.")] = False,
    json_: JsonOption = False,
) -> None:
    """Say what a collection holds and what it costs on disk."""
    from wherein.output.present import visible

    with open_collection(collection) as opened:
        found, left_out = opened.info(), opened.ignored()
    if ignored:
        for line in [json.dumps(left_out, ensure_ascii=False)] if json_ else map(visible, left_out):
            typer.echo(line)
        return
    if json_:
        values = asdict(found) | {"bytes_per_image": found.bytes_per_image}
        typer.echo(json.dumps(values, default=str, ensure_ascii=False, indent=2))
        return
    for name, value in _lines(found):
        typer.echo(f"{name:<11}{value}")


def check(
    collection: CollectionOption = None,
    no_repair: Annotated[bool, typer.Option("--no-repair", help="Only look, change nothing.")] = False,
    json_: JsonOption = False,
) -> None:
    """Verify every byte of a collection; set damaged rows aside and make them again, restore what has a copy."""
    from wherein.collection import mend, open

    place = place_of(collection)
    notes = mend(place, repair=not no_repair)
    if notes and no_repair:
        for note in notes:
            typer.echo(f"broken: {note}", err=True)
        raise typer.Exit(1)
    with open(place) as opened:
        report = opened.check(repair=not no_repair)
        restored = opened.add() if report.images_to_read_again and not no_repair else None
        undescribed = len(opened) - opened.searchable
    said = (*notes, *report.notes)
    if json_:
        values: dict[str, Any] = asdict(report) | {"notes": said, "restored": restored and _restored(restored)}
        typer.echo(json.dumps(values, default=str, ensure_ascii=False))
    else:
        _tell_check(report, said, restored, no_repair=no_repair, undescribed=undescribed)
    if (report.broken or report.doubled) and no_repair:
        raise typer.Exit(1)


def _tell_check(
    report: CheckReport, notes: Sequence[str], restored: AddReport | None, *, no_repair: bool, undescribed: int
) -> None:
    for path in report.broken:
        typer.echo(f"broken: {path}", err=True)
    for note in notes:
        typer.echo(note)
    if report.doubled:
        typer.echo(f"{report.doubled:,} images have rows twice; {'left as they are' if no_repair else 'mended'}")
    if report.lost:
        shown = ", ".join(report.lost[:5]) + (", …" if len(report.lost) > 5 else "")
        typer.echo(f"{len(report.lost):,} images lost rows that nothing can make again, their files are gone: {shown}")
    if restored is not None:
        typer.echo(f"{_restored(restored)} images read again")
    if report.broken:
        typer.echo(f"{len(report.broken)} files were damaged; {report.shards} shards")
    elif not notes and not report.doubled and restored is None:
        typer.echo(f"{report.shards} shards, all intact")
    if undescribed:
        typer.echo(f"{undescribed:,} images are not described by the encoder that serves: run `wherein index`.")


def backup(
    target: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder for the copy.")],
    collection: CollectionOption = None,
) -> None:
    """Copy a collection as it is at this moment, while it is in use. The images themselves are not copied."""
    with open_collection(collection) as opened:
        typer.echo(f"{opened.backup(target):,} bytes copied to {target}; `wherein restore` brings them back")


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A folder that `wherein backup` made.")],
    target: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the collection was, or another folder.")],
) -> None:
    """Make a collection of a backup again, after verifying every byte of it."""
    from wherein.collection import restore as restored

    typer.echo(f"{restored(source, target):,} images can be searched in {target}")


def compact(collection: CollectionOption = None) -> None:
    """Free the space of removed and changed images."""
    with open_collection(collection) as opened:
        typer.echo(f"{opened.compact():,} bytes freed")


def tag(
    name: Annotated[str, typer.Argument(help="The tag.")],
    images: ImagesArgument = None,
    folder: FolderOption = None,
    null: NullOption = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the tag off instead.")] = False,
    collection: CollectionOption = None,
) -> None:
    """Tag images, to filter searches with --tag: `wherein search dog --paths | wherein tag dogs -`."""
    from wherein.errors import did_you_mean

    with open_collection(collection) as opened:
        image_ids = _image_ids(opened, _named(images, folder, null=null), folder)
        if remove:
            image_ids = sorted({*image_ids} & {*opened.image_ids(tags=[name])})
        known = opened.info().tags
        (opened.untag if remove else opened.tag)(name, image_ids)
    typer.echo(f"{name}: {len(image_ids):,} images {'untagged' if remove else 'tagged'}")
    if remove and name not in known:
        typer.echo(f"no image had the tag {name!r}.{did_you_mean(name, sorted(known))}", err=True)


def remove(
    images: ImagesArgument = None,
    folder: FolderOption = None,
    null: NullOption = False,
    collection: CollectionOption = None,
) -> None:
    """Forget images, or an indexed folder with all of them. The files stay on disk; removed ones are then ignored."""
    from wherein.values.address import location_of

    with open_collection(collection) as opened:
        indexed = set(opened.roots.values())
        named = _named(images, folder, null=null)
        roots = [path for path in dict.fromkeys(map(location_of, named)) if path in indexed]
        count = opened.remove(*_image_ids(opened, [name for name in named if location_of(name) not in roots], folder))
        ignored = count
        count += sum(map(opened.remove_root, roots))
    way_back = "; they stay out until `wherein index --unignore PATH`" if ignored else ""
    typer.echo(f"{count:,} files forgotten{way_back}")


def calibrate(
    judgements: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A file of judged hits: one query a line, as JSON.")
    ] = None,
    method: Annotated[str, typer.Option(help="The method whose hits were judged.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take back what was judged last.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Forget everything that was judged.")] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Say how far confidence can be trusted here, and do no more.")
    ] = False,
    collection: CollectionOption = None,
    json_: JsonOption = False,
) -> None:
    """Learn from judged hits how likely others are right; the confidence of every later search follows."""
    from wherein.errors import InputError
    from wherein.values.judgement import read_judgements

    if [judgements is not None, undo, reset, show].count(True) != 1:
        raise InputError("give one of these: a FILE of judged hits, --show, --undo or --reset.")
    if show:
        with open_collection(collection) as opened:
            _tell_reliability(opened.reliability(), json_=json_)
        return
    if judgements is None:
        with open_collection(collection) as opened:
            changed = opened.uncalibrate(reset=reset)
        typer.echo(json.dumps({"changed": changed}, ensure_ascii=False) if json_ else changed)
        return
    with open_collection(collection) as opened:
        made = opened.calibrate(read_judgements(judgements), method=method)
    if json_:
        typer.echo(json.dumps([asdict(one) for one in made], ensure_ascii=False, indent=2))
        return
    for one in made:
        typer.echo(f"{one.source}: {one.right:,} right, {one.wrong:,} wrong. {one.changed}")


def _tell_reliability(found: list[Reliability], *, json_: bool) -> None:
    if json_:
        typer.echo(json.dumps([asdict(one) for one in found], ensure_ascii=False, indent=2))
        return
    if not found:
        typer.echo("Nothing is judged yet: confidence is as it was shipped.")
    for one in found:
        typer.echo(f"{one.source}: {one.right:,} right, {one.wrong:,} wrong. {one.told}")
        for tenth in one.tenths:
            share = f"{tenth.right:,} of {tenth.hits:,} right"
            typer.echo(f"  {100 * tenth.low:3.0f} % and more   said {100 * tenth.said:3.0f} %   {share}")


def _restored(report: AddReport) -> int:
    """How many images were read again."""
    return report.added + report.changed + report.completed


def _named(images: list[str] | None, folder: str | None, *, null: bool) -> list[str]:
    """The ids and paths that were given, or that a pipe holds."""
    from wherein.errors import InputError

    if not images and folder is None:
        raise InputError("no image is named: give ids or paths, `-` for those in a pipe, or --in FOLDER.")
    named = sys.stdin.read().split("\0" if null else "\n") if images == ["-"] else images or []
    return [name for name in named if name]


def _image_ids(collection: Collection, named: list[str], folder: str | None) -> list[str]:
    from wherein.errors import ImageNotFound

    below = [] if folder is None else collection.image_ids(folder=folder)
    if folder is not None and not below:
        raise ImageNotFound(f"--in {folder}: {' '.join(collection.unknown_names(folder=folder))}")
    return list(dict.fromkeys([*(found for name in named for found in collection.resolve(name)), *below]))


def _lines(found: Info) -> list[tuple[str, str]]:
    lines = [("collection", str(found.folder)), ("encoder", found.encoder)]
    lines += [
        ("root", f"{path}" + (f"  (ids begin with {name}/)" if name else "")) for name, path in found.roots.items()
    ]
    lines.append(("images", f"{found.images:,}"))
    if found.tombstones:
        lines.append(("removed", f"{found.tombstones:,}  (free their space with `wherein compact`)"))
    if found.skipped:
        lines.append(("skipped", f"{found.skipped:,} files"))
    if found.ignored:
        lines.append(("ignored", f"{found.ignored:,} files that were removed; bring back with `index --unignore PATH`"))
    lines += [("tag", f"{tag}  ({count:,} images)") for tag, count in found.tags.items()]
    for layer in found.layers:
        made = f" of {layer.encoder}" if layer.encoder else ""
        lines.append(("layer", f"{layer.kind}{made}: {layer.images:,} images, {layer.bytes_per_image:,.0f} bytes each"))
        if layer.recall is not None:
            bits = int(layer.index.partition(":")[2])
            size = "1 bit" if bits == 1 else f"{bits} bits"
            found_of = f"finds {layer.recall:.1%} of the best 100 images"
            lines.append(("index", f"{layer.kind}{made}: compressed to {size} a dimension, {found_of}"))
    lines.append(("on disk", f"{found.bytes:,} bytes"))
    return lines
