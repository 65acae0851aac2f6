"""`dense`: the encoder's mid-level map, which outlines things and tells instances apart."""

from __future__ import annotations

from wherein.encoders import Encoded, Encoder
from wherein.layers import TiledKind
from wherein.store.piece import Rows
from wherein.values.region import Box


class Dense(TiledKind):
    """One mid-level map for each view of the image, as int8."""

    word = "dense"
    summary = "a fine map of the image, for outlines"
    dtype = "int8"

    def width(self, encoder: Encoder) -> tuple[int, ...] | None:
        """The shape of a row: (dh, dw, dd)."""
        return encoder.dense_shape

    def rows(self, encoded: Encoded, boxes: tuple[Box | None, ...], encoder: Encoder) -> Rows:
        """The encoder's dense map of each view, as the encoder gave it."""
        return Rows(self.stored(encoded.dense, encoder), boxes)
