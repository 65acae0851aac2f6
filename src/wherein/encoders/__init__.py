"""Encoders: images and texts → embeddings. One family per file, chosen by the word before the colon.

A spec is `family` or `family:variant`, for example `mini`, `toy:4` or `onnx:/models/clip`. Families of other
packages join through the entry-point group `wherein.encoders`. Nothing heavy is imported before `load`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from wherein.arrays import Floats
from wherein.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from wherein.images.image import Image, Pixels

FAMILIES: Final = {
    "mini": "wherein.encoders.mini:MiniEncoder",
    "onnx": "wherein.encoders.onnx:OnnxEncoder",
    "toy": "wherein.encoders.toy:ToyEncoder",
}
ENTRY_POINTS: Final = "wherein.encoders"
_LOG: Final = logging.getLogger("wherein.encoders")


@dataclass(frozen=True, slots=True)
class Encoded:
    """What one forward pass yields for n images; float32, unit norm along the last axis but for short patches."""

    global_: Floats
    """(n, d)"""
    patches: Floats | None = None
    """(n, gh, gw, d), in the same space as texts; at most of unit norm, the shorter the less there is to see"""
    dense: Floats | None = None
    """(n, dh, dw, dd), mid-level, not text-aligned: for instances and outlines"""


class Encoder(Protocol):
    """Images and texts → embeddings. Built as `Family(variant, threads=…)`; its calls are thread-safe."""

    spec: str
    dim: int
    digest: str
    """A content digest of everything that shapes the numbers; two digests never share a layer."""
    input_hw: tuple[int, int]
    grid_hw: tuple[int, int] | None
    dense_shape: tuple[int, int, int] | None
    patch_basis: Floats | None
    """(d, c) orthonormal columns: patches are stored as c coefficients; None where they are kept whole."""
    embeds_text: bool

    def prepare(self, image: Image) -> Pixels:
        """The encoder's input of one image, uint8 (ih, iw, 3)."""

    def images(self, batch: Pixels) -> Encoded:
        """Embed prepared images, uint8 (n, ih, iw, 3)."""

    def texts(self, texts: Sequence[str]) -> Floats:
        """Embed texts: (n, d), unit norm."""


@cache
def families() -> dict[str, str]:
    """Every family that can be loaded: its name → `module:Class`; built-ins cannot be shadowed."""
    found = {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}
    return found | FAMILIES


def describe_families() -> dict[str, str]:
    """Every family's name → the first line of its module's docstring."""
    modules = {name: home.partition(":")[0] for name, home in sorted(families().items())}
    return {name: (import_module(module).__doc__ or "").strip().partition("\n")[0] for name, module in modules.items()}


def require_family(spec: str) -> str:
    """The `module:Class` of a spec's family; an unknown one is answered with the known."""
    known = families()
    family = spec.partition(":")[0]
    if family not in known:
        raise SpecError(
            f"no encoder family is called {family!r} (in {spec!r}); known: {', '.join(sorted(known))}."
            f"{did_you_mean(family, known)}"
        )
    return known[family]


def load(spec: str, *, threads: int = 1) -> Encoder:
    """The encoder of a spec, its weights read on first use."""
    module, _, name = require_family(spec).partition(":")
    encoder: Encoder = getattr(import_module(module), name)(spec.partition(":")[2], threads=threads)
    _LOG.info("encoder %s, %d threads", encoder.spec, threads)
    return encoder


def check_encoder(encoder: Encoder) -> None:
    """Raise SpecError unless `encoder` keeps the contract. For authors of encoders and for our own tests."""
    height, width = encoder.input_hw
    batch = np.random.default_rng(0).integers(0, 256, (3, height, width, 3), dtype=np.uint8)
    encoded = encoder.images(batch)
    _check_vectors(encoder, "global_", encoded.global_, (3, encoder.dim))
    if encoder.grid_hw is not None:
        _check_vectors(encoder, "patches", encoded.patches, (3, *encoder.grid_hw, encoder.dim), shorter=True)
    if encoder.dense_shape is not None:
        _check_vectors(encoder, "dense", encoded.dense, (3, *encoder.dense_shape))
    alone = encoder.images(batch[1:2]).global_
    _require(encoder, np.allclose(alone, encoded.global_[1:2], atol=1e-4), "an image's batch changes its embedding")
    _require(encoder, len(encoder.digest) >= 8, "digest has fewer than 8 characters")
    if encoder.embeds_text:
        texts = encoder.texts(["red", "a green tree"])
        _check_vectors(encoder, "texts", texts, (2, encoder.dim))
        _require(encoder, encoder.texts([]).shape == (0, encoder.dim), "no texts must give (0, d)")
    if encoder.patch_basis is not None:
        gram = encoder.patch_basis.T @ encoder.patch_basis
        _require(encoder, np.allclose(gram, np.eye(len(gram)), atol=1e-3), "patch_basis is not orthonormal")


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
