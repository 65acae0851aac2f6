"""What the learned families share: their library, and how an image is handed to it and its answer read."""

from __future__ import annotations

import threading
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from typing import Any, Final

import numpy as np

from wherein.arrays import unit
from wherein.errors import MissingExtra, SpecError
from wherein.features import LocalFeatures
from wherein.images.image import Image

SMALLEST: Final = 32
"""Networks halve an image five times: one with a shorter side has no features."""
REACH: Final = 8.0
"""Pixels that a learned corner is taken to cover."""


def library(name: str, spec: str) -> Any:
    """A module of the extra `learned`; imported by name, since nothing in the core may load torch."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(
            f"{spec} needs an extra ({error.name} is missing): pip install 'wherein[learned]'."
        ) from None


class Learned:
    """Keypoints and descriptors of a network; a family says what it is called and how it is loaded and run."""

    family: str
    dim: int
    variants: tuple[str, ...] = ("",)
    package: str
    """What brings its weights."""
    side = 480
    query_side = 800
    most = 1000
    compact = False

    def __init__(self, variant: str = "") -> None:
        if variant not in self.variants:
            known = ", ".join(f"{self.family}:{name}" if name else self.family for name in self.variants)
            raise SpecError(f"{self.family}:{variant} does not exist; known: {known}.")
        self.spec = f"{self.family}:{variant}" if variant else self.family
        self.digest = blake2b(f"1 {self.spec} {self.package}".encode(), digest_size=8).hexdigest()
        self.needs = ("torch", self.package.replace("-", "_"))
        """The modules without which it cannot run."""
        self._variant = variant
        self._lock = threading.Lock()

    def load(self) -> Any:
        """Load the network that finds and describes corners."""
        raise NotImplementedError

    def run(self, network: Any, pixels: Any, *, most: int) -> tuple[Any, Any]:
        """Keypoints (n, 2) in pixels, centres at whole numbers, and descriptors (n, d), of (1, 3, h, w) in [0, 1]."""
        raise NotImplementedError

    @cached_property
    def _network(self) -> Any:
        return self.load()

    def features(self, image: Image, *, side: int) -> LocalFeatures:
        """The strongest corners of the image; one under 32 pixels has none."""
        width, height = image.size_wh
        scale = min(1.0, side / max(width, height))
        size_wh = (max(1, round(width * scale)), max(1, round(height * scale)))
        with self._lock:
            network = self._network
            if min(size_wh) < SMALLEST:
                return LocalFeatures(np.zeros((0, 4), np.float32), np.zeros((0, self.dim), np.float32), size_wh)
            torch = import_module("torch")
            pixels = torch.from_numpy(image.resized(size_wh).copy()).permute(2, 0, 1)[None].float() / 255.0
            with torch.inference_mode():
                found, rows = self.run(network, pixels, most=round(self.most * max(1.0, side / self.side) ** 2))
        points = np.zeros((len(found), 4), np.float32)
        points[:, :2] = np.clip((found.numpy() + 0.5) / np.array(size_wh), 0.0, 1.0)
        points[:, 2] = REACH / max(size_wh)
        return LocalFeatures(points, unit(np.asarray(rows.numpy(), np.float32)), size_wh)
