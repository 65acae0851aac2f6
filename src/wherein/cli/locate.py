"""`wherein locate`: the pixels of a query object in given images, without a collection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wherein.cli.options import JsonOption


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
    encoder: Annotated[str, typer.Option(help="The encoder.")] = "mini",
    localizer: Annotated[
        str, typer.Option(help="auto, match, similar, support, points, hull, warp or onnx:FOLDER, as in a method.")
    ] = "auto",
    coarse: Annotated[bool, typer.Option("--coarse", help="The grid alone, without the image's own edges.")] = False,
    overlays: Annotated[Path | None, typer.Option(help="Write pictures with the outlines to this folder.")] = None,
    json_: JsonOption = False,
) -> None:
    """Outline what a query shows in given images. Exits 1 when it is in none of them."""
    from wherein.encoders import load
    from wherein.locating import locate as find
    from wherein.present import outline
    from wherein.query import Query, parse_image, parse_negative, parse_text

    parts = [*map(parse_text, texts or []), *map(parse_image, images or []), *map(parse_negative, not_ or [])]
    asked, model = Query(tuple(parts)), load(encoder)
    entries = list[dict[str, Any]]()
    for number, file in enumerate(files, 1):
        found = find(asked, file, encoder=model, localizer=localizer, refine=not coarse)
        box = None if found.box is None else list(found.box.xyxy)
        entry: dict[str, Any] = {"image": str(file), "box": box, "score": found.score, "mask": None, "polygons": None}
        if found.mask is not None:
            from wherein.masks import to_rle

            entry |= {"mask": to_rle(found.mask, compressed=False), "polygons": outline(found.mask)}
            if overlays is not None:
                from wherein.exports import write_overlay

                write_overlay(file, found.mask, overlays / f"{number:04d}-{file.stem}.png")
        entries.append(entry)
        if not json_:
            where = "not found" if box is None else ",".join(f"{value:.3f}" for value in box)
            typer.echo(f"{file}\t{where}")
    if json_:
        typer.echo(json.dumps({"query": str(asked), "encoder": model.spec, "images": entries}, indent=2))
    if all(entry["box"] is None for entry in entries):
        raise typer.Exit(1)
