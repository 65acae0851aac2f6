"""Images of one video as one hit: the best of them stands for the clip, and names the others that answer too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints, Mask

NO_CLIP: Final = -1
"""The clip of an image that is no frame of a video."""
MOST_OTHERS: Final = 50
"""Other images of a clip that a hit names, at most: as many as a person looks through."""


def best_of_each(scores: Floats, clips: Ints, allowed: Mask | None) -> Mask:
    """(images,) Which may be ranked: of each clip the allowed image that scores best, and all that are of none.

    `clips` (images,) says which clip an image is of.
    """
    chosen = np.ones(len(clips), np.bool_) if allowed is None else allowed.copy()
    frames = np.flatnonzero(chosen & (clips != NO_CLIP))
    order = frames[np.lexsort((frames, -scores[frames], clips[frames]))]
    first = np.r_[True, clips[order][1:] != clips[order][:-1]] if len(order) else np.zeros(0, np.bool_)
    chosen[order[~first]] = False
    return chosen


def others_of(images: Sequence[int], scores: Floats, clips: Ints, allowed: Mask | None) -> list[tuple[int, ...]]:
    """For each image of a ranking, the other allowed ones of its clip that score as high as its last, best first."""
    least = min((float(scores[image]) for image in images), default=0.0)
    found = []
    for image in images:
        same = np.flatnonzero(clips == clips[image]) if clips[image] != NO_CLIP else np.zeros(0, np.int64)
        same = same[(same != image) & (scores[same] >= least)]
        same = same if allowed is None else same[allowed[same]]
        found.append(tuple(same[np.argsort(-scores[same], kind="stable")][:MOST_OTHERS].tolist()))
    return found
