"""Matchers and one-shot segmenters that see both images at once, as localizers. Each is a model that you supply.

    hf-match:NAME        EfficientLoFTR or LightGlue of transformers
    onnx-match:FOLDER    FOLDER/match.onnx: two images (1, 3, h, w) in [0, 1] → `matches` (n, 4), x y in the first and
                         x y in the second, in pixels; as exported from GLU-Net, PDC-Net, WarpC, RANSAC-Flow, LoFTR
    onnx-shot:FOLDER     FOLDER/segment.onnx: the image and the example (1, 3, h, w each), the example's mask
                         (1, 1, h, w) → `mask` (1, 1, h', w') in [0, 1]; as exported from HSNet, SSP, Mining

Matches that one homography explains are drawn as their convex hull.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np

from wherein.arrays import Floats
from wherein.encoders import DEVICE_VARIABLE
from wherein.encoders.hf.folders import HubModel, parse_name
from wherein.encoders.hf.runtime import choose_device, torch_for
from wherein.encoders.onnx import session
from wherein.errors import SpecError
from wherein.files import expanded
from wherein.images.image import Image
from wherein.localizers import Heatmap, Localizer, Scene, Sought

SIDE: Final = 480
"""The longer side, in pixels, at which two images are compared: that of the local features."""
AGREEING: Final = 8
"""Matches that one homography must explain, at least: four fix it, and as many again say that it is no accident."""
REPROJECTION: Final = 0.01
"""How far from where the homography puts it a match may lie, as a share of the longer side."""
KINDS: Final = {"efficientloftr": "EfficientLoFTRForKeypointMatching", "lightglue": "LightGlueForKeypointMatching"}
Matches = Callable[[Image, Image], Floats]
"""An example and an image → (n, 4): x, y in the first and x, y in the second, in [0, 1]."""


class PairLocalizer:
    """`hf-match:`, `onnx-match:`: the hull of what one view of the example explains."""

    def __init__(self, word: str) -> None:
        self._matches = _matcher(word)

    def __call__(self, sought: Sought, scene: Scene) -> Heatmap:
        """1 inside the hull, 0 outside; all zeros where too little agrees."""
        width, height = scene.size_wh
        scale = min(1.0, 256 / max(width, height))
        canvas = np.zeros((max(1, round(height * scale)), max(1, round(width * scale))), np.uint8)
        image = scene.look()
        for example in sought.examples() if image is not None else []:
            hull = agreed_hull(self._matches(example, image), aspect=(width, height)) if image is not None else None
            if hull is not None:
                cv2.fillConvexPoly(canvas, np.rint(hull * canvas.shape[::-1]).astype(np.int32), (1,))
        return canvas.astype(np.float32)


class ShotLocalizer:
    """`onnx-shot:`: the mask that a one-shot segmenter draws; of several examples, the highest value at each place."""

    def __init__(self, word: str) -> None:
        self._path = _graph_of(word, "segment.onnx")
        self._session = session(self._path, threads=1)
        if len(self._session.get_inputs()) != 3:
            raise SpecError(f"{self._path}: takes the image, the example and its mask: three inputs, in that order.")

    def __call__(self, sought: Sought, scene: Scene) -> Heatmap:
        """What the network says of each place."""
        image = scene.look()
        heat = np.zeros((1, 1), np.float32)
        for example in sought.examples() if image is not None else []:
            if image is None:
                continue
            fed = [_planes(image), _planes(example)]
            fed.append(np.ones((1, 1, *fed[1].shape[2:]), np.float32))  # an example is cropped to what is meant
            names = [put.name for put in self._session.get_inputs()]
            found = np.asarray(_run(self._session, self._path, dict(zip(names, fed, strict=True)))[0], np.float32)
            drawn = np.clip(found.reshape(found.shape[-2:]), 0.0, 1.0)
            heat = drawn if heat.size == 1 else np.maximum(heat, cv2.resize(drawn, heat.shape[::-1]))
        return np.asarray(heat, np.float32)


def open_pairs(word: str) -> Localizer:
    """The localizer of `hf-match:NAME`, `onnx-match:FOLDER` or `onnx-shot:FOLDER`."""
    return ShotLocalizer(word) if word.startswith("onnx-shot:") else PairLocalizer(word)


def agreed_hull(matches: Floats, *, aspect: tuple[int, int]) -> Floats | None:
    """(m, 2) in [0, 1]: the convex hull, in the second image, of the matches that one homography explains."""
    if len(matches) < AGREEING:
        return None
    longer = max(aspect)
    ours, theirs = matches[:, :2], matches[:, 2:] * np.array(aspect, np.float32) / longer
    _, kept = cv2.findHomography(ours, theirs, cv2.RANSAC, REPROJECTION)
    if kept is None or int(kept.sum()) < AGREEING:
        return None
    hull = cv2.convexHull(np.ascontiguousarray(matches[kept.ravel() > 0, 2:], np.float32))
    return np.asarray(hull, np.float32).reshape(-1, 2)


@cache
def _matcher(word: str) -> Matches:
    if word.startswith("hf-match:"):
        return HubMatcher(word.partition(":")[2])
    return _OnnxMatcher(word)


class HubMatcher:
    """EfficientLoFTR, or SuperPoint with LightGlue, of transformers."""

    def __init__(self, variant: str) -> None:
        self._model = HubModel(f"hf:{variant}", parse_name(variant))
        kind = str(self._model.config.get("model_type"))
        if kind not in KINDS:
            known = ", ".join(KINDS)
            raise SpecError(f"hf-match:{variant}: is a {kind!r} model, which matches nothing; known: {known}.")
        self._class, self._lock, self._network = KINDS[kind], threading.Lock(), None

    def __call__(self, example: Image, image: Image) -> Floats:
        """Matches that the network is sure of."""
        torch, processor = torch_for(self._model.spec), self._model.image_processor
        pair = [example.pixels.copy(), image.pixels.copy()]
        fed = processor(images=[pair], return_tensors="pt", input_data_format="channels_last")
        with self._lock, torch.inference_mode():
            network = self._loaded()
            seen = network(fed["pixel_values"].to(network.device))
        sizes = [[one.size_wh[::-1] for one in (example, image)]]
        (found,) = processor.post_process_keypoint_matching(seen, sizes)
        ours, theirs = (
            found[name].float().cpu().numpy() / np.array(one.size_wh, np.float32)
            for name, one in (("keypoints0", example), ("keypoints1", image))
        )
        return np.asarray(np.concatenate([ours, theirs], axis=1), np.float32).reshape(-1, 4)

    def _loaded(self) -> Any:
        if self._network is None:
            device = choose_device(os.environ.get(DEVICE_VARIABLE, "auto"), self._model.spec)
            self._network = self._model.load(self._class).to(device)
        return self._network


class _OnnxMatcher:
    """A matcher that you exported."""

    def __init__(self, word: str) -> None:
        self._path = _graph_of(word, "match.onnx")
        self._session = session(self._path, threads=1)
        if len(self._session.get_inputs()) != 2:
            raise SpecError(f"{self._path}: takes two images: two inputs, the example first.")

    def __call__(self, example: Image, image: Image) -> Floats:
        """Matches in [0, 1] of both."""
        fed = [_planes(one) for one in (example, image)]
        names = [put.name for put in self._session.get_inputs()]
        found = np.asarray(_run(self._session, self._path, dict(zip(names, fed, strict=True)))[0], np.float32)
        if found.ndim != 2 or found.shape[1] != 4:
            raise SpecError(f"{self._path}: gave {found.shape}, not matches (n, 4).")
        sizes = [one.shape[axis] for one in fed for axis in (3, 2)]
        return np.asarray(found / np.array(sizes, np.float32), np.float32)


def _planes(image: Image) -> Floats:
    """(1, 3, h, w) in [0, 1], the longer side at most SIDE."""
    width, height = image.size_wh
    scale = min(1.0, SIDE / max(width, height))
    pixels = image.resized((max(1, round(width * scale)), max(1, round(height * scale))))
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], np.float32) / np.float32(255)


def _graph_of(word: str, name: str) -> Path:
    path = expanded(word.partition(":")[2]) / name
    if not path.is_file():
        raise SpecError(f"{word}: no {name} in that folder; export the network there.")
    return path


def _run(graph: Any, path: Path, feeds: dict[str, Any]) -> list[Any]:
    try:
        found: list[Any] = graph.run(None, feeds)
    except Exception as error:  # the runtime has one class per error code, all derived from Exception
        shapes = ", ".join(f"{key} {value.shape}" for key, value in feeds.items())
        raise SpecError(f"{path}: cannot be run on {shapes} ({str(error)[:200]}).") from error
    return found
