"""SigLIP, and the SigLIP 2 checkpoints of a fixed input size, which share its format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wherein.encoders.hf.hub import HubEncoder


class SiglipEncoder(HubEncoder):
    """Sigmoid-trained towers; texts in lower case and always padded to the full length, as in training."""

    architecture = "SiglipModel"

    def describe(self) -> None:
        """Read its sizes from the configuration of the model."""
        self.dim = int(self.settings.vision_config.hidden_size)
        self.grid_hw = self.patch_grid(self.settings.vision_config.patch_size)

    def tokenize(self, texts: Sequence[str]) -> dict[str, Any]:
        """The last token sums up the text, so padding counts: 64 tokens where the model has 64 places."""
        lowered = [text.lower() for text in texts]
        long = {"padding": "max_length", "truncation": True, "max_length": self.longest_text}
        return {"input_ids": self.model.tokenizer(lowered, return_tensors="pt", **long)["input_ids"]}

    def embed_images(self, pixels: Any) -> tuple[Any, Any | None]:
        """The pooled summary; a patch is pooled by itself, as if it were all that is seen."""
        tower = self.network.vision_model
        seen = tower(pixels, interpolate_pos_encoding=True)
        states = seen.last_hidden_state
        patches = tower.head(states.reshape(-1, 1, states.shape[-1])).reshape(states.shape)
        return seen.pooler_output, patches

    def embed_texts(self, tokens: dict[str, Any]) -> Any:
        """The last token, projected."""
        return self.network.get_text_features(**tokens).pooler_output
