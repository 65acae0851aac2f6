"""OWL-ViT and OWLv2: open-vocabulary detection by names and by one example image."""

from __future__ import annotations

from typing import Any

import numpy as np

from wherein.arrays import Floats
from wherein.detectors.hf import HubDetector
from wherein.images.image import Image


class OwlViT(HubDetector):
    """One box for each patch, compared with each name (Minderer et al., 2022)."""

    architecture = "OwlViTForObjectDetection"
    threshold = 0.1
    """What transformers takes where none is given."""
    by_example = True

    def ask_names(self, pixels: Any, names: list[str]) -> tuple[Floats, Floats]:
        """All names in one look."""
        longest = self.model.settings.text_config.max_position_embeddings
        tokens = self.model.tokenizer(
            names, padding="max_length", truncation=True, max_length=longest, return_tensors="pt"
        ).to(self.device)
        seen = self.network(pixel_values=pixels, input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return _floats(seen.pred_boxes[0]), _floats(seen.logits[0].sigmoid())

    def ask_example(self, pixels: Any, example: Any) -> tuple[Floats, Floats]:
        """By the box that stands out in the example."""
        seen = self.network.image_guided_detection(pixel_values=pixels, query_pixel_values=example)
        return _floats(seen.target_pred_boxes[0]), _floats(seen.logits[0].sigmoid().amax(dim=-1, keepdim=True))


class Owlv2(OwlViT):
    """The same, trained on its own answers (Minderer et al., 2023); images are padded to a square, not squashed."""

    architecture = "Owlv2ForObjectDetection"

    def shown(self, boxes: Floats, image: Image) -> Floats:
        """The image lies in the upper left of a square as large as its longer side."""
        width, height = image.size_wh
        share = np.array([width, height, width, height], np.float32) / max(width, height)
        return np.asarray(boxes / share, np.float32)


def _floats(tensor: Any) -> Floats:
    return np.asarray(tensor.float().cpu().numpy(), np.float32)
