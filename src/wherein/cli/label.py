"""`wherein label`: predicted labels to files and tags, and the review of the least certain ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from wherein.cli.options import CollectionOption, FolderOption, JsonOption, open_collection

if TYPE_CHECKING:
    from wherein.collection import Collection
    from wherein.values.labelling import Predicted, Prediction


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("label")(label)


def label(
    name: Annotated[str | None, typer.Argument(help="What was trained, as `wherein trained list` names it.")] = None,
    labels: Annotated[list[str] | None, typer.Option("--label", help="Only this label; may be repeated.")] = None,
    min_confidence: Annotated[float, typer.Option(help="Only predictions at least so sure.")] = 0.5,
    export: Annotated[
        str | None, typer.Option(metavar="coco:FILE|csv:FILE", help="Write the predictions, with confidence.")
    ] = None,
    tag: Annotated[
        bool, typer.Option("--tag", help="Give such images the label as a tag; what people said is left alone.")
    ] = False,
    review: Annotated[
        str | None, typer.Option(metavar="LABEL", help="List the images whose label is least certain, or answer.")
    ] = None,
    right: Annotated[list[str] | None, typer.Option("--yes", help="With --review: this image shows the label.")] = None,
    wrong: Annotated[list[str] | None, typer.Option("--no", help="With --review: this image does not.")] = None,
    count: Annotated[int, typer.Option("-k", help="With --review: how many images.")] = 20,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take back what was tagged or answered last, one step a time.")
    ] = False,
    folder: FolderOption = None,
    collection: CollectionOption = None,
    json_: JsonOption = False,
) -> None:
    """Predict the labels that were trained, for every image; write them, give them as tags, or review them."""
    from wherein.errors import InputError

    with open_collection(collection) as opened:
        if undo:
            typer.echo(opened.unlabel())
            return
        if name is None:
            known = ", ".join(card.name for card in opened.trained()) or "nothing is trained here yet"
            raise InputError(f"say what labels: wherein label NAME; {known}.")
        if review is not None:
            _review(opened, name, review, right=right or [], wrong=wrong or [], count=count, json_=json_)
            return
        if right or wrong:
            raise InputError("--yes and --no answer a review: say of which label with --review LABEL.")
        if export is not None and export.partition(":")[0] not in ("coco", "csv"):
            raise InputError(f"labels to {export!r}: write coco:FILE or csv:FILE.")
        found = opened.label(name, labels=labels or None, min_confidence=min_confidence, tag=tag, folder=folder)
    _tell(found, export=export, tag=tag, json_=json_)


def _tell(found: Predicted, *, export: str | None, tag: bool, json_: bool) -> None:
    from wherein.output.labels import export_labels
    from wherein.output.present import visible

    if export is not None:
        typer.echo(f"wrote {export_labels(found, export)}, {len(found.predictions):,} labels", err=True)
    if json_:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
    elif export is None and not tag:
        for one in found.predictions:
            typer.echo(f"{_sure(one):>5}  {visible(one.label):<24} {visible(one.image_id)}")
    if tag:
        left = f"; {found.left:,} were left as people had said" if found.left else ""
        back = "" if found.step is None else " Take them back with: wherein label --undo"
        typer.echo(f"{found.tagged:,} tags given{left}.{back}", err=True)
    for note in found.notes:
        typer.echo(note, err=True)


def _review(
    opened: Collection, name: str, label: str, *, right: list[str], wrong: list[str], count: int, json_: bool
) -> None:
    from dataclasses import asdict

    from wherein.output.present import visible

    if set(right) & set(wrong):
        from wherein.errors import InputError

        raise InputError(f"{min(set(right) & set(wrong))}: is answered with --yes and --no; say one of them.")
    named = [(image_id, True) for one in right for image_id in opened.resolve(one)]
    named += [(image_id, False) for one in wrong for image_id in opened.resolve(one)]
    answers = [opened.answer(name, label, image_id, right=is_right) for image_id, is_right in named]
    queue = [] if answers else opened.review(name, label, k=count)  # who answers has seen the list
    if json_:
        typer.echo(json.dumps([asdict(one) for one in answers or queue], ensure_ascii=False, indent=2))
        return
    for answer in answers:
        typer.echo(answer.told)
    for one in queue:
        typer.echo(f"{_sure(one):>5}  {visible(one.image_id)}")
    typer.echo(f"answer with --yes IMAGE and --no IMAGE, then: wherein train {name} --from again", err=True)


def _sure(one: Prediction) -> str:
    return "–" if one.confidence is None else f"{100 * one.confidence:.0f} %"
