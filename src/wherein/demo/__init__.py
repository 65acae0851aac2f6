"""The demonstration: real photographs that come with the package, and searches that show what wherein does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wherein.errors import InputError
from wherein.values.query import Part, Query
from wherein.values.records import FOLDER
from wherein.values.region import Box

PHOTOS: Final = Path(__file__).parent / "photos"
"""The photographs, in the public domain or CC0; `photos/SOURCES.md` names where each comes from."""
_WRITTEN: Final = ("photos", "search-*.html")
"""What a demonstration writes into its folder."""


@dataclass(frozen=True, slots=True)
class DemoSearch:
    """A search, what it shows, and the photograph it should find."""

    caption: str
    query: Query
    expected: str


def require_own_folder(folder: Path) -> None:
    """Refuse a folder that holds anything else than an earlier demonstration; nothing has been touched then."""
    in_the_way = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), None)
    if in_the_way is not None:
        raise InputError(f"{in_the_way}: is a file, so no folder can be made there. Name another folder.")
    ours = {photo.name for photo in PHOTOS.glob("*.jpg")} | {FOLDER}
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    others = [path for path in inside if not any(path.match(name) for name in _WRITTEN)]
    if folder / "photos" in inside and (folder / "photos").is_dir():
        others += [path for path in sorted((folder / "photos").iterdir()) if path.name not in ours]
    if others:
        raise InputError(
            f"{folder}: holds {others[0].relative_to(folder)}, which is no part of a demonstration. Name an empty or a "
            "new folder."
        )


def examples(photos: Path) -> tuple[DemoSearch, ...]:
    """The searches of the demonstration, over a copy of the photographs in `photos`."""
    face = Part(image=photos / "cat.jpg", box=Box(0.2, 0.05, 0.9, 0.95))
    return (
        DemoSearch("by text", Query((Part(text="a cat"),)), "cat.jpg"),
        DemoSearch("by text", Query((Part(text="a cup of coffee on a wooden table"),)), "coffee.jpg"),
        DemoSearch("by text", Query((Part(text="a man with a camera on a tripod"),)), "cameraman.jpg"),
        DemoSearch(
            "by text and place", Query((Part(text="a cup of coffee", where=Box(0.0, 0.0, 0.7, 0.8)),)), "coffee.jpg"
        ),
        DemoSearch(
            "by text, without something",
            Query(_without("a rocket rises from its launch pad at night", "stars")),
            "rocket.jpg",
        ),
        DemoSearch("by a region of an example", Query((face,)), "cat.jpg"),
    )


def _without(text: str, avoided: str) -> tuple[Part, Part]:
    return Part(text=text), Part(text=avoided, negative=True)
