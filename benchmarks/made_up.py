"""Collections of made-up embeddings, as large as wanted and made in seconds: what is timed is searching them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import PIL.Image

from wherein.encoders import load
from wherein.layers import layers_of
from wherein.store.manifest import THUMBS, Layer
from wherein.store.piece import Piece, Rows
from wherein.store.shards import Array
from wherein.store.store import Store
from wherein.values.records import FileRecord, ImageRecord

_BLOCK = 4096


def make_collection(folder: Path, *, images: int, encoder: str, kinds: Sequence[str] = ("global",)) -> None:
    """Random directions in every layer; 64 thumbnails take turns."""
    model = load(encoder)
    layers = layers_of(model, kinds)
    store = Store.create(folder / ".wherein")
    store.add_root(folder)
    store.add_layers([*layers, Layer(THUMBS, THUMBS)])
    store.serve(model.spec)
    rng = np.random.default_rng(0)
    thumbs = [_jpeg(rng) for _ in range(64)]
    with store.writing():
        for start in range(0, images, _BLOCK):
            count = min(_BLOCK, images - start)
            rows = {layer.name: _rows(rng, count, layer) for layer in layers}
            store.commit(
                [
                    _piece(start + n, {name: each[n : n + 1] for name, each in rows.items()}, thumbs[n % 64])
                    for n in range(count)
                ]
            )
    store.close()


def image_id(number: int) -> str:
    """The name of the image with that number."""
    return f"{number // 1000:04}/{number:07}.jpg"


def _rows(rng: np.random.Generator, count: int, layer: Layer) -> Array:
    if layer.dtype == "int8":
        return rng.integers(-16, 17, (count, *layer.shape), np.int8)
    rows = rng.standard_normal((count, *layer.shape), np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), layer.dtype)


def _piece(number: int, arrays: dict[str, Array], thumb: bytes) -> Piece:
    path = image_id(number)
    file = FileRecord("", path, 1, number, number.to_bytes(16, "big"))
    return Piece(
        file,
        ImageRecord(path, (640, 480), 1.7e9 + number),
        {name: Rows(rows) for name, rows in arrays.items()},
        {THUMBS: thumb},
    )


def _jpeg(rng: np.random.Generator) -> bytes:
    buffer = io.BytesIO()
    small = PIL.Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize((256, 192))
    small.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()
