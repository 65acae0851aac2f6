"""CLIP of transformers and what shares its format: OpenAI's, MetaCLIP, MetaCLIP 2, and OpenCLIP's where converted."""

from __future__ import annotations

from typing import Any

from wherein.encoders.hf.hub import HubEncoder


class ClipEncoder(HubEncoder):
    """Two towers and two projections; patches go the way of the summary, through the last norm and the projection."""

    needs_hidden_states: bool = False
    """Whether patches are made of what a block before the last one gave."""

    @property
    def architecture(self) -> str:  # type: ignore[override]
        """Its class in transformers."""
        return "MetaClip2Model" if self.settings.model_type == "metaclip_2" else "CLIPModel"

    def describe(self) -> None:
        """Read its sizes from the configuration of the model."""
        self.dim = int(self.settings.projection_dim)
        self.grid_hw = self.patch_grid(self.settings.vision_config.patch_size)

    def embed_images(self, pixels: Any) -> tuple[Any, Any | None]:
        """The class token, and the patches, projected."""
        network = self.network
        seen = network.vision_model(
            pixels, interpolate_pos_encoding=True, output_hidden_states=self.needs_hidden_states
        )
        patches = network.vision_model.post_layernorm(self.patch_states(seen))
        return network.visual_projection(seen.pooler_output), network.visual_projection(patches)

    def patch_states(self, seen: Any) -> Any:
        """(n, gh · gw, hidden) before the last norm."""
        return seen.last_hidden_state[:, 1:]

    def embed_texts(self, tokens: dict[str, Any]) -> Any:
        """The token that ends the text, projected."""
        return self.network.get_text_features(**tokens).pooler_output
