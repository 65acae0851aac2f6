"""An image at several sizes, so that an embedding that knows one size meets things near and far.

A level shows the image as a square input would see it had the image been resized to `scale` times that input and cut
(or bordered in black) around its centre: above 1 the middle from near, below 1 everything from afar.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.images.image import Image

STORED_SCALES: Final = (2.0, 2**0.5, 1.0, 0.5**0.5, 0.5, 0.125**0.5, 0.25)
"""The FORB study's seven sizes of a searched image."""
QUERY_SCALES: Final = (0.5**0.5, 1.0, 2**0.5)
"""The FORB study's three sizes of an example image."""


def levels(image: Image, scales: tuple[float, ...]) -> list[Image]:
    """The square view of `image` at each scale."""
    return [_level(image, scale) for scale in scales]


def _level(image: Image, scale: float) -> Image:
    width, height = image.size_wh
    side = max(1, round(min(width, height) / scale))
    x, y = (width - side) // 2, (height - side) // 2
    inside = image.pixels[max(0, y) : y + side, max(0, x) : x + side]
    if inside.shape[:2] != (side, side):
        square = np.zeros((side, side, 3), np.uint8)
        top, left = max(0, -y), max(0, -x)
        square[top : top + inside.shape[0], left : left + inside.shape[1]] = inside
        inside = square
    return Image(inside, (side, side), image.taken)
