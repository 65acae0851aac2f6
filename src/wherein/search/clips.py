"""Images of one video as one hit: the best of them stands for the clip, and names the others that answer too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from wherein.arrays import Ints, Mask
from wherein.search.background import SAMPLE
from wherein.search.beside import NO_CLIP
from wherein.search.sources import Source

MOST_OTHERS: Final = 50
"""Other images of a clip that a hit names, at most: as many as a person looks through."""
_WIDER: Final = 4
"""So many times more images are looked at each time they are of too few clips."""


def best_of_each(source: Source, clips: Ints, allowed: Mask | None, *, depth: int) -> Mask:
    """(images,) Which may be ranked: of each clip the allowed image that scores best, and all that are of none.

    `clips` (images,) says which clip an image is of. In a large collection this holds for the best `depth` of them.
    """
    chosen = np.ones(len(clips), np.bool_) if allowed is None else allowed.copy()
    images, wide = _seen(source, chosen), _WIDER * depth
    while images is None:
        found = source.top(wide, chosen).images
        different = len(np.unique(clips[found][clips[found] != NO_CLIP])) + int((clips[found] == NO_CLIP).sum())
        if different >= depth or len(found) < wide:
            images = found
        wide *= _WIDER
    frames = images[clips[images] != NO_CLIP]
    scores = source.scores(frames)
    order = frames[np.lexsort((frames, -scores, clips[frames]))]
    first = np.r_[True, clips[order][1:] != clips[order][:-1]] if len(order) else np.zeros(0, np.bool_)
    chosen &= ~np.isin(clips, clips[order])  # frames that were not looked at score below those that were
    chosen[images[clips[images] == NO_CLIP]] = True
    chosen[order[first]] = True
    return chosen


def _seen(source: Source, chosen: Mask) -> Ints | None:
    """Every image that may be ranked, where the collection is small enough to score them all."""
    return np.flatnonzero(chosen) if source.count <= SAMPLE else None


def others_of(images: Sequence[int], source: Source, clips: Ints, allowed: Mask | None) -> list[tuple[int, ...]]:
    """For each image of a ranking, the allowed others of its clip, best first, that score no less than the last."""
    least = float(source.scores(np.array(images, np.int64)).min()) if images else 0.0
    found = []
    for image in images:
        same = np.flatnonzero(clips == clips[image]) if clips[image] != NO_CLIP else np.zeros(0, np.int64)
        same = same[same != image]
        same = same if allowed is None else same[allowed[same]]
        scores = source.scores(same)
        kept = np.flatnonzero(scores >= least)
        found.append(tuple(same[kept[np.argsort(-scores[kept], kind="stable")]][:MOST_OTHERS].tolist()))
    return found
