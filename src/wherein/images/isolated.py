"""Files decoded in processes of their own: a file that kills its decoder, or never ends, costs that file alone."""

from __future__ import annotations

import atexit
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from wherein import errors
from wherein.errors import ImageError, UnreadableImage
from wherein.files import on_disk
from wherein.images.channel import Channel
from wherein.images.image import Image, ImageLike
from wherein.images.image import decode as decode_here
from wherein.images.picture import MAX_PIXELS, Detail, Enough
from wherein.images.video import EVERY, Keyframe

PATIENCE: Final = 60.0
"""Seconds for one image: the largest allowed takes about ten on a slow core."""
VIDEO_PATIENCE: Final = 600.0
"""Seconds until the next frame of a video: hours of film may be read before the first is chosen."""
_KEEP_MEMORY: Final = {"MALLOC_TRIM_THRESHOLD_": str(256 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
"""Bids the C library of Linux keep the memory of one image for the next: given back and asked for again, its pages are
a third of the time that a photograph of one megapixel takes. 32 MB is the most that it lets one piece have, and a
decoder that holds more than 400 MB is ended after its answer."""
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Bids numpy start no threads of its own: a copy of a process with several is not sound."""
ISOLATED = hasattr(socket, "socketpair") and os.name == "posix"


def decode(data: bytes, *, at_least: Detail | None = None, max_pixels: int = MAX_PIXELS, name: str) -> Image:
    """As `wherein.decode`, of the bytes of a file, in another process."""
    if not ISOLATED:
        return decode_here(data, at_least=at_least, max_pixels=max_pixels, name=name)
    with _POOL.decoder(name) as decoder:
        request: dict[str, Any] = {"name": name, "max_pixels": max_pixels, "at_least": at_least is not None}
        request["enough"] = astuple(at_least) if isinstance(at_least, Enough) else None  # it need not ask back
        decoder.ask(request, data)
        told = decoder.told(PATIENCE)
        while "full_wh" not in told and at_least is not None:
            width, height = told["size_wh"]
            decoder.send(at_least((width, height)))
            told = decoder.told(PATIENCE)
        return decoder.image(told)


def decode_given(
    source: ImageLike, *, at_least: Detail | None = None, max_pixels: int = MAX_PIXELS, name: str | None = None
) -> Image:
    """As `wherein.decode`, of whatever an image may be given as.

    The bytes of a file may be anybody's, so they are decoded in another process; a path, an array or a picture is what
    somebody here named or made, and is decoded here.
    """
    if isinstance(source, bytes):
        return decode(source, at_least=at_least, max_pixels=max_pixels, name=name or "bytes")
    return decode_here(source, at_least=at_least, max_pixels=max_pixels, name=name)


def frame_at(file: BinaryIO, seconds: float) -> Image:
    """As that of `wherein.images.video`, of an open file, in another process."""
    if not ISOLATED:
        from wherein.images.video import frame_at as frame_here

        return frame_here(file, seconds)
    lent = on_disk(file)
    try:
        with _POOL.decoder("the video") as decoder:
            decoder.ask({"frame": seconds})
            decoder.lend(lent)
            return decoder.image(decoder.told(PATIENCE))
    finally:
        if lent is not file:
            lent.close()


def keyframes(path: Path, *, every: float = EVERY, max_pixels: int = MAX_PIXELS) -> Iterator[Keyframe]:
    """As those of `wherein.images.video`, in another process."""
    if not ISOLATED:
        from wherein.images.video import keyframes as keyframes_here

        yield from keyframes_here(path, every=every, max_pixels=max_pixels)
        return
    with _POOL.decoder(str(path)) as decoder:
        decoder.ask({"video": os.fspath(path), "every": every, "max_pixels": max_pixels})
        while "end" not in (told := decoder.told(VIDEO_PATIENCE)):
            yield Keyframe(told["seconds"], decoder.image(told))


class _Crashed(Exception):
    """The decoder has ended, or was ended."""


class _Starter:
    """The process that decoders are copies of: it has loaded what they need."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "wherein.images.decoder", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | _KEEP_MEMORY | _ONE_THREAD | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._channel, self._turn = Channel(ours), threading.Lock()

    def start(self) -> tuple[int, Channel]:
        """A new decoder: the number of its process, and the way to it."""
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._turn:
                self._channel.send({})
                self._channel.lend(theirs.fileno())
                return int(self._channel.receive()[0]), Channel(ours)
        except (EOFError, OSError):
            ours.close()
            raise

    def ended(self, pid: int) -> int | None:
        """How a decoder has ended by itself; None where it had to be ended, or nobody knows."""
        try:
            with self._turn:
                self._channel.send({"end": pid})
                code: int | None = self._channel.receive()[0]
                return code
        except (EOFError, OSError):
            return None

    def close(self) -> None:
        """End it, and with it the decoders that nobody asks any more."""
        with suppress(OSError):
            self._channel.close()
        self._process.wait()


class _Decoder:
    """One process, and the way to it."""

    def __init__(self, starter: _Starter) -> None:
        self._starter = starter
        self.pid, self._channel = starter.start()
        self.busy = False
        """Whether an answer is still on its way."""
        self.large = False
        """Whether it holds so much memory that it had better be ended."""
        self._body, self._ended = b"", ""

    def ask(self, request: dict[str, Any], data: bytes = b"") -> None:
        self.busy = True
        self.send(request, data)

    def send(self, head: Any, body: bytes = b"") -> None:
        try:
            self._channel.send(head, body)
        except OSError as error:
            raise _Crashed(self.end()) from error

    def lend(self, file: BinaryIO) -> None:
        """Let it read an open file, which it need not be able to open itself."""
        try:
            self._channel.lend(file.fileno())
        except OSError as error:
            raise _Crashed(self.end()) from error

    def told(self, seconds: float) -> dict[str, Any]:
        """The next thing it says; an error of the file is raised as such."""
        try:
            if not self._channel.waits(seconds):
                self.end()
                raise _Crashed(f"it took longer than {seconds:g} s")
            told: dict[str, Any]
            told, self._body = self._channel.receive()
        except (EOFError, OSError) as error:
            raise _Crashed(self.end()) from error
        self.large = told.get("large", False)
        if "end" in told:
            self.busy = False
        if "error" in told:
            self.busy = False
            raised: ImageError = getattr(errors, told["error"])(told["said"])
            if told["passing"]:
                raised.__cause__ = OSError(told["said"])
            raise raised
        return told

    def image(self, told: dict[str, Any]) -> Image:
        """The image of which that was told last."""
        width, height = told["size_wh"]
        pixels = np.frombuffer(self._body, np.uint8).reshape(height, width, 3)
        self.busy = told["seconds"] is not None  # of a video, more may follow
        taken = None if told["taken"] is None else datetime.fromisoformat(told["taken"])
        return Image(pixels, (told["full_wh"][0], told["full_wh"][1]), taken)

    @property
    def alive(self) -> bool:
        """Whether its process still runs: who is not asked says nothing, and one that ends closes its socket."""
        return not self._ended and not self._channel.waits(0.0)

    def end(self) -> str:
        """End it, and say how it ended by itself, if it had."""
        if not self._ended:
            with suppress(OSError):
                self._channel.close()
            code = self._starter.ended(self.pid)
            self._ended = "it ended" if code is None else f"it ended with code {code}"
            if code is not None and code < 0:
                known = -code in set(signal.Signals)
                self._ended = f"it ended with {signal.Signals(-code).name}" if known else "it was ended"
        return self._ended


class _Pool:
    """The decoders of this process that are idle; one is started where all are at work."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._idle: queue.LifoQueue[_Decoder] = queue.LifoQueue()
        self._starter: _Starter | None = None
        self._owner = os.getpid()
        self.last: _Decoder | None = None
        """The one that was taken last."""

    @contextmanager
    def decoder(self, name: str) -> Iterator[_Decoder]:
        """One for the time of a file; where the file kills it, that is said of the file."""
        decoder = self.last = self._take()
        try:
            yield decoder
        except _Crashed as crash:
            raise UnreadableImage(
                f"{name}: its decoder failed ({crash}), so it is left out. Re-save or re-copy the file."
            ) from None
        finally:
            if decoder.busy or decoder.large or not decoder.alive:
                decoder.end()
            else:
                self._idle.put(decoder)

    def close(self) -> None:
        """End the decoders that no file is being decoded by."""
        if os.getpid() != self._owner:
            return
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().end()
        with self._turn:
            if self._starter is not None:
                self._starter.close()
                self._starter = None

    def prepare(self) -> _Starter:
        """The process that decoders are started by, which needs a moment before it can."""
        with self._turn:
            if os.getpid() != self._owner:  # a forked process must not speak to its parent's
                self._forget()
            if self._starter is None:
                self._starter = _Starter()
            return self._starter

    def _take(self) -> _Decoder:
        starter = self.prepare()
        with suppress(queue.Empty):
            while True:
                decoder = self._idle.get_nowait()
                if decoder.alive:
                    return decoder
                decoder.end()
        try:
            return _Decoder(starter)
        except (EOFError, OSError):  # somebody has ended the starter
            with self._turn:
                if self._starter is starter:
                    starter.close()
                    self._starter = None
            return _Decoder(self.prepare())


_POOL: Final = _Pool()
atexit.register(_POOL.close)
