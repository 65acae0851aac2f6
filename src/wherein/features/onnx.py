"""Local features of your own network: `onnx:FOLDER` runs FOLDER/features.onnx, as exported from DELF, HOW, FIRe or D2R.

The graph takes one float32 image (1, 3, h, w), its values in [0, 1], height and width free, and gives, by name:

    keypoints    (n, 2) x and y in pixels, 0 at the left and upper edge; strongest first
    descriptors  (n, d)
    scales       (n,) the width of what a keypoint covers, in pixels; optional

FOLDER/features.json may say `{"mean": [0, 0, 0], "std": [1, 1, 1], "side": 480, "query_side": 800}`: by what the image
is normalised, and how long its longer side is at most.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any, Final

import numpy as np

from wherein.arrays import unit
from wherein.encoders.onnx import session
from wherein.errors import SpecError
from wherein.features import LocalFeatures
from wherein.features.learned import REACH, SMALLEST
from wherein.files import expanded
from wherein.images.image import Image

SETTINGS: Final[dict[str, Any]] = {"mean": [0.0] * 3, "std": [1.0] * 3, "side": 480, "query_side": 800}
"""What a folder may say in its `features.json`, and what holds where it does not: pixels as they are, and the sides of
`rootsift`."""


class OnnxFeatures:
    """Keypoints and descriptors of an exported network."""

    compact = False

    def __init__(self, variant: str = "") -> None:
        self.spec, self._folder = f"onnx:{variant}", expanded(variant)
        self._graph = self._folder / "features.onnx"
        if not self._graph.is_file():
            raise SpecError(f"{self.spec}: no features.onnx in that folder; export the network there.")
        self._settings = SETTINGS | self._said()
        self.side, self.query_side = int(self._settings["side"]), int(self._settings["query_side"])
        names = [output.name for output in self._session.get_outputs()]
        missing = [name for name in ("keypoints", "descriptors") if name not in names]
        if missing or len(self._session.get_inputs()) != 1:
            raise SpecError(
                f"{self._graph}: must take one image and give `keypoints` (n, 2) and `descriptors` (n, d), but gives "
                f"{', '.join(names)}. Name them so when it is exported."
            )
        self._wanted = [name for name in ("keypoints", "descriptors", "scales") if name in names]
        self.dim = self._run(np.zeros((64, 64, 3), np.uint8))[1].shape[1]
        self.digest = hashlib.blake2b(self._graph.read_bytes() + json.dumps(self._settings).encode()).hexdigest()[:32]

    @cached_property
    def _session(self) -> Any:
        return session(self._graph, threads=1)

    def features(self, image: Image, *, side: int) -> LocalFeatures:
        """What the network finds; an image under 32 pixels has none."""
        width, height = image.size_wh
        scale = min(1.0, side / max(width, height))
        size_wh = (max(1, round(width * scale)), max(1, round(height * scale)))
        if min(size_wh) < SMALLEST:
            return LocalFeatures(np.zeros((0, 4), np.float32), np.zeros((0, self.dim), np.float32), size_wh)
        places, rows, *scales = self._run(image.resized(size_wh))
        points = np.zeros((len(places), 4), np.float32)
        points[:, :2] = np.clip(places / np.array(size_wh, np.float32), 0.0, 1.0)
        points[:, 2] = (scales[0] if scales else REACH) / max(size_wh)
        return LocalFeatures(points, unit(np.asarray(rows, np.float32)), size_wh)

    def _run(self, pixels: Any) -> list[Any]:
        mean, std = (np.array(self._settings[name], np.float32) for name in ("mean", "std"))
        fed = ((pixels.astype(np.float32) / 255.0 - mean) / std).transpose(2, 0, 1)[None]
        try:
            found: list[Any] = self._session.run(self._wanted, {self._session.get_inputs()[0].name: fed})
        except Exception as error:  # the runtime has one class per error code, all derived from Exception
            raise SpecError(f"{self._graph}: cannot be run on an image {fed.shape} ({str(error)[:200]}).") from error
        if found[0].ndim != 2 or found[0].shape[1] != 2 or found[1].ndim != 2 or len(found[0]) != len(found[1]):
            shapes = ", ".join(str(one.shape) for one in found)
            raise SpecError(f"{self._graph}: gave {shapes}, not keypoints (n, 2) and descriptors (n, d).")
        return found

    def _said(self) -> dict[str, Any]:
        path = self._folder / "features.json"
        try:
            said: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
            unknown = sorted(said.keys() - SETTINGS.keys())
        except (ValueError, OSError, AttributeError) as error:
            raise SpecError(f"{path}: is not a valid description ({error}).") from error
        if unknown:
            raise SpecError(f"{path}: does not know {', '.join(unknown)}; known: {', '.join(SETTINGS)}.")
        return said
