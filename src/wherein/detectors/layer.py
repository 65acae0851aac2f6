"""The layer of detected boxes: what a detector finds of a list of names in every image, each box encoded as a crop.

Its kind is written `detected:pylon|deer|fallen tree@hf:NAME`, so that a collection remembers what it was asked for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Self

import numpy as np

from wherein.detectors import Detector, load_detector
from wherein.errors import InputError
from wherein.images.image import Image, decode
from wherein.values.region import Box

DETECTED: Final = "detected"
SIDE: Final = 1024
"""The shorter side that images are decoded at, at least: what the detectors look at, or more."""
MOST: Final = 50
"""Boxes of one image, surest first; each is a row of the layer."""


@dataclass(frozen=True, slots=True)
class DetectedKind:
    """What is looked for, and by which detector."""

    names: tuple[str, ...]
    detector: str

    @classmethod
    def parse(cls, kind: str) -> Self:
        """Read `detected:NAME|NAME@DETECTOR`."""
        said, _, detector = kind.removeprefix(f"{DETECTED}:").partition("@")
        names = tuple(name.strip() for name in said.split("|") if name.strip())
        if not names or not detector:
            raise InputError(f"layer {kind!r}: name what to detect, and a detector: detected:pylon|deer@hf:MODEL.")
        return cls(names, detector)

    def __str__(self) -> str:
        return f"{DETECTED}:{'|'.join(self.names)}@{self.detector}"

    @property
    def stem(self) -> str:
        """A name for files, of what is looked for and of the detector's weights."""
        told = f"{self} {load_detector(self.detector).digest}"
        return f"{DETECTED}-{blake2b(told.encode(), digest_size=4).hexdigest()}"

    def boxes(self, image: Image) -> tuple[Box, ...]:
        """The whole image, and what was found in it."""
        found = load_detector(self.detector).find(image, self.names)
        return (Box(0.0, 0.0, 1.0, 1.0), *dict.fromkeys(one.box for one in found[:MOST]))

    def seconds(self, images: int) -> float:
        """How long so many images will take, measured on one after a first that loads the weights."""
        detector: Detector = load_detector(self.detector)
        picture = decode(np.random.default_rng(0).integers(0, 256, (SIDE, SIDE * 4 // 3, 3), dtype=np.uint8))
        detector.find(picture, self.names)
        started = time.monotonic()
        detector.find(picture, self.names)
        return (time.monotonic() - started) * images


def is_detected(kind: str) -> bool:
    """Whether a kind of layer is of detected boxes."""
    return kind.partition(":")[0] == DETECTED
