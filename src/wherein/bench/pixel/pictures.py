"""Pairs as pictures: what is true, what was found, and both, over the image, as the pixel paper's Figure 4."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from wherein.bench.evaluation import QueryScore
from wherein.bench.pixel import dataset as pixel

SIDE: Final = 260
"""Pixels of the longer side of a picture of a pair."""

MOST_QUERIES: Final = 12
"""Queries at either end, best and worst, whose pairs are drawn."""

BOTH, TRUE, FOUND = (46, 160, 67), (66, 103, 210), (208, 72, 48)
"""Colours of pixels that are true and found, true only, and found only."""


def pair_name(query: int, image: int) -> str:
    """What a pair is called in the details of a query."""
    return f"pair {query}_{image}"


def pair_pictures(
    queries: Sequence[QueryScore],
    labels: Mapping[pixel.Pair, Path],
    outlines: Mapping[pixel.Pair, Sequence[Sequence[float]]],
    files: Sequence[Path],
) -> dict[str, str]:
    """Data URIs of the pairs that the details of the best and the worst queries name."""
    scored = sorted((one for one in queries if one.metrics), key=lambda one: next(iter(one.metrics.values())))
    chosen = {one.query_id: one for one in (*scored[:MOST_QUERIES], *scored[-MOST_QUERIES:])}
    made: dict[str, str] = {}
    for one in chosen.values():
        for entry in (*one.detail.get("best_pairs", ()), *one.detail.get("worst_pairs", ())):
            query, _, image = str(entry.get("picture", "")).removeprefix("pair ").partition("_")
            if query.isdigit() and image.isdigit() and (int(query), int(image)) in labels:
                pair = int(query), int(image)
                picture = _drawn(files[pair[1]], pixel.read_polygons(labels[pair]), outlines.get(pair, ()))
                made |= {entry["picture"]: picture} if picture else {}
    return made


def _drawn(path: Path, true: Sequence[NDArray[np.float64]], found: Sequence[Sequence[float]]) -> str | None:
    import PIL.Image

    picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if picture is None:
        return None
    height, width = picture.shape[:2]
    scale = SIDE / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    shown = cv2.cvtColor(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2RGB)
    masks = [
        filled(true, size, scale),
        filled([np.asarray(found, dtype=np.float64)] if len(found) else [], size, scale),
    ]
    drawn = overlay(shown, *masks)
    data = io.BytesIO()
    PIL.Image.fromarray(drawn).save(data, "WEBP", quality=65)
    return "data:image/webp;base64," + base64.b64encode(data.getvalue()).decode("ascii")


def filled(polygons: Sequence[NDArray[np.float64]], size_wh: tuple[int, int], scale: float) -> NDArray[np.bool_]:
    """Polygons in pixels of the whole image as a mask of a smaller one."""
    canvas = np.zeros((size_wh[1], size_wh[0]), dtype=np.uint8)
    for points in polygons:
        cv2.fillPoly(canvas, [np.round(points * scale).astype(np.int32)], 1)
    return canvas > 0


def overlay(picture: NDArray[Any], true: NDArray[np.bool_], found: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """The picture with its masks in colour: half transparent, so that what is below is seen."""
    drawn = picture.astype(np.float64)
    for mask, colour in ((true & found, BOTH), (true & ~found, TRUE), (found & ~true, FOUND)):
        drawn[mask] = (drawn[mask] + np.array(colour)) / 2
    return np.clip(drawn, 0, 255).astype(np.uint8)
