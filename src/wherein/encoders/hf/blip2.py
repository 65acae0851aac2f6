"""BLIP-2: the contrastive heads of its Q-Former, which sums an image up in 32 vectors; the nearest one counts."""

from __future__ import annotations

from typing import Any

from wherein.encoders.hf.hub import HubEncoder


class Blip2Encoder(HubEncoder):
    """An image is 32 query vectors (`Encoded.several`), a text one: their score is the largest cosine."""

    architecture = "Blip2ForImageTextRetrieval"

    def describe(self) -> None:
        """From the configuration; the Q-Former mixes places, so there are no patches."""
        self.dim, self.grid_hw = int(self.settings.image_text_hidden_size), None
        self.vectors = int(self.settings.num_query_tokens)

    @property
    def longest_text(self) -> int:
        """Tokens of the longest text."""
        return int(self.settings.qformer_config.max_position_embeddings)

    def embed_images(self, pixels: Any) -> tuple[Any, Any | None]:
        """The query vectors after they looked at the image, projected."""
        network = self.network
        seen = network.vision_model(pixels, interpolate_pos_encoding=True).last_hidden_state
        asked = network.query_tokens.expand(len(seen), -1, -1)
        found = network.qformer(query_embeds=asked, encoder_hidden_states=seen).last_hidden_state
        return network.vision_projection(found.to(network.vision_projection.weight.dtype)), None

    def embed_texts(self, tokens: dict[str, Any]) -> Any:
        """The first token, projected."""
        network = self.network
        words = network.embeddings(input_ids=tokens["input_ids"])
        found = network.qformer(query_embeds=words, query_length=0, attention_mask=tokens["attention_mask"])
        return network.text_projection(found.last_hidden_state[:, 0].to(network.text_projection.weight.dtype))
