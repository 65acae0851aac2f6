"""Encoders: images and texts → embeddings. One family per file, chosen by the word before the colon.

A spec is `family` or `family:variant`, for example `mini`, `toy:4` or `onnx:/models/clip`. Families of other
packages join through the entry-point group `wherein.encoders`. Nothing heavy is imported before `load`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from wherein import plugins
from wherein.arrays import Floats
from wherein.encoders.known import DEFAULT
from wherein.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from wherein.images.image import Image, Pixels

_LOG: Final = logging.getLogger("wherein.encoders")
DEVICE_VARIABLE: Final = "WHEREIN_DEVICE"
"""The environment variable that names the device of encoders that can choose."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """What one forward pass yields for n images; float32, unit norm along the last axis but for short patches."""

    global_: Floats
    """(n, d)"""
    patches: Floats | None = None
    """(n, gh, gw, d), in the same space as texts; at most of unit norm, the shorter the less there is to see"""
    dense: Floats | None = None
    """(n, dh, dw, dd), mid-level, not text-aligned: for instances and outlines"""
    several: Floats | None = None
    """(n, m, d): all embeddings of each image, where an encoder has more than one; its score is that of the best"""


class Encoder(Protocol):
    """Images and texts → embeddings. Built as `Family(variant, threads=…)`, with `device=…` where it can choose.

    Its calls are thread-safe.
    """

    spec: str
    dim: int
    digest: str
    """A cheap content digest of everything that shapes the numbers; two digests never share a layer."""
    input_hw: tuple[int, int]
    grid_hw: tuple[int, int] | None
    dense_shape: tuple[int, int, int] | None
    patch_basis: Floats | None
    """(d, c) orthonormal columns: patches are stored as c coefficients; None where they are kept whole."""
    embeds_text: bool
    device: str
    """Where it runs: `cpu`, `cuda`, `cuda:1`, `mps`."""
    batch: int
    """How many prepared images one call is best given."""
    vectors: int
    """How many embeddings an image has: 1, or those of `Encoded.several`."""

    def prepare(self, image: Image) -> Pixels:
        """The encoder's input of one image, uint8 (ih, iw, 3)."""

    def images(self, batch: Pixels) -> Encoded:
        """Embed prepared images, uint8 (n, ih, iw, 3)."""

    def texts(self, texts: Sequence[str]) -> Floats:
        """Embed texts: (n, d), unit norm."""


def stored_by(encoder: Encoder) -> Encoder:
    """The encoder whose embeddings a collection keeps for this one: itself, or the one that it was trained on."""
    base: Encoder = getattr(encoder, "stored_by", encoder)
    return base


def families() -> dict[str, str]:
    """Every family that can be loaded: its name → `module:Class`, as `wherein.plugins` lists them."""
    return plugins.table("encoders")


def describe_families() -> dict[str, str]:
    """Every family's name → the first line of its module's docstring."""
    modules = {name: home.partition(":")[0] for name, home in sorted(families().items())}
    return {name: (import_module(module).__doc__ or "").strip().partition("\n")[0] for name, module in modules.items()}


def families_that_name_no_model() -> list[str]:
    """The families that are a whole spec by themselves, the default first; the others need a name: `hf:NAME`."""
    found = [name for name in families() if _takes_no_variant(plugins.load("encoders", name))]
    return sorted(found, key=lambda name: (name != DEFAULT, name))


def _takes_no_variant(made: Callable[..., object]) -> bool:
    first = next(iter(signature(made).parameters.values()), None)
    return first is None or first.default is not Parameter.empty


def _require_family(spec: str) -> None:
    """Answer an unknown family with the known ones."""
    family = spec.partition(":")[0]
    if not plugins.is_known("encoders", family):
        known = families()
        raise SpecError(
            f"no encoder family is called {family!r} (in {spec!r}); known: {', '.join(sorted(known))}."
            f"{did_you_mean(family, known)}"
        )


def load(spec: str, *, threads: int = 1, device: str | None = None) -> Encoder:
    """The encoder of a spec, its weights read on first use; on `device` (`auto`, `cpu`, `cuda`, `cuda:1`, `mps`).

    Without one, WHEREIN_DEVICE decides, or the encoder does.
    """
    _require_family(spec)
    made = plugins.load("encoders", spec.partition(":")[0])
    asked = device or os.environ.get(DEVICE_VARIABLE, "auto")
    takes = signature(made).parameters
    movable = "device" in takes or any(one.kind is Parameter.VAR_KEYWORD for one in takes.values())
    if not movable and asked not in ("auto", "cpu") and device is not None:
        raise SpecError(f"{spec} runs on the CPU only: leave out the device {asked}, or use a family such as hf:.")
    options = {"device": asked} if movable else {}
    encoder: Encoder = made(spec.partition(":")[2], threads=threads, **options)
    _LOG.info("encoder %s, on %s, %d threads", encoder.spec, encoder.device, threads)
    return encoder


def check_encoder(encoder: Encoder) -> None:
    """Raise SpecError unless `encoder` keeps the contract. For authors of encoders and for our own tests."""
    pictures = _odd_pictures()
    batch = np.stack([encoder.prepare(picture) for picture in pictures])
    n, encoded = len(batch), encoder.images(batch)
    _check_vectors(encoder, "global_", encoded.global_, (n, encoder.dim))
    if encoder.grid_hw is not None:
        _check_vectors(encoder, "patches", encoded.patches, (n, *encoder.grid_hw, encoder.dim), shorter=True)
    if encoder.dense_shape is not None:
        _check_vectors(encoder, "dense", encoded.dense, (n, *encoder.dense_shape))
    if encoder.vectors > 1:
        _check_vectors(encoder, "several", encoded.several, (n, encoder.vectors, encoder.dim))
    for number, picture in enumerate(pictures):
        alone = encoder.images(encoder.prepare(picture)[None])
        for name in ("global_", "patches", "dense", "several"):
            one, many = getattr(alone, name), getattr(encoded, name)
            same = one is None or many is None or np.allclose(one[0], many[number], atol=1e-4)
            _require(encoder, same, f"an image's batch changes its {name}")
    again = encoder.images(batch).global_
    _require(encoder, np.allclose(again, encoded.global_, atol=1e-4), "the same images give other embeddings")
    _require(encoder, encoder.images(batch[:0]).global_.shape == (0, encoder.dim), "no images must give (0, d)")
    _require(encoder, len(encoder.digest) >= 8, "digest has fewer than 8 characters")
    _require(encoder, encoder.batch >= 1 and bool(encoder.device), "device and batch must be stated")
    if encoder.embeds_text:
        _check_texts(encoder)
    if encoder.patch_basis is not None:
        gram = encoder.patch_basis.T @ encoder.patch_basis
        _require(encoder, np.allclose(gram, np.eye(len(gram)), atol=1e-3), "patch_basis is not orthonormal")


def _odd_pictures() -> list[Image]:
    """Pictures of any size and aspect, and of the kinds that files have: colour, grey, with alpha, of 16 bits."""
    import PIL.Image

    from wherein.images.image import decode

    random = np.random.default_rng(0)
    shapes = ((48, 64, 3), (64, 48, 3), (1, 1, 3), (3, 300, 3), (300, 2, 3), (40, 40), (40, 30, 4), (600, 500, 3))
    drawn = [decode(random.integers(0, 256, shape, dtype=np.uint8)) for shape in shapes]
    return [*drawn, decode(PIL.Image.fromarray(random.integers(0, 65536, (30, 50)).astype(np.uint16)))]


def _check_texts(encoder: Encoder) -> None:
    asked = ["red", "a green tree", "", "a very long text " * 400, "«Ω» 木 🙂"]
    texts = encoder.texts(asked)
    _check_vectors(encoder, "texts", texts, (len(asked), encoder.dim))
    alone = np.concatenate([encoder.texts([text]) for text in asked])
    _require(encoder, np.allclose(alone, texts, atol=1e-4), "a text's batch changes its embedding")
    _require(encoder, encoder.texts([]).shape == (0, encoder.dim), "no texts must give (0, d)")


def _check_vectors(
    encoder: Encoder, name: str, vectors: Floats | None, shape: tuple[int, ...], *, shorter: bool = False
) -> None:
    _require(encoder, vectors is not None, f"{name} is missing")
    if vectors is None:
        return
    _require(encoder, vectors.shape == shape, f"{name} has shape {vectors.shape}, expected {shape}")
    _require(encoder, vectors.dtype == np.float32, f"{name} is {vectors.dtype}, expected float32")
    norms = np.linalg.norm(vectors, axis=-1)
    if shorter:
        _require(encoder, bool((norms <= 1.0 + 1e-3).all()), f"{name} are of more than unit norm")
    else:
        _require(encoder, bool(np.allclose(norms, 1.0, atol=1e-3)), f"{name} is not of unit norm")


def _require(encoder: Encoder, holds: bool, complaint: str) -> None:
    if not holds:
        raise SpecError(f"encoder {encoder.spec!r} breaks the contract: {complaint}.")
