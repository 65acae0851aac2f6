"""Small JPEGs of images."""

from __future__ import annotations

import io
from typing import Final

import PIL.Image

from wherein.images.image import Image, Pixels

THUMB_SIDE: Final = 256
"""The longer side of a thumbnail, in pixels."""
THUMB_QUALITY: Final = 80
"""JPEG quality."""


def thumbnail(image: Image) -> bytes:
    """A small JPEG, its longer side at most THUMB_SIDE."""
    buffer = io.BytesIO()
    PIL.Image.fromarray(as_small(image)).save(buffer, "JPEG", quality=THUMB_QUALITY)
    return buffer.getvalue()


def as_small(image: Image) -> Pixels:
    """The pixels of an image in the size of its thumbnail."""
    width, height = image.size_wh
    scale = min(1.0, THUMB_SIDE / max(width, height))
    return image.resized((max(1, round(width * scale)), max(1, round(height * scale))))
