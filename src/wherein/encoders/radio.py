"""RADIO: one tower that agrees with several teachers. `radio:NAME`, and `naradio:NAME` with neighbour-aware patches.

The tower that transformers has (C-RADIOv4) embeds images alone. A repository that brings its own Python (C-RADIOv3 and
older) also has RADIO's language adaptor, so that texts and patches share a space: `radio:NAME` then takes the adaptor
`siglip2-g`, and `radio:NAME@clip` another. Its Python runs only where a person has allowed it (`--trust-remote-code`,
or `allow_remote_code(True)`): never because a collection or a request names such a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from wherein.encoders.hf.folders import HubModel, parse_name
from wherein.encoders.hf.hub import HubEncoder
from wherein.encoders.hf.runtime import remote_code_allowed, transformers_for
from wherein.encoders.naclip import neighbour_attention
from wherein.errors import SpecError
from wherein.images.image import Image, Pixels

SPREAD: Final = 7.0
"""Standard deviation of NARADIO's Gaussian, in patches (Alama et al., "RayFronts", 2025)."""
SIDE: Final = 432
"""Input side where none is asked for: RADIO takes any size. 27 patches of 16 pixels; a choice, not measured."""
PATCH: Final = 16
"""Pixels of a patch in every RADIO; older configurations do not say it."""
ADAPTOR: Final = "siglip2-g"
"""The language adaptor that is taken unless another is named."""


class RadioEncoder(HubEncoder):
    """The tower of transformers: the summary tokens of its teachers side by side; patches are kept as `dense`."""

    architecture = "RadioModel"
    embeds_text = False
    neighbours: ClassVar[bool] = False

    def describe(self) -> None:
        """The summary is several tokens long and patches are one, so that they cannot share a space."""
        rows, columns = self.patch_grid(self.settings.patch_size)
        self.dim = int(self.settings.hidden_size) * len(self.settings.summary_idxs)
        self.grid_hw, self.dense_shape = None, (rows, columns, int(self.settings.hidden_size))

    def find_input_hw(self) -> tuple[int, int]:
        """The size that was asked for, or SIDE."""
        side = self.model.named.side or SIDE
        return side, side

    def prepare(self, image: Image) -> Pixels:
        """The whole image squashed: RADIO takes any size, and normalises by itself."""
        height, width = self.input_hw
        return image.resized((width, height))

    def normalised(self, batch: Any) -> Any:
        """Pixels as numbers in [0, 1], which is all that RADIO wants."""
        return (batch.permute(0, 3, 1, 2).float() / 255.0).to(self.dtype)

    def embed_images(self, pixels: Any) -> tuple[Any, Any | None]:
        """The summary, and the patches after the last block."""
        seen = self.network(pixels, output_hidden_states=self.neighbours)
        if not self.neighbours:
            return seen.summary, seen.features
        last, before = self.network.encoder.layer[-1], self.settings.num_summary_tokens
        states = seen.hidden_states[-2]
        found = neighbour_attention(
            last.attention, last.norm1(states), grid_hw=self._grid, spread=SPREAD, before=before
        )
        states = states + last.layer_scale1(found)
        states = states + last.layer_scale2(last.mlp(last.norm2(states)))
        return seen.summary, states[:, before:]

    @property
    def _grid(self) -> tuple[int, int]:
        return self.patch_grid(int(self.settings.patch_size))


class AdaptedRadio(RadioEncoder):
    """A repository with its own Python: the language adaptor gives images, patches and texts one space."""

    embeds_text = True

    def __init__(self, model: HubModel, *, adaptor: str, **options: Any) -> None:
        self.adaptor = adaptor
        super().__init__(model, **options)

    def describe(self) -> None:
        """The adaptor says its dimension when it embeds a text."""
        self.grid_hw = self._grid
        self.dim = int(self.embed_texts({"tokens": self.tokenize(["a"])["tokens"].to(self.device)}).shape[-1])

    def load_network(self, dtype: Any) -> Any:
        """The repository's own class; in NARADIO the last block's attention is replaced."""
        network = transformers_for(self.spec).AutoModel.from_pretrained(
            self.model.folder, trust_remote_code=True, adaptor_names=[self.adaptor], dtype=dtype
        )
        if self.neighbours:
            attention = network.radio_model.model.blocks[-1].attn
            attention.forward = lambda states, **_: neighbour_attention(
                attention,
                states,
                grid_hw=self._grid,
                spread=SPREAD,
                before=states.shape[1] - self._grid[0] * self._grid[1],
            )
        return network.eval()

    def embed_images(self, pixels: Any) -> tuple[Any, Any | None]:
        """What the adaptor makes of the summary and of the patches."""
        summary, patches = self.network(pixels)[self.adaptor]
        return summary, patches

    def tokenize(self, texts: Sequence[str]) -> dict[str, Any]:
        """The adaptor's own tokens."""
        return {"tokens": self._language.tokenizer(list(texts))}

    def embed_texts(self, tokens: dict[str, Any]) -> Any:
        """The adaptor's own text tower."""
        return self._language.encode_text(tokens["tokens"])

    @property
    def _language(self) -> Any:
        return self.network.radio_model.adaptors[self.adaptor]

    @property
    def _grid(self) -> tuple[int, int]:
        return self.patch_grid(int(getattr(self.settings, "patch_size", None) or PATCH))


class AdaptedNaradio(AdaptedRadio):
    """The same with neighbour-aware patches."""

    neighbours = True


class NaradioEncoder(RadioEncoder):
    """RADIO whose last block lets patches attend to their neighbours."""

    neighbours = True


def open_radio(variant: str, **options: Any) -> RadioEncoder:
    """The encoder of `radio:NAME`."""
    return _open("radio", RadioEncoder, variant, options)


def open_naradio(variant: str, **options: Any) -> RadioEncoder:
    """The encoder of `naradio:NAME`: patches that look at their neighbours."""
    return _open("naradio", NaradioEncoder, variant, options)


def _open(family: str, made: type[RadioEncoder], variant: str, options: dict[str, Any]) -> RadioEncoder:
    named = parse_name(variant)
    model = HubModel(f"{family}:{variant}", replace(named, revision=None))
    if model.config.get("model_type") == "radio" and "auto_map" not in model.config:
        return made(model, **options)
    if "auto_map" not in model.config:
        raise SpecError(f"{model.spec}: is no RADIO but {model.config.get('model_type')!r}; use hf:{variant}.")
    if not remote_code_allowed():
        raise SpecError(
            f"{model.spec}: comes with Python of its own, which runs only if you say so: look at it in {model.folder}, "
            "then allow its code (in Python: wherein.encoders.hf.runtime.allow_remote_code(True))."
        )
    adapted = AdaptedNaradio if made.neighbours else AdaptedRadio
    return adapted(model, adaptor=named.revision or ADAPTOR, **options)
