"""Processes that decode files for another one, which they cannot harm: `python -m wherein.images.decoder SOCKET`.

The first loads what decoding needs and decodes nothing; asked for a decoder, it makes a copy of itself (a fork), which
takes milliseconds where loading takes a fifth of a second. It has one thread, so that its copies are sound.

A decoder takes one request after the other and answers with pixels, or with why there are none. Its memory is limited,
it writes no file, and it ends when the one who asks has ended.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
import warnings
from contextlib import suppress
from typing import Any, Final, NoReturn

import PIL.Image

from wherein.errors import ImageError
from wherein.images.channel import Channel
from wherein.images.picture import Detail, Enough, Picture, load_formats, picture_of

try:
    import resource
except ImportError:  # a system without such limits
    resource = None  # type: ignore[assignment]

MEMORY: Final = 3 << 29
"""Bytes that one file may take while it is decoded: 1.5 GB, for pixels within the limit and what a codec needs."""
_BIG: Final = 400 << 20
"""Bytes from which a decoder is ended after its answer, so that what a large image took is given back: more than images
of 64 million pixels take, and another decoder costs milliseconds."""
_GRACE: Final = 200
"""How often in a second it is looked whether a decoder has ended."""


def main(descriptor: int) -> None:
    """Start and end decoders as asked, until the one who asks has ended; then end those that are left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks decides when it ends
    warnings.simplefilter("ignore")
    PIL.Image.MAX_IMAGE_PIXELS = None  # Pillow's own limit is lower than ours for some formats; ours holds here
    load_formats()
    gc.freeze()  # what is loaded is never looked at again, so that copies share its memory
    channel, decoders = Channel(socket.socket(fileno=descriptor)), set[int]()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            asked, _ = channel.receive()
            if "end" in asked:
                decoders.discard(asked["end"])
                channel.send(_ended(asked["end"]))
                continue
            own = channel.lent()
            if not (process := os.fork()):
                channel.close()
                _decode(own)
            os.close(own)
            decoders.add(process)
            channel.send(process)
    for process in decoders:
        _ended(process)


def _ended(process: int) -> int | None:
    """How a decoder has ended by itself; one that has not after a second is ended, and None."""
    for _ in range(_GRACE):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(1 / _GRACE)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def _decode(descriptor: int) -> NoReturn:
    """Answer requests until there are none, and end."""
    try:
        _limit_memory()
        channel = Channel(socket.socket(fileno=descriptor))
        with suppress(EOFError, BrokenPipeError, ConnectionResetError):
            while True:
                _answer(channel, *channel.receive())
        os._exit(0)
    finally:
        os._exit(1)


def _answer(channel: Channel, asked: dict[str, Any], data: bytes) -> None:
    try:
        if "video" in asked:
            from wherein.images.video import keyframes

            for frame in keyframes(asked["video"], every=asked["every"], max_pixels=asked["max_pixels"]):
                _send(channel, frame.image.picture, seconds=frame.seconds)
            _tell(channel, {"end": True})
        elif "frame" in asked:
            from wherein.images.video import frame_at

            with os.fdopen(channel.lent(), "rb") as file:
                _send(channel, frame_at(file, asked["frame"]).picture)
        else:
            at_least = _at_least(channel, asked)
            picture = picture_of(data, asked["name"], at_least=at_least, max_pixels=asked["max_pixels"])
            _send(channel, picture)
    except ImageError as error:
        said = str(error).encode("utf-8", "backslashreplace").decode()
        passing = isinstance(error.__cause__, OSError)
        _tell(channel, {"error": type(error).__name__, "said": said, "passing": passing})


def _at_least(channel: Channel, asked: dict[str, Any]) -> Detail | None:
    """The side that is enough, as the one who asks said, or says when the size is known."""
    if asked["enough"]:
        return Enough(*asked["enough"])

    def ask_back(size_wh: tuple[int, int]) -> int:
        channel.send({"size_wh": size_wh})
        return int(channel.receive()[0])

    return ask_back if asked["at_least"] else None


def _send(channel: Channel, picture: Picture, *, seconds: float | None = None) -> None:
    taken = None if picture.taken is None else picture.taken.isoformat()
    told = {"size_wh": picture.rgb.size, "full_wh": picture.full_wh, "taken": taken, "seconds": seconds}
    _tell(channel, told, picture.rgb.tobytes())


def _tell(channel: Channel, told: dict[str, Any], body: bytes = b"") -> None:
    """Say something of an image, and whether so much memory was held that this process had better be ended after it."""
    channel.send(told | {"large": _most_held() > _BIG}, body)


def _limit_memory() -> None:
    if resource is None:
        return
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (_private() + MEMORY, resource.RLIM_INFINITY))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _private() -> int:
    """Bytes of this process's own data now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 — a file of the system
            return int(file.read().split()[5]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


def _most_held() -> int:
    """The most bytes that this process ever had in memory; 0 where the system does not say."""
    if resource is None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main(int(sys.argv[1]))
