"""The towers of an encoder as torch trains them, one for images and one for texts: a class for each kind of model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import DEVICE_VARIABLE, Encoder
from wherein.encoders.hf.runtime import choose_device, require_libraries, torch_for
from wherein.encoders.hubs import kinds_of
from wherein.encoders.mini import FILES, KNOWN_WORDS, MiniEncoder
from wherein.errors import InputError
from wherein.images.image import Pixels
from wherein.training.graphs import TrainableGraph

FIXED_BLOCKS: Final = 7
"""Blocks of `mini`'s image tower that stay as they are: edges and textures, of which a few hundred images teach
nothing, and most of the time that a step takes. With every block trained 0.3 points more were learnt, and captions lost
1.4 (docs/results/fine-tuning.md)."""


class Towers(Protocol):
    """A model that is being trained, in full precision."""

    device: str
    rate: float
    """The learning rate where the recipe names none."""
    trained: list[Any]
    """The tensors that training changes."""

    def images(self, prepared: Pixels) -> Any:
        """Embeddings (n, d) of prepared images, of unit length, with slopes."""

    def texts(self, texts: Sequence[str]) -> Any:
        """Embeddings (n, d) of texts, of unit length, with slopes."""

    def train(self, on: bool) -> None:
        """Begin or end a round."""

    def searched(self, images: Floats, texts: Floats, said: Sequence[str]) -> tuple[Floats, Floats]:
        """Embeddings of images and of the texts `said` as a search compares them."""

    def save(self, folder: Path) -> None:
        """Write the model to an empty folder that its family opens."""


def require_trainable(encoder: Encoder) -> None:
    """Refuse an encoder that torch cannot train, with the way out."""
    require_libraries("training of the kind full")
    way_out = "train the kind head or the kind adapter on it, or name mini or a model of transformers, as hf:NAME"
    if encoder.spec.partition(":")[0] not in _KINDS:
        raise InputError(f"{encoder.spec}: is no model that torch can train; {way_out}.")
    if not encoder.embeds_text or encoder.vectors > 1:
        raise InputError(f"{encoder.spec}: has not one tower for images and one for texts; {way_out}.")


def towers_of(encoder: Encoder) -> Towers:
    """The towers of an encoder that `require_trainable` lets pass; training changes the encoder."""
    made: Towers = _KINDS[encoder.spec.partition(":")[0]](encoder)
    return made


class HfTowers:
    """A model of transformers."""

    rate = 1e-5
    """Usual for CLIP; larger ones forget what the model knew within a round."""

    def __init__(self, encoder: Any) -> None:
        self._encoder, self._torch, self.device = encoder, torch_for(encoder.spec), encoder.device
        self._network = encoder.load_network(self._torch.float32).to(encoder.device)
        encoder._network, encoder.dtype = self._network, self._torch.float32
        self.trained = list(self._network.parameters())

    def images(self, prepared: Pixels) -> Any:
        """Embeddings (n, d) of prepared images."""
        pixels = self._torch.from_numpy(np.ascontiguousarray(prepared)).to(self.device)
        whole, _ = self._encoder.embed_images(self._encoder.normalised(pixels))
        return self._torch.nn.functional.normalize(whole.reshape(len(prepared), -1), dim=-1)

    def texts(self, texts: Sequence[str]) -> Any:
        """Embeddings (n, d) of texts."""
        tokens = {name: ids.to(self.device) for name, ids in self._encoder.tokenize(texts).items()}
        return self._torch.nn.functional.normalize(self._encoder.embed_texts(tokens), dim=-1)

    def train(self, on: bool) -> None:
        """Begin or end a round."""
        self._network.train(on)

    def searched(self, images: Floats, texts: Floats, said: Sequence[str]) -> tuple[Floats, Floats]:  # noqa: ARG002
        """As they are."""
        return images, texts

    def save(self, folder: Path) -> None:
        """Write the model as `save_pretrained` does, with its tokenizer and preprocessing."""
        for path in self._encoder.model.folder.iterdir():
            if path.suffix in (".json", ".txt", ".model") and not path.name.endswith(".index.json"):
                shutil.copyfile(path, folder / path.name)
        self._network.save_pretrained(folder)


class MiniTowers:
    """`mini`, whose files of ONNX are run by torch and written again."""

    rate = 5e-5
    """Chosen on underwater photographs: four times as much learnt two points more and cost captions nine points of R@1
    (docs/results/fine-tuning.md, `keep` 5)."""

    def __init__(self, encoder: MiniEncoder) -> None:
        self._encoder, self._torch = encoder, torch_for(encoder.spec)
        self.device = choose_device(os.environ.get(DEVICE_VARIABLE, "auto"), encoder.spec)
        fixed = ("/backbone/conv_stem", *(f"/backbone/blocks.{number}/" for number in range(FIXED_BLOCKS)))
        self._image = TrainableGraph(encoder.weights / "image.onnx", device=self.device, fixed=fixed)
        self._text = TrainableGraph(encoder.weights / "text.onnx", device=self.device)
        every = [*self._image.weights.values(), *self._text.weights.values()]
        self.trained = [weight for weight in every if weight.requires_grad]

    def images(self, prepared: Pixels) -> Any:
        """Embeddings (n, d) of prepared images."""
        pixels = self._torch.from_numpy(np.ascontiguousarray(prepared)).to(self.device)
        return self._image.run({"pixels": pixels}, "global")

    def texts(self, texts: Sequence[str]) -> Any:
        """Embeddings (n, d) of texts."""
        inputs = self._encoder.tokenized(texts)
        return self._text.run(
            {name: self._torch.from_numpy(ids).to(self.device) for name, ids in inputs.items()}, "global"
        )

    def train(self, on: bool) -> None:
        """Nothing in it differs between training and use: its norms are part of its weights."""

    def searched(self, images: Floats, texts: Floats, said: Sequence[str]) -> tuple[Floats, Floats]:
        """With hubs levelled."""
        hubs = self._encoder.hubs
        return hubs.level_images(images), hubs.level_texts(texts, kinds_of(said))

    def save(self, folder: Path) -> None:
        """Write both towers, and beside them what training leaves alone."""
        for name in (*FILES, KNOWN_WORDS):
            shutil.copyfile(self._encoder.weights / name, folder / name)
        self._image.write(folder / "image.onnx")
        self._text.write(folder / "text.onnx")


_KINDS: Final[dict[str, Any]] = {"hf": HfTowers, "mini": MiniTowers}
"""Families of encoders that can be trained → how."""
