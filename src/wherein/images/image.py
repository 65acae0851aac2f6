"""Decoding: a path, bytes, a PIL image or an array becomes an upright RGB `Image`, within stated limits."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import PIL.Image

from wherein.errors import UnreadableImage
from wherein.images.picture import (
    MAX_PIXELS,
    Detail,
    Picture,
    check_pixels,
    failures_told,
    picture_of,
    read_bytes,
    upright,
)
from wherein.values.region import Box

Pixels = npt.NDArray[np.uint8]
ImageLike = str | os.PathLike[str] | bytes | PIL.Image.Image | Pixels
"""What an image can be given as: a path, the bytes of a file, a PIL image, or an array of pixels."""


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """An upright RGB image. `pixels` is uint8 (h, w, 3), and may be smaller than the file's `full_wh`."""

    pixels: Pixels
    full_wh: tuple[int, int]
    taken: datetime | None = None

    @property
    def picture(self) -> Picture:
        """The same as a picture of Pillow."""
        return Picture(PIL.Image.fromarray(self.pixels), self.full_wh, self.taken)

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height of `pixels`."""
        height, width = self.pixels.shape[:2]
        return width, height

    def crop(self, box: Box) -> Image:
        """The part inside `box`, at least one pixel."""
        x1, y1, x2, y2 = box.pixels(self.size_wh)
        fx1, fy1, fx2, fy2 = box.pixels(self.full_wh)
        return Image(self.pixels[y1:y2, x1:x2], (fx2 - fx1, fy2 - fy1), self.taken)

    def resized(self, size_wh: tuple[int, int]) -> Pixels:
        """The pixels squashed to `size_wh`, antialiased by a triangle twice as wide as a new pixel."""
        import cv2

        gaps = [max(1, int(old / (2 * new))) for old, new in zip(self.size_wh, size_wh, strict=True)]
        pixels = self.pixels
        if gaps != [1, 1]:  # means of whole blocks first, as many as leave the filter its work
            pixels = np.asarray(PIL.Image.fromarray(pixels).reduce((gaps[0], gaps[1])))
        across, down = (_triangle(old / new) for old, new in zip(pixels.shape[1::-1], size_wh, strict=True))
        if max(len(across), len(down)) > 1:
            pixels = np.asarray(cv2.sepFilter2D(pixels, -1, across, down, borderType=cv2.BORDER_REPLICATE), np.uint8)
        return np.asarray(cv2.resize(pixels, size_wh, interpolation=cv2.INTER_LINEAR), np.uint8)


def is_image_like(given: object) -> bool:
    """Whether something can be an image; what it holds is looked at when it is decoded."""
    return isinstance(given, str | os.PathLike | bytes | np.ndarray | PIL.Image.Image)


def decode(
    source: ImageLike,
    *,
    at_least: Detail | None = None,
    max_pixels: int = MAX_PIXELS,
    name: str | None = None,
) -> Image:
    """Decode `source` upright to RGB.

    With `at_least`, a JPEG is decoded at the smallest scale (1/2, 1/4, 1/8) that keeps its shorter side at
    least as long as it asks for, which is many times faster. `max_pixels` caps what is decoded into memory.
    """
    where = name or (os.fspath(source) if isinstance(source, str | os.PathLike) else type(source).__name__)
    with failures_told(where):
        if isinstance(source, np.ndarray):
            return _pixels_of(_from_array(source, where))
        if isinstance(source, PIL.Image.Image):
            check_pixels(source.size, where, max_pixels)
            return _pixels_of(upright(source, source.size))
        data = source if isinstance(source, bytes) else read_bytes(source)
        return _pixels_of(picture_of(data, where, at_least=at_least, max_pixels=max_pixels))


def _pixels_of(picture: Picture) -> Image:
    return Image(np.asarray(picture.rgb), picture.full_wh, picture.taken)


def _triangle(scale: float) -> npt.NDArray[np.float32]:
    """Weights that, before a linear resize, antialias a shrinking by `scale`: the resize itself blurs by one pixel."""
    if scale <= 1.0:
        return np.ones(1, np.float32)
    reach = math.sqrt(scale * scale - 1.0)
    taps = max(1, math.ceil(reach) - 1)
    weights = np.maximum(0.0, 1.0 - np.abs(np.arange(-taps, taps + 1)) / max(reach, 1.0))
    return np.asarray(weights / weights.sum(), np.float32)


def _from_array(array: npt.NDArray[np.generic], where: str) -> Picture:
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or 0 in array.shape:
        raise UnreadableImage(
            f"{where}: an array of {array.dtype} {array.shape} is not an image: give uint8 (h, w), (h, w, 3) or "
            "(h, w, 4) with at least one pixel."
        )
    if array.ndim == 3 and array.shape[2] not in (1, 3, 4):
        raise UnreadableImage(
            f"{where}: an array of shape {array.shape} has {array.shape[2]} channels: give 1, 3 or 4."
        )
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    picture = PIL.Image.fromarray(np.ascontiguousarray(array))
    return upright(picture, picture.size)
