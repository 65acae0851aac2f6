"""One image on its way to disk, with what every layer will hold of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wherein.store.shards import Array
from wherein.values.records import FileRecord, ImageRecord
from wherein.values.region import Box


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What one layer holds of one image: an array of numbers and the region that each row describes."""

    values: Array
    """(rows, …) as the layer stores them"""
    boxes: tuple[Box | None, ...] = (None,)
    """The region of each row; None is the whole image."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One image on its way to disk: what each layer holds of it, and whether its file is finished with it."""

    file: FileRecord
    image: ImageRecord
    rows: Mapping[str, Rows] = field(default_factory=dict)
    """layer → its rows"""
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    """layer → the bytes of the whole image, for layers whose rows differ in length"""
    last: bool = True
    image_ids: tuple[str, ...] = ()
    """With the last image of a video, those of all: what else the file had is forgotten."""
    fills: bool = False
    """Whether it brings layers that an image of the collection lacks, and changes nothing else of it"""
