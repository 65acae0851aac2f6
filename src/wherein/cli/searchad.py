"""`wherein searchad`: is the download complete, what is in it, and the file to submit."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Data = Annotated[Path, typer.Option(help="The folder SearchAD was unpacked into.")]


def register(app: typer.Typer) -> None:
    """Add the `searchad` group to the command."""
    group = typer.Typer(no_args_is_help=True, help="SearchAD: check a download, count its labels, write a submission.")
    group.command("check")(check)
    group.command("stats")(stats)
    group.command("truth")(truth)
    group.command("submit")(submit)
    app.add_typer(group, name="searchad")


def check(
    data: Data,
    images: Annotated[bool, typer.Option(help="Look for every image on disk, not only the folders.")] = True,
    json_: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Say which files, labels and source folders are missing; exit code 1 when something is."""
    import json

    from wherein.bench.searchad.tools import check as look

    findings = look(data, images=images)
    if json_:
        rows = [{"ok": f.ok, "what": f.what, "found": f.found} for f in findings]
        typer.echo(json.dumps({"complete": all(f.ok for f in findings), "findings": rows}, indent=2))
    else:
        for finding in findings:
            typer.echo(f"{'ok     ' if finding.ok else 'MISSING'}  {finding.what:<44}  {finding.found}")
        short = sum(not finding.ok for finding in findings)
        typer.echo("complete" if short == 0 else f"{short} of {len(findings)} are not complete")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def stats(
    data: Data,
    split: Annotated[list[str] | None, typer.Option(help="train or val; both unless given.")] = None,
    level: Annotated[
        Literal["object", "image", "truth"],
        typer.Option(help="Count boxes, images with a box, or images positive under the 50 px² rule."),
    ] = "object",
    by_source: Annotated[bool, typer.Option(help="One column per source folder, not per split.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """How often each of the 90 labels occurs, rarest first."""
    import json

    from wherein.bench.searchad.dataset import SPLITS
    from wherein.bench.searchad.tools import statistics

    made = statistics(data, splits=tuple(split or SPLITS), level=level, by_source=by_source)
    if json_:
        rows = {label: dict(zip(made.columns, counts, strict=True)) for label, counts in made.rows}
        images = dict(zip(made.columns, made.images, strict=True))
        typer.echo(json.dumps({"level": made.level, "labels": rows, "images": images}, indent=2))
        return
    width = max(len(label) for label, _ in made.rows)
    columns = [max(8, len(column)) for column in made.columns]
    lines = [("label", made.columns), *made.rows]
    lines.append(("sum", tuple(map(sum, zip(*(counts for _, counts in made.rows), strict=True)))))
    lines.append(("images", made.images))
    for label, cells in lines:
        padded = (f"{cell:>{size}}" for cell, size in zip(cells, columns, strict=True))
        typer.echo(f"{label:<{width}}  " + "  ".join(padded))


def truth(
    data: Data,
    out: Annotated[Path, typer.Option(help="The folder the two files are written to.")],
    split: Annotated[Literal["train", "val"], typer.Option(help="The split.")] = "val",
) -> None:
    """Write image-level truth and ignored images per label under the devkit's file names."""
    from wherein.bench.searchad.tools import write_truth

    for path in write_truth(data, split=split, out=out):
        typer.echo(str(path))


def submit(
    data: Data,
    predictions: Annotated[Path, typer.Option(help="{label: [test image path, …]}, full rankings.")],
    out: Annotated[Path, typer.Option(help="The submission file to write.")],
    team: Annotated[str, typer.Option(help="Team name.")],
    model: Annotated[str, typer.Option(help="Model name.")],
    affiliation: Annotated[str, typer.Option(help="Paper, code or affiliation.")],
    mode: Annotated[Literal["Language", "Vision", "Multimodal"], typer.Option(help="Search mode.")],
    trained: Annotated[bool, typer.Option(help="Was the SearchAD train split used?")] = False,
    default_queries: Annotated[bool, typer.Option(help="Were the default queries used?")] = True,
) -> None:
    """Write the submission file for the benchmark server."""
    from wherein.bench.searchad.tools import Metadata, write_submission

    metadata = Metadata(team, model, affiliation, mode, trained, default_queries)
    for warning in write_submission(data, predictions=predictions, out=out, metadata=metadata):
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(str(out))
