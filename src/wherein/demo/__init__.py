"""The demonstration: real photographs that come with the package, and searches that show what wherein does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wherein.values.query import Part, Query
from wherein.values.region import Box

PHOTOS: Final = Path(__file__).parent / "photos"


@dataclass(frozen=True, slots=True)
class Example:
    """A search, what it shows, and the photograph it should find."""

    caption: str
    query: Query
    expected: str


def examples(photos: Path) -> tuple[Example, ...]:
    """The searches of the demonstration, over a copy of the photographs in `photos`."""
    face = Part(image=photos / "cat.jpg", box=Box(0.2, 0.05, 0.9, 0.95))
    return (
        Example("by text", Query((Part(text="a cat looking at something"),)), "cat.jpg"),
        Example("by text", Query((Part(text="a cup of coffee on a wooden table"),)), "coffee.jpg"),
        Example("by text", Query((Part(text="a man with a camera on a tripod"),)), "cameraman.jpg"),
        Example("by text and place", Query((Part(text="a rocket", where=Box(0.6, 0.0, 1.0, 1.0)),)), "astronaut.jpg"),
        Example("by text, without something", Query(_without("a rocket launch at night", "stars")), "rocket.jpg"),
        Example("by a region of an example", Query((face,)), "cat.jpg"),
    )


def _without(text: str, avoided: str) -> tuple[Part, Part]:
    return Part(text=text), Part(text=avoided, negative=True)
