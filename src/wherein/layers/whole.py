"""`global`: the embedding of the whole image, and of each tile of a panorama."""

from __future__ import annotations

from wherein.encoders import Encoded, Encoder
from wherein.layers import TiledKind
from wherein.store.piece import Rows
from wherein.values.region import Box


class WholeImages(TiledKind):
    """One row for each view of the image, or several where the encoder has several embeddings of an image."""

    word = "global"
    summary = "the embedding of the whole image"

    def rows(self, encoded: Encoded, boxes: tuple[Box | None, ...], encoder: Encoder) -> Rows:
        """All embeddings of each view, one after the other."""
        if encoder.vectors == 1 or encoded.several is None:
            return super().rows(encoded, boxes, encoder)
        every = encoded.several.reshape(-1, encoder.dim)
        return Rows(self.stored(every, encoder), tuple(box for box in boxes for _ in range(encoder.vectors)))
