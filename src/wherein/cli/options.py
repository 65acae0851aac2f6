"""Options that several commands share, and opening the collection they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from wherein.collection import Collection
    from wherein.values.query import Query

CollectionOption = Annotated[
    Path | None,
    typer.Option("--collection", "-c", help="The collection; by default the nearest .wherein, upwards from here."),
]
FolderOption = Annotated[
    str | None, typer.Option("--in", help="Images below this folder; a glob where no folder is called so.")
]
IndexOption = Annotated[
    str,
    typer.Option(help="The index that is asked: exact, compressed, milvus:HOST:PORT, milvus:FILE.db; auto: as kept."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
NullOption = Annotated[
    bool, typer.Option("--null", "-0", help="Names in a pipe end with a zero byte instead of a new line.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(help="Where models of torch run: auto, cpu, cuda, cuda:1 or mps; otherwise WHEREIN_DEVICE decides."),
]
TrustOption = Annotated[
    bool, typer.Option("--trust-remote-code", help="Let the repositories of models run Python of their own.")
]


RAY_HERE: Final = "here"
"""What --ray says where no address follows it."""
_ADDRESS: Final = re.compile(r"auto|local|(ray://)?[\w.\[\]-]+:\d+")


def with_address(words: Sequence[str]) -> list[str]:
    """The words of a command in which --ray has its address, or says that there is none: a folder may follow it too."""
    given, rest = list[str](), list(words)
    while rest:
        word = rest.pop(0)
        if word == "--ray":
            word = f"--ray={rest.pop(0) if rest and _ADDRESS.fullmatch(rest[0]) else RAY_HERE}"
        given.append(word)
    return given


def use_models(*, device: str | None, trust_remote_code: bool) -> None:
    """Say for this process where models run and whether their repositories may run Python of their own."""
    from wherein import models

    models.use_models(device=device, trust_remote_code=trust_remote_code)


def query_of(
    texts: list[str], images: list[str], avoided: list[str], file: Path | None, where: str | None, *, ids: bool = False
) -> Query:
    """What was asked for; a place that was given holds for every part that names none in a file.

    With `ids`, examples may be named by their ids, which `with_known_images` looks up.
    """
    from dataclasses import replace

    from wherein.values.query import Query, parse_image, parse_negative, parse_text, read_query
    from wherein.values.region import place

    negatives = [parse_negative(text, ids=ids) for text in avoided]
    parts = [*map(parse_text, texts), *map(parse_image, images), *negatives]
    from_file = read_query(file).parts if file is not None else ()
    if where is not None:
        box = place(where)
        parts = [replace(part, where=box, said_where=None) for part in parts]
        from_file = tuple(replace(part, where=part.where or box) for part in from_file)
    return Query((*from_file, *parts))


def open_collection(path: Path | None) -> Collection:
    """The collection that was named, or the nearest one."""
    from wherein.collection import open

    return open(place_of(path))


def place_of(path: Path | None) -> Path:
    """Where the collection is that was named, or the nearest one."""
    from wherein.locations import nearest

    return path if path is not None else nearest(Path.cwd())


def with_known_images(query: Query, collection: Collection) -> Query:
    """The query, its examples known as images of the collection: by file, or by id where no file is called so."""
    from dataclasses import replace

    from wherein.values.query import Query

    known = (
        replace(part, **_known_image(part.image, collection)) if isinstance(part.image, Path) else part
        for part in query.parts
    )
    return Query(tuple(known))


def _known_image(named: Path, collection: Collection) -> dict[str, Any]:
    """Which image a file or an id is, as fields of a part; nothing where the collection has no such image."""
    from wherein.errors import ImageNotFound
    from wherein.values.query import parse_image

    there = named.exists()
    try:
        (image_id, *_) = collection.resolve(named.absolute() if there else str(named))
    except ImageNotFound:
        return {}
    if there:
        return {"image_id": image_id, "name": str(named)}  # it is called as it was given
    known = collection.details(image_id)
    moment = "" if known.seconds is None else f"#t={known.seconds}"
    if not isinstance(known.path, Path):
        return {"image": collection.marks(right=[image_id])[0].image, "image_id": image_id}
    image = parse_image(f"{known.path}{moment}").image
    return {"image": image, "image_id": image_id}
