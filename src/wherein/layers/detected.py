"""`detected:pylon|deer@hf:NAME`: what a detector finds of a list of names, each box encoded as a crop.

The names and the detector are in the name of the kind, so that a collection remembers what it was asked for.
"""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import Final

import numpy as np

from wherein.detectors import Detector, load_detector
from wherein.encoders import Encoder
from wherein.errors import InputError
from wherein.images.image import Image, decode
from wherein.layers import CroppedKind
from wherein.values.region import WHOLE, Box

DETECTED: Final = "detected"
SIDE: Final = 1024
"""The shorter side that images are decoded at, at least: what the detectors look at, or more."""
MOST: Final = 50
"""Boxes of one image, surest first; each is a row of the layer."""


class DetectedBoxes(CroppedKind):
    """One row for the whole image and one for each thing that was detected in it."""

    word = DETECTED
    summary = "what a detector finds of a list of names, each box encoded as an image of its own"
    example = "detected:pylon|deer@hf:MODEL"

    def __init__(self, kind: str) -> None:
        said, _, detector = kind.removeprefix(f"{DETECTED}:").partition("@")
        self.names = tuple(name.strip() for name in said.split("|") if name.strip())
        self.detector = detector
        self.kind = f"{DETECTED}:{'|'.join(self.names)}@{detector}"
        if not self.names or not detector:
            raise InputError(f"layer {kind!r}: name what to detect, and a detector: detected:pylon|deer@hf:MODEL.")

    def check(self) -> None:
        """Refuse the layer where its detector is not installed."""
        load_detector(self.detector)

    @property
    def stem(self) -> str:
        """A name for files, of what is looked for and of the detector's weights."""
        asked = f"{self.kind} {load_detector(self.detector).digest}"
        return f"{DETECTED}-{blake2b(asked.encode(), digest_size=4).hexdigest()}"

    def side(self, encoder: Encoder) -> int:
        """The shorter side, in pixels, that detectors are given."""
        return max(SIDE, *encoder.input_hw)

    def boxes(self, image: Image) -> tuple[Box, ...]:
        """The whole image, and what was found in it."""
        found = load_detector(self.detector).find(image, self.names)
        return (WHOLE, *dict.fromkeys(one.box for one in found[:MOST]))

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
