"""Models of open_clip: `openclip:ARCH/PRETRAINED`, `openclip:ARCH/FILE` or `openclip:FOLDER`. Needs `wherein[hf]`.

    openclip:ViT-B-32/laion2b_s34b_b79k        a tag of open_clip, from the hub's cache
    openclip:ViT-B-16//models/diht.pt          an architecture, and a checkpoint in CLIP's or open_clip's layout
    openclip:SLIP-ViT-B-16//models/slip.pt     a checkpoint in SLIP's layout
    openclip:/models/mine                      a folder with open_clip_config.json and open_clip_model.safetensors

A checkpoint that is a pickle is read by torch's restricted reader, which makes nothing but tensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import PIL.Image

from wherein.encoders.hf.base import TorchEncoder
from wherein.encoders.hf.folders import sample_weights
from wherein.encoders.hf.runtime import library, torch_for
from wherein.errors import SpecError
from wherein.files import expanded
from wherein.images.image import Image, Pixels

SLIP: Final = {
    f"SLIP-ViT-{size}-16": {
        "embed_dim": 512,
        "vision_cfg": {"timm_model_name": name, "timm_pool": "token", "timm_proj": "linear", "image_size": 224},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 512, "heads": 8, "layers": 12},
    }
    for size, name in {"S": "vit_small_patch16_224", "B": "vit_base_patch16_224", "L": "vit_large_patch16_224"}.items()
}
"""SLIP's three models (Mu et al., 2021) as open_clip would describe them."""
_PIECE: Final = 1 << 16
"""Bytes that are read at the beginning, the middle and the end of a file of weights, to know it again."""


class OpenClipEncoder(TorchEncoder):
    """An image and a text tower of open_clip; patches where the tower is one of its vision transformers."""

    def __init__(self, variant: str, **options: Any) -> None:
        folder = expanded(variant)
        self._folder = folder if (folder / "open_clip_config.json").is_file() else None
        self._arch, _, self._weights = variant.partition("/")
        self._open_clip = library("open_clip", f"openclip:{variant}")
        if self._folder is None:
            self._check(variant)
        super().__init__(f"openclip:{variant}", **options)

    def _check(self, variant: str) -> None:
        known = {*self._open_clip.list_models(), *SLIP}
        tags = self._open_clip.list_pretrained_tags_by_model(self._arch)
        if self._arch not in known or not self._weights:
            near = ", ".join(sorted(name for name in known if name[:5].lower() == self._arch[:5].lower())[:8])
            raise SpecError(
                f"openclip:{variant}: write openclip:ARCH/PRETRAINED, as openclip:ViT-B-32/laion2b_s34b_b79k, or a "
                f"folder with open_clip_config.json; no architecture is called {self._arch!r}. Near: {near}."
            )
        if self._weights not in tags and not self._file.is_file():
            raise SpecError(
                f"openclip:{variant}: {self._weights!r} is neither a file nor a set of weights of {self._arch}; "
                f"known: {', '.join(tags) or 'none'}."
            )

    @property
    def _file(self) -> Path:
        return expanded(self._weights)

    @cached_property
    def digest(self) -> str:  # type: ignore[override]
        """Of the checkpoint's file where there is one; a tag of open_clip never changes what it means."""
        files = sorted(self._folder.iterdir()) if self._folder else [self._file]
        said = "" if self._folder else self._arch if self._file.is_file() else f"{self._arch}/{self._weights}"
        digest = hashlib.blake2b(f"1 {said}".encode(), digest_size=16)
        for path in files:
            if path.suffix == ".safetensors":
                digest.update(sample_weights(path))
            elif path.is_file():
                digest.update(_sample(path))
        return digest.hexdigest()

    def find_input_hw(self) -> tuple[int, int]:
        """As its preprocessing says."""
        size = self.preprocessing.size
        return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))

    def describe(self) -> None:
        """Read its sizes from the towers of the model."""
        tower = self.network.visual
        self.dim = int(self._probe_dim)
        plain = isinstance(tower, self._open_clip.transformer.VisionTransformer) and tower.proj is not None
        self.grid_hw = tuple(tower.grid_size) if plain else None

    @cached_property
    def _probe_dim(self) -> int:
        torch = torch_for(self.spec)
        with torch.inference_mode():
            return int(self.network.encode_text(self.tokenizer(["a"]).to(self.device)).shape[-1])

    def load_network(self, dtype: Any) -> Any:
        """The towers; weights are loaded strictly."""
        return self._made.to(dtype)

    @cached_property
    def _made(self) -> Any:
        try:
            if self._folder is not None:
                made = self._open_clip.create_model(f"local-dir:{self._folder}", require_pretrained=True)
            elif self._file.is_file():
                made = self._from_file()
            else:
                made = self._open_clip.create_model(self._arch, pretrained=self._weights, require_pretrained=True)
        except Exception as error:  # open_clip, torch and the hub raise classes of their own
            said = " ".join(str(error).split())[:300]
            raise SpecError(
                f"{self.spec}: cannot be loaded ({type(error).__name__}: {said}). Weights of a tag must be in the "
                "cache of the hub, or the hub in reach; a checkpoint must hold tensors alone: save it as safetensors."
            ) from error
        return made.eval()

    def _from_file(self) -> Any:
        slip = self._arch in SLIP
        described = SLIP.get(self._arch, {})
        made = (
            self._open_clip.CLIP(**described)
            if slip
            else self._open_clip.create_model(self._arch, load_weights=False, pretrained_text=False)
        )
        if not slip:
            self._open_clip.load_checkpoint(made, str(self._file))
            return made
        made.load_state_dict(slip_weights(self._open_clip.factory.load_state_dict(str(self._file))), strict=True)
        return made

    @cached_property
    def preprocessing(self) -> Any:
        """How images are resized, cropped and normalised, as open_clip describes it."""
        described = self._open_clip.model.get_model_preprocess_cfg(self._made)
        return self._open_clip.transform.PreprocessCfg(**described)

    @cached_property
    def _steps(self) -> list[Any]:
        """The steps of the model's own preprocessing that come before numbers are made of pixels."""
        steps = self._open_clip.transform.image_transform_v2(self.preprocessing, is_train=False).transforms
        return list(steps[: [type(step).__name__ for step in steps].index("MaybeToTensor")])

    @cached_property
    def tokenizer(self) -> Any:
        """The model's own tokenizer."""
        name = f"local-dir:{self._folder}" if self._folder else "" if self._arch in SLIP else self._arch
        return self._open_clip.get_tokenizer(name) if name else self._open_clip.SimpleTokenizer()

    def prepare(self, image: Image) -> Pixels:
        """Resized and cropped as open_clip does it."""
        found: Any = PIL.Image.fromarray(image.pixels)
        for step in self._steps:
            found = step(found)
        return np.asarray(found, np.uint8)

    def normalised(self, batch: Any) -> Any:
        """By the model's mean and deviation."""
        torch = torch_for(self.spec)
        mean, std = (
            torch.tensor(own, device=batch.device) for own in (self.preprocessing.mean, self.preprocessing.std)
        )
        return ((batch / 255.0 - mean) / std).permute(0, 3, 1, 2).to(self.dtype)

    def tokenize(self, texts: Sequence[str]) -> dict[str, Any]:
        """By the model's own tokenizer."""
        return {"text": self.tokenizer(list(texts))}

    def embed_images(self, pixels: Any) -> tuple[Any, Any | None]:
        """The image's features, and its patches through the last norm and the projection."""
        if self.grid_hw is None:
            return self.network.encode_image(pixels), None
        found = self.network.forward_intermediates(
            image=pixels, image_indices=1, normalize=False, normalize_intermediates=True, image_output_fmt="NLC"
        )
        return found["image_features"], found["image_intermediates"][-1] @ self.network.visual.proj

    def embed_texts(self, tokens: dict[str, Any]) -> Any:
        """The embeddings of tokenised texts, as the text tower gives them."""
        return self.network.encode_text(tokens["text"])


def slip_weights(state: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint in SLIP's layout, its tensors named as in open_clip; its self-supervised head is left out."""
    named = {}
    for name, tensor in state.items():
        if name == "image_projection":
            named["visual.head.proj.weight"] = tensor.T.contiguous()
        elif name.startswith("visual."):
            named[f"visual.trunk.{name.removeprefix('visual.')}"] = tensor
        elif not name.startswith("image_mlp."):
            named[name] = tensor
    return named


def _sample(path: Path) -> bytes:
    """A digest of a file's size, its beginning, its middle and its end."""
    size = path.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=16)
    with path.open("rb") as file:
        for offset in (0, max(0, size // 2), max(0, size - _PIECE)):
            file.seek(offset)
            digest.update(file.read(_PIECE))
    return digest.digest()
