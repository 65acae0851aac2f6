"""Files → pieces with embeddings: the only batching loop. Decode ahead, encode, write behind.

A few equal workers share one rule: encode when a batch is ready, else decode the next file. No core waits for
another stage, and none is oversubscribed, because every encoder call runs on the one thread that makes it.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wherein.encoders import Encoder
from wherein.errors import ImageError, UnreadableImage
from wherein.images.image import MAX_PIXELS, Image, ImageLike, decode, may_pass, read_bytes
from wherein.images.video import EVERY, is_video, keyframe_id, keyframes
from wherein.indexing.embed import LayerMaker, Prepared, piece_of
from wherein.store.originals import content_hash
from wherein.store.store import Piece
from wherein.values.records import FileRecord

BATCH: Final = 8
"""Prepared images that one call of an encoder gets, at least; it may ask for more."""


@dataclass(frozen=True, slots=True)
class Task:
    """A file to read, or an image already in memory."""

    file: FileRecord
    image_id: str
    source: Path | ImageLike
    layers: frozenset[str] | None = None
    """The layers that a content of the collection, `file.hash`, still lacks; None: all are made, if it is new."""


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


@dataclass(frozen=True, slots=True)
class Unfilled:
    """One layer of an image could not be made, and why; its other layers were."""

    file: FileRecord
    layer: str
    reason: str


Outcome = Piece | Known | Skipped | Unfilled


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
        every: float = EVERY,
    ) -> None:
        self._every = every
        self._maker = LayerMaker(encoder, kinds)
        self._batch = max(BATCH, encoder.batch)
        self._known = known
        self._max_pixels = max_pixels
        self._workers = workers
        self._ready = list[Prepared]()
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

    def _take_batch(self, *, whole: bool) -> list[Prepared]:
        with self._state:
            if whole and sum(len(item.inputs) for item in self._ready) < self._batch:
                return []
            batch, count = list[Prepared](), 0
            while self._ready and count < self._batch:
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
            if not item.inputs:  # nothing is left for the encoder
                self._outcomes.put([item.piece, *(Unfilled(item.piece.file, *one) for one in item.failed)])
                return
            with self._state:
                self._ready.append(item)
        except ImageError as error:
            self._outcomes.put([Skipped(task.file, _without_name(str(error), task), may_pass(error))])
        finally:
            with self._state:
                self._decoding -= 1
                self._state.notify_all()

    def _read(self, task: Task) -> Prepared | Known:
        if isinstance(task.source, Path):
            data = read_bytes(task.source)
            file = replace(task.file, hash=_hash(data))
            if self._is_known(task, file):
                return Known(file, task)
            image = decode(data, at_least=self._maker.detail, max_pixels=self._max_pixels, name=str(task.source))
        else:
            image = decode(task.source, max_pixels=self._max_pixels, name=task.image_id)
            file = replace(task.file, hash=_hash(repr(image.pixels.shape).encode() + image.pixels.tobytes()))
            if self._is_known(task, file):
                return Known(file, task)
        return self._prepare(task, file, image)

    def _is_known(self, task: Task, file: FileRecord) -> bool:
        """Whether nothing is to be made of a content; one that is to be filled must still be there."""
        if task.layers is None:
            return self._known(file)
        if file.hash != task.file.hash:
            raise UnreadableImage(f"{_name(task)}: has changed since it was looked at. Run `wherein index` again.")
        return False

    def _decode_video(self, task: Task, path: Path) -> None:
        """One worker takes a whole video, in order and a batch at a time, so that memory stays flat."""
        file = replace(task.file, hash=_hash_file(path))
        if self._is_known(task, file):
            self._outcomes.put([Known(file, task)])
            return
        batch, image_ids = list[Prepared](), list[str]()
        for frame in keyframes(path, every=self._every):
            if self._stopped.is_set():
                return
            if len(batch) == self._batch:
                self._encode(batch)
                batch = []
            keyed = replace(task, image_id=keyframe_id(task.image_id, frame.seconds))
            image_ids.append(keyed.image_id)
            batch.append(self._prepare(keyed, file, frame.image, seconds=frame.seconds, last=False))
        if not batch:
            raise UnreadableImage(f"{path}: holds no keyframe that can be decoded. Re-encode the file.")
        batch[-1] = replace(batch[-1], piece=replace(batch[-1].piece, last=True, image_ids=tuple(image_ids)))
        self._encode(batch)

    def _prepare(
        self, task: Task, file: FileRecord, image: Image, *, seconds: float | None = None, last: bool = True
    ) -> Prepared:
        fills = task.layers is not None
        try:
            piece = piece_of(file, task.image_id, image, seconds=seconds, last=last, fills=fills)
            return self._maker.prepare(image, piece, task.layers)
        except ImageError:
            raise
        except Exception as error:  # no fact of one file may end a batch
            reason = f"{type(error).__name__}: {error}"
            raise UnreadableImage(f"{_name(task)}: cannot be described ({reason}).") from error

    def _encode(self, batch: list[Prepared]) -> None:
        failed = [Unfilled(item.piece.file, *one) for item in batch for one in item.failed]
        self._outcomes.put([*self._maker.encode(batch), *failed])  # a batch at a time: the consumer wakes up seldom


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _hash_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return content_hash(file)
    except OSError as error:
        raise UnreadableImage(f"{path}: cannot be read ({error.strerror}).") from error


def _without_name(reason: str, task: Task) -> str:
    """A reason without the name that is told beside it, in letters that can be stored and printed."""
    return reason.removeprefix(f"{_name(task)}: ").encode("utf-8", "backslashreplace").decode()


def _name(task: Task) -> str:
    return str(task.source) if isinstance(task.source, Path) else task.image_id
