"""The step `ground`: a grounded detector looks at the first hits, in their files, and re-ranks and locates them.

A detector takes a hundred times as long as a comparison of embeddings, so it looks at the first hits alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wherein.detectors import Detection, Detector, load_detector
from wherein.errors import ImageError, QueryError
from wherein.images.image import Image
from wherein.images.isolated import decode_given
from wherein.limits import checkpoint
from wherein.search.engine import Candidate, Context, Ranked, reordered
from wherein.search.steps import SearchStep
from wherein.values.query import Part, Query

GROUNDED: Final = 20
"""Hits that are looked at: the first page."""


class Ground(SearchStep):
    """`ground:hf:NAME`: the first hits in the order of their score and of what the detector finds in them."""

    name = "ground"
    summary = "lets a grounded detector look at the first 20, re-rank and locate them"
    depth = GROUNDED

    def __init__(self, detector: str) -> None:
        self.detector = detector

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The first `depth` re-ranked, each with the box of what was found; without its file a hit stays as it is."""
        detector = load_detector(self.detector)
        check_askable(context.query, detector)
        first = ranked.candidates[: self.depth]
        if not first:
            return ranked
        seen, located = np.zeros(len(first), np.float32), list[Candidate]()
        for number, one in enumerate(first):
            checkpoint(number, of=len(first))
            found = _found(context, one, detector)
            seen[number] = found[0].score if found else 0.0
            located.append(replace(one, box=found[0].box, mask=None) if found else one)
        return reordered(ranked, located, seen) if len(first) > 1 else replace(ranked, candidates=tuple(located))


def check_askable(query: Query, detector: Detector) -> None:
    """Refuse a query of examples alone where the detector finds by names alone."""
    wanted = [part for part in query.parts if not part.negative]
    if not detector.by_example and all(part.text is None for part in wanted):
        raise QueryError(f"{detector.spec} finds by names alone: add a text, or ground with an OWL-ViT or OWLv2 model.")


def detected(image: Image, parts: Sequence[Part], detector: Detector) -> list[Detection]:
    """What an image shows of a query's parts, surest first; texts in one look, each example in one of its own."""
    found = detector.find(image, [part.text for part in parts if part.text is not None])
    if detector.by_example:
        for part in parts:
            if part.image is not None:
                shown = decode_given(part.image)
                found += detector.find_like(image, shown if part.region is None else shown.crop(part.region))
    return sorted(found, key=lambda one: -one.score)


def _found(context: Context, one: Candidate, detector: Detector) -> list[Detection]:
    file = context.view.store.original(int(context.view.images[one.image]))
    wanted = [part for part in context.query.parts if not part.negative]
    if file is None:
        return []
    try:
        return detected(decode_given(file.read(), name=str(file.path)), wanted, detector)
    except ImageError:
        return []
