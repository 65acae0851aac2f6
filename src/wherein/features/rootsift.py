"""RootSIFT: hand-made corners and blobs that survive turning, scaling and light. No weights, no extra.

`rootsift` looks at images as the FORB paper does (longer side at most 480 pixels, about 1,000 features), and at a
query more closely, since the thing usually fills only a part of the photo. `rootsift:upright` does without
orientation, for things that are never turned. `rootsift:dense` keeps more features of larger images.
`rootsift:compact` stores a descriptor in 16 bytes instead of 128.
"""

from __future__ import annotations

import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.errors import SpecError
from wherein.features import LocalFeatures
from wherein.features.quantiser import rootsift_quantiser
from wherein.images.image import Image

_DIM: Final = 128
"""Numbers of a SIFT descriptor: 4 × 4 places of 8 directions (Lowe, 2004)."""
# variant: (longer side indexed, of a query, most features at the indexed side)
_VARIANTS: Final = {
    "": (480, 800, 1000),
    "upright": (480, 800, 1000),
    "dense": (800, 800, 2500),
    "compact": (480, 800, 1000),
}


class RootSift:
    """OpenCV's SIFT, its histograms as square roots of shares: their inner product is the Hellinger kernel."""

    dim = _DIM

    def __init__(self, variant: str = "") -> None:
        if variant not in _VARIANTS:
            known = ", ".join(f"rootsift:{name}" if name else "rootsift" for name in _VARIANTS)
            raise SpecError(f"rootsift:{variant} does not exist; known: {known}.")
        self.spec = f"rootsift:{variant}" if variant else "rootsift"
        self.side, self.query_side, self._most = _VARIANTS[variant]
        self.compact, self._upright = variant == "compact", variant == "upright"
        told = f"1 {self.spec} {self.side}" + (f" {rootsift_quantiser().digest}" if self.compact else "")
        self.digest = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()

    def features(self, image: Image, *, side: int) -> LocalFeatures:
        """SIFT of the grey image; a featureless one has none."""
        width, height = image.size_wh
        scale = min(1.0, side / max(width, height))
        size_wh = (max(1, round(width * scale)), max(1, round(height * scale)))
        pixels = image.pixels if scale == 1.0 else image.resized(size_wh)
        grey = np.asarray(cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY), np.uint8)
        # As many features a pixel at every size: a query looked at more closely keeps as much of each thing in it.
        most = round(self._most * max(1.0, side / self.side) ** 2)
        if threading.current_thread() is threading.main_thread():
            keypoints, histograms = _aside(os.getpid()).submit(self._detect, grey, most).result()
        else:
            keypoints, histograms = self._detect(grey, most)
        if histograms is None or not keypoints:
            return LocalFeatures(np.zeros((0, 4), np.float32), np.zeros((0, _DIM), np.float32), size_wh)
        rows = [(point.pt[0], point.pt[1], point.size, point.angle, point.response) for point in keypoints]
        table = np.array(rows, np.float32)
        order = np.argsort(-table[:, 4], kind="stable")[:most]
        long = max(size_wh)
        # OpenCV puts a pixel's centre at a whole number; ours lies half a pixel in.
        points = np.stack(
            [
                np.clip((table[:, 0] + 0.5) / size_wh[0], 0, 1),
                np.clip((table[:, 1] + 0.5) / size_wh[1], 0, 1),
                table[:, 2] / long,
                table[:, 3] / 360.0 % 1.0,
            ],
            axis=1,
        )
        return LocalFeatures(np.asarray(points[order], np.float32), root(histograms[order]), size_wh)

    def _detect(
        self, grey: npt.NDArray[np.uint8], most: int
    ) -> tuple[list[cv2.KeyPoint], npt.NDArray[np.float32] | None]:
        # One a call, since OpenCV's objects are not thread-safe.
        sift = cv2.SIFT.create(nfeatures=most)
        if not self._upright:
            keypoints, histograms = sift.detectAndCompute(grey, None)
            return list(keypoints), None if histograms is None else np.asarray(histograms, np.float32)
        found = {}
        for point in sift.detect(grey, None):
            point.angle = 0.0
            found[point.pt, point.size] = point  # several orientations of one place become one
        if not found:
            return [], None
        keypoints, histograms = sift.compute(grey, list(found.values()))
        return list(keypoints), np.asarray(histograms, np.float32)


@cache
def _aside(_process: int) -> ThreadPoolExecutor:
    """A thread that works for the main one; each process has its own.

    The C library hands freed memory of the main thread back to the system, so that every image would wait for
    thousands of page faults, two fifths of its time; other threads keep theirs.
    """
    return ThreadPoolExecutor(1, "rootsift")


def root(histograms: Floats) -> Floats:
    """(n, d) histograms → square roots of their shares: unit norm. An empty histogram becomes an even one."""
    total = histograms.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, histograms / np.maximum(total, 1e-12), 1.0 / histograms.shape[1])
    return np.asarray(np.sqrt(shares), np.float32)
