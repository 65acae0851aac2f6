"""Detectors: names or an example image → boxes of what an image shows. Chosen by a spec such as `hf:NAME`.

A detector looks at the pixels of one image at a time and takes long about it: it re-ranks the first hits of a search,
says where in one image something is, or fills a layer of boxes for a list of names. Nothing heavy is imported before
`load_detector`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from wherein import plugins
from wherein.errors import SpecError
from wherein.values.region import Box

if TYPE_CHECKING:
    from wherein.images.image import Image

OVERLAP: Final = 0.5
"""Two boxes of one name that overlap by more than this (intersection over union) are one: COCO's lowest threshold."""


@dataclass(frozen=True, slots=True)
class Detection:
    """Something that was found in an image."""

    box: Box
    score: float
    """The detector's own, in [0, 1]."""
    name: str | None = None
    """What was asked for; None where that was an example image."""


class Detector(Protocol):
    """Finds what is asked for in an image. Its calls are thread-safe."""

    spec: str
    digest: str
    device: str
    by_example: bool
    """Whether it can be asked with an image."""

    def find(self, image: Image, names: Sequence[str]) -> list[Detection]:
        """What the image shows of the names, surest first, each thing once."""

    def find_like(self, image: Image, example: Image) -> list[Detection]:
        """What the image shows that is like the example, surest first."""


@cache
def load_detector(spec: str, *, device: str | None = None) -> Detector:
    """The detector of a spec, loaded once a process; its weights are read when they are first needed."""
    family, _, variant = spec.partition(":")
    known = plugins.table("detectors")
    if family not in known:
        raise SpecError(
            f"no detector family is called {family!r} (in {spec!r}); known: {', '.join(known)}. "
            "Write hf:IDEA-Research/grounding-dino-tiny or hf:google/owlv2-base-patch16-ensemble."
        )
    made: Detector = plugins.load("detectors", family)(variant, device=device)
    return made


def suppress(found: Sequence[Detection], *, overlap: float = OVERLAP) -> list[Detection]:
    """Surest first, without those that overlap a surer one of the same name."""
    kept = list[Detection]()
    for one in sorted(found, key=lambda detection: -detection.score):
        if all(other.name != one.name or _shared(other.box, one.box) <= overlap for other in kept):
            kept.append(one)
    return kept


def check_detector(detector: Detector) -> None:
    """Raise SpecError unless `detector` keeps the contract. For authors of detectors and for our own tests."""
    from wherein.images.image import decode

    random = np.random.default_rng(0)
    for shape in ((48, 64, 3), (90, 30, 3), (1, 1, 3)):
        image = decode(random.integers(0, 256, shape, dtype=np.uint8))
        asked = [detector.find(image, ["red", "a tree"])]
        asked += [detector.find_like(image, image)] if detector.by_example else []
        for found in asked:
            scores = [one.score for one in found]
            _require(detector, scores == sorted(scores, reverse=True), "its answers are not surest first")
            _require(detector, all(0.0 <= score <= 1.0 for score in scores), "a score leaves [0, 1]")
        _require(detector, {one.name for one in asked[0]} <= {"red", "a tree"}, "it names what was not asked for")
        _require(detector, detector.find(image, ["red", "a tree"]) == asked[0], "two looks at one image differ")
        _require(detector, detector.find(image, []) == [], "nothing asked for must give nothing")
    _require(detector, len(detector.digest) >= 8, "digest has fewer than 8 characters")


def _shared(one: Box, other: Box) -> float:
    """Intersection over union."""
    width = min(one.x2, other.x2) - max(one.x1, other.x1)
    height = min(one.y2, other.y2) - max(one.y1, other.y1)
    both = max(width, 0.0) * max(height, 0.0)
    return both / (one.area + other.area - both)


def _require(detector: Detector, holds: bool, complaint: str) -> None:
    if not holds:
        raise SpecError(f"detector {detector.spec!r} breaks the contract: {complaint}.")
