"""A contact sheet of the twenty worst known-item queries, to be looked at.

    python benchmarks/worst.py EVAL_FOLDER/underwater [--method mini+static-36] [--out out/where]

Each query's photo with its box and its rank, beside the photo that came first. Runs are shared with `where.py`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from where import ran
from wherein.bench.local.dataset import load_boxed
from wherein.images.image import decode
from wherein.values.region import Box

COUNT, COLUMNS, TILE_WH = 20, 4, (180, 140)


def main() -> None:
    """Write the sheet and say where it is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--method", default="mini+static-36")
    parser.add_argument("--out", type=Path, default=Path("out/where"))
    asked = parser.parse_args()
    evaluation, dataset = ran(asked.data, asked.method, asked.out), load_boxed(asked.data)
    last = sorted(evaluation.queries, key=lambda query: (-query.metrics["rank"], query.query_id))[:COUNT]
    tiles = []
    for query in last:
        name, _, label = query.query_id.partition("#")
        where = max(dataset.boxes[name][label], key=lambda box: (box.area, box.xyxy))
        first = query.detail["ranking"][0]["image_id"]
        pair = [framed(dataset.root / name, where, f"{label}, {query.metrics['rank']:.0f}th")]
        tiles.append(np.concatenate([*pair, framed(dataset.root / first, where, "1st")], axis=1))
    rows = [np.concatenate(tiles[start : start + COLUMNS], axis=1) for start in range(0, COUNT, COLUMNS)]
    path = asked.out / f"worst-{asked.method}.png"
    cv2.imwrite(str(path), cv2.cvtColor(np.concatenate(rows), cv2.COLOR_RGB2BGR))
    print(f"look at {path}")


def framed(path: Path, where: Box, words: str) -> npt.NDArray[np.uint8]:
    """A photo with the box and a few words."""
    picture = decode(path).resized(TILE_WH).copy()
    x1, y1, x2, y2 = where.pixels(TILE_WH)
    cv2.rectangle(picture, (x1, y1), (x2 - 1, y2 - 1), (255, 60, 20), 2)
    for colour, width in (((0, 0, 0), 3), ((255, 255, 255), 1)):
        cv2.putText(picture, words, (4, 134), cv2.FONT_HERSHEY_SIMPLEX, 0.45, colour, width, cv2.LINE_AA)
    return picture


if __name__ == "__main__":
    main()
