"""What every kind of layer must keep, checked on small pictures."""

from __future__ import annotations

import pickle

import numpy as np

from wherein.encoders import Encoder
from wherein.errors import SpecError
from wherein.images.image import Image, decode
from wherein.layers import BytesKind, EncodedKind, open_kind


def check_layer(kind: str, encoder: Encoder) -> None:
    """Raise SpecError unless a kind of layer keeps the contract. For authors of layers and for our own tests."""
    made = open_kind(kind)
    layer = made.layer(encoder)
    _require(kind, made.needs_encoder == isinstance(made, EncodedKind), "says wrongly whether it needs an encoder")
    _require(kind, isinstance(made, EncodedKind | BytesKind), "is neither made of views nor of bytes")
    if layer is None:
        return
    _require(kind, bool(layer.name) and not set("/\\:") & set(layer.name), "has a name that no folder may have")
    _require(kind, made.side(encoder) >= 0, "wants an image of a negative size")
    random = np.random.default_rng(0)
    for shape in ((48, 64, 3), (90, 30, 3), (1, 1, 3), (40, 400, 3)):
        image = decode(random.integers(0, 256, shape, dtype=np.uint8))
        if isinstance(made, EncodedKind):
            _check_rows(made, image, encoder)
        elif isinstance(made, BytesKind):
            _require(kind, made.make(image) == made.make(image), "makes other bytes of the same image")
    _require(kind, pickle.loads(pickle.dumps(made)).kind == made.kind, "cannot be sent to another process")


def _check_rows(made: EncodedKind, image: Image, encoder: Encoder) -> None:
    views = made.views(image, encoder)
    _require(made.kind, len(views.images) == len(views.boxes) > 0, "has views without regions, or none")
    encoded = encoder.images(np.stack([encoder.prepare(view) for view in views.images]))
    rows = made.rows(encoded, views.boxes, encoder)
    _require(made.kind, len(rows.values) == len(rows.boxes), "has rows without regions")
    _require(made.kind, rows.values.shape[1:] == made.width(encoder), "has rows of another shape than it states")
    _require(made.kind, rows.values.dtype == np.dtype(made.dtype), "has rows of another type than it states")


def _require(kind: str, holds: bool, complaint: str) -> None:
    if not holds:
        raise SpecError(f"layer {kind!r} breaks the contract: it {complaint}.")
