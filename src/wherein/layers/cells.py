"""`cells`: the mean patch of each of 6 × 6 places of the image, of which the cells of every grid are made."""

from __future__ import annotations

from wherein.encoders import Encoded, Encoder
from wherein.index.cells import CELLS_HW, sixths
from wherein.layers import TiledKind
from wherein.store.piece import Rows
from wherein.values.region import Box


class Sixths(TiledKind):
    """One grid of six by six mean patches for each view of the image, as int8."""

    word = "cells"
    summary = "the mean patch of each of 36 parts of the image, for searching places"
    dtype = "int8"

    def width(self, encoder: Encoder) -> tuple[int, ...] | None:
        """The shape of a row: (6, 6, d)."""
        return None if encoder.grid_hw is None else (*CELLS_HW, encoder.dim)

    def rows(self, encoded: Encoded, boxes: tuple[Box | None, ...], encoder: Encoder) -> Rows:
        """The means of the patches."""
        patches = encoded.patches
        return Rows(self.stored(None if patches is None else sixths(patches), encoder), boxes)
