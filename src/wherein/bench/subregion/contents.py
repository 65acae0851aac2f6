"""What is in the sub-region study: lengths of descriptions, sizes of boxes, and where in the frame they lie."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wherein import Box
from wherein.bench.boxes import box_statistics, clipped
from wherein.bench.charts import Chart, heat
from wherein.bench.contents import DataStatistics
from wherein.bench.subregion import dataset as subregion
from wherein.bench.tables import Table

MAP_WH: Final = (32, 18)
"""Cells of a heat map: the shape of the study's 682×384 frames."""

PAPER: Final = {
    "skippable": (486, 12.91, 6.96, 46.15, 19.35, 0.190, 0.193),
    "non-skippable": (255, 12.62, 6.87, 41.77, 18.92, 0.164, 0.183),
    "all": (741, 12.81, 6.93, 44.65, 19.32, 0.181, 0.191),
}
"""The study's Table 1; the deviation of its non-skippable long texts follows from the other rows."""

COLUMNS: Final = (
    "n", "short characters_mean", "short characters_std", "long characters_mean", "long characters_std",
    "area", "area std",
)  # fmt: skip


def contents(root: Path) -> DataStatistics:
    """The study's Table 1 and Figure 3, and the IoU of boxes and grid cells."""
    data = subregion.load(root)
    sets = {name: [one for one in data.annotations if name in ("all", one.set)] for name in (*subregion.SETS, "all")}
    sets = {name: members for name, members in sets.items() if members}
    said = tuple((name, dict(zip(COLUMNS, map(float, row), strict=True))) for name, row in PAPER.items())
    cells = box_statistics({name: [_box(one) for one in members] for name, members in sets.items()})
    ious = tuple((name, row) for name, row in cells.items() if "mean IoU" in row)
    tables = (
        Table("descriptions and boxes", COLUMNS, tuple(description_lengths(sets).items())),
        Table("the study's Table 1", COLUMNS, said),
        Table(
            "IoU of boxes with the best cell (the study: whole 19, static-5 33, static-9 31)",
            ("mean IoU", "std IoU"),
            ious,
        ),
    )
    maps = {name: density([_box(one) for one in members]) for name, members in sets.items()}
    chart = Chart("places", "Where the described regions lie", heat(maps, label="where the described regions lie"))
    return DataStatistics("subregion", tables, (chart,), data.warnings)


def description_lengths(sets: Mapping[str, Sequence[subregion.Annotation]]) -> dict[str, dict[str, float]]:
    """How many annotations each set has, how long their texts are and how much of the frame their boxes fill."""
    rows = {}
    for name, members in sets.items():
        texts = {kind: [len(getattr(one, kind)) for one in members] for kind in subregion.TEXTS}
        areas = [_box(one).area for one in members]
        figures = [float(len(members))]
        for kind in subregion.TEXTS:
            figures += [float(np.mean(texts[kind])), float(np.std(texts[kind]))]
        rows[name] = dict(zip(COLUMNS, (*figures, float(np.mean(areas)), float(np.std(areas))), strict=True))
    return rows


def density(boxes: Sequence[Box]) -> NDArray[np.float64]:
    """How many boxes cover each cell of the frame, cells counted by the part that is covered."""
    width, height = MAP_WH
    total = np.zeros((height, width))
    for box in boxes:
        across = _covered(box.x1, box.x2, width)
        down = _covered(box.y1, box.y2, height)
        total += np.outer(down, across)
    return total


def _covered(low: float, high: float, count: int) -> NDArray[np.float64]:
    """The part of each of `count` equal cells of [0, 1] that lies between low and high."""
    edges = np.linspace(0, 1, count + 1)
    inside = np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0, None)
    covered: NDArray[np.float64] = inside * count
    return covered


def _box(annotation: subregion.Annotation) -> Box:
    return clipped(annotation.xyxy, size_wh=subregion.FRAME_WH)
