"""Hit and Ranking: what a search answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from wherein.arrays import Mask
from wherein.values.region import Box


@dataclass(frozen=True, slots=True)
class Hit:
    """An image that answers a query. `box` says where in it, where the method knows."""

    image_id: str
    score: float
    confidence: float | None = None
    """How likely it is right, where the method is calibrated."""
    box: Box | None = None
    path: Path | None = None
    size_wh: tuple[int, int] = (0, 0)
    seconds: float | None = None
    mask: Mask | None = None
    """The pixels that matched, bool (h, w) at any resolution of the same aspect."""
    inliers: int | None = None
    """How many keypoint matches agree with one view of the object, where they were verified."""
    others: tuple[str, ...] = ()
    """The ids of other images of the same video that answer too, best first."""


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
    """The best that were not likely enough, where `min_confidence` was asked for."""
    label: str = ""
    """What was looked for, in clean words: without weights, places and what was to be avoided."""
    nothing_indexed: bool = False
    """Whether there was nothing to search: the collection holds no image that its encoder has described."""

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
