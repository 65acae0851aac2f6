"""`wherein locate`: the pixels of a query object in given images, without a collection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wherein.cli.options import DeviceOption, JsonOption, TrustOption, query_of, use_models
from wherein.cli.spelling import in_flags

if TYPE_CHECKING:
    from wherein.values.query import Query


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("locate")(locate)


def locate(
    files: Annotated[list[Path], typer.Argument(metavar="IMAGE…", help="The images to look in.")],
    images: Annotated[
        list[str] | None, typer.Option("--image", help="What to find: FILE, FILE#x1,y1,x2,y2 or FILE#mask=PNG.")
    ] = None,
    texts: Annotated[list[str] | None, typer.Option("--text", help="What to find, in words.")] = None,
    not_: Annotated[list[str] | None, typer.Option("--not", help="A text or a file to avoid.")] = None,
    where: Annotated[
        str | None, typer.Option(help="Where in the images it should be: x1,y1,x2,y2 or a word such as top-left.")
    ] = None,
    encoder: Annotated[str, typer.Option(help="The encoder.")] = "mini",
    localizer: Annotated[
        str, typer.Option(help="auto, match, similar, support, points, hull, warp or onnx:FOLDER, as in a method.")
    ] = "auto",
    coarse: Annotated[bool, typer.Option("--coarse", help="The grid alone, without the image's own edges.")] = False,
    overlays: Annotated[Path | None, typer.Option(help="Write pictures with the outlines to this folder.")] = None,
    device: DeviceOption = None,
    trust_remote_code: TrustOption = False,
    json_: JsonOption = False,
) -> None:
    """Outline what a query shows in given images. Exits 1 when it is in none of them, 2 when some cannot be read."""
    from wherein.errors import ImageError
    from wherein.images.image import decode

    use_models(device=device, trust_remote_code=trust_remote_code)
    asked, said = query_of(texts or [], images or [], not_ or [], None, where), tuple[str, ...]()
    for part in asked.parts:
        if part.image is not None:
            decode(part.image)  # an example that cannot be read ends it, an image to look in does not
    entries, unread = list[dict[str, Any]](), False
    for number, file in enumerate(files, 1):
        overlay = None if overlays is None else overlays / f"{number:04d}-{file.stem}.png"
        try:
            entry, notes = _entry(asked, file, encoder, localizer, refine=not coarse, overlay=overlay)
        except ImageError as error:
            typer.echo(f"wherein: {in_flags(str(error))}", err=True)
            unread = True
            continue
        entries.append(entry)
        for note in notes if not said else ():
            typer.echo(f"note: {in_flags(note)}", err=True)
        said = notes
        if not json_:
            shown = "not found" if entry["box"] is None else ",".join(f"{value:.3f}" for value in entry["box"])
            typer.echo(f"{file}\t{shown}")
    if json_:
        document = {"query": str(asked), "encoder": encoder, "notes": said, "images": entries}
        typer.echo(json.dumps(document, indent=2))
    if unread or all(entry["box"] is None for entry in entries):
        raise typer.Exit(2 if unread else 1)


def _entry(
    asked: Query, file: Path, encoder: str, localizer: str, *, refine: bool, overlay: Path | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What was found in one image, as it is printed, and notes; with its picture, if one is wanted."""
    from wherein import locate as find
    from wherein.output.exports import write_overlay
    from wherein.values.masks import outline, to_rle

    found = find(asked, file, encoder=encoder, localizer=localizer, refine=refine)
    box = None if found.box is None else list(found.box.xyxy)
    entry: dict[str, Any] = {"image": str(file), "box": box, "score": found.score, "mask": None, "polygons": None}
    if found.mask is not None:
        entry |= {"mask": to_rle(found.mask, compressed=False), "polygons": outline(found.mask)}
        if overlay is not None:
            write_overlay(file, found.mask, overlay)
    return entry, found.notes
