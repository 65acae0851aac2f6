"""The guided filter (He, Sun, Tang): what is coarse follows the edges of a picture.

It makes a map a local linear function of the colours, so that the map falls where the picture has an edge; with box
filters it costs the same at every radius.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from wherein.arrays import Floats
from wherein.images.image import Pixels

EPSILON: Final = 1e-4
"""How far colours in [0, 1] must differ to be an edge, squared."""


def guided(heat: Floats, picture: Pixels, *, radius: int, epsilon: float = EPSILON) -> Floats:
    """`heat` (h, w) filtered so that its edges are those of `picture` (h, w, 3)."""
    colours = picture.astype(np.float32) / 255.0
    side = (2 * radius + 1, 2 * radius + 1)

    def mean(values: Floats) -> Floats:
        return np.asarray(cv2.blur(values, side, borderType=cv2.BORDER_REFLECT), np.float32)

    mean_colour, mean_heat = mean(colours), mean(heat)
    shared = mean(colours * heat[..., None]) - mean_colour * mean_heat[..., None]
    r, g, b = (np.ascontiguousarray(colours[..., channel]) for channel in range(3))
    products = mean(np.stack([r * r, g * g, b * b], axis=-1)), mean(np.stack([r * g, r * b, g * b], axis=-1))
    mr, mg, mb = (mean_colour[..., channel] for channel in range(3))
    rr, gg, bb = (products[0][..., c] - m * m + epsilon for c, m in enumerate((mr, mg, mb)))
    rg, rb, gb = (products[1][..., c] - m for c, m in enumerate((mr * mg, mr * mb, mg * mb)))
    slopes = _solved((rr, rg, rb, gg, gb, bb), shared)
    offsets = mean_heat - (slopes * mean_colour).sum(axis=-1)
    filtered = (mean(slopes) * colours).sum(axis=-1) + mean(offsets)
    return np.asarray(np.clip(filtered, 0.0, 1.0), np.float32)


def _solved(matrix: tuple[Floats, Floats, Floats, Floats, Floats, Floats], right: Floats) -> Floats:
    """Symmetric 3 × 3 systems, one a pixel, by Cramer's rule: `matrix` is its upper half, row by row."""
    a, b, c, d, e, f = matrix
    x, y, z = (right[..., axis] for axis in range(3))
    aa, ab, ac, bb, bc, cc = d * f - e * e, c * e - b * f, b * e - c * d, a * f - c * c, b * c - a * e, a * d - b * b
    scale = 1.0 / (a * aa + b * ab + c * ac)
    solved = [
        scale * (aa * x + ab * y + ac * z),
        scale * (ab * x + bb * y + bc * z),
        scale * (ac * x + bc * y + cc * z),
    ]
    return np.stack(solved, axis=-1).astype(np.float32)
