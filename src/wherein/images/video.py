"""Videos as images: keyframes, changes of scene, one every few seconds. Needs the extra `wherein[video]` (PyAV).

Encoders place keyframes as they like: one a minute, or one a frame. So a clip whose keyframes lie close together is
read by those alone, which is fast; any other is decoded whole, and the frames that stand for it are chosen.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from wherein.arrays import Floats
from wherein.errors import InputError, MissingExtra, UnreadableImage
from wherein.images.image import Image
from wherein.images.picture import MAX_PIXELS, check_pixels

VIDEO_SUFFIXES: Final = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".wmv"})
EVERY: Final = 5.0
"""Seconds that a clip may go on without an image of it, unless said otherwise: few events that people look for are
shorter, and an hour is 720 images.
"""
MOST_FRAMES: Final = 2_000
"""Images of one clip, at most; a longer or livelier clip gets them further apart. It is an hour, one every 1.8 s."""
_CLOSE: Final = 1.0
"""Seconds between keyframes up to which nothing between them matters. Where every frame is a keyframe (MJPEG, ProRes),
one in as long is kept.
"""
_SETTLED: Final = 0.5
"""Seconds after an image before a change of scene gives another: a flash is no scene."""
_CUT: Final = 0.1
"""How far two frames that follow each other differ at a change of scene, as a share of the full range, on average over
a thumbnail. Moving cameras reach half of it, and cuts twice.
"""
_CUT_SIDE: Final = 32
"""Pixels of each side of that thumbnail."""
_MICROSECONDS: Final = 1_000_000
"""PyAV tells the length of a film in them."""
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


def keyframes(
    path: str | os.PathLike[str], *, every: float = EVERY, max_pixels: int = MAX_PIXELS
) -> Iterator[Keyframe]:
    """The frames that stand for a video, in order, one held at a time.

    They are its keyframes, the first of each scene, and enough others that never more than `every` seconds pass
    without one; at most MOST_FRAMES. A frame of more than `max_pixels` is not decoded.
    """
    with _opened(path) as container:
        _check_frame(container.streams.video[0].codec_context, path, max_pixels)
        marks = _keyframe_times(container, container.streams.video[0])
    with _opened(path) as container:
        stream = container.streams.video[0]
        stream.codec_context.options = {"max_pixels": str(max_pixels)}  # for frames that turn out larger than was said
        for frame in _chosen(container, stream, marks, every=every):
            _check_frame(frame.image.size_wh, path, max_pixels)
            yield frame


def _check_frame(size: Any, path: str | os.PathLike[str], max_pixels: int) -> None:
    size_wh = size if isinstance(size, tuple) else (int(size.width), int(size.height))
    check_pixels(size_wh, _name(path), max_pixels)


@dataclass(frozen=True, slots=True)
class _Marks:
    """When a video has keyframes, and how long it is, as its packets say before any is decoded."""

    seconds: tuple[float, ...]
    packets: int
    end: float

    @property
    def apart(self) -> float:
        """The longest time without a keyframe."""
        gaps = zip(self.seconds, (*self.seconds[1:], self.end), strict=True)
        return max((later - one for one, later in gaps), default=float("inf"))

    @property
    def all_keys(self) -> bool:
        """Whether every frame is a keyframe."""
        return len(self.seconds) == self.packets


def _name(source: str | os.PathLike[str] | BinaryIO) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else "the video"


def _keyframe_times(container: Any, stream: Any) -> _Marks:
    times, keys = list[float](), list[float]()
    for packet in container.demux(stream):
        if packet.pts is not None:
            times.append(float(packet.pts * packet.time_base))
            keys += times[-1:] if packet.is_keyframe else []
    return _Marks(tuple(sorted(keys)), len(times), max(times, default=0.0))


def _chosen(container: Any, stream: Any, marks: _Marks, *, every: float) -> Iterator[Keyframe]:
    least = (marks.end - min(marks.seconds, default=0.0)) / MOST_FRAMES
    every = max(every, least)
    keys_only = marks.apart <= min(_CLOSE, every)
    between = max(least, _CLOSE if marks.all_keys else 0.0)
    if keys_only:
        stream.codec_context.skip_frame = "NONKEY"  # some decoders do not know it: what they give is looked at below
    stream.thread_type = "AUTO"
    last, changed, seen = -float("inf"), False, None
    for frame in container.decode(stream):
        seconds = round(float(frame.time), 3) if frame.time is not None else max(last + 1.0, 0.0)
        if seconds <= last or (keys_only and not frame.key_frame):
            continue
        if not keys_only:
            small = _thumbnail(frame)
            changed = changed or (seen is not None and float(np.abs(small - seen).mean()) >= _CUT)
            seen = small
        gone = seconds - last + _SAME_MOMENT
        due = gone >= every or (frame.key_frame and gone >= between) or (changed and gone >= max(_SETTLED, least))
        if due:
            last, changed = seconds, False
            yield Keyframe(seconds, _upright(frame))


def _thumbnail(frame: Any) -> Floats:
    small = frame.reformat(width=_CUT_SIDE, height=_CUT_SIDE, format="rgb24").to_ndarray()
    return np.asarray(small / 255, np.float32)


@contextmanager
def _opened(source: str | os.PathLike[str] | BinaryIO) -> Iterator[Any]:
    """A video file, to be decoded; what goes wrong meanwhile is told by its name."""
    path = _name(source)
    try:
        import av
    except ImportError:
        raise MissingExtra(f"{path}: video needs an extra: pip install 'wherein[video]'.") from None
    try:
        with av.open(path if isinstance(source, str | os.PathLike) else source) as container:
            if not container.streams.video:
                raise UnreadableImage(f"{path}: has no video stream, only {len(container.streams)} other.")
            yield container
    except InputError:
        raise
    except Exception as error:  # libav raises one class per error code
        reason = getattr(error, "strerror", None) or error
        raise UnreadableImage(f"{path}: cannot be decoded ({reason}). Re-encode the file.") from error


def _upright(frame: Any) -> Image:
    pixels = np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90))
    return Image(np.ascontiguousarray(pixels), (pixels.shape[1], pixels.shape[0]))


def split_frame(name: str) -> tuple[str, float] | None:
    """`clip.mp4#t=12.48` → its file and the second; None where it names no frame of a video."""
    file, mark, seconds = name.rpartition("#t=")
    if not mark or not is_video(file) or not seconds.replace(".", "", 1).isdecimal():
        return None
    return file, float(seconds)


def seconds_of(written: str | float) -> float:
    """A length of time as people write it: 5, `5s`, `500ms`, `2m`."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(ms|s|m|min|h|)\s*", str(written))
    seconds = float(found[1]) * {"ms": 0.001, "m": 60.0, "min": 60.0, "h": 3600.0}.get(found[2], 1.0) if found else 0.0
    if isinstance(written, bool) or not math.isfinite(seconds) or seconds <= 0.0:
        raise InputError(f"every = {written!r}: give a time above zero, in seconds or as 5s, 500ms or 2m.")
    return seconds


def frame_at(path: str | os.PathLike[str] | BinaryIO, seconds: float) -> Image:
    """The frame of a video that is shown at a second, be it a keyframe or not."""
    with _opened(path) as container:
        stream = container.streams.video[0]
        length = None if container.duration is None else container.duration / _MICROSECONDS
        if length is not None and seconds > length:
            raise UnreadableImage(f"{_name(path)}: lasts {length:g} s and has no frame at {seconds:g} s.")
        container.seek(max(0, int(seconds / stream.time_base) - 1), stream=stream)
        shown = None
        for frame in container.decode(stream):
            if shown is not None and frame.time is not None and frame.time > seconds + _SAME_MOMENT:
                break
            shown = frame
    if shown is None:
        raise UnreadableImage(f"{_name(path)}: has no frame at {seconds:g} s. Choose an earlier one.")
    return _upright(shown)
