"""A contact sheet of outlines: where verification puts each reference in the photos of it, to be looked at.

    python benchmarks/outlines.py DATA [--out out/outlines.jpg] [--most 60]

DATA holds `queries/`, `database/` and `qrels.jsonl`. Each photo is shown with the outline of its relevant image warped
into it and the inliers behind it; one without an outline is framed in red. Nothing is written but the sheet.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from wherein.bench.local.dataset import load_examples
from wherein.features import load_features
from wherein.features.verify import Verification, verify
from wherein.images.image import decode

TILE_WH = (320, 240)
COLUMNS = 6


def main() -> None:
    """Write the sheet and say where it is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/outlines.jpg"))
    parser.add_argument("--most", type=int, default=60, help="photos on the sheet, evenly chosen")
    arguments = parser.parse_args()
    examples = load_examples(arguments.data)
    queries = examples.queries[:: max(1, len(examples.queries) // arguments.most)][: arguments.most]
    family = load_features("rootsift")
    tiles, outlined = [], 0
    for query in queries:
        photo = decode(query.path)
        reference = family.features(decode(examples.root / query.relevant[0]), side=family.query_side)
        found = verify(reference, family.features(photo, side=family.query_side))
        outlined += found.outline is not None
        tiles.append(tile(photo.resized(TILE_WH), found))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    blank = np.full_like(tiles[0], 255)
    tiles += [blank] * (-len(tiles) % COLUMNS)
    sheet = np.concatenate([np.concatenate(tiles[n : n + COLUMNS], 1) for n in range(0, len(tiles), COLUMNS)])
    cv2.imwrite(str(arguments.out), cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])
    print(f"{outlined} of {len(queries)} outlined; look at {arguments.out}")


def tile(pixels: npt.NDArray[np.uint8], found: Verification) -> npt.NDArray[np.uint8]:
    """One photo with its outline, and the number of inliers."""
    picture = pixels.copy()
    if found.outline is None:
        cv2.rectangle(picture, (1, 1), (TILE_WH[0] - 2, TILE_WH[1] - 2), (230, 30, 30), 4)
    else:
        corners = np.rint(found.outline * TILE_WH).astype(np.int32)
        cv2.polylines(picture, [corners], True, (255, 255, 255), 4, cv2.LINE_AA)
        cv2.polylines(picture, [corners], True, (20, 160, 60), 2, cv2.LINE_AA)
    cv2.putText(picture, str(found.inliers), (8, 24), cv2.FONT_HERSHEY_SIMPLEX, 0.7, (255, 255, 255), 4, cv2.LINE_AA)
    cv2.putText(picture, str(found.inliers), (8, 24), cv2.FONT_HERSHEY_SIMPLEX, 0.7, (20, 20, 20), 2, cv2.LINE_AA)
    return picture


if __name__ == "__main__":
    main()
