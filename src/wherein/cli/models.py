"""`wherein models` and `wherein export`: which encoders there are, and one of them made to run without torch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wherein.cli.options import JsonOption, TrustOption, use_models


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("models")(models)
    app.command("export")(export)


def models(
    family: Annotated[str | None, typer.Argument(help="Only this family: hf, openclip, …")] = None,
    json_: JsonOption = False,
) -> None:
    """List the encoders and detectors that can be used, and names that are known to be good."""
    from wherein.errors import InputError
    from wherein.models import DEFAULT, HEADER, KNOWN, columns, describe_families
    from wherein.plugins import how_to_install, is_available

    families = describe_families()
    if family is not None and family not in families:
        raise InputError(f"no family is called {family!r}; known: {', '.join(families)}.")
    chosen = {name: words for name, words in families.items() if family in (None, name)}
    known = [model for model in KNOWN if family in (None, model.spec.partition(":")[0])]
    if json_:
        listed = [asdict(model) for model in known]
        typer.echo(json.dumps({"families": chosen, "models": listed}, ensure_ascii=False, indent=2))
        return
    for name, words in chosen.items():
        needed = "" if is_available("encoders", name) else f" (not installed: {how_to_install('encoders', name)})"
        typer.echo(f"{name:<9}{words}{' (default)' if name == DEFAULT else ''}{needed}")
    if known:
        rows = [HEADER, *map(columns, known)]
        widths = [max(len(row[number]) for row in rows) for number in range(len(HEADER))]
        typer.echo("")
        for row in rows:
            typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
        typer.echo(
            "\nPublished figures are those of the papers, see docs/models.md; what was measured here is there too."
        )


def export(
    spec: Annotated[str, typer.Argument(help="An encoder of torch: hf:NAME, naclip:NAME or openclip:ARCH/PRETRAINED.")],
    folder: Annotated[Path, typer.Argument(help="A new folder; search with onnx:FOLDER afterwards.")],
    int8: Annotated[bool, typer.Option("--int8", help="Weights in 8 bits: a quarter of the size, less exact.")] = False,
    trust_remote_code: TrustOption = False,
    json_: JsonOption = False,
) -> None:
    """Write an encoder to a folder that runs without torch. It is compared with torch before the folder appears."""
    from wherein.models import export_encoder

    use_models(device=None, trust_remote_code=trust_remote_code)
    made = export_encoder(spec, folder.expanduser(), int8=int8)
    if json_:
        typer.echo(json.dumps(asdict(made) | {"folder": str(made.folder)}, ensure_ascii=False))
        return
    texts = "no texts" if made.text_cosine is None else f"texts {made.text_cosine:.5f}"
    typer.echo(f"{made.folder}: {made.bytes:,} bytes; cosine to torch: images {made.image_cosine:.5f}, {texts}")
    typer.echo(f"use it as onnx:{made.folder}")
