"""Kinds of layers: what a collection can keep of every image. One kind is one file that declares itself.

A kind says how its rows are stored, how large an image it must see, what of an image the encoder is given for it, and
what the encoder's answer becomes. It is named by its word (`patches`), with what it is told after it where it takes
something (`static-9@0.1`, `local:xfeat`). To add one, write a file like `dense.py` and one line in `wherein.plugins`
(or an entry point of the group `wherein.layers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from wherein import plugins
from wherein.arrays import Floats
from wherein.encoders import Encoded, Encoder, stored_by
from wherein.errors import InputError, did_you_mean
from wherein.images.image import Image
from wherein.images.picture import Detail, Enough
from wherein.store.manifest import THUMBS, Layer
from wherein.store.piece import Rows
from wherein.store.shards import Array
from wherein.values.region import Box, tiles

DEFAULT_KINDS: Final = ("global", "patches", "cells", "dense", THUMBS)
"""What a new collection keeps unless it is told otherwise."""
TILES: Final = "tiles"
"""The views that the layers of one forward pass share: the whole image, and the tiles of a panorama."""


@dataclass(frozen=True, slots=True)
class EncoderViews:
    """What the encoder is given of one image, and the region of the image that each view shows."""

    images: tuple[Image, ...]
    boxes: tuple[Box | None, ...]
    """One for each view; None is the whole image."""


class LayerKind:
    """What every kind of layer has. A kind is told what was written, `static-9@0.1`, and refuses what it cannot be."""

    word = ""
    summary = ""
    """One line for people: what the layer holds."""
    example = ""
    """How it is written, where its word alone names no layer."""
    needs_encoder = True
    """Whether it is made with the encoder; else the same layer serves whatever encoder there is."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        if kind != self.word:
            raise InputError(f"layer {kind!r}: {self.word} takes nothing after its name. Write {self.word}.")

    def check(self) -> None:
        """Refuse, with MissingExtra or InputError, what cannot be filled on this machine."""

    def layer(self, encoder: Encoder) -> Layer | None:
        """The layer as it is stored: its name, shape and type. None where the encoder has nothing to fill it with."""
        raise NotImplementedError

    def seconds(self, images: int) -> float | None:  # noqa: ARG002 — slow kinds need it
        """How long so many images will take, for a kind that is far slower than the encoder; None for the others."""
        return None

    def side(self, encoder: Encoder) -> int:
        """The shorter side, in pixels, that an image must at least be decoded at."""
        return max(encoder.input_hw) if self.needs_encoder else 0


class EncodedKind(LayerKind):
    """A kind whose rows an encoder makes of views of the image."""

    shared_views = ""
    """Kinds of the same name here are given the same views, which are then encoded once; empty: it has its own."""

    def width(self, encoder: Encoder) -> tuple[int, ...] | None:
        """The shape of one row; None where the encoder has nothing of this kind."""
        return (encoder.dim,)

    @property
    def stem(self) -> str:
        """What the name of the layer begins with; letters that a folder may have."""
        return self.kind

    dtype = "float16"
    """The type that numbers are stored as; `int8` keeps 127 times each number, rounded."""

    def layer(self, encoder: Encoder) -> Layer | None:
        """The layer as it is stored, named by the kind, the encoder and its weights."""
        shape = self.width(encoder)
        if shape is None:
            return None
        encoder = stored_by(encoder)
        family = encoder.spec.replace(":", "-").replace("/", "_")
        name = f"{self.stem}.{family}.{encoder.digest[:8]}"
        return Layer(name, self.kind, encoder.spec, encoder.digest, shape, self.dtype)

    def views(self, image: Image, encoder: Encoder) -> EncoderViews:
        """What the encoder is given of an image."""
        raise NotImplementedError

    def rows(self, encoded: Encoded, boxes: tuple[Box | None, ...], encoder: Encoder) -> Rows:
        """What is stored of an image whose views, of these regions, were encoded."""
        return Rows(self.stored(encoded.global_, encoder), boxes)

    def stored(self, vectors: Floats | None, encoder: Encoder) -> Array:
        """Embeddings as the layer keeps them."""
        if vectors is None:
            raise TypeError(f"{encoder.spec} promised {self.kind} and gave none")
        if self.dtype == "int8":
            return np.asarray(np.rint(np.clip(vectors, -1, 1) * 127), np.int8)
        return np.asarray(vectors, self.dtype)


class TiledKind(EncodedKind):
    """A kind that is made by the one forward pass over the whole image, and over each tile of a panorama."""

    shared_views = TILES

    def views(self, image: Image, encoder: Encoder) -> EncoderViews:
        """The whole image, and its tiles where it is much wider or taller than the encoder's input."""
        boxes = tiles(image.full_wh, input_side=min(encoder.input_hw))
        return EncoderViews((image, *(image.crop(box) for box in boxes)), (None, *boxes))


class CroppedKind(EncodedKind):
    """A kind whose rows are crops of the image, each encoded as an image of its own."""

    def boxes(self, image: Image) -> tuple[Box, ...]:
        """The regions that are cropped."""
        raise NotImplementedError

    def views(self, image: Image, encoder: Encoder) -> EncoderViews:  # noqa: ARG002 — crops are the same for every encoder
        """Every region of the image as a crop of its own."""
        boxes = self.boxes(image)
        return EncoderViews(tuple(image.crop(box) for box in boxes), boxes)


class BytesKind(LayerKind):
    """A kind that is made without the encoder: bytes of another length for each image."""

    needs_encoder = False

    def make(self, image: Image) -> bytes:
        """What is stored of an image."""
        raise NotImplementedError


@cache
def open_kind(kind: str) -> LayerKind:
    """The kind of layer that is written so; one that does not exist is refused with those that do."""
    words = (kind, kind.partition(":")[0], kind.partition("-")[0])
    word = next((word for word in words if plugins.is_known("layers", word)), None)
    if word is None:
        known, told = kind_names()
        raise InputError(
            f"layer {kind!r}: there is none of that name; choose from {', '.join(known)} and such as "
            f"{', '.join(told)}.{did_you_mean(kind, known)}"
        )
    found: LayerKind = plugins.load("layers", word)(kind)
    return found


def kind_names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that name a layer alone, and examples of those that are told something."""
    kinds: list[type[LayerKind]] = [plugins.load("layers", word) for word in plugins.table("layers")]
    return tuple(k.word for k in kinds if not k.example), tuple(k.example for k in kinds if k.example)


def layers_of(encoder: Encoder, kinds: Sequence[str]) -> tuple[Layer, ...]:
    """The layers of some kinds, as they are stored; kinds that the encoder cannot fill are left out."""
    found = (open_kind(kind).layer(encoder) for kind in kinds)
    return tuple(layer for layer in found if layer is not None)


def detail(encoder: Encoder, *, least: int = 0) -> Detail:
    """The shorter side to decode an image at: the encoder's input for each of its tiles, or more where asked."""
    return Enough(max(least, *encoder.input_hw), min(encoder.input_hw))
