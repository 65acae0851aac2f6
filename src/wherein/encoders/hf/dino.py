"""DINO, DINOv2 (with registers or without) and DINOv3: images alone; patches share the space of the summary."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wherein.encoders.hf.hub import HubEncoder
from wherein.encoders.hf.runtime import torch_for
from wherein.images.image import Image, Pixels

CLASSES: Final = {
    "vit": "ViTModel",
    "dinov2": "Dinov2Model",
    "dinov2_with_registers": "Dinov2WithRegistersModel",
    "dinov3_vit": "DINOv3ViTModel",
}


class DinoEncoder(HubEncoder):
    """Self-supervised vision transformers: the class token sums up the image."""

    embeds_text = False

    @property
    def architecture(self) -> str:  # type: ignore[override]
        """Its class in transformers."""
        return CLASSES[self.settings.model_type]

    @property
    def load_options(self) -> dict[str, Any]:
        """DINO's own checkpoints have no pooling layer, and nothing here needs one."""
        return {"add_pooling_layer": False} if self.settings.model_type == "vit" else {}

    def describe(self) -> None:
        """Read its sizes from the configuration of the model."""
        self.dim = int(self.settings.hidden_size)
        self.grid_hw = self.patch_grid(self.settings.patch_size)
        self._before = 1 + int(getattr(self.settings, "num_register_tokens", 0))

    def embed_images(self, pixels: Any) -> tuple[Any, Any | None]:
        """The class token and the patches after the last norm; register tokens between them are left out."""
        more = {"interpolate_pos_encoding": True} if self.settings.model_type == "vit" else {}
        states = self.network(pixels, **more).last_hidden_state
        return states[:, 0], states[:, self._before :]


class Dinov3Encoder(DinoEncoder):
    """DINOv3 resizes fractions, not whole grey levels: a prepared image is uint8 (h, 2 w, 3), two bytes a value."""

    def prepare(self, image: Image) -> Pixels:
        """The image as the model's own preprocessing resizes it, in 65,535ths."""
        found = self.model.image_processor(images=image.pixels.copy(), do_normalize=False, **self.sizes, **_AS_ARRAY)
        values = np.asarray(found["pixel_values"][0].numpy(), np.float32).transpose(1, 2, 0)
        whole = np.rint(np.clip(values, 0.0, 1.0) * 65535).astype("<u2")
        return np.concatenate([(whole & 255).astype(np.uint8), (whole >> 8).astype(np.uint8)], axis=1)

    def normalised(self, batch: Any) -> Any:
        """Two bytes a value, then as the processor normalises."""
        torch = torch_for(self.spec)
        low, high = batch.int().chunk(2, dim=2)
        processor = self.model.image_processor
        mean, std = (torch.tensor(own, device=batch.device) for own in (processor.image_mean, processor.image_std))
        return (((low + 256 * high) / 65535 - mean) / std).permute(0, 3, 1, 2).to(self.dtype)


_AS_ARRAY: Final = {"input_data_format": "channels_last", "return_tensors": "pt"}
