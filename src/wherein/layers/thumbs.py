"""`thumbs`: a small JPEG of the image."""

from __future__ import annotations

from wherein.encoders import Encoder
from wherein.images.image import Image
from wherein.images.thumbnail import thumbnail
from wherein.layers import BytesKind
from wherein.store.manifest import THUMBS, Layer


class Thumbnails(BytesKind):
    """One small JPEG for each image."""

    word = THUMBS
    summary = "a small JPEG, for showing and outlining hits"

    def layer(self, encoder: Encoder) -> Layer:  # noqa: ARG002 — made without an encoder
        """The layer as it is stored."""
        return Layer(THUMBS, THUMBS)

    def make(self, image: Image) -> bytes:
        """The thumbnail of an image, as a JPEG."""
        return thumbnail(image)
