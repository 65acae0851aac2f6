"""The step `zoom`: the first hits are looked at again, in their files, at the place that was asked for.

A collection keeps a coarse grid of each image. What a place shows when it is cropped and encoded by itself says more,
and is too much to keep of every place, but a few dozen hits can be looked at while somebody waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from wherein.encoders import Floats
from wherein.errors import ImageError, QueryError
from wherein.evidence import standardised
from wherein.image import Detail, Pixels, decode
from wherein.region import Box
from wherein.search import Candidate, Context, Ranked, asked_groups

ZOOMED: Final = 50
"""Hits that are looked at again."""
_BATCH: Final = 16


@dataclass(frozen=True, slots=True)
class ZoomStep:
    """`zoom`: the first hits in the order of their score and of that of their crops, both standardised."""

    depth: int = ZOOMED

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The first `depth` re-ranked; the rest follow as they were. A file that cannot be read changes nothing."""
        groups = asked_groups(context.query, context.encoder, context.method)
        if all(group.where is None for group in groups):
            raise QueryError("zoom looks at the place that was asked for: say where with --where, or leave out zoom.")
        first, rest = ranked.candidates[: self.depth], ranked.candidates[self.depth :]
        if len(first) < 2:
            return ranked
        seen = np.zeros(len(first), np.float32)
        for group in groups:
            crops = {} if group.where is None else _crops(first, group.where, context)
            if crops:
                own = standardised((_encoded(list(crops.values()), context) @ group.vectors.T).max(axis=1))
                seen[list(crops)] += group.weight * own
        totals = standardised(np.array([one.score for one in first], np.float32)) + standardised(seen)
        order = np.argsort(-totals, kind="stable")
        head = [replace(first[number], score=float(totals[number])) for number in order.tolist()]
        lowest = head[-1].score - first[-1].score
        return Ranked((*head, *(replace(one, score=one.score + lowest) for one in rest)), "standardised")


ZOOM: Final = ZoomStep()


def _crops(candidates: Sequence[Candidate], place: Box, context: Context) -> dict[int, Pixels]:
    """The place in each candidate as the encoder takes it, by its number; without a file there is none."""
    keys = [int(context.view.images[one.image]) for one in candidates]
    paths = [context.view.store.file_path(key) for key in keys]  # the catalogue belongs to this thread
    enough = _enough(place, max(context.encoder.input_hw))

    def crop(path: Path | None) -> Pixels | None:
        try:
            return None if path is None else context.encoder.prepare(decode(path, at_least=enough).crop(place))
        except ImageError:
            return None

    with ThreadPoolExecutor() as pool:
        return {number: made for number, made in enumerate(pool.map(crop, paths)) if made is not None}


def _enough(place: Box, side: int) -> Detail:
    """How large an image is decoded, by its shorter side, so that the longer one of the place is `side`."""

    def enough(size_wh: tuple[int, int]) -> int:
        longer = max((place.x2 - place.x1) * size_wh[0], (place.y2 - place.y1) * size_wh[1])
        return math.ceil(min(size_wh) * side / longer)

    return enough


def _encoded(crops: Sequence[Pixels], context: Context) -> Floats:
    """(n, d)"""
    parts = [crops[start : start + _BATCH] for start in range(0, len(crops), _BATCH)]
    return np.concatenate([context.encoder.images(np.stack(part)).global_ for part in parts])
