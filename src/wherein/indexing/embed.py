"""Files → pieces with embeddings: the only batching loop. Decode ahead, encode, write behind.

A few equal workers share one rule: encode when a batch is ready, else decode the next file. No core waits for
another stage, and none is oversubscribed, because every encoder call runs on the one thread that makes it.
"""

from __future__ import annotations

import hashlib
import io
import math
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import PIL.Image

from wherein.arrays import Floats, unit
from wherein.encoders import Encoder
from wherein.errors import ImageError, UnreadableImage
from wherein.features import FeatureFamily, load_features, pack
from wherein.images.image import MAX_PIXELS, Detail, Image, ImageLike, Pixels, decode, may_pass, read_bytes
from wherein.images.proposals import LEAST, proposed_boxes
from wherein.images.pyramid import STORED_SCALES, levels
from wherein.images.video import is_video, keyframe_id, keyframes
from wherein.index.cells import CELLS_HW, sixths
from wherein.store.shards import Array
from wherein.store.store import THUMBS, Layer, Piece
from wherein.values.records import FileRecord, ImageRecord
from wherein.values.region import Box, Grid, tiles

BATCH: Final = 8
THUMB_SIDE: Final = 256
THUMB_QUALITY: Final = 80
LOCAL: Final = "local"
PROPOSALS: Final = "proposals"
PYRAMID: Final = "pyramid"
CELLS: Final = "cells"
LAYER_KINDS: Final = ("global", "patches", CELLS, "dense", THUMBS, LOCAL, PROPOSALS, PYRAMID)
"""Beside these, a grid such as `static-9@0.1` is a layer of its encoded crops, and `local:SPEC` of other features."""
DEFAULT_FEATURES: Final = "rootsift"
DEFAULT_KINDS: Final = ("global", "patches", CELLS, "dense", THUMBS)


@dataclass(frozen=True, slots=True)
class Task:
    """A file to read, or an image already in memory."""

    file: FileRecord
    image_id: str
    source: Path | ImageLike


@dataclass(frozen=True, slots=True)
class Known:
    """The file's content is in the collection already."""

    file: FileRecord
    task: Task


@dataclass(frozen=True, slots=True)
class Skipped:
    """The file cannot be used, and why."""

    file: FileRecord
    reason: str
    passing: bool
    """Whether it may be readable later, as it is."""


Outcome = Piece | Known | Skipped


@dataclass(frozen=True, slots=True)
class _Prepared:
    """One image, decoded: the encoder's inputs of its rows."""

    piece: Piece
    inputs: list[Pixels]


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
    shapes |= {kind: (encoder.dim,) for kind in kinds if is_grid(kind) or kind in (PROPOSALS, PYRAMID)}
    return tuple(
        Layer(
            name=f"{kind}.{family}.{encoder.digest[:8]}",
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


class Embedder:
    """Runs tasks through decoding and encoding on all cores; yields outcomes as they are done."""

    def __init__(
        self,
        encoder: Encoder,
        *,
        kinds: Sequence[str],
        known: Callable[[FileRecord], bool],
        workers: int,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self._encoder = encoder
        self._layers = layers_of(encoder, kinds)
        self._thumbs = THUMBS in kinds
        self._grids = {layer.name: Grid.parse(layer.kind) for layer in self._layers if is_grid(layer.kind)}
        self._proposals = next((layer.name for layer in self._layers if layer.kind == PROPOSALS), None)
        self._pyramid = next((layer.name for layer in self._layers if layer.kind == PYRAMID), None)
        families = features_of(kinds)
        self._features = {local_layer(kind, family).name: family for kind, family in families.items()}
        finest = max((family.side for family in families.values()), default=0)
        finest = max(finest, math.ceil(max(encoder.input_hw) / LEAST)) if self._proposals is not None else finest
        finest = max(finest, math.ceil(max(encoder.input_hw) * max(STORED_SCALES))) if self._pyramid else finest
        self._detail = detail(encoder, list(self._grids.values()), least=finest)
        self._known = known
        self._max_pixels = max_pixels
        self._workers = workers
        self._ready = list[_Prepared]()
        self._decoding = 0
        self._state = threading.Condition()
        self._outcomes: queue.Queue[list[Outcome] | BaseException | None] = queue.Queue(maxsize=8 * workers)
        self._stopped = threading.Event()

    def run(self, tasks: Iterable[Task]) -> Generator[Outcome, None, None]:
        """The outcome of every task; pieces of one file keep their order."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"):  # the workers are the parallelism
            yield from self._run(iter(tasks))

    def _run(self, source: Iterator[Task]) -> Generator[Outcome, None, None]:
        threads = [
            threading.Thread(target=self._work, args=(source,), name=f"wherein-embed-{i}", daemon=True)
            for i in range(self._workers)
        ]
        for thread in threads:
            thread.start()
        running = len(threads)
        try:
            while running:
                outcomes = self._outcomes.get()
                if outcomes is None:
                    running -= 1
                elif isinstance(outcomes, BaseException):
                    raise outcomes
                else:
                    yield from outcomes
        finally:
            self._stopped.set()
            with self._state:
                self._state.notify_all()
            for thread in threads:
                while thread.is_alive():
                    self._drain()  # a worker may be waiting to put one more outcome
                    thread.join(0.01)

    def _drain(self) -> None:
        while not self._outcomes.empty():
            self._outcomes.get_nowait()

    def _work(self, source: Iterator[Task]) -> None:
        try:
            while not self._stopped.is_set():
                batch = self._take_batch(whole=True)
                if batch:
                    self._encode(batch)
                    continue
                with self._state:
                    task = next(source, None)
                    self._decoding += task is not None
                if task is not None:
                    self._decode(task)
                elif not self._finish():
                    break
        except BaseException as error:  # the consumer raises it; a worker must never die silently
            self._outcomes.put(error)
        finally:
            self._outcomes.put(None)

    def _take_batch(self, *, whole: bool) -> list[_Prepared]:
        with self._state:
            if whole and sum(len(item.inputs) for item in self._ready) < BATCH:
                return []
            batch, count = list[_Prepared](), 0
            while self._ready and count < BATCH:
                count += len(self._ready[0].inputs)
                batch.append(self._ready.pop(0))
            return batch

    def _finish(self) -> bool:
        """Nothing left to decode: encode the rest. False when nothing is left at all."""
        with self._state:
            while self._decoding and not self._ready and not self._stopped.is_set():
                self._state.wait()
        rest = self._take_batch(whole=False)
        if rest:
            self._encode(rest)
        return bool(rest) or self._decoding > 0

    def _decode(self, task: Task) -> None:
        try:
            if isinstance(task.source, Path) and is_video(task.source):
                self._decode_video(task, task.source)
                return
            item = self._read(task)
            if isinstance(item, Known):
                self._outcomes.put([item])
                return
            with self._state:
                self._ready.append(item)
        except ImageError as error:
            self._outcomes.put([Skipped(task.file, _without_name(str(error), task), may_pass(error))])
        finally:
            with self._state:
                self._decoding -= 1
                self._state.notify_all()

    def _read(self, task: Task) -> _Prepared | Known:
        if isinstance(task.source, Path):
            data = read_bytes(task.source)
            file = replace(task.file, hash=_hash(data))
            if self._known(file):
                return Known(file, task)
            image = decode(data, at_least=self._detail, max_pixels=self._max_pixels, name=str(task.source))
        else:
            image = decode(task.source, max_pixels=self._max_pixels, name=task.image_id)
            file = replace(task.file, hash=_hash(repr(image.pixels.shape).encode() + image.pixels.tobytes()))
            if self._known(file):
                return Known(file, task)
        return self._prepare(task, file, image)

    def _decode_video(self, task: Task, path: Path) -> None:
        """One worker takes a whole video, in order and a batch at a time, so that memory stays flat."""
        file = replace(task.file, hash=_hash_file(path))
        if self._known(file):
            self._outcomes.put([Known(file, task)])
            return
        batch = list[_Prepared]()
        for frame in keyframes(path):
            if self._stopped.is_set():
                return
            if len(batch) == BATCH:
                self._encode(batch)
                batch = []
            keyed = replace(task, image_id=keyframe_id(task.image_id, frame.seconds))
            batch.append(self._prepare(keyed, file, frame.image, seconds=frame.seconds, last=False))
        if not batch:
            raise UnreadableImage(f"{path}: holds no keyframe that can be decoded. Re-encode the file.")
        batch[-1] = replace(batch[-1], piece=replace(batch[-1].piece, last=True))
        self._encode(batch)

    def _prepare(
        self, task: Task, file: FileRecord, image: Image, *, seconds: float | None = None, last: bool = True
    ) -> _Prepared:
        boxes: tuple[Box | None, ...] = (None, *tiles(image.full_wh, input_side=min(self._encoder.input_hw)))
        cells: dict[str, tuple[Box | None, ...]] = {name: grid.boxes() for name, grid in self._grids.items()}
        if self._proposals is not None:
            cells[self._proposals] = (Box(0.0, 0.0, 1.0, 1.0), *proposed_boxes(image))
        rows = (*boxes, *(cell for own in cells.values() for cell in own))
        views = [image if box is None else image.crop(box) for box in rows]
        if self._pyramid is not None:
            cells[self._pyramid] = (None,)
            views += levels(image, STORED_SCALES)
        inputs = [self._encoder.prepare(view) for view in views]
        taken = image.taken.timestamp() if image.taken is not None else file.mtime_ns / 1e9
        record = ImageRecord(task.image_id, image.full_wh, taken, seconds)
        thumb = thumbnail(image) if self._thumbs else None
        blobs = {
            name: pack(family.features(image, side=family.side), compact=family.compact)
            for name, family in self._features.items()
        }
        return _Prepared(Piece(file, record, boxes, {}, thumb, last, cells, blobs), inputs)

    def _encode(self, batch: list[_Prepared]) -> None:
        encoded = self._encoder.images(np.stack([pixels for item in batch for pixels in item.inputs]))
        vectors = {
            "global": encoded.global_,
            "patches": encoded.patches,
            CELLS: encoded.patches,
            "dense": encoded.dense,
        }
        arrays = {
            layer.name: stored(vectors.get(layer.kind, encoded.global_), layer, self._encoder) for layer in self._layers
        }
        start, done = 0, list[Outcome]()
        for item in batch:
            own, end = dict[str, Array](), start + len(item.piece.boxes)
            for name, rows in arrays.items():
                if name not in item.piece.cells:
                    own[name] = rows[start:end]
            for name, cells in item.piece.cells.items():
                if name == self._pyramid:
                    last = end + len(STORED_SCALES)
                    own[name] = unit(encoded.global_[end:last].sum(axis=0, keepdims=True)).astype(arrays[name].dtype)
                else:
                    last = end + len(cells)
                    own[name] = arrays[name][end:last]
                end = last
            done.append(replace(item.piece, arrays=own))
            start = end
        self._outcomes.put(done)  # a batch at a time: the consumer wakes up seldom


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


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _hash_file(path: Path) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise UnreadableImage(f"{path}: cannot be read ({error.strerror}).") from error
    return digest.digest()


def _without_name(reason: str, task: Task) -> str:
    name = str(task.source) if isinstance(task.source, Path) else task.image_id
    return reason.removeprefix(f"{name}: ")
