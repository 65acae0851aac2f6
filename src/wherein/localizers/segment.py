"""A class-agnostic segmenter that you supply: `onnx:FOLDER` runs FOLDER's `encoder.onnx` and `decoder.onnx`.

They are the two halves of Segment Anything or its kin as they are usually exported. The encoder takes the picture:
(1, 3, side, side), normalised as SAM's, (h, w, 3) in 0–255, or `batched_images` (1, 3, h, w) in [0, 1]. The decoder
takes `image_embeddings`, `point_coords`, `point_labels` (or both with `batched_` before), and where it has them
`mask_input`, `has_mask_input` and `orig_im_size`; it gives logits of masks and, second, how good it thinks they are.

The rough outline of `support` is the prompt: its box, and its hottest place as a point.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import cv2
import numpy as np

from wherein.arrays import Floats, Mask
from wherein.encoders.onnx import session
from wherein.errors import SpecError
from wherein.files import expanded
from wherein.images.image import Pixels
from wherein.localizers import Heatmap, Scene, Sought
from wherein.localizers.edges import enlarged, outlined
from wherein.localizers.support import SupportLocalizer
from wherein.values.region import Box

SIDE: Final = 1024
"""Pixels of a side of the encoder's input where its graph leaves that open: as many as Segment Anything has."""
MEAN: Final = (123.675, 116.28, 103.53)
"""The mean of ImageNet's pixels, which Segment Anything subtracts."""
STD: Final = (58.395, 57.12, 57.375)
"""The deviation of ImageNet's pixels, which Segment Anything divides by."""
_POINT, _TOP_LEFT, _BOTTOM_RIGHT = 1.0, 2.0, 3.0
_KNOWN: Final = ("image_embeddings", "point_coords", "point_labels", "mask_input", "has_mask_input", "orig_im_size")
_TYPES: Final = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32}


class SegmentLocalizer:
    """The segmenter's mask of what `support` found roughly."""

    def __init__(self, word: str) -> None:
        self._segmenter = load_segmenter(word)

    def __call__(self, sought: Sought, scene: Scene) -> Heatmap:
        """A heatmap at the resolution of the scene's thumb; the rough one where there is no thumb, or nothing in it."""
        rough = SupportLocalizer()(sought, scene)
        found = outlined(rough, scene, refine=False)
        if scene.thumb is None or found.mask is None or found.box is None:
            return rough
        heat = enlarged(rough, size_wh=(scene.thumb.shape[1], scene.thumb.shape[0]))
        y, x = np.unravel_index(int(np.argmax(np.where(found.mask, heat, -1.0))), heat.shape)
        answers = self._segmenter.masks(scene.thumb, found.box, (float(x) + 0.5, float(y) + 0.5))
        return best_answer(*answers, found.mask)


def best_answer(logits: Floats, sure: Floats, rough: Mask) -> Heatmap:
    """One prompt has several answers, a part and the whole: the one that is sure and fits the rough outline."""
    heats = 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))
    inside = heats >= 0.5
    agreed = (inside & rough).sum(axis=(1, 2)) / np.maximum((inside | rough).sum(axis=(1, 2)), 1)
    return np.asarray(heats[int(np.argmax(agreed + sure))], np.float32)


class Segmenter(Protocol):
    """A segmenter: draws the outline of what lies at a point or in a box."""

    def masks(self, picture: Pixels, box: Box, point: tuple[float, float]) -> tuple[Floats, Floats]:
        """(k, h, w) logits in the picture's own pixels, and (k,) how good each is thought to be."""


@cache
def load_segmenter(word: str) -> Segmenter:
    """The segmenter of `onnx:FOLDER` or `hf:NAME`, loaded once a process."""
    family, _, variant = word.partition(":")
    if family == "hf":
        from wherein.localizers.hf_segment import HubSegmenter

        return HubSegmenter(variant)
    return _Segmenter(expanded(variant))


class _Segmenter:
    """The two graphs, and how they want to be asked."""

    def __init__(self, folder: Path) -> None:
        missing = [name for name in ("encoder.onnx", "decoder.onnx") if not (folder / name).is_file()]
        if missing:
            raise SpecError(f"onnx:{folder}: no {' and no '.join(missing)} in that folder; export the segmenter there.")
        self._folder = folder
        self._encoder, self._decoder = (session(folder / f"{half}.onnx", threads=1) for half in ("encoder", "decoder"))
        self._asked = {put.name.removeprefix("batched_"): put for put in self._decoder.get_inputs()}
        unknown = [name for name in self._asked if name not in _KNOWN]
        absent = [name for name in _KNOWN[:3] if name not in self._asked]
        if unknown or absent:
            raise SpecError(
                f"{folder / 'decoder.onnx'}: is asked with {', '.join(_KNOWN)}, but "
                + (f"also wants {', '.join(unknown)}" if unknown else f"has no {', '.join(absent)}")
                + ". Export the decoder of Segment Anything, MobileSAM or EfficientSAM."
            )
        inputs = self._encoder.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) not in (3, 4):
            shapes = ", ".join(f"{put.name} {put.shape}" for put in inputs)
            raise SpecError(
                f"{folder / 'encoder.onnx'}: takes {shapes}, not one picture (1, 3, side, side) or (h, w, 3)."
            )
        self._picture = inputs[0]

    def masks(self, picture: Pixels, box: Box, point: tuple[float, float]) -> tuple[Floats, Floats]:
        """(k, h, w) logits in the picture's own pixels, and (k,) how good each is thought to be."""
        height, width = picture.shape[:2]
        fed, size_hw = self._fitted(picture)
        scale = np.array([size_hw[1] / width, size_hw[0] / height], np.float32)
        x1, y1, x2, y2 = box.xyxy
        corners = [[x1 * width, y1 * height], [x2 * width, y2 * height]]
        points = np.array([point, *corners], np.float32) * scale
        embeddings = self._run(self._encoder, "encoder.onnx", {self._picture.name: fed})[0]
        labels = np.array([_POINT, _TOP_LEFT, _BOTTOM_RIGHT], np.float32)
        found = self._run(self._decoder, "decoder.onnx", self._prompt(embeddings, points, labels, size_hw))
        logits = np.asarray(found[0], np.float32)
        if logits.ndim < 3 or len(found) < 2 or np.size(found[1]) != np.prod(logits.shape[:-2]):
            shapes = ", ".join(str(np.shape(one)) for one in found)
            raise SpecError(
                f"{self._folder / 'decoder.onnx'}: gives {shapes}, not masks (1, k, h, w) and their (1, k) qualities."
            )
        logits = logits.reshape(-1, *logits.shape[-2:])
        return np.stack([enlarged(one, size_wh=(width, height)) for one in logits]), np.ravel(found[1])

    def _fitted(self, picture: Pixels) -> tuple[Floats, tuple[int, int]]:
        """The picture as the encoder takes it, its longer side filled, and the (h, w) that it covers there."""
        planes = len(self._picture.shape) == 4
        open_hw = self._picture.shape[2:] if planes else self._picture.shape[:2]
        room_h, room_w = (side if isinstance(side, int) else SIDE for side in open_hw)
        factor = min(room_h / picture.shape[0], room_w / picture.shape[1])
        height = min(room_h, max(1, round(picture.shape[0] * factor)))
        width = min(room_w, max(1, round(picture.shape[1] * factor)))
        pixels = cv2.resize(picture, (width, height), interpolation=cv2.INTER_LINEAR).astype(np.float32)
        if not planes:
            return _padded(pixels, open_hw), (height, width)
        if self._picture.name.startswith("batched_"):
            pixels = pixels / 255.0
        else:
            pixels = np.asarray((pixels - MEAN) / STD, np.float32)
            open_hw = (room_h, room_w)
        return np.ascontiguousarray(_padded(pixels, open_hw).transpose(2, 0, 1)[None]), (height, width)

    def _prompt(self, embeddings: Floats, points: Floats, labels: Floats, size_hw: tuple[int, int]) -> dict[str, Any]:
        side = 4 * embeddings.shape[-1]
        values = {
            "image_embeddings": embeddings,
            "point_coords": points[None],
            "point_labels": labels[None],
            "mask_input": np.zeros((1, 1, side, side), np.float32),
            "has_mask_input": np.zeros(1, np.float32),
            "orig_im_size": np.array(size_hw, np.float32),
        }
        feeds = {}
        for name, put in self._asked.items():
            value = values[name][None] if put.name.startswith("batched_") else values[name]
            feeds[put.name] = value.astype(_TYPES.get(put.type, np.float32))
        return feeds

    def _run(self, graph: Any, name: str, feeds: dict[str, Any]) -> list[Any]:
        try:
            found: list[Any] = graph.run(None, feeds)
        except Exception as error:  # the runtime has one class per error code, all derived from Exception
            shapes = ", ".join(f"{key} {value.shape}" for key, value in feeds.items())
            raise SpecError(
                f"{self._folder / name}: cannot be run with {shapes} ({error}). Export it again."
            ) from error
        return found


def _padded(pixels: Floats, open_hw: Any) -> Floats:
    """Zeros to the right and below, where the encoder's size is fixed."""
    rows, columns = (side if isinstance(side, int) else own for side, own in zip(open_hw, pixels.shape, strict=False))
    return np.pad(pixels, ((0, rows - pixels.shape[0]), (0, columns - pixels.shape[1]), (0, 0)))
