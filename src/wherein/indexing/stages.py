"""What is made of a file, as pure stages: read, prepare, encode. An executor runs them wherever it likes.

    read(task)      → the file's bytes and the hash of its content
    prepare(read)   → for each of its images, the encoder's inputs and what needs no encoder
    encode(batch)   → the images with the rows of every layer

`Stages` can be pickled: the copy names its encoder by its spec, and loads it once in each process.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.encoders import Encoded, Encoder, load
from wherein.errors import ImageError, UnreadableImage
from wherein.images import isolated
from wherein.images.elsewhere import LocalCopy, read_elsewhere
from wherein.images.image import Image, ImageLike, Pixels, decode
from wherein.images.picture import MAX_PIXELS, may_pass, read_bytes
from wherein.images.video import EVERY, Keyframe, is_video, keyframe_id
from wherein.layers import BytesKind, EncodedKind, detail, open_kind
from wherein.store.manifest import Layer
from wherein.store.originals import content_hash
from wherein.store.piece import Piece, Rows
from wherein.values.address import Address, Location
from wherein.values.records import FileRecord, ImageRecord
from wherein.values.region import Box

BATCH: Final = 4
"""Prepared images that one call of an encoder gets, at least; it may ask for more. The arrays of four stay in memory
that the process keeps, those of eight are asked of the system each time: with `mini` 188 page faults an image, counted
around `Stages.encode`."""


@dataclass(frozen=True, slots=True)
class IndexTask:
    """A file to read, or an image already in memory."""

    file: FileRecord
    image_id: str
    source: Location | ImageLike
    layers: frozenset[str] | None = None
    """The layers that a content of the collection, `file.hash`, still lacks; None: all are made, if it is new."""

    @property
    def name(self) -> str:
        """What the source is called in messages."""
        return str(self.source) if isinstance(self.source, Path | Address) else self.image_id


@dataclass(frozen=True, slots=True)
class Read:
    """A file that was read: its record with the hash of its content, and the content; of a video, where it is."""

    task: IndexTask
    file: FileRecord
    content: bytes | Image | Path | LocalCopy

    @property
    def is_video(self) -> bool:
        """Whether it has several images, which are decoded one by one."""
        return isinstance(self.content, Path | LocalCopy)


@dataclass(frozen=True, slots=True)
class Known:
    """The file's content is in the collection already."""

    file: FileRecord
    task: IndexTask


@dataclass(frozen=True, slots=True)
class Skipped:
    """The file cannot be used, and why."""

    file: FileRecord
    reason: str
    passing: bool
    """Whether it may be readable later, as it is."""

    @classmethod
    def of(cls, task: IndexTask, error: ImageError) -> Skipped:
        """What an error says of a task, without the name that is told beside it, in letters that can be stored."""
        return cls(task.file, _storable(str(error).removeprefix(f"{task.name}: ")), may_pass(error))


@dataclass(frozen=True, slots=True)
class Unfilled:
    """One layer of an image could not be made, and why; its other layers were."""

    file: FileRecord
    layer: str
    reason: str


Outcome = Piece | Known | Skipped | Unfilled


@dataclass(frozen=True, slots=True)
class Viewed:
    """Some of an image's inputs: of which regions they are, and which layers are made of them."""

    layers: tuple[str, ...]
    boxes: tuple[Box | None, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """One image, decoded: the encoder's inputs of its rows, and its piece with what needs no encoder."""

    piece: Piece
    inputs: list[Pixels]
    views: tuple[Viewed, ...] = ()
    """What the inputs are for: the first views have the first inputs."""
    failed: tuple[Unfilled, ...] = ()


class Stages:
    """Makes the layers of files with an encoder. Its calls are thread-safe and leave nothing behind."""

    def __init__(
        self, encoder: Encoder, kinds: Sequence[str], *, max_pixels: int = MAX_PIXELS, every: float = EVERY
    ) -> None:
        self.encoder, self.kinds, self.max_pixels, self.every = encoder, tuple(kinds), max_pixels, every
        opened = [open_kind(kind) for kind in self.kinds]
        stored = [(kind, kind.layer(encoder)) for kind in opened]
        self.layers: tuple[Layer, ...] = tuple(layer for _, layer in stored if layer is not None)
        """The layers that are filled, as they are stored."""
        self._encoded = {one.name: kind for kind, one in stored if one is not None and isinstance(kind, EncodedKind)}
        self._bytes = {one.name: kind for kind, one in stored if one is not None and isinstance(kind, BytesKind)}
        used = [kind for kind, layer in stored if layer is not None]
        self._detail = detail(encoder, least=max((kind.side(encoder) for kind in used), default=0))

    def __reduce__(self) -> tuple[Any, ...]:
        return _stages_here, (self.encoder.spec, self.encoder.device, self.kinds, self.max_pixels, self.every)

    @cached_property
    def batch(self) -> int:
        """How many inputs one call of `encode` is best given."""
        return max(BATCH, self.encoder.batch)

    def read(self, task: IndexTask) -> Read:
        """A file's content and its hash; ImageError where it cannot be read or is no longer what it was."""
        if isinstance(task.source, Address):
            return self._expected(_read_elsewhere(task, task.source))
        if not isinstance(task.source, Path):
            image = decode(task.source, max_pixels=self.max_pixels, name=task.image_id)
            content = repr(image.pixels.shape).encode() + image.pixels.tobytes()
            return self._expected(Read(task, replace(task.file, hash=_hash(content)), image))
        if is_video(task.source):
            return self._expected(Read(task, replace(task.file, hash=_hash_file(task.source)), task.source))
        data = read_bytes(task.source)
        return self._expected(Read(task, replace(task.file, hash=_hash(data)), data))

    def _expected(self, read: Read) -> Read:
        """A content whose layers are to be filled must still be there."""
        if read.task.layers is not None and read.file.hash != read.task.file.hash:
            raise UnreadableImage(f"{read.task.name}: has changed since it was looked at. Run `wherein index` again.")
        return read

    def prepare(self, read: Read) -> Iterator[Prepared]:
        """The one image of a file, or the images of a video in order; ImageError where it cannot be decoded."""
        task = read.task
        image = read.content
        if not isinstance(image, Path | LocalCopy):
            if isinstance(image, bytes):
                image = isolated.decode(image, at_least=self._detail, max_pixels=self.max_pixels, name=task.name)
            yield self._described(read, image, image_id=task.image_id)
            return
        before, image_ids = None, list[str]()
        for frame in self._frames(image, task.name):
            if before is not None:
                yield before
            image_ids.append(keyframe_id(task.image_id, frame.seconds))
            before = self._described(read, frame.image, image_id=image_ids[-1], seconds=frame.seconds)
        if before is None:
            raise UnreadableImage(f"{task.name}: holds no keyframe that can be decoded. Re-encode the file.")
        yield replace(before, piece=replace(before.piece, last=True, image_ids=tuple(image_ids)))

    def _frames(self, video: Path | LocalCopy, name: str) -> Iterator[Keyframe]:
        """The images of a video; of one that lies elsewhere, what is wrong is told by its own name."""
        path = video if isinstance(video, Path) else video.path
        try:
            yield from isolated.keyframes(path, every=self.every, max_pixels=self.max_pixels)
        except ImageError as error:
            if isinstance(video, Path):
                raise
            raise type(error)(str(error).replace(str(path), name)) from error.__cause__

    def encode(self, batch: Sequence[Prepared]) -> list[Piece | Unfilled]:
        """The images of a batch with their rows, and which of their layers could not be made."""
        inputs = [pixels for item in batch for pixels in item.inputs]
        encoded = self.encoder.images(np.stack(inputs)) if inputs else None
        start, done = 0, list[Piece | Unfilled]()
        for item in batch:
            rows = dict[str, Rows]()
            for view in item.views:
                if encoded is None:
                    raise TypeError("an image has views and no inputs")
                own = _part(encoded, slice(start, start + len(view.boxes)))
                start += len(view.boxes)
                for name in view.layers:
                    rows[name] = self._encoded[name].rows(own, view.boxes, self.encoder)
            done.append(replace(item.piece, rows=rows))
            done += item.failed
        return done

    def _described(self, read: Read, image: Image, *, image_id: str, seconds: float | None = None) -> Prepared:
        try:
            record = _record(read.file, image_id, image, seconds=seconds)
            fills, still = read.task.layers is not None, seconds is None
            return self._prepared(image, Piece(read.file, record, last=still, fills=fills), read.task.layers)
        except ImageError:
            raise
        except Exception as error:  # no fact of one file may end a batch
            raise UnreadableImage(f"{read.task.name}: cannot be described ({_told(error)}).") from error

    def _prepared(self, image: Image, piece: Piece, only: frozenset[str] | None) -> Prepared:
        """The inputs of an image's rows, beside what is made without the encoder; of `only` some layers where given."""
        groups = dict[str, list[str]]()
        for name, kind in self._encoded.items():
            if only is None or name in only:
                groups.setdefault(kind.shared_views or name, []).append(name)
        inputs, viewed, failed = list[Pixels](), list[Viewed](), list[Unfilled]()
        for names in groups.values():
            kind = self._encoded[names[0]]
            try:
                views = kind.views(image, self.encoder)
                made = [self.encoder.prepare(view) for view in views.images]
            except Exception as error:  # what one kind of layer cannot look at, the others may
                if kind.shared_views:
                    raise
                failed.append(Unfilled(piece.file, names[0], _told(error)))
            else:
                inputs += made
                viewed.append(Viewed(tuple(names), views.boxes))
        blobs = dict[str, bytes]()
        for name, own in self._bytes.items():
            if only is None or name in only:
                try:
                    blobs[name] = own.make(image)
                except Exception as error:  # families of other packages raise nearly anything
                    failed.append(Unfilled(piece.file, name, _told(error)))
        return Prepared(replace(piece, blobs=blobs), inputs, tuple(viewed), tuple(failed))


@cache
def _encoder_here(spec: str, device: str) -> Encoder:
    """The encoder of this process; one thread a call, because workers call side by side."""
    return load(spec, threads=1, device=device)


def _stages_here(spec: str, device: str, kinds: tuple[str, ...], max_pixels: int, every: float) -> Stages:
    """Stages that were sent to this process."""
    return Stages(_encoder_here(spec, device), kinds, max_pixels=max_pixels, every=every)


def _told(error: Exception) -> str:
    """What an error is, in letters that can be stored and printed."""
    return _storable(f"{type(error).__name__}: {error}")


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _part(encoded: Encoded, some: slice) -> Encoded:
    """What was encoded of some inputs."""
    patches, dense, several = (
        None if one is None else one[some] for one in (encoded.patches, encoded.dense, encoded.several)
    )
    return Encoded(encoded.global_[some], patches, dense, several)


def _record(file: FileRecord, image_id: str, image: Image, *, seconds: float | None) -> ImageRecord:
    """What is known of an image before its layers are made."""
    if seconds is not None and not math.isfinite(seconds):
        raise UnreadableImage(f"{image_id}: a frame is shown at no time that can be told. Re-encode the file.")
    return ImageRecord(image_id, image.full_wh, _taken(image, file), seconds)


def _taken(image: Image, file: FileRecord) -> float:
    """When a picture was taken, or else when its file was written."""
    try:
        return file.mtime_ns / 1e9 if image.taken is None else image.taken.timestamp()
    except (OverflowError, ValueError, OSError):  # the last hours of the year 9999, east of Greenwich
        return file.mtime_ns / 1e9


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _read_elsewhere(task: IndexTask, source: Address) -> Read:
    """A file elsewhere: an image whole, a video as a copy on this machine."""
    if is_video(source.name):
        copy = LocalCopy(source, size=task.file.size)
        return Read(task, replace(task.file, hash=_hash_file(copy.path)), copy)
    data = read_elsewhere(source, size=task.file.size)
    return Read(task, replace(task.file, hash=_hash(data)), data)


def _hash_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return content_hash(file)
    except OSError as error:
        raise UnreadableImage(f"{path}: cannot be read ({error.strerror}).") from error
