"""Video files as images: one per keyframe, with its time. Needs the extra `wherein[video]` (PyAV)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.errors import InputError, MissingExtra, UnreadableImage
from wherein.images.image import Image

VIDEO_SUFFIXES: Final = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".wmv"})
# Where every frame is a keyframe (MJPEG, ProRes), one a second is kept.
_INTRA_ONLY_GAP: Final = 1.0
_SAME_MOMENT: Final = 0.0015
"""Seconds by which a time may differ from the frame's own: ids say milliseconds."""


@dataclass(frozen=True, slots=True)
class Keyframe:
    """An image of a video and the second it is shown at."""

    seconds: float
    image: Image


def keyframe_id(image_id: str, seconds: float) -> str:
    """`clip.mp4` at 12.48 s → `clip.mp4#t=12.48`: milliseconds, without trailing zeros."""
    return f"{image_id}#t={f'{seconds:.3f}'.rstrip('0').rstrip('.')}"


def is_video(path: str | os.PathLike[str]) -> bool:
    """Whether the file's name is that of a video."""
    return Path(path).suffix.lower() in VIDEO_SUFFIXES


def keyframes(path: str | os.PathLike[str]) -> Iterator[Keyframe]:
    """Decode the keyframes of a video, in order, holding one at a time."""
    with _opened(path) as container:
        yield from _decode(container, container.streams.video[0])


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A video file, to be decoded; what goes wrong meanwhile is told by its name."""
    try:
        import av
    except ImportError:
        raise MissingExtra(f"{os.fspath(path)}: video needs an extra: pip install 'wherein[video]'.") from None
    try:
        with av.open(os.fspath(path)) as container:
            if not container.streams.video:
                raise UnreadableImage(f"{os.fspath(path)}: has no video stream, only {len(container.streams)} other.")
            yield container
    except InputError:
        raise
    except Exception as error:  # libav raises one class per error code
        reason = getattr(error, "strerror", None) or error
        raise UnreadableImage(f"{os.fspath(path)}: cannot be decoded ({reason}). Re-encode the file.") from error


def _decode(container: Any, stream: Any) -> Iterator[Keyframe]:
    stream.codec_context.skip_frame = "NONKEY"
    gap = _INTRA_ONLY_GAP if stream.codec_context.codec.intra_only else 0.0
    last = -float("inf")
    for frame in container.decode(stream):
        seconds = round(float(frame.time), 3) if frame.time is not None else max(last + 1.0, 0.0)
        if seconds <= last or seconds - last < gap:
            continue
        last = seconds
        yield Keyframe(seconds, _upright(frame))


def _upright(frame: Any) -> Image:
    pixels = np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90))
    return Image(np.ascontiguousarray(pixels), (pixels.shape[1], pixels.shape[0]))


def split_frame(name: str) -> tuple[str, float] | None:
    """`clip.mp4#t=12.48` → its file and the second; None where it names no frame of a video."""
    file, mark, seconds = name.rpartition("#t=")
    if not mark or not is_video(file) or not seconds.replace(".", "", 1).isdecimal():
        return None
    return file, float(seconds)


def frame_at(path: str | os.PathLike[str], seconds: float) -> Image:
    """The frame of a video that is shown at a second, be it a keyframe or not."""
    with _opened(path) as container:
        stream = container.streams.video[0]
        container.seek(max(0, int(seconds / stream.time_base) - 1), stream=stream)
        shown = None
        for frame in container.decode(stream):
            if shown is not None and frame.time is not None and frame.time > seconds + _SAME_MOMENT:
                break
            shown = frame
    if shown is None:
        raise UnreadableImage(f"{os.fspath(path)}: has no frame at {seconds:g} s. Choose an earlier one.")
    return _upright(shown)
