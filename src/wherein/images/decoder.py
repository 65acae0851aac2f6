"""A process that decodes files for another one, which it cannot harm: `python -m wherein.images.decoder SOCKET`.

It takes one request after the other and answers with pixels, or with why there are none. Its memory is limited, it
writes no file, and it ends when the one who asks has ended.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np
import PIL.Image

from wherein.errors import ImageError
from wherein.images.channel import Channel
from wherein.images.image import Enough, Image, decode
from wherein.images.video import frame_at, keyframes

MEMORY: Final = 3 << 29
"""Bytes that one file may take while it is decoded: 1.5 GB, for pixels within the limit and what a codec needs."""
_BIG: Final = 400 << 20
"""Bytes of its own from which a process ends after its answer: what a large image took is then given back."""


def main(descriptor: int) -> None:
    """Answer requests until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks decides when it ends
    warnings.simplefilter("ignore")
    PIL.Image.MAX_IMAGE_PIXELS = None  # Pillow's own limit is lower than ours for some formats; ours holds here
    _limit_memory()
    channel = Channel(socket.socket(fileno=descriptor))
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            _answer(channel, json.loads(channel.receive()))
            if _resident() > _BIG:
                return


def _answer(channel: Channel, asked: dict[str, Any]) -> None:
    try:
        if "video" in asked:
            for frame in keyframes(asked["video"], every=asked["every"], max_pixels=asked["max_pixels"]):
                _send(channel, frame.image, seconds=frame.seconds)
            channel.send(b'{"end": true}')
            return
        if "frame" in asked:
            with os.fdopen(channel.lent(), "rb") as file:
                _send(channel, frame_at(file, asked["frame"]))
            return
        data = channel.receive()
        at_least: Callable[[tuple[int, int]], int] | None = None
        if asked["enough"]:
            at_least = Enough(*asked["enough"])
        elif asked["at_least"]:

            def at_least(size_wh: tuple[int, int]) -> int:
                channel.send(json.dumps({"size_wh": size_wh}).encode())
                return int(json.loads(channel.receive()))

        image = decode(data, at_least=at_least, max_pixels=asked["max_pixels"], name=asked["name"])
        _send(channel, image)
    except ImageError as error:
        told = {"error": type(error).__name__, "said": str(error).encode("utf-8", "backslashreplace").decode()}
        told["passing"] = str(int(isinstance(error.__cause__, OSError)))
        channel.send(json.dumps(told).encode())


def _send(channel: Channel, image: Image, *, seconds: float | None = None) -> None:
    taken = None if image.taken is None else image.taken.isoformat()
    head = {"shape": image.pixels.shape, "full_wh": image.full_wh, "taken": taken, "seconds": seconds}
    channel.send(json.dumps(head).encode())
    channel.send(np.ascontiguousarray(image.pixels).reshape(-1).data)  # without a copy


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (_private() + MEMORY, resource.RLIM_INFINITY))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _private() -> int:
    """Bytes of this process's own data now."""
    return _pages(5)


def _resident() -> int:
    """Bytes of this process that are in memory."""
    return _pages(1)


def _pages(field: int) -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 — a file of the system, read often
            return int(file.read().split()[field]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main(int(sys.argv[1]))
