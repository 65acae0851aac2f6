"""The step `zoom`: the first hits are looked at again, in their files, at the place that was asked for.

A collection keeps a coarse grid of each image. What a place shows when it is cropped and encoded by itself says more,
and is too much to keep of every place, but a few dozen hits can be looked at while somebody waits.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from wherein.errors import QueryError
from wherein.images.picture import Detail
from wherein.search.background import Background
from wherein.search.crops import crop_embeddings
from wherein.search.engine import Context, Ranked, asked_groups, reordered
from wherein.search.steps import SearchStep
from wherein.values.region import Box

ZOOMED: Final = 50
"""Hits that are looked at again: about a second of decoding and encoding on two cores."""


class Zoom(SearchStep):
    """Orders the first hits by their score and by that of their crops, both standardised."""

    name = "zoom"
    summary = "looks at the first 50 again, in their files, at the place that was asked for"
    uses_place = True
    depth = ZOOMED

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The first `depth` re-ranked; the rest follow as they were. A file that cannot be read changes nothing."""
        groups = asked_groups(context.query, context.encoder, context.method)
        if all(group.where is None for group in groups):
            raise QueryError("zoom looks at the place that was asked for: name a place, or leave out zoom.")
        first = ranked.candidates[: self.depth]
        if len(first) < 2:
            return ranked
        files = [context.view.store.original(int(context.view.images[one.image])) for one in first]
        seen, unread = np.zeros(len(first), np.float32), 0
        for group in groups:
            if group.where is not None:
                enough = _enough(group.where, max(context.encoder.input_hw))
                read, rows = crop_embeddings(files, group.where, context.encoder, at_least=enough)
                unread = max(unread, len(first) - len(read))
                if len(read):
                    scores = (rows @ group.vectors.T).max(axis=1)
                    seen[read] += group.weight * Background.of(scores).standardise(scores)
        said = f"zoom could not read {unread:,} of the {len(first):,} files it looked at: they are ranked as before."
        return replace(reordered(ranked, first, seen), notes=(*ranked.notes, said) if unread else ranked.notes)


ZOOM: Final = Zoom()


def _enough(place: Box, side: int) -> Detail:
    """How large an image is decoded, by its shorter side, so that the longer one of the place is `side`."""

    def enough(size_wh: tuple[int, int]) -> int:
        longer = max((place.x2 - place.x1) * size_wh[0], (place.y2 - place.y1) * size_wh[1])
        return math.ceil(min(size_wh) * side / longer)

    return enough
