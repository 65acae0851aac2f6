"""Grounding DINO: detection by names, read together as one sentence (Liu et al., 2023)."""

from __future__ import annotations

from typing import Any

import numpy as np

from wherein.arrays import Floats
from wherein.detectors.hf import HubDetector


class GroundingDino(HubDetector):
    """Boxes whose queries look at words: a name scores what its best word does."""

    threshold = 0.25
    """What its authors and transformers take where none is given."""

    @property
    def architecture(self) -> str:  # type: ignore[override]
        """Its class in transformers."""
        kind = self.model.settings.model_type
        return "MMGroundingDinoForObjectDetection" if kind.startswith("mm") else "GroundingDinoForObjectDetection"

    def ask_names(self, pixels: Any, names: list[str]) -> tuple[Floats, Floats]:
        """The names in lower case, each ended by a full stop, as in training."""
        said, spans = "", list[tuple[int, int]]()
        for name in names:
            plain = name.lower().strip().strip(".")
            spans.append((len(said), len(said) + len(plain)))
            said += f"{plain}. "
        tokens = self.model.tokenizer(
            said.strip(),
            truncation=True,
            max_length=self.model.settings.max_text_len,
            return_offsets_mapping=True,
            return_tensors="pt",
        )
        places = tokens.pop("offset_mapping")[0].tolist()
        seen = self.network(pixel_values=pixels, **tokens.to(self.device))
        words = np.asarray(seen.logits[0].sigmoid().float().cpu().numpy(), np.float32)
        scores = np.zeros((len(words), len(names)), np.float32)
        for column, (start, end) in enumerate(spans):
            inside = [number for number, (low, high) in enumerate(places) if start <= low < high <= end]
            scores[:, column] = words[:, inside].max(axis=1, initial=0.0)
        return np.asarray(seen.pred_boxes[0].float().cpu().numpy(), np.float32), scores
