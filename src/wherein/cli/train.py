"""`wherein train` and `wherein trained`: learn labels in a collection; list, export and remove what was learnt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wherein.cli.options import CollectionOption, DeviceOption, JsonOption, open_collection, use_models

if TYPE_CHECKING:
    from wherein.values.records import Progress
    from wherein.values.training import Card

NameArgument = Annotated[str, typer.Argument(help="What it was trained as.")]


def register(app: typer.Typer) -> None:
    """Add the command and the group."""
    app.command("train")(train)
    group = typer.Typer(help="What was trained in a collection.", no_args_is_help=True)
    for command in (list_, show, export, import_, remove):
        group.command(command.__name__.rstrip("_"))(command)
    app.add_typer(group, name="trained")


def train(
    name: Annotated[str, typer.Argument(help="What it is called: search with --method mini:NAME afterwards.")],
    source: Annotated[
        str, typer.Option("--from", metavar="tags|judgements|again|COCO.json", help="Where the labels come from.")
    ] = "tags",
    labels: Annotated[list[str] | None, typer.Option("--label", help="Only this label; may be repeated.")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="The encoder to train on; by default the one that serves.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            metavar="head|adapter|full",
            help="What is trained: labels (head) or how texts and examples are asked with (adapter), both on stored "
            "embeddings; or the model itself, with torch (full).",
        ),
    ] = "head",
    seed: Annotated[int, typer.Option(help="The same seed and data give the same numbers.")] = 0,
    collection: CollectionOption = None,
    json_: JsonOption = False,
    device: DeviceOption = None,
) -> None:
    """Learn from labels, tags or judgements; after Ctrl-C the same command goes on where it stopped."""
    from rich import progress as rich_progress
    from rich.console import Console

    use_models(device=device, trust_remote_code=False)
    console = Console(stderr=True)
    columns = (rich_progress.TextColumn("{task.description}"), rich_progress.BarColumn())
    with (
        open_collection(collection) as opened,
        rich_progress.Progress(
            *columns, rich_progress.MofNCompleteColumn(), console=console, disable=not console.is_terminal
        ) as bar,
    ):
        task = bar.add_task("", total=None)

        def step(progress: Progress) -> None:
            bar.update(task, description=progress.stage, completed=progress.done, total=progress.total)

        card = opened.train(
            name, source, encoder=encoder, kind=kind, labels=labels or None, seed=seed, on_progress=step
        )
    _tell(card, json_=json_)
    if not json_ and card.kind != "full":  # whose card says what comes next
        first = card.labels[0].label if card.labels else "a red car"
        asked = f'"label:{first}"' if card.labels else f'"{first}"'
        typer.echo(f"search with it: wherein search {asked} --method {card.spec}")


def list_(collection: CollectionOption = None, json_: JsonOption = False) -> None:
    """List what was trained here."""
    with open_collection(collection) as opened:
        cards = opened.trained()
    if json_:
        typer.echo(json.dumps([card.to_dict() for card in cards], ensure_ascii=False, indent=2))
        return
    for card in cards:
        said = f"{len(card.labels):,} labels from {card.source}" if card.labels else f"from {card.source}"
        worse = f"; worse: {', '.join(card.worse)}" if card.worse else ""
        typer.echo(f"{card.spec:<24} {card.kind:<8} {said}, {card.images:,} images, {card.made}{worse}")
    if not cards:
        typer.echo("nothing is trained here yet: wherein train NAME --from tags", err=True)


def show(name: NameArgument, collection: CollectionOption = None, json_: JsonOption = False) -> None:
    """Show the card of something trained: its data, its figures before and after, and what got worse."""
    with open_collection(collection) as opened:
        _tell(opened.trained_card(name), json_=json_)


def export(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="The ZIP archive to write.")],
    collection: CollectionOption = None,
) -> None:
    """Write something trained to a file, for another collection of the same encoder."""
    from wherein.files import unwritable_told, write_durably

    with open_collection(collection) as opened:
        data = opened.export_trained(name)
    with unwritable_told(file):
        write_durably(file.expanduser(), data)
    typer.echo(f"wrote {file}, {len(data):,} bytes")


def import_(
    file: Annotated[Path, typer.Argument(help="A ZIP archive that `wherein trained export` wrote.")],
    name: Annotated[str | None, typer.Option(help="Another name than its own.")] = None,
    collection: CollectionOption = None,
) -> None:
    """Take in what was trained in another collection."""
    with open_collection(collection) as opened:
        card = opened.import_trained(file.expanduser().read_bytes(), name=name)
    typer.echo(f"{card.spec}: {len(card.labels):,} labels")


def remove(name: NameArgument, collection: CollectionOption = None) -> None:
    """Forget something trained; images and embeddings stay as they are."""
    with open_collection(collection) as opened:
        opened.remove_trained(name)
    typer.echo(f"{name}: forgotten")


def _tell(card: Card, *, json_: bool) -> None:
    from wherein.values.training import lines_of

    if json_:
        typer.echo(json.dumps(card.to_dict(), ensure_ascii=False, indent=2))
        return
    for line in lines_of(card):
        typer.echo(line)
