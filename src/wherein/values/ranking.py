"""Hit and Ranking: what a search answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, overload

from wherein.arrays import Mask
from wherein.values.address import Location, written_location
from wherein.values.masks import from_rle, outline, to_rle
from wherein.values.region import Box

NONE_EXPECTED: Final = 0.5
"""Where fewer images are expected to be right, none is said to be."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An image that answers a query. `box` says where in it, where the method knows."""

    image_id: str
    score: float
    confidence: float | None = None
    """How likely it is right, where the method is calibrated."""
    box: Box | None = None
    path: Location | None = None
    size_wh: tuple[int, int] = (0, 0)
    seconds: float | None = None
    mask: Mask | None = None
    """The pixels that matched, bool (h, w) at any resolution of the same aspect."""
    inliers: int | None = None
    """How many keypoint matches agree with one view of the object, where they were verified."""
    others: tuple[str, ...] = ()
    """The ids of other images of the same video that answer too, best first."""

    def to_dict(self, *, polygons: bool = False) -> dict[str, Any]:
        """The hit as JSON has it, its mask as run lengths; with `polygons`, also as an outline that can be drawn."""
        drawn = {"polygons": None if self.mask is None else outline(self.mask)} if polygons else {}
        return {
            "image_id": self.image_id,
            "score": self.score,
            "confidence": self.confidence,
            "box": None if self.box is None else list(self.box.xyxy),
            "mask": None if self.mask is None else to_rle(self.mask, compressed=False),
            **drawn,
            "path": None if self.path is None else str(self.path),
            "size_wh": list(self.size_wh),
            "seconds": self.seconds,
            "inliers": self.inliers,
            "others": list(self.others),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The hit that `to_dict` wrote; what else is said of it is left alone."""
        box, mask, path = values["box"], values["mask"], values["path"]
        width, height = values["size_wh"]
        return cls(
            image_id=values["image_id"],
            score=values["score"],
            confidence=values["confidence"],
            box=None if box is None else Box(*box),
            path=None if path is None else written_location(path),
            size_wh=(width, height),
            seconds=values["seconds"],
            mask=None if mask is None else from_rle(mask),
            inliers=values["inliers"],
            others=tuple(values["others"]),
        )


@dataclass(frozen=True, slots=True)
class Expected:
    """About how many images are right: a number, and an interval that holds the true one four times in five."""

    about: float
    low: float
    high: float

    def __str__(self) -> str:
        number, low, high = round(self.about), math.floor(self.low), math.ceil(self.high)
        if high <= 0 or self.about < NONE_EXPECTED:
            return "No image is likely to match"
        images = "image matches" if number == 1 else "images match"
        return f"About {max(number, 1):,} {images} ({low:,} to {high:,})"

    def to_dict(self) -> dict[str, float]:
        """The fields as a dict that JSON can hold."""
        return {"about": self.about, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Ranking(Sequence[Hit]):
    """Hits, best first, and how they were scored."""

    hits: tuple[Hit, ...]
    query: str
    encoder: str
    method: str
    score_kind: str
    searched: int = 0
    """How many images passed the filters and were ranked."""
    notes: tuple[str, ...] = ()
    """What a person should know about how the query was read."""
    rejected: tuple[Hit, ...] = ()
    """The best that were not likely enough, where a cut was asked for (by `min_confidence`, say)."""
    label: str = ""
    """What was looked for, in clean words: without weights, places and what was to be avoided."""
    nothing_indexed: bool = False
    """Whether there was nothing to search: the collection holds no image that its encoder has described."""
    cut: float = 0.0
    """The least confidence of a hit that counts: weaker ones are rejected where a decision was asked for, and else
    shown apart."""
    decided: bool = False
    """Whether a decision was asked for, so that weaker hits are in `rejected`."""
    expected: Expected | None = None
    """About how many images are right, also beyond these hits."""

    def to_dict(self, *, polygons: bool = False) -> dict[str, Any]:
        """The ranking as one JSON document; `polygons` as `Hit.to_dict` has them."""
        return {
            "query": self.query,
            "encoder": self.encoder,
            "method": self.method,
            "score_kind": self.score_kind,
            "searched": self.searched,
            "notes": list(self.notes),
            "hits": [hit.to_dict(polygons=polygons) for hit in self.hits],
            "rejected": [hit.to_dict(polygons=polygons) for hit in self.rejected],
            "label": self.label,
            "nothing_indexed": self.nothing_indexed,
            "cut": self.cut,
            "decided": self.decided,
            "expected": None if self.expected is None else self.expected.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The ranking that `to_dict` wrote; what else is said of it is left alone."""
        return cls(
            hits=tuple(Hit.from_dict(hit) for hit in values["hits"]),
            query=values["query"],
            encoder=values["encoder"],
            method=values["method"],
            score_kind=values["score_kind"],
            searched=values["searched"],
            notes=tuple(values["notes"]),
            rejected=tuple(Hit.from_dict(hit) for hit in values["rejected"]),
            label=values["label"],
            nothing_indexed=values["nothing_indexed"],
            cut=values.get("cut", 0.0),
            decided=values.get("decided", False),
            expected=None if values.get("expected") is None else Expected(**values["expected"]),
        )

    @property
    def strong(self) -> tuple[Hit, ...]:
        """The hits that count: those at least as sure as the cut, and those of which nobody knows."""
        return tuple(hit for hit in self.hits if hit.confidence is None or hit.confidence >= self.cut)

    @property
    def weaker(self) -> tuple[Hit, ...]:
        """The hits below the cut, rejected or not, best first."""
        below = (hit for hit in self.hits if hit.confidence is not None and hit.confidence < self.cut)
        return (*below, *self.rejected)

    @property
    def empty(self) -> bool:
        """Whether there is no hit."""
        return not self.hits

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


@dataclass(frozen=True, slots=True)
class PointMatches:
    """Points of an example that are seen again in an image, and agree with one view of it."""

    part: int
    """The number of the example among the parts of the query."""
    inliers: int
    lines: tuple[tuple[float, float, float, float], ...]
    """Each from x1, y1 in the example to x2, y2 in the image, all in [0, 1]; the strongest first."""
