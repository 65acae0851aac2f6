"""Heatmap → mask: coarse from the grid alone, or refined with the image's own edges by a guided filter."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from wherein.arrays import Mask
from wherein.images.guided import guided
from wherein.localizers import Heatmap, Located, Scene
from wherein.localizers.colours import Colours, cut
from wherein.values.masks import mask_box

THRESHOLD: Final = 0.4
"""Heat from which a pixel belongs to the thing, or three quarters of the peak where nothing is so hot. Chosen by
hand."""
RADIUS: Final = 1 / 32
"""The radius of the guided filter, as a share of the longer side."""
COARSE_SIDE: Final = 256
"""The longer side of a mask where no thumbnail is kept: that of thumbnails."""
_LEAST_HEAT: Final = 0.1
"""A heatmap that stays below shows nothing. Chosen by hand."""
_LEAST_PIECE: Final = 0.1
"""Pieces smaller than this share of the largest are noise."""


def enlarged(heat: Heatmap, *, size_wh: tuple[int, int]) -> Heatmap:
    """The heatmap at another resolution, linear between the middles of its places."""
    return np.asarray(cv2.resize(heat, size_wh, interpolation=cv2.INTER_LINEAR), np.float32)


def outlined(heat: Heatmap, scene: Scene, *, refine: bool, colours: Colours | None = None) -> Located:
    """Mask and box of a heatmap; `refine` follows the edges of the scene's thumb, where it has one, and its colours
    where those of an example are known.
    """
    if scene.thumb is not None:
        size_wh = (scene.thumb.shape[1], scene.thumb.shape[0])
    else:
        scale = min(1.0, COARSE_SIDE / max(scene.size_wh))
        size_wh = (max(1, round(scene.size_wh[0] * scale)), max(1, round(scene.size_wh[1] * scale)))
    large = enlarged(heat, size_wh=size_wh)
    if refine and scene.thumb is not None:
        large = large if colours is None else colours.moved(large, scene.thumb)
        large = guided(large, scene.thumb, radius=max(1, round(RADIUS * max(size_wh))))
        large = large if colours is None else cut(large, scene.thumb)
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
