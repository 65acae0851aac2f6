"""Class-agnostic boxes of an image: regions that hold together and stand out, whatever they are.

Neighbouring places of a grid are merged, the most alike first, until one region is left. A region that formed early
and was swallowed late stands out from its surroundings; those that lasted longest are proposed, small things among
them. The grid is of colours and edges, so that no model is needed, or of an encoder's patches.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.images.image import Image
from wherein.values.region import Box, iou

COUNT: Final = 6
"""Boxes that an image is proposed. Chosen by hand: each is encoded, so that indexing takes as many times longer."""
SIDE: Final = 16
"""Cells a side of the grid in which regions grow. Chosen by hand."""
MARGIN: Final = 1.3
"""How many times its own size a proposed box is shown, so that some surroundings are seen. Chosen by hand."""
LEAST: Final = 0.22
"""A proposed box has at least this share of each side, or its crop would be a blur. Chosen by hand."""
APART: Final = 0.5
"""Boxes with a higher intersection over union show the same thing. Chosen by hand."""
LARGEST: Final = 0.6
"""Regions beyond this share of the image show what the whole image shows. Chosen by hand."""
SMALL_FIRST: Final = 0.3
"""How much a merge waits for its smaller side: 0 merges by likeness alone and leaves single patches over."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """A region that stands out: its box, its mean patch and how long it lasted."""

    box: Box
    embedding: Floats
    """(c,), unit norm"""
    lasted: float


@dataclass(slots=True)
class _Region:
    total: Floats
    size: int
    low: tuple[int, int]
    high: tuple[int, int]
    born: float
    neighbours: set[int]


def proposed_boxes(image: Image, *, count: int = COUNT) -> tuple[Box, ...]:
    """At most `count` boxes of an image worth a look of their own, best first."""
    kept = list[Box]()
    for proposal in propose(appearance(image), count=8 * count):
        box = _grown(proposal.box)
        if all(iou(box, other) < APART for other in kept):
            kept.append(box)
        if len(kept) == count:
            break
    return tuple(kept)


def appearance(image: Image) -> Floats:
    """(16, 16, 6) what each place looks like beside the image's mean: colour, contrast and edges; unit norm."""
    import cv2

    cell = 8
    lab = cv2.cvtColor(image.resized((SIDE * cell, SIDE * cell)), cv2.COLOR_RGB2LAB).astype(np.float32) / 255.0
    light = lab[..., 0]
    edges = [np.abs(cv2.Sobel(light, cv2.CV_32F, dx, dy)) for dx, dy in ((1, 0), (0, 1))]
    layers = np.dstack([light, 2.0 * lab[..., 1], 2.0 * lab[..., 2], np.abs(light - cv2.blur(light, (9, 9))), *edges])
    cells = layers.reshape(SIDE, cell, SIDE, cell, -1).mean(axis=(1, 3))
    centred = cells - cells.mean(axis=(0, 1))
    return unit(np.asarray(centred / np.maximum(centred.std(axis=(0, 1)), 1e-3), np.float32))


def _grown(box: Box) -> Box:
    spans = []
    for low, high in ((box.x1, box.x2), (box.y1, box.y2)):
        size = min(1.0, max(LEAST, MARGIN * (high - low)))
        start = min(max((low + high - size) / 2, 0.0), 1.0 - size)
        spans.append((start, min(1.0, start + size)))
    (x1, x2), (y1, y2) = spans
    return Box(x1, y1, x2, y2)


def propose(grid: Floats, *, count: int = 4 * COUNT) -> list[Proposal]:
    """The `count` regions of a patch grid (gh, gw, c) that stand out most, best first."""
    rows, columns = grid.shape[:2]
    regions = _patches(grid)
    heap = [(_apart(regions[a], regions[b]), a, b) for a in list(regions) for b in regions[a].neighbours if a < b]
    heapq.heapify(heap)
    found, fresh, level = list[tuple[float, _Region]](), len(regions), 0.0
    while heap:
        apart, a, b = heapq.heappop(heap)
        if a not in regions or b not in regions:
            continue
        level = max(level, apart)
        one, other = regions.pop(a), regions.pop(b)
        found += [(level - region.born, region) for region in (one, other)]
        merged = _merged(one, other, level=level)
        merged.neighbours = (one.neighbours | other.neighbours) - {a, b}
        for number in merged.neighbours:
            regions[number].neighbours.difference_update((a, b))
            regions[number].neighbours.add(fresh)
            heapq.heappush(heap, (_apart(merged, regions[number]), number, fresh))
        regions[fresh] = merged
        fresh += 1
    inside = [(lasted, region) for lasted, region in found if region.size <= LARGEST * rows * columns]
    best = sorted(inside, key=lambda entry: (-entry[0], entry[1].low, entry[1].high))[:count]
    return [Proposal(_box(region, rows, columns), unit(region.total), lasted) for lasted, region in best]


def _patches(grid: Floats) -> dict[int, _Region]:
    rows, columns = grid.shape[:2]
    regions = {}
    for y in range(rows):
        for x in range(columns):
            beside = {(y, x - 1), (y, x + 1), (y - 1, x), (y + 1, x)}
            near = {j * columns + i for j, i in beside if 0 <= j < rows and 0 <= i < columns}
            regions[y * columns + x] = _Region(grid[y, x], 1, (y, x), (y, x), 0.0, near)
    return regions


def _apart(a: _Region, b: _Region) -> float:
    """How unlike two regions are; a small one is swallowed sooner than two large ones join."""
    norms = float(np.sqrt(a.total @ a.total) * np.sqrt(b.total @ b.total))
    unlike = 1.0 - float(a.total @ b.total) / max(norms, 1e-12)
    return float(unlike * min(a.size, b.size) ** SMALL_FIRST)


def _merged(a: _Region, b: _Region, *, level: float) -> _Region:
    low = (min(a.low[0], b.low[0]), min(a.low[1], b.low[1]))
    high = (max(a.high[0], b.high[0]), max(a.high[1], b.high[1]))
    return _Region(a.total + b.total, a.size + b.size, low, high, level, set())


def _box(region: _Region, rows: int, columns: int) -> Box:
    (top, left), (bottom, right) = region.low, region.high
    return Box(left / columns, top / rows, (right + 1) / columns, (bottom + 1) / rows)
