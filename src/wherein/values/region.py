"""Where in an image: boxes, static grids and tiles. Pure geometry, normalised to [0, 1], origin top left.

A pixel rectangle covers whole pixels: column i of a w-wide image spans [i/w, (i+1)/w].
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Final, Self

from wherein.errors import RegionError

# An image is tiled when squashing it into one encoder input would leave nothing to see.
TILED_LONG_SIDE: Final = 8192
"""An image with a longer side beyond this is tiled: squashed into one encoder input it would show nothing. Chosen by
hand."""
TILED_ASPECT: Final = 3.0
"""An image that is so many times longer than wide is tiled too, where its shorter side fills an encoder's input. Chosen
by hand."""
TILE_SIDE: Final = 4096
"""The side of a tile, in pixels: half of TILED_LONG_SIDE, so that what is tiled has at least two tiles."""
TILES_MOST: Final = 64
"""Tiles of one image at most; where more would be needed, they are larger: each is encoded, so that the longest
image costs as much as 64 others."""
SMALLEST_SIDE: Final = 1e-6
"""A box has at least this share of the image's side: no image that is taken has a million pixels in a row."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle `x1,y1,x2,y2` in [0, 1] of the upright image, x1 < x2 and y1 < y2."""

    x1: float
    y1: float
    x2: float
    y2: float

    def __post_init__(self) -> None:
        values = (self.x1, self.y1, self.x2, self.y2)
        if not all(isinstance(value, Real) for value in values):
            raise RegionError(f"box {values}: its corners are not numbers. Give x1, y1, x2, y2 in [0, 1].")
        if not all(math.isfinite(value) and 0.0 <= value <= 1.0 for value in values):
            raise RegionError(
                f"box {self} leaves the image: every corner must lie in [0, 1]. "
                "Divide pixel coordinates by the image's width and height."
            )
        if self.x1 >= self.x2 or self.y1 >= self.y2:
            raise RegionError(f"box {self} has no area: it needs x1 < x2 and y1 < y2. Swap its corners.")
        if min(self.x2 - self.x1, self.y2 - self.y1) < SMALLEST_SIDE:
            raise RegionError(f"box {self} is thinner than a millionth of the image: draw it larger.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `x1,y1,x2,y2`."""
        try:
            x1, y1, x2, y2 = (float(word) for word in text.split(","))
        except ValueError:
            raise RegionError(f"box {text!r} is not four numbers: write x1,y1,x2,y2 in [0, 1].") from None
        return cls(x1, y1, x2, y2)

    @classmethod
    def from_pixels(cls, xyxy: Sequence[float], *, size_wh: tuple[int, int]) -> Self:
        """Normalise a pixel rectangle of an image of `size_wh`."""
        width, height = size_wh
        x1, y1, x2, y2 = xyxy
        return cls(x1 / width, y1 / height, x2 / width, y2 / height)

    def __str__(self) -> str:
        return ",".join(f"{value:.6g}" for value in (self.x1, self.y1, self.x2, self.y2))

    @property
    def xyxy(self) -> tuple[float, float, float, float]:
        """The four corners, in the order they are written."""
        return (self.x1, self.y1, self.x2, self.y2)

    @property
    def area(self) -> float:
        """The share of the image that the box covers."""
        return (self.x2 - self.x1) * (self.y2 - self.y1)

    def pixels(self, size_wh: tuple[int, int]) -> tuple[int, int, int, int]:
        """The whole pixels that the box touches, as half-open x1, y1, x2, y2; never empty."""
        width, height = size_wh
        # The 1e-9 of a pixel keeps a corner that was a whole pixel (29/100) from falling into its neighbour.
        x1, y1 = min(int(self.x1 * width + 1e-9), width - 1), min(int(self.y1 * height + 1e-9), height - 1)
        return (
            x1,
            y1,
            max(x1 + 1, min(width, math.ceil(self.x2 * width - 1e-9))),
            max(y1 + 1, min(height, math.ceil(self.y2 * height - 1e-9))),
        )


WHOLE: Final = Box(0.0, 0.0, 1.0, 1.0)
"""All of an image."""


def overlap(a: Box, b: Box) -> float:
    """The area two boxes share; 0 when they only touch."""
    width = min(a.x2, b.x2) - max(a.x1, b.x1)
    height = min(a.y2, b.y2) - max(a.y1, b.y1)
    return max(width, 0.0) * max(height, 0.0)


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes."""
    shared = overlap(a, b)
    return shared / (a.area + b.area - shared)


_PER_AXIS: Final = {5: 2, 9: 3, 36: 6}
"""Cells a side of each grid; `static-5` has its quarters and the middle."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A static partition of every image into equal cells: `static-5`, `static-9`, `static-36`, `static-9@0.1`.

    `static-9` is 3 × 3 and `static-36` 6 × 6, row by row. `static-5` is 2 × 2, then a centred cell of the same size.
    With an overlap every cell grows by that share of the image, per axis: a cell at a border grows inwards,
    an inner one by half on each side, so that all cells keep one size.
    """

    cells: int
    overlap: float = 0.0

    def __post_init__(self) -> None:
        if self.cells not in _PER_AXIS:
            raise RegionError(f"no grid has {self.cells} cells: static-5, static-9 and static-36 exist.")
        if not 0.0 <= self.overlap <= 0.5:
            raise RegionError(f"grid overlap {self.overlap:g} is outside [0, 0.5], a share of the image.")

    @classmethod
    def parse(cls, word: str) -> Self:
        """Read `static-9` or `static-9@0.1`."""
        found = re.fullmatch(r"static-(\d+)(?:@(\d*\.?\d+))?", word)
        if found is None:
            raise RegionError(f"{word!r} is not a grid: write static-5, static-9, static-36 or static-9@OVERLAP.")
        return cls(int(found[1]), float(found[2] or 0.0))

    def __str__(self) -> str:
        return f"static-{self.cells}" + (f"@{self.overlap:g}" if self.overlap else "")

    def boxes(self) -> tuple[Box, ...]:
        """The cells, in their fixed order."""
        per_axis = _PER_AXIS[self.cells]
        spans = [self._span(index, per_axis) for index in range(per_axis)]
        cells = [Box(x1, y1, x2, y2) for y1, y2 in spans for x1, x2 in spans]
        if self.cells == 5:
            half = (1 / per_axis + self.overlap) / 2
            cells.append(Box(0.5 - half, 0.5 - half, 0.5 + half, 0.5 + half))
        return tuple(cells)

    def _span(self, index: int, per_axis: int) -> tuple[float, float]:
        size = 1 / per_axis + self.overlap
        if index == 0:
            return 0.0, min(size, 1.0)
        if index == per_axis - 1:
            return max(1.0 - size, 0.0), 1.0
        middle = (index + 0.5) / per_axis
        start = min(max(middle - size / 2, 0.0), max(1.0 - size, 0.0))
        return start, min(start + size, 1.0)


def tiles(size_wh: tuple[int, int], *, input_side: int) -> tuple[Box, ...]:
    """The tiles of an image far beyond an encoder's input (maps, slides, panoramas); none for a photo."""
    short, long = min(size_wh), max(size_wh)
    stretched = long / short >= TILED_ASPECT and short >= input_side
    if long <= TILED_LONG_SIDE and not stretched:
        return ()
    side = max(min(short, TILE_SIDE), input_side)
    columns, rows = (max(1, round(length / side)) for length in size_wh)
    while columns * rows > TILES_MOST:
        side *= 2
        columns, rows = (max(1, round(length / side)) for length in size_wh)
    return tuple(
        Box(column / columns, row / rows, (column + 1) / columns, (row + 1) / rows)
        for row in range(rows)
        for column in range(columns)
    )


PLACES: Final = {
    "top-left": Box(0.0, 0.0, 0.5, 0.5),
    "top": Box(0.0, 0.0, 1.0, 0.5),
    "top-right": Box(0.5, 0.0, 1.0, 0.5),
    "left": Box(0.0, 0.0, 0.5, 1.0),
    "centre": Box(0.25, 0.25, 0.75, 0.75),
    "right": Box(0.5, 0.0, 1.0, 1.0),
    "bottom-left": Box(0.0, 0.5, 0.5, 1.0),
    "bottom": Box(0.0, 0.5, 1.0, 1.0),
    "bottom-right": Box(0.5, 0.5, 1.0, 1.0),
}
"""The places that have a name."""
_SAME_PLACES: Final = {"upper": "top", "lower": "bottom", "center": "centre", "middle": "centre"}
_VERTICAL: Final = r"(?P<vertical>upper|top|lower|bottom)"
_SIDE: Final = r"(?P<side>left|right)"
_SUFFIX: Final = re.compile(
    rf"^(?P<what>.*\S)\s+(?:in|on|at|to)\s+the\s+(?:{_VERTICAL}[\s-]+{_SIDE}|(?P<alone>top|bottom|left|right|"
    r"centre|center|middle))(?:\s+(?:part|corner|side|half))?(?:\s+of\s+the\s+(?:image|picture|photo|frame))?\s*[.]?$",
    re.IGNORECASE,
)


def place(text: str) -> Box:
    """A place: a word such as `top-left` or `centre`, or a box `x1,y1,x2,y2`."""
    word = "-".join(_SAME_PLACES.get(part, part) for part in text.strip().lower().replace(" ", "-").split("-"))
    if word in PLACES:
        return PLACES[word]
    if "," in text:
        return Box.parse(text)
    raise RegionError(f"{text!r} is no place: write x1,y1,x2,y2 in [0, 1], or one of {', '.join(PLACES)}.")


def split_place(text: str) -> tuple[str, str | None]:
    """`a fish in the upper left` → (`a fish`, `top-left`); (text, None) where no place is said."""
    found = _SUFFIX.match(text)
    if found is None:
        return text, None
    said = found["alone"] or f"{found['vertical']}-{found['side']}"
    word = "-".join(_SAME_PLACES.get(part, part) for part in said.lower().split("-"))
    return found["what"], word


def place_suffix(box: Box, *, long: bool) -> str:
    """How the sub-region study says a place in words: by the cell of static-5 that the box overlaps best."""
    words = ("in the upper left", "in the upper right", "in the lower left", "in the lower right", "in the middle")
    scores = [iou(cell, box) for cell in Grid(5).boxes()]
    return words[scores.index(max(scores))] + (" part of the image" if long else "")
