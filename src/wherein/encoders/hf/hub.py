"""Encoders that are models of transformers: their preprocessing, tokenizer and weights, as their files say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from wherein.encoders.hf.base import TorchEncoder
from wherein.encoders.hf.folders import HubModel
from wherein.encoders.hf.runtime import torch_for
from wherein.errors import SpecError
from wherein.images.image import Image, Pixels


class HubEncoder(TorchEncoder):
    """A model of transformers; a family says its class, its shape and how it embeds."""

    architecture: ClassVar[str]
    """The class of transformers that is loaded."""

    def __init__(self, model: HubModel, **options: Any) -> None:
        self.model = model
        super().__init__(model.spec, **options)

    @property
    def digest(self) -> str:  # type: ignore[override]
        """Of the model's files and of the input size; not of the device."""
        return self.model.digest

    @property
    def settings(self) -> Any:
        """The model's configuration, as `config.json` has it."""
        return self.model.settings

    @property
    def longest_text(self) -> int:
        """Tokens of the longest text."""
        return int(self.settings.text_config.max_position_embeddings)

    @property
    def load_options(self) -> dict[str, Any]:
        """What is said to transformers when the network is loaded."""
        return {}

    def load_network(self, dtype: Any) -> Any:
        """The network, on the CPU, for inference."""
        return self.model.load(self.architecture, dtype=dtype, **self.load_options)

    def tokenize(self, texts: Sequence[str]) -> dict[str, Any]:
        """Texts as the model's own tokenizer writes them, cut at its longest."""
        return dict(
            self.model.tokenizer(
                list(texts), padding=True, truncation=True, max_length=self.longest_text, return_tensors="pt"
            )
        )

    def prepare(self, image: Image) -> Pixels:
        """The image resized and cropped by the model's own preprocessing, before it is rescaled and normalised."""
        found = self.model.image_processor(
            images=image.pixels,
            do_rescale=False,
            do_normalize=False,
            input_data_format="channels_last",
            return_tensors="np",
            **self.sizes,
        )
        return np.ascontiguousarray(np.asarray(found["pixel_values"][0], np.uint8).transpose(1, 2, 0))

    def normalised(self, batch: Any) -> Any:
        """As the processor rescales and normalises."""
        torch = torch_for(self.spec)
        processor, pixels = self.model.image_processor, batch.permute(0, 3, 1, 2).float()
        if processor.do_rescale:
            pixels = pixels * processor.rescale_factor
        if processor.do_normalize:
            mean, std = (
                torch.tensor(values, device=pixels.device)[:, None, None]
                for values in (processor.image_mean, processor.image_std)
            )
            pixels = (pixels - mean) / std
        return pixels.to(self.dtype)

    def find_input_hw(self) -> tuple[int, int]:
        """Height and width of a prepared image: the size that was asked for, or that of the model's preprocessing."""
        if self.model.named.side is not None:
            return (self.model.named.side, self.model.named.side)
        processor = self.model.image_processor
        size = processor.crop_size if getattr(processor, "do_center_crop", False) else processor.size
        side = size.get("height") or size.get("shortest_edge")
        if side is None:
            raise SpecError(f"{self.spec}: its preprocessing has no fixed size ({size}); write {self.spec}@224.")
        return int(side), int(size.get("width") or side)

    @cached_property
    def sizes(self) -> dict[str, Any]:
        """What is said to the image processor beside its own settings."""
        height, width = self.input_hw
        named, processor = self.model.named, self.model.image_processor
        cropped = bool(getattr(processor, "do_center_crop", False))
        if named.squash:
            return {"size": {"height": height, "width": width}, "do_center_crop": False}
        if named.side is None:
            return {}
        if not cropped:
            return {"size": {"height": height, "width": width}}
        edge, crop = processor.size.get("shortest_edge"), processor.crop_size["height"]
        size = {"height": height, "width": width} if edge is None else {"shortest_edge": round(edge * height / crop)}
        return {"size": size, "crop_size": {"height": height, "width": width}}
