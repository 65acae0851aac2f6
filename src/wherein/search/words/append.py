"""`append-short` and `append-long`: the place is said in words, after the text, as the sub-region study does."""

from __future__ import annotations

from typing import Final

from wherein.search.words.whole import Whole
from wherein.values.query import Part
from wherein.values.region import place_suffix


class Append(Whole):
    """Compares whole images with the text and its place in words."""

    uses_place = True

    def __init__(self, name: str, *, long: bool) -> None:
        self.name, self._long = name, long
        said = "in the upper left part of the image" if long else "in the upper left"
        self.summary = f"the whole image, the place said in words (“{said}”)"

    def wording(self, part: Part) -> str:
        """The text with its place behind it."""
        text = part.text or ""
        return text if part.where is None else f"{text} {place_suffix(part.where, long=self._long)}"


APPEND_SHORT: Final = Append("append-short", long=False)
APPEND_LONG: Final = Append("append-long", long=True)
