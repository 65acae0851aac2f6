"""Segment Anything of transformers: `hf:NAME` (SAM, SAM 2) draws the outline of what `support` found roughly."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import DEVICE_VARIABLE
from wherein.encoders.hf.folders import HubModel, parse_name
from wherein.encoders.hf.runtime import choose_device, torch_for
from wherein.errors import SpecError
from wherein.images.image import Pixels
from wherein.values.region import Box

ARCHITECTURES: Final = {"sam": "SamModel", "sam2": "Sam2Model", "sam2_video": "Sam2Model", "sam_hq": "SamHQModel"}
"""`model_type` of a config.json → the class of transformers; SAM 2's checkpoints are those of its video model."""


class HubSegmenter:
    """A segmenter that is asked with a box and a point in it."""

    def __init__(self, variant: str) -> None:
        self.model = HubModel(f"hf:{variant}", parse_name(variant))
        self.spec, kind = self.model.spec, str(self.model.config.get("model_type"))
        if kind not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise SpecError(f"{self.spec}: is a {kind!r} model, which is no segmenter that wherein knows: {known}.")
        self._class = ARCHITECTURES[kind]
        self._device = choose_device(os.environ.get(DEVICE_VARIABLE, "auto"), self.spec)
        self._lock, self._network = threading.Lock(), None

    def masks(self, picture: Pixels, box: Box, point: tuple[float, float]) -> tuple[Floats, Floats]:
        """(k, h, w) logits in the picture's own pixels, and (k,) how good each is thought to be."""
        torch, processor = torch_for(self.spec), self.model.image_processor
        seen = processor(images=picture.copy(), input_data_format="channels_last", return_tensors="pt")
        height, width = picture.shape[:2]
        fed_hw = _fed_hw(seen)
        scale = torch.tensor([fed_hw[1] / width, fed_hw[0] / height])
        x1, y1, x2, y2 = box.xyxy
        corners = torch.tensor([[x1 * width, y1 * height], [x2 * width, y2 * height]]) * scale
        with self._lock, torch.inference_mode():
            found = self._loaded()(
                pixel_values=seen["pixel_values"].to(self._device),
                input_points=(torch.tensor(point) * scale)[None, None, None].to(self._device),
                input_labels=torch.ones((1, 1, 1), dtype=torch.int64, device=self._device),
                input_boxes=corners.reshape(1, 1, 4).to(self._device),
                multimask_output=True,
            )
        small = found.pred_masks[0].float().cpu()
        sizes: dict[str, Any] = {"original_sizes": [(height, width)], "binarize": False}
        if "reshaped_input_sizes" in seen:
            sizes["reshaped_input_sizes"] = seen["reshaped_input_sizes"]
        logits = processor.post_process_masks([small], **sizes)[0]
        return np.asarray(logits[0].numpy(), np.float32), np.ravel(found.iou_scores[0].float().cpu().numpy())

    def _loaded(self) -> Any:
        if self._network is None:
            self._network = self.model.load(self._class).to(self._device)
        return self._network


def _fed_hw(seen: Any) -> tuple[int, int]:
    """Height and width that the picture covers in what the model is given; SAM 2 squashes it to all of it."""
    given = seen["reshaped_input_sizes"][0] if "reshaped_input_sizes" in seen else seen["pixel_values"].shape[-2:]
    rows, columns = (int(side) for side in given)
    return rows, columns
