"""Heatmap → mask: coarse from the grid alone, or refined with the image's own edges by a guided filter.

The guided filter (He, Sun, Tang) makes the heatmap a local linear function of the colours, so that it falls where
the picture has an edge; with box filters it costs the same at every radius.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from wherein.arrays import Floats, Mask
from wherein.images.image import Pixels
from wherein.localizers import Heatmap, Located, Scene
from wherein.values.masks import mask_box

THRESHOLD: Final = 0.4
RADIUS: Final = 1 / 32
"""Of the longer side."""
EPSILON: Final = 1e-4
COARSE_SIDE: Final = 256
_LEAST_HEAT: Final = 0.1
_LEAST_PIECE: Final = 0.1
"""Pieces smaller than this share of the largest are noise."""


def enlarged(heat: Heatmap, *, size_wh: tuple[int, int]) -> Heatmap:
    """The heatmap at another resolution, linear between the middles of its places."""
    return np.asarray(cv2.resize(heat, size_wh, interpolation=cv2.INTER_LINEAR), np.float32)


def guided(heat: Heatmap, picture: Pixels, *, radius: int, epsilon: float = EPSILON) -> Heatmap:
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


def outlined(heat: Heatmap, scene: Scene, *, refine: bool) -> Located:
    """Mask and box of a heatmap; `refine` follows the edges of the scene's thumb, where it has one."""
    if scene.thumb is not None:
        size_wh = (scene.thumb.shape[1], scene.thumb.shape[0])
    else:
        scale = min(1.0, COARSE_SIDE / max(scene.size_wh))
        size_wh = (max(1, round(scene.size_wh[0] * scale)), max(1, round(scene.size_wh[1] * scale)))
    large = enlarged(heat, size_wh=size_wh)
    if refine and scene.thumb is not None:
        large = guided(large, scene.thumb, radius=max(1, round(RADIUS * max(size_wh))))
    peak = float(large.max())
    if peak < _LEAST_HEAT:
        return Located(large)
    mask = _pieces(large >= min(THRESHOLD, 0.75 * peak))
    return Located(large, mask, mask_box(mask))


def _pieces(mask: Mask) -> Mask:
    """Without specks, and without pinholes."""
    mask = _without_small(mask)
    return ~_without_small(~mask, least=_LEAST_PIECE * float(mask.sum()))


def _without_small(mask: Mask, *, least: float | None = None) -> Mask:
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    if count <= 2 and least is None:
        return mask
    areas = stats[:, cv2.CC_STAT_AREA].astype(np.float64)
    areas[0] = 0.0
    kept = areas >= (_LEAST_PIECE * areas.max() if least is None else least)
    kept[0] = False
    return np.asarray(kept[labels])
