"""SigLIP 2 that keeps the aspect of an image (the NaFlex checkpoints): up to 256 patches of any arrangement."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from wherein.encoders.hf.runtime import torch_for
from wherein.encoders.hf.siglip import SiglipEncoder
from wherein.images.image import Image, Pixels

GRID: Final = (16, 16)
"""Patches are resampled to this grid over the image, whatever its aspect, since a layer has one shape."""


class Siglip2Encoder(SiglipEncoder):
    """A prepared image is uint8 (1 + patches, p · p, 3): its first row says how many rows and columns are used."""

    architecture = "Siglip2Model"

    def find_input_hw(self) -> tuple[int, int]:
        """The sides of a square image that all patches are spent on."""
        processor = self.model.image_processor
        side = self.model.named.side or int(processor.max_num_patches**0.5) * processor.patch_size
        return side, side

    def describe(self) -> None:
        """Read its sizes from the configuration of the model."""
        self.dim, self.grid_hw = int(self.settings.vision_config.hidden_size), GRID
        processor = self.model.image_processor
        self._patch = int(processor.patch_size)
        self._most = (self.input_hw[0] // self._patch) ** 2

    def prepare(self, image: Image) -> Pixels:
        """Resized by the model's own rule to the most patches that keep its aspect, and cut into them."""
        found = self.model.image_processor(
            images=image.pixels,
            do_rescale=False,
            do_normalize=False,
            max_num_patches=self._most,
            input_data_format="channels_last",
            return_tensors="np",
        )
        patches = np.asarray(found["pixel_values"][0], np.uint8).reshape(self._most, -1, 3)
        shape = np.zeros((1, *patches.shape[1:]), np.uint8)
        shape[0, 0, :2] = found["spatial_shapes"][0]
        return np.concatenate([shape, patches])

    def embed_images(self, pixels: Any) -> tuple[Any, Any | None]:
        """The pooled summary; patches pooled by themselves, laid over the image as a grid of one shape."""
        torch = torch_for(self.spec)
        shapes = pixels["shapes"]
        mask = torch.arange(self._most, device=shapes.device)[None] < shapes.prod(dim=1)[:, None]
        tower = self.network.vision_model
        seen = tower(pixels["patches"], pixel_attention_mask=mask.int(), spatial_shapes=shapes)
        states = seen.last_hidden_state
        alone = tower.head(states.reshape(-1, 1, states.shape[-1])).reshape(states.shape)
        grids = [
            torch.nn.functional.interpolate(
                own[: rows * columns].reshape(1, rows, columns, -1).permute(0, 3, 1, 2).float(),
                size=GRID,
                mode="bilinear",
            )
            for own, (rows, columns) in zip(alone, shapes.tolist(), strict=True)
        ]
        return seen.pooler_output, torch.cat(grids).permute(0, 2, 3, 1).flatten(1, 2)

    def normalised(self, batch: Any) -> Any:
        """The patches, and how many rows and columns of them are used."""
        patches = super().normalised(batch[:, 1:]).permute(0, 2, 3, 1)
        return {"patches": patches.flatten(2), "shapes": batch[:, 0, 0, :2].long()}
