"""The toy encoder: colours per cell, with numbers a person can check. For tests and examples.

Each of g × g cells votes its pixels into eleven colours by nearest RGB; an image's embedding is the square
root of its colour shares, and so is a text's, with equal shares of the colour words in it. The score of
"red" against a half red, half blue image is √½. `toy` has a 4 × 4 grid, `toy:8` an 8 × 8 one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.encoders import Encoded
from wherein.errors import SpecError
from wherein.images.image import Image, Pixels

COLOURS: Final = {
    "black": (0, 0, 0),
    "white": (255, 255, 255),
    "grey": (128, 128, 128),
    "red": (255, 0, 0),
    "green": (0, 160, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "orange": (255, 140, 0),
    "purple": (128, 0, 128),
    "pink": (255, 150, 190),
    "brown": (120, 70, 20),
}
"""The colours that it knows, and their pixels."""
_SIDE: Final = 64
"""The side at which it looks at a picture, in pixels."""


class ToyEncoder:
    """Colour shares per cell, and colour words."""

    embeds_text = True
    dim = len(COLOURS)
    digest = "toy-colours-1"
    input_hw = (_SIDE, _SIDE)
    dense_shape: tuple[int, int, int] | None = None
    patch_basis: Floats | None = None
    device: str = "cpu"
    batch: int = 1
    vectors: int = 1

    def __init__(self, variant: str = "", *, threads: int = 1) -> None:  # noqa: ARG002 — no threads to set
        cells = variant or "4"
        if cells not in ("1", "2", "4", "8", "16"):
            raise SpecError(f"toy:{variant} does not exist: the toy encoder has 1, 2, 4, 8 or 16 cells a side.")
        self.spec = f"toy:{variant}" if variant else "toy"
        self.grid_hw: tuple[int, int] | None = (int(cells), int(cells))
        self._palette = np.array(list(COLOURS.values()), np.float32)

    def prepare(self, image: Image) -> Pixels:
        """The image squashed to 64 × 64."""
        return image.resized((_SIDE, _SIDE))

    def images(self, batch: Pixels) -> Encoded:
        """Roots of colour shares of whole images and of their cells."""
        n, cells = len(batch), (self.grid_hw or (1, 1))[0]
        # |p − c|² without |p|², which every colour c shares; whole numbers, so nothing is rounded
        pixels = batch.reshape(-1, 3).astype(np.float32)
        nearest = (np.square(self._palette).sum(axis=1) - 2 * pixels @ self._palette.T).argmin(axis=1)
        votes = np.eye(self.dim, dtype=np.float32)[nearest.reshape(n, _SIDE * _SIDE)]
        per_cell = votes.reshape(n, cells, _SIDE // cells, cells, _SIDE // cells, self.dim).mean(axis=(2, 4))
        return Encoded(global_=unit(np.sqrt(votes.mean(axis=1))), patches=unit(np.sqrt(per_cell)))

    def texts(self, texts: Sequence[str]) -> Floats:
        """Equal shares of the colour words in each text; of all colours where there is none."""
        return unit(np.array([self._shares(text) for text in texts], np.float32).reshape(-1, self.dim))

    def _shares(self, text: str) -> list[float]:
        words = set(re.findall(r"[a-z]+", text.lower()))
        shares = [float(colour in words) for colour in COLOURS]
        return shares if any(shares) else [1.0] * self.dim
