"""A mask that a person drew, moved to the edges of its picture: by a guided filter, or by a segmenter."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from wherein.arrays import Mask
from wherein.errors import SpecError
from wherein.images.guided import guided
from wherein.images.image import ImageLike, Pixels, decode
from wherein.values.masks import mask_box, resized
from wherein.values.models import is_segmenter

BAND: Final = 1 / 64
"""How far an edge is looked for, as a share of the image's longer side: half of `RADIUS` of `wherein.localizers.edges`,
since what a person drew is nearer to the edge than a heatmap."""
WINDOW: Final = 3
"""The filter's radius, in multiples of BAND: an edge two of them away is found with three, and not with less."""
ROUNDS: Final = 3
"""Each moves the edge a part of the way; after three none moved any further."""
FIRM: Final = 0.5
"""What a pixel must reach after the filter to be of the thing."""


def snap(mask: Mask, image: ImageLike, *, segmenter: str = "") -> Mask:
    """The mask with its edges moved to those of the image, at the mask's own size.

    Without a segmenter a guided filter moves them, in a band around what was drawn. A segmenter (`onnx:FOLDER`,
    `hf:NAME`) is asked with the mask's box and its innermost point, and the answer that fits the mask best is taken;
    where it answers nothing, the mask stays.
    """
    if segmenter and not is_segmenter(segmenter):
        raise SpecError(f"{segmenter}: is no segmenter; give onnx:FOLDER with its two graphs, or hf:NAME.")
    picture = decode(image).pixels
    if not mask.any():
        return mask
    rough = resized(mask, size_wh=(picture.shape[1], picture.shape[0]))
    found = _segmented(rough, picture, segmenter) if segmenter else _filtered(rough, picture)
    return resized(found, size_wh=(mask.shape[1], mask.shape[0]))


def _filtered(rough: Mask, picture: Pixels) -> Mask:
    """Only a band around the drawn edge may move: what a person filled or left out further in stays so."""
    radius = max(1, round(BAND * max(picture.shape[:2])))
    firm = rough.astype(np.float32)
    for _ in range(ROUNDS):
        firm = (guided(firm, picture, radius=WINDOW * radius) >= FIRM).astype(np.float32)
    kernel = np.ones((2 * radius + 1, 2 * radius + 1), np.uint8)
    sure = cv2.erode(rough.astype(np.uint8), kernel) > 0
    maybe = cv2.dilate(rough.astype(np.uint8), kernel) > 0
    return np.asarray(((firm > 0) & maybe) | sure)


def _segmented(rough: Mask, picture: Pixels, word: str) -> Mask:
    """What the segmenter draws of the thing that the mask covers."""
    from wherein.localizers.segment import best_answer, load_segmenter

    box = mask_box(rough)
    if box is None:  # it was a speck that is gone at the picture's size
        return rough
    depth = cv2.distanceTransform(np.pad(rough, 1).astype(np.uint8), cv2.DIST_L2, 3)[1:-1, 1:-1]
    y, x = np.unravel_index(int(np.argmax(depth)), depth.shape)
    answers = load_segmenter(word).masks(picture, box, (float(x) + 0.5, float(y) + 0.5))
    found = best_answer(*answers, rough) >= FIRM
    return found if found.any() else rough
