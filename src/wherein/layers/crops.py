"""`static-9@0.1` and its like: the cells of a grid, each encoded as a crop."""

from __future__ import annotations

import math

from wherein.encoders import Encoder
from wherein.images.image import Image
from wherein.layers import CroppedKind
from wherein.values.region import Box, Grid


class GridCrops(CroppedKind):
    """One row for each cell of the grid."""

    word = "static"
    summary = "the cells of a grid, each encoded as an image of its own"
    example = "static-9"

    def __init__(self, kind: str) -> None:
        self.kind, self.grid = kind, Grid.parse(kind)

    def side(self, encoder: Encoder) -> int:
        """As much as lets the narrowest cell fill the encoder's input."""
        narrowest = min(cell.x2 - cell.x1 for cell in self.grid.boxes())
        return math.ceil(max(encoder.input_hw) / narrowest)

    def boxes(self, image: Image) -> tuple[Box, ...]:  # noqa: ARG002 — a grid is the same for every image
        """The cells of the grid."""
        return self.grid.boxes()
