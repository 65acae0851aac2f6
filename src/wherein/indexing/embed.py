"""What is made of one image: its layers, the encoder's inputs for them, and the rows its answers become."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import PIL.Image

from wherein.arrays import Floats, unit
from wherein.detectors.layer import SIDE as DETECTED_SIDE
from wherein.detectors.layer import DetectedKind, is_detected
from wherein.encoders import Encoded, Encoder
from wherein.errors import UnreadableImage
from wherein.features import FeatureFamily, load_features, pack
from wherein.images.image import Detail, Image, Pixels
from wherein.images.proposals import LEAST, proposed_boxes
from wherein.images.pyramid import STORED_SCALES, levels
from wherein.index.cells import CELLS_HW, sixths
from wherein.store.shards import Array
from wherein.store.store import THUMBS, Layer, Piece
from wherein.values.records import FileRecord, ImageRecord
from wherein.values.region import Box, Grid, tiles

THUMB_SIDE: Final = 256
THUMB_QUALITY: Final = 80
LOCAL: Final = "local"
PROPOSALS: Final = "proposals"
PYRAMID: Final = "pyramid"
CELLS: Final = "cells"
LAYER_KINDS: Final = ("global", "patches", CELLS, "dense", THUMBS, LOCAL, PROPOSALS, PYRAMID)
"""Beside these, a grid such as `static-9@0.1` is a layer of its encoded crops, `local:SPEC` of other features, and
`detected:NAMES@DETECTOR` of what a detector finds."""
DEFAULT_FEATURES: Final = "rootsift"
DEFAULT_KINDS: Final = ("global", "patches", CELLS, "dense", THUMBS)


def layers_of(encoder: Encoder, kinds: Sequence[str]) -> tuple[Layer, ...]:
    """The layers that an encoder fills, as they are stored."""
    family = encoder.spec.replace(":", "-").replace("/", "_")
    shapes: dict[str, tuple[int, ...]] = {"global": (encoder.dim,)}
    if encoder.grid_hw is not None:
        width = encoder.dim if encoder.patch_basis is None else encoder.patch_basis.shape[1]
        shapes["patches"] = (*encoder.grid_hw, width)
        shapes[CELLS] = (*CELLS_HW, encoder.dim)
    if encoder.dense_shape is not None:
        shapes["dense"] = encoder.dense_shape
    crops = (kind for kind in kinds if is_grid(kind) or is_detected(kind) or kind in (PROPOSALS, PYRAMID))
    shapes |= dict.fromkeys(crops, (encoder.dim,))
    return tuple(
        Layer(
            name=f"{DetectedKind.parse(kind).stem if is_detected(kind) else kind}.{family}.{encoder.digest[:8]}",
            kind=kind,
            spec=encoder.spec,
            digest=encoder.digest,
            shape=shapes[kind],
            dtype="int8" if kind in ("patches", CELLS, "dense") else "float16",
        )
        for kind in kinds
        if kind in shapes
    )


def features_of(kinds: Sequence[str]) -> dict[str, FeatureFamily]:
    """The local features among kinds of layers, each with its own: `local` is DEFAULT_FEATURES, `local:SPEC` others."""
    specs = {kind: kind.partition(":")[2] or DEFAULT_FEATURES for kind in kinds if is_local(kind)}
    return {kind: load_features(spec) for kind, spec in specs.items()}


def local_layer(kind: str, family: FeatureFamily) -> Layer:
    """The layer of local features, as it is stored: packed bytes, of another length for each image."""
    name = f"{LOCAL}.{family.spec.replace(':', '-').replace('/', '_')}.{family.digest[:8]}"
    return Layer(name=name, kind=kind, spec=family.spec, digest=family.digest)


def is_local(kind: str) -> bool:
    """Whether a kind of layer holds local features: `local`, or `local:SPEC`."""
    return kind.partition(":")[0] == LOCAL


def is_grid(kind: str) -> bool:
    """Whether a kind of layer is a grid whose cells are encoded as crops, such as `static-9@0.1`."""
    return kind.startswith("static-")


def detail(encoder: Encoder, grids: Sequence[Grid] = (), *, least: int = 0) -> Detail:
    """The shorter side to decode at for an encoder: its input, or more where tiles, cells or features need it."""
    finest = min((cell.x2 - cell.x1 for grid in grids for cell in grid.boxes()), default=1.0)
    side = max(least, math.ceil(max(encoder.input_hw) / finest))

    def enough(size_wh: tuple[int, int]) -> int:
        boxes = tiles(size_wh, input_side=min(encoder.input_hw))
        needed = [side / ((box.x2 - box.x1) * size_wh[0]) for box in boxes[:1]]
        needed += [side / ((box.y2 - box.y1) * size_wh[1]) for box in boxes[:1]]
        return max(side, math.ceil(max(needed, default=0.0) * min(size_wh)))

    return enough


@dataclass(frozen=True, slots=True)
class Prepared:
    """One image, decoded: the encoder's inputs of its rows."""

    piece: Piece
    inputs: list[Pixels]
    groups: tuple[tuple[tuple[str, ...], int], ...]
    """Which layers are made of the next so many inputs, one group after the other."""
    failed: tuple[tuple[str, str], ...] = ()
    """(layer, reason) of those that could not be made"""


class LayerMaker:
    """Makes the layers of images with an encoder: what it is given of one, and what its answer becomes."""

    def __init__(self, encoder: Encoder, kinds: Sequence[str]) -> None:
        self._encoder = encoder
        self._layers = layers_of(encoder, kinds)
        self._grids = {layer.name: Grid.parse(layer.kind) for layer in self._layers if is_grid(layer.kind)}
        self._proposals = next((layer.name for layer in self._layers if layer.kind == PROPOSALS), None)
        self._pyramid = next((layer.name for layer in self._layers if layer.kind == PYRAMID), None)
        self._several = next((one.name for one in self._layers if one.kind == "global" and encoder.vectors > 1), None)
        detected = {layer.name: layer.kind for layer in self._layers if is_detected(layer.kind)}
        self._detected = {name: DetectedKind.parse(kind) for name, kind in detected.items()}
        families = features_of(kinds)
        self._features = {local_layer(kind, family).name: family for kind, family in families.items()}
        self._names = frozenset([layer.name for layer in self._layers] + list(self._features))
        self._names |= {THUMBS} if THUMBS in kinds else set()
        finest = max((family.side for family in families.values()), default=0)
        finest = max(finest, math.ceil(max(encoder.input_hw) / LEAST)) if self._proposals is not None else finest
        finest = max(finest, math.ceil(max(encoder.input_hw) * max(STORED_SCALES))) if self._pyramid else finest
        finest = max(finest, DETECTED_SIDE) if self._detected else finest
        self.detail = detail(encoder, list(self._grids.values()), least=finest)
        """The shorter side that an image is decoded at."""

    def prepare(self, image: Image, piece: Piece, only: frozenset[str] | None = None) -> Prepared:
        """The inputs of an image's rows, beside what is made without the encoder; of `only` some layers where given."""
        made = self._names if only is None else self._names & only
        views, groups = list[Image](), list[tuple[tuple[str, ...], int]]()
        boxes: tuple[Box | None, ...] = (None, *tiles(image.full_wh, input_side=min(self._encoder.input_hw)))
        cells: dict[str, tuple[Box | None, ...]] = {n: grid.boxes() for n, grid in self._grids.items() if n in made}
        if self._proposals is not None and self._proposals in made:
            cells[self._proposals] = (Box(0.0, 0.0, 1.0, 1.0), *proposed_boxes(image))
        cells |= {name: kind.boxes(image) for name, kind in self._detected.items() if name in made}
        special = {*self._grids, *self._detected, self._proposals, self._pyramid}
        tiled = tuple(one.name for one in self._layers if one.name in made and one.name not in special)
        for names, regions in [(tiled, boxes), *(((name,), own) for name, own in cells.items())]:
            if names:
                groups.append((names, len(regions)))
                views += [image if box is None else image.crop(box) for box in regions]
        if self._pyramid is not None and self._pyramid in made:
            cells[self._pyramid] = (None,)
            groups.append(((self._pyramid,), len(STORED_SCALES)))
            views += levels(image, STORED_SCALES)
        if self._several in made:  # a view of the image has several rows there, and one in every other layer
            cells[self._several] = tuple(box for box in boxes for _ in range(self._encoder.vectors))
        blobs, failed = self._local(image, made)
        thumb = thumbnail(image) if THUMBS in made else None
        piece = replace(piece, boxes=boxes, cells=cells, blobs=blobs, thumb=thumb)
        return Prepared(piece, [self._encoder.prepare(view) for view in views], tuple(groups), failed)

    def _local(self, image: Image, made: frozenset[str]) -> tuple[dict[str, bytes], tuple[tuple[str, str], ...]]:
        """The local features of an image by layer, and why some could not be made: the other layers do without them."""
        blobs, failed = dict[str, bytes](), list[tuple[str, str]]()
        for name, family in self._features.items():
            if name in made:
                try:
                    blobs[name] = pack(family.features(image, side=family.side), compact=family.compact)
                except Exception as error:  # families of other packages raise nearly anything
                    failed.append((name, f"{type(error).__name__}: {error}"))
        return blobs, tuple(failed)

    def encode(self, batch: Sequence[Prepared]) -> list[Piece]:
        """The images of a batch with their rows."""
        encoded = self._encoder.images(np.stack([pixels for item in batch for pixels in item.inputs]))
        used = {name for item in batch for names, _ in item.groups for name in names}
        arrays = {layer.name: self._stored(encoded, layer) for layer in self._layers if layer.name in used}
        start, done = 0, list[Piece]()
        for item in batch:
            own = dict[str, Array]()
            for names, count in item.groups:
                rows = slice(start, start + count)
                start += count
                for name in names:
                    if name == self._pyramid:
                        mean = unit(encoded.global_[rows].sum(axis=0, keepdims=True))
                        own[name] = mean.astype(arrays[name].dtype)
                    elif name == self._several and encoded.several is not None:
                        own[name] = encoded.several[rows].reshape(-1, self._encoder.dim).astype(arrays[name].dtype)
                    else:
                        own[name] = arrays[name][rows]
            done.append(replace(item.piece, arrays=own))
        return done

    def _stored(self, encoded: Encoded, layer: Layer) -> Array:
        vectors = {"patches": encoded.patches, CELLS: encoded.patches, "dense": encoded.dense}
        return stored(vectors.get(layer.kind, encoded.global_), layer, self._encoder)


def piece_of(file: FileRecord, image_id: str, image: Image, *, seconds: float | None, last: bool, fills: bool) -> Piece:
    """An image before its layers are made: what is known of it."""
    if seconds is not None and not math.isfinite(seconds):
        raise UnreadableImage(f"{image_id}: a frame is shown at no time that can be told. Re-encode the file.")
    return Piece(file, ImageRecord(image_id, image.full_wh, _taken(image, file), seconds), last=last, fills=fills)


def _taken(image: Image, file: FileRecord) -> float:
    """When a picture was taken, or else when its file was written."""
    try:
        return file.mtime_ns / 1e9 if image.taken is None else image.taken.timestamp()
    except (OverflowError, ValueError, OSError):  # the last hours of the year 9999, east of Greenwich
        return file.mtime_ns / 1e9


def stored(vectors: Floats | None, layer: Layer, encoder: Encoder) -> Array:
    """Embeddings as a layer keeps them: half precision, or 127ths; patches in the encoder's compact basis."""
    if vectors is None:
        raise TypeError(f"{encoder.spec} promised {layer.kind} and gave none")
    if layer.kind == "patches" and encoder.patch_basis is not None:
        vectors = vectors @ encoder.patch_basis
    if layer.kind == CELLS:
        vectors = sixths(vectors)
    if layer.dtype == "int8":
        return np.asarray(np.rint(np.clip(vectors, -1, 1) * 127), np.int8)
    return np.asarray(vectors, layer.dtype)


def thumbnail(image: Image) -> bytes:
    """A small JPEG, its longer side at most THUMB_SIDE."""
    width, height = image.size_wh
    scale = min(1.0, THUMB_SIDE / max(width, height))
    pixels = image.resized((max(1, round(width * scale)), max(1, round(height * scale))))
    buffer = io.BytesIO()
    PIL.Image.fromarray(pixels).save(buffer, "JPEG", quality=THUMB_QUALITY)
    return buffer.getvalue()
