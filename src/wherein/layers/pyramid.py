"""`pyramid`: the image at several sizes, averaged to one embedding."""

from __future__ import annotations

import math

from wherein.arrays import unit
from wherein.encoders import Encoded, Encoder
from wherein.images.image import Image
from wherein.images.pyramid import STORED_SCALES, levels
from wherein.layers import EncodedKind, EncoderViews
from wherein.store.piece import Rows
from wherein.values.region import Box


class SizesAveraged(EncodedKind):
    """One row: the mean of the embeddings at every size."""

    word = "pyramid"
    summary = "the image at several sizes, averaged"

    def side(self, encoder: Encoder) -> int:
        """The shorter side of the largest size that is encoded."""
        largest: float = max(STORED_SCALES)
        return math.ceil(max(encoder.input_hw) * largest)

    def views(self, image: Image, encoder: Encoder) -> EncoderViews:  # noqa: ARG002 — the same for every encoder
        """The image at every size."""
        return EncoderViews(tuple(levels(image, STORED_SCALES)), (None,) * len(STORED_SCALES))

    def rows(self, encoded: Encoded, boxes: tuple[Box | None, ...], encoder: Encoder) -> Rows:  # noqa: ARG002
        """Their mean, as a row of the whole image."""
        return Rows(self.stored(unit(encoded.global_.sum(axis=0, keepdims=True)), encoder))
