"""Local features of transformers: `bow:hf:magic-leap-community/superpoint` runs SuperPoint. Needs `wherein[hf]`."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

import numpy as np

from wherein.arrays import unit
from wherein.encoders import DEVICE_VARIABLE
from wherein.encoders.hf.folders import HubModel, parse_name
from wherein.encoders.hf.runtime import choose_device, torch_for
from wherein.errors import SpecError
from wherein.features import LocalFeatures
from wherein.features.learned import REACH, SMALLEST
from wherein.images.image import Image

KINDS: Final = {"superpoint": "SuperPointForKeypointDetection"}
"""`model_type` of a config.json → the class of transformers."""
MOST: Final = 1000
"""Keypoints of an image, as of the other learned features."""


class HubFeatures:
    """SuperPoint (DeTone et al., 2018): learned corners and descriptors that know no orientation."""

    side = 480
    query_side = 800
    compact = False

    def __init__(self, variant: str = "") -> None:
        self._model = HubModel(f"hf:{variant}", parse_name(variant))
        self.spec, kind = self._model.spec, str(self._model.config.get("model_type"))
        if kind not in KINDS:
            known = ", ".join(KINDS)
            raise SpecError(f"{self.spec}: is a {kind!r} model, which gives no local features; known: {known}.")
        self._class, self._lock, self._network = KINDS[kind], threading.Lock(), None
        self.dim = int(self._model.settings.descriptor_decoder_dim)
        self.digest = self._model.digest

    def features(self, image: Image, *, side: int) -> LocalFeatures:
        """The strongest corners of the image; one under 32 pixels has none."""
        torch = torch_for(self.spec)
        width, height = image.size_wh
        scale = min(1.0, side / max(width, height))
        size_wh = (max(1, round(width * scale)), max(1, round(height * scale)))
        if min(size_wh) < SMALLEST:
            return LocalFeatures(np.zeros((0, 4), np.float32), np.zeros((0, self.dim), np.float32), size_wh)
        pixels = torch.from_numpy(image.resized(size_wh).copy()).permute(2, 0, 1)[None].float() / 255.0
        with self._lock, torch.inference_mode():
            network = self._loaded()
            found = network(pixels.to(network.device))
        kept = found.mask[0].bool()
        most = round(MOST * max(1.0, side / self.side) ** 2)
        order = found.scores[0][kept].argsort(descending=True, stable=True)[:most]
        places, rows = (one[0][kept][order].float().cpu().numpy() for one in (found.keypoints, found.descriptors))
        points = np.zeros((len(places), 4), np.float32)
        points[:, :2] = np.clip(places + 0.5 / np.array(size_wh), 0.0, 1.0)  # from the pixel's corner to its middle
        points[:, 2] = REACH / max(size_wh)
        return LocalFeatures(points, unit(np.asarray(rows, np.float32)), size_wh)

    def _loaded(self) -> Any:
        if self._network is None:
            device = choose_device(os.environ.get(DEVICE_VARIABLE, "auto"), self.spec)
            self._network = self._model.load(self._class).to(device)
        return self._network
