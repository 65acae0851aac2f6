"""Detectors of transformers: Grounding DINO by names, OWL-ViT and OWLv2 by names and by example image."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar, Final

import numpy as np

from wherein.arrays import Floats
from wherein.detectors import Detection, suppress
from wherein.encoders import DEVICE_VARIABLE
from wherein.encoders.hf.folders import HubModel, parse_name
from wherein.encoders.hf.runtime import choose_device, choose_precision, torch_for
from wherein.errors import SpecError
from wherein.images.image import Image
from wherein.values.region import Box

ARCHITECTURES: Final = {
    "grounding-dino": "wherein.detectors.grounding_dino:GroundingDino",
    "mm-grounding-dino": "wherein.detectors.grounding_dino:GroundingDino",
    "owlvit": "wherein.detectors.owl:OwlViT",
    "owlv2": "wherein.detectors.owl:Owlv2",
}
"""`model_type` of a config.json → the class that runs it."""


def open_detector(variant: str, *, device: str | None = None) -> HubDetector:
    """The detector of a model, chosen by what its config.json says it is."""
    model = HubModel(f"hf:{variant}", parse_name(variant))
    kind = str(model.config.get("model_type"))
    if kind not in ARCHITECTURES:
        raise SpecError(
            f"hf:{variant}: is a {kind!r} model, which is no detector that wherein knows: {', '.join(ARCHITECTURES)}."
        )
    module, _, name = ARCHITECTURES[kind].partition(":")
    made: HubDetector = getattr(import_module(module), name)(model, device=device)
    return made


class HubDetector:
    """What detectors of transformers share; a family says how it is asked and how its answer is read."""

    architecture: ClassVar[str]
    threshold: ClassVar[float]
    """Boxes that are less sure than this are left out."""
    by_example = False

    def __init__(self, model: HubModel, *, device: str | None = None) -> None:
        self.spec, self.model = model.spec, model
        self.device = choose_device(device or os.environ.get(DEVICE_VARIABLE, "auto"), self.spec)
        self._lock, self._network = threading.Lock(), None

    @property
    def digest(self) -> str:
        """Of the model's files."""
        return self.model.digest

    @property
    def network(self) -> Any:
        """The network, on its device; the caller holds the lock."""
        if self._network is None:
            dtype = choose_precision("full", self.device, self.spec)  # boxes need their digits
            self._network = self.model.load(self.architecture, dtype=dtype).to(self.device)
        return self._network

    def find(self, image: Image, names: Sequence[str]) -> list[Detection]:
        """What the image shows of the names, surest first, each thing once."""
        if not names:
            return []
        with self._lock, torch_for(self.spec).inference_mode():
            boxes, scores = self.ask_names(self.pixels(image), list(names))
        return self._told(boxes, scores, names, image)

    def find_like(self, image: Image, example: Image) -> list[Detection]:
        """What the image shows that is like the example, surest first."""
        with self._lock, torch_for(self.spec).inference_mode():
            boxes, scores = self.ask_example(self.pixels(image), self.pixels(example))
        return self._told(boxes, scores, [None], image)

    def pixels(self, image: Image) -> Any:
        """The image as the model's own preprocessing makes it."""
        found = self.model.image_processor(
            images=image.pixels.copy(), input_data_format="channels_last", return_tensors="pt"
        )
        return found["pixel_values"].to(self.device)

    def ask_names(self, pixels: Any, names: list[str]) -> tuple[Floats, Floats]:
        """(boxes, 4) centres and sizes in [0, 1] of the input, and (boxes, names) scores."""
        raise NotImplementedError

    def ask_example(self, pixels: Any, example: Any) -> tuple[Floats, Floats]:  # noqa: ARG002 — where it can be done
        """(boxes, 4) and (boxes, 1)."""
        raise SpecError(f"{self.spec} finds by names alone: ask with a text, or use an OWL-ViT or OWLv2 model.")

    def shown(self, boxes: Floats, image: Image) -> Floats:  # noqa: ARG002 — where the input is not the image alone
        """Boxes in the input → in the image."""
        return boxes

    def _told(self, boxes: Floats, scores: Floats, names: Sequence[str | None], image: Image) -> list[Detection]:
        centres, sizes = boxes[:, :2], boxes[:, 2:]
        corners = np.clip(self.shown(np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=1), image), 0, 1)
        found = [
            Detection(Box(*map(float, corners[row])), float(scores[row, column]), names[column])
            for row, column in np.argwhere(scores >= self.threshold).tolist()
            if (corners[row, 2:] > corners[row, :2]).all()
        ]
        return suppress(found)
