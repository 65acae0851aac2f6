"""Masks, bool (h, w), and their other spellings: COCO run lengths, polygons, boxes, files. Pure geometry.

Polygons run along pixel edges: x in [0, w], y in [0, h]; a pixel is inside when its middle is, by the even-odd
rule, so that holes are polygons too and a mask comes back exactly from its own outline.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypedDict

import numpy as np
import numpy.typing as npt

from wherein.arrays import Mask
from wherein.errors import RegionError
from wherein.values.region import Box

MaskLike = Mask | str | os.PathLike[str]
Polygon = list[tuple[float, float]]

_RIGHT, _DOWN, _LEFT, _UP = (1, 0), (0, 1), (-1, 0), (0, -1)
# At a corner where two pixels touch only diagonally the outline turns right, so that each keeps its own loop.
_TURNS: Final = {
    _RIGHT: (_DOWN, _RIGHT, _UP),
    _DOWN: (_LEFT, _DOWN, _RIGHT),
    _LEFT: (_UP, _LEFT, _DOWN),
    _UP: (_RIGHT, _UP, _LEFT),
}

_SMOOTH: Final = 0.8
"""Pixels of a mask by which its drawn outline may leave it: less than one, so that stairs become lines and no more."""

_LONGEST_RUN: Final = 7
"""Characters of one run in COCO's string: 35 bits, more than any image has pixels."""


class Rle(TypedDict):
    """COCO's run lengths: `size` is [h, w]; `counts` are runs down the columns, beginning with zeros."""

    size: list[int]
    counts: str | list[int]


def mask_box(mask: Mask) -> Box | None:
    """The box around a mask's pixels; None where it has none."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if len(rows) == 0:
        return None
    height, width = mask.shape
    return Box(columns[0] / width, rows[0] / height, (columns[-1] + 1) / width, (rows[-1] + 1) / height)


def box_mask(box: Box, *, size_wh: tuple[int, int]) -> Mask:
    """The pixels that a box touches."""
    x1, y1, x2, y2 = box.pixels(size_wh)
    mask = np.zeros(size_wh[::-1], np.bool_)
    mask[y1:y2, x1:x2] = True
    return mask


def coverage(box: Box, *, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """How much of a box each place of a grid of `shape` (rows, columns) holds; all of them together hold 1."""
    down, across = (
        _spans(count, low, high) for count, (low, high) in zip(shape, ((box.y1, box.y2), (box.x1, box.x2)), strict=True)
    )
    return np.asarray(np.outer(down / down.sum(), across / across.sum()), np.float32)


def _spans(count: int, low: float, high: float) -> npt.NDArray[np.float64]:
    """How much of [low, high] each of `count` equal steps of [0, 1] covers."""
    edges = np.linspace(0.0, 1.0, count + 1)
    return np.asarray(np.clip(np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1]), 0.0, None), np.float64)


def resized(mask: Mask, *, size_wh: tuple[int, int]) -> Mask:
    """The mask at another resolution, each pixel from the nearest one."""
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(np.int64)
        for new, old in zip(size_wh[::-1], mask.shape, strict=True)
    )
    return np.asarray(mask[rows][:, columns])


def read_mask(source: MaskLike) -> Mask:
    """A mask from an array, or from a picture whose non-black pixels are inside; an empty one is refused."""
    if isinstance(source, np.ndarray):
        mask, name = source, "the mask"
        if mask.ndim != 2 or mask.dtype != np.bool_:
            raise RegionError(f"a mask is a bool array (h, w); this one is {mask.dtype} {mask.shape}.")
    else:
        mask, name = _picture(source), os.fspath(source)
    if not mask.any():
        raise RegionError(f"{name}: has no pixel inside. Mark what is meant in white.")
    return mask


def check_aspect(mask: Mask, *, size_wh: tuple[int, int]) -> None:
    """Refuse a mask that cannot belong to an image of `size_wh`."""
    (height, width), (image_width, image_height) = mask.shape, size_wh
    # One pixel of rounding on the mask's shorter side is allowed for.
    if abs(width * image_height - height * image_width) > 1.5 * max(size_wh):
        raise RegionError(
            f"the mask has {width} × {height} pixels, the image {image_width} × {image_height}: they differ in shape. "
            "Draw the mask on the upright image."
        )


def _picture(path: str | os.PathLike[str]) -> Mask:
    import PIL.Image

    try:
        with PIL.Image.open(path) as picture:
            grey = np.asarray(picture.convert("L"))
    except FileNotFoundError as error:
        raise RegionError(f"{os.fspath(path)}: there is no such file to read a mask from.") from error
    except (OSError, ValueError, PIL.Image.DecompressionBombError) as error:
        raise RegionError(f"{os.fspath(path)}: is no mask that can be read ({error}). Save it as a PNG.") from error
    return np.asarray(grey > 0)


# run lengths


def to_rle(mask: Mask, *, compressed: bool = True) -> Rle:
    """COCO run lengths: `counts` as COCO's string, or as the plain list of numbers."""
    flat = np.concatenate([[False], mask.ravel(order="F"), [False]])
    changes = np.flatnonzero(flat[1:] != flat[:-1])
    ends = np.append(changes, mask.size) if len(changes) == 0 or changes[-1] != mask.size else changes
    counts = [int(run) for run in np.diff(ends, prepend=0)]
    return {"size": [int(side) for side in mask.shape], "counts": _packed(counts) if compressed else counts}


def from_rle(rle: Rle) -> Mask:
    """The mask of COCO run lengths, compressed or not."""
    try:
        height, width = (int(side) for side in rle["size"])
        counts = rle["counts"]
        runs = _unpacked(counts) if isinstance(counts, str) else [int(run) for run in counts]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise RegionError(f"run lengths need a size [h, w] and counts ({error!r}); this is not COCO's RLE.") from error
    check_runs(runs, size=(height, width))
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape((height, width), order="F")


def check_runs(runs: Sequence[int], *, size: tuple[int, int]) -> None:
    """Refuse plain run lengths that are not those of a mask of (height, width)."""
    height, width = size
    if min(runs, default=0) < 0 or sum(runs) != height * width:
        raise RegionError(
            f"run lengths cover {sum(runs)} pixels, the mask has {height} × {width}: send them for every pixel."
        )


def _packed(counts: Sequence[int]) -> str:
    """COCO's string: each run, from the fourth on as its difference to the last of its kind, 5 bits a character."""
    text = []
    for number, run in enumerate(counts):
        value = run - counts[number - 2] if number > 2 else run
        more = True
        while more:
            bits, value = value & 0x1F, value >> 5
            more = value != (-1 if bits & 0x10 else 0)
            text.append(chr((bits | 0x20 if more else bits) + 48))
    return "".join(text)


def _unpacked(text: str) -> list[int]:
    """The runs of COCO's string, in one sweep: a detailed mask has millions."""
    if not text:
        return []
    bits = np.frombuffer(text.encode("latin-1"), np.uint8).astype(np.int64) - 48
    ends = np.flatnonzero(bits & 0x20 == 0)
    if bits.min() < 0 or bits.max() > 0x3F or not len(ends) or ends[-1] != len(bits) - 1:
        raise ValueError("its string is cut off or holds other characters")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > _LONGEST_RUN:
        raise ValueError("its string holds a run longer than any image")
    shifts = 5 * (np.arange(len(bits)) - np.repeat(starts, lengths))
    values = np.add.reduceat((bits & 0x1F) << shifts, starts)
    values -= np.where(bits[ends] & 0x10, np.int64(1) << (5 * lengths), 0)
    # From the fourth on each is the difference to the last of its kind.
    values[1::2], values[2::2] = np.cumsum(values[1::2]), np.cumsum(values[2::2])
    runs: list[int] = values.tolist()
    return runs


# polygons


def to_polygons(mask: Mask, *, tolerance: float = 0.0) -> list[Polygon]:
    """The outlines along pixel edges, clockwise around what is inside, holes the other way; largest first.

    A `tolerance` in pixels smooths the stairs away; at 0 the outline is exact.
    """
    loops = sorted(_loops(mask), key=lambda loop: -abs(_area(loop)))
    if tolerance > 0.0:
        loops = [smooth for loop in loops if len(smooth := _smoothed(loop, tolerance)) > 2]
    return loops


def outline(mask: Mask) -> list[list[list[float]]]:
    """A mask's polygons for drawing, smoothed, in [0, 1]; fill them by the even-odd rule."""
    height, width = mask.shape
    loops = to_polygons(mask, tolerance=_SMOOTH)
    return [[[round(x / width, 4), round(y / height, 4)] for x, y in loop] for loop in loops]


def from_polygons(polygons: Sequence[Sequence[tuple[float, float]]], *, size_wh: tuple[int, int]) -> Mask:
    """The pixels whose middle lies inside, by the even-odd rule."""
    width, height = size_wh
    toggles = np.zeros((height, width + 1), np.bool_)
    for polygon in polygons:
        corners = np.asarray(polygon, np.float64).reshape(-1, 2)
        for (x1, y1), (x2, y2) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            low, high = sorted((y1, y2))
            rows = np.arange(max(0, int(np.ceil(low - 0.5))), min(height, int(np.ceil(high - 0.5))))
            if len(rows):
                x = x1 + (rows + 0.5 - y1) * (x2 - x1) / (y2 - y1)
                np.logical_xor.at(toggles, (rows, np.clip(np.ceil(x - 0.5), 0, width).astype(np.int64)), True)
    return np.asarray(np.logical_xor.accumulate(toggles, axis=1)[:, :width])


def _loops(mask: Mask) -> list[Polygon]:
    """Closed outlines, following the cracks between pixels with the inside on the right."""
    leaving = _edges(mask)
    loops = []
    while leaving:
        start = place = next(iter(leaving))
        step = leaving[place][0]
        loop = list[tuple[float, float]]()
        while True:
            loop.append((float(place[0]), float(place[1])))
            leaving[place].remove(step)
            if not leaving[place]:
                del leaving[place]
            place = (place[0] + step[0], place[1] + step[1])
            if place == start:
                break
            step = next(turn for turn in _TURNS[step] if turn in leaving[place])
        loops.append(_corners(loop))
    return loops


def _edges(mask: Mask) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Corner → the unit steps that leave it along the outline."""
    padded = np.pad(mask, 1).astype(np.int8)
    down, across = np.diff(padded, axis=0)[:, 1:-1], np.diff(padded, axis=1)[1:-1]
    leaving = dict[tuple[int, int], list[tuple[int, int]]]()
    for steps, change, sign, offset in (
        (_RIGHT, down, 1, (0, 0)),
        (_LEFT, down, -1, (1, 0)),
        (_UP, across, 1, (0, 1)),
        (_DOWN, across, -1, (0, 0)),
    ):
        for y, x in np.argwhere(change == sign).tolist():
            leaving.setdefault((x + offset[0], y + offset[1]), []).append(steps)
    return leaving


def _corners(loop: Polygon) -> Polygon:
    """Without the points on straight runs."""
    count = len(loop)
    return [
        here
        for number, here in enumerate(loop)
        for before, after in [(loop[number - 1], loop[(number + 1) % count])]
        if (here[0] - before[0]) * (after[1] - here[1]) != (here[1] - before[1]) * (after[0] - here[0])
    ]


def _area(loop: Polygon) -> float:
    points = np.asarray(loop)
    x, y = points[:, 0], points[:, 1]
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


def _smoothed(loop: Polygon, tolerance: float) -> Polygon:
    import cv2

    # The middle of each stair first, so that a slanted edge does not lean to one side.
    points = np.asarray(loop, np.float32)
    middles = (points + np.roll(points, -1, axis=0)) / 2 if len(points) > 4 else points
    return [(float(x), float(y)) for x, y in cv2.approxPolyDP(middles[:, None], tolerance, True)[:, 0]]
