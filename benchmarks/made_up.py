"""Collections of made-up embeddings, as large as wanted and made in seconds: what is timed is searching them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import PIL.Image

from wherein.encoders import load
from wherein.indexing.compress import update_codes
from wherein.layers import layers_of
from wherein.store.manifest import THUMBS, Layer
from wherein.store.piece import Piece, Rows
from wherein.store.shards import Array
from wherein.store.store import Store
from wherein.values.records import FileRecord, ImageRecord

_BLOCK = 4096
_MANY = 200_000
"""Thumbnails of more images are tiny, to spare the disk: they are not searched."""
_SCENES = 512
"""Grids of patches and cells are made of two of so many, which gives each of 100,000 images its own."""


def make_collection(
    folder: Path, *, images: int, encoder: str, kinds: Sequence[str] = ("global",), whole: Array | None = None
) -> None:
    """Random directions for whole images, mixed scenes for grids of patches and cells; 64 thumbnails take turns.

    `whole` (images, d) are embeddings of whole images, where they are known.
    """
    model = load(encoder)
    layers = layers_of(model, kinds)
    store = Store.create(folder / ".wherein")
    store.add_root(folder)
    store.add_layers([*layers, Layer(THUMBS, THUMBS)])
    store.serve(model.spec)
    rng = np.random.default_rng(0)
    thumbs = [_jpeg(rng, (256, 192) if images <= _MANY else (16, 12)) for _ in range(64)]
    with store.writing():
        for start in range(0, images, _BLOCK):
            count = min(_BLOCK, images - start)
            rows = {layer.name: _rows(rng, count, layer) for layer in layers}
            if whole is not None:
                rows[layers[0].name] = np.asarray(whole[start : start + count], layers[0].dtype)
            store.commit(
                [
                    _piece(start + n, {name: each[n : n + 1] for name, each in rows.items()}, thumbs[n % 64])
                    for n in range(count)
                ]
            )
        update_codes(store, model)
    store.close()


def image_id(number: int) -> str:
    """The name of the image with that number."""
    return f"{number // 1000:04}/{number:07}.jpg"


def _rows(rng: np.random.Generator, count: int, layer: Layer) -> Array:
    if layer.dtype == "int8":
        first, second = rng.integers(0, _SCENES, (2, count))
        scenes = _scenes(layer.name, tuple(layer.shape))
        return np.asarray((scenes[first].astype(np.int16) + scenes[second]) // 2, np.int8)
    rows = rng.standard_normal((count, *layer.shape), np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), layer.dtype)


@cache
def _scenes(name: str, shape: tuple[int, int, int]) -> Array:
    """(_SCENES, gh, gw, c) int8: grids that are smooth, and flat in most directions, as those of real images are.

    Of cells of 512 numbers 128 directions hold 94 % here; of those that `mini` makes of captioned photos as well.
    """
    rng = np.random.default_rng(len(name))
    rows, columns, width = shape
    strength = np.exp(-np.arange(width, dtype=np.float32) / 90)
    turned = strength[:, None] * np.linalg.qr(rng.standard_normal((width, width)))[0].astype(np.float32)
    found = np.empty((_SCENES, *shape), np.int8)
    for number in range(_SCENES):
        coarse, fine = (rng.standard_normal((*hw, width), np.float32) for hw in ((4, 4), (rows, columns)))
        smooth = np.stack([cv2.resize(own, (columns, rows)) for own in np.moveaxis(coarse, -1, 0)], axis=-1)
        values = (smooth + np.float32(0.4) * fine) @ turned
        found[number] = np.clip(np.rint(values * (127 / np.linalg.norm(values, axis=-1).max())), -127, 127)
    return found


def _piece(number: int, arrays: dict[str, Array], thumb: bytes) -> Piece:
    path = image_id(number)
    file = FileRecord("", path, 1, number, number.to_bytes(16, "big"))
    return Piece(
        file,
        ImageRecord(path, (640, 480), 1.7e9 + number),
        {name: Rows(rows) for name, rows in arrays.items()},
        {THUMBS: thumb},
    )


def _jpeg(rng: np.random.Generator, size_wh: tuple[int, int]) -> bytes:
    buffer = io.BytesIO()
    small = PIL.Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize(size_wh)
    small.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()
