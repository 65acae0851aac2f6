"""`wherein demo`: index the photographs that come with wherein, search them, write a page."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put the photographs and the page.")] = Path("wherein-demo"),
    encoder: Annotated[str | None, typer.Option(help="What describes the images; by default mini.")] = None,
) -> None:
    """Index real photographs, search them by text, place and region, and write a page for each search."""
    from wherein.collection import open
    from wherein.demo import PHOTOS, examples, require_own_folder
    from wherein.output.present import in_one_line, write_page

    photos = folder.absolute() / "photos"
    require_own_folder(folder.absolute())
    photos.mkdir(parents=True, exist_ok=True)
    for photo in sorted(PHOTOS.glob("*.jpg")):
        shutil.copyfile(photo, photos / photo.name)
    with open(photos, create=True, encoder=encoder) as collection:
        report = collection.add(photos)
        typer.echo(f"{len(collection)} photographs indexed in {report.seconds:.1f} s with {collection.encoder}\n")
        for number, example in enumerate(examples(photos), 1):
            ranking = collection.search(example.query, k=4)
            page = folder.absolute() / f"search-{number}.html"
            write_page(ranking, page, thumb_of=collection.thumb)
            words = str(example.query).replace(str(photos) + "/", "")
            typer.echo(f"{example.caption}: {words}\n  {in_one_line(ranking)}\n  {page.as_uri()}")
    typer.echo(f"\nGo on with: cd {folder} && wherein search 'your words' -c photos")
