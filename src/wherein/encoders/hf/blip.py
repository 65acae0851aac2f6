"""BLIP: its contrastive heads, by which images are retrieved before any pair is looked at together."""

from __future__ import annotations

from typing import Any

from wherein.encoders.hf.hub import HubEncoder


class BlipEncoder(HubEncoder):
    """Image and text by their first tokens, projected; so are the patches."""

    architecture = "BlipForImageTextRetrieval"

    def describe(self) -> None:
        """Read its sizes from the configuration of the model."""
        self.dim = int(self.settings.image_text_hidden_size)
        self.grid_hw = self.patch_grid(self.settings.vision_config.patch_size)

    def embed_images(self, pixels: Any) -> tuple[Any, Any | None]:
        """Every token of the last layer, projected: the first is the summary."""
        seen = self.network.vision_model(pixels, interpolate_pos_encoding=True).last_hidden_state
        projected = self.network.vision_proj(seen)
        return projected[:, 0], projected[:, 1:]

    def embed_texts(self, tokens: dict[str, Any]) -> Any:
        """The first token, projected."""
        asked = {name: tokens[name] for name in ("input_ids", "attention_mask")}
        return self.network.text_proj(self.network.text_encoder(**asked).last_hidden_state[:, 0])
