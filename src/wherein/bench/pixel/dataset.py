"""Pixel retrieval on revisited Oxford and Paris (`proxford`, `prparis`): outlines of query–image pairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wherein.bench.pickles import read_npy
from wherein.bench.readers import read_json, require_file
from wherein.bench.revisited.dataset import Revisited
from wherein.bench.revisited.dataset import load as load_revisited
from wherein.errors import DataError

IMAGE_SETS: Final = {"proxford": "roxford5k", "prparis": "rparis6k"}
CITIES: Final = {"proxford": "oxford", "prparis": "paris"}
# Queries the official mAP skips without taking them out of its denominator.
SKIPPED: Final = {"proxford": frozenset({56, 63}), "prparis": frozenset({57, 59})}

LARGEST_COORDINATE: Final = 2**14  # pixels; a mask of that width and height takes 256 MB

QUERY_MASKS: Final = ("query_masks", "query_labels")
"""Folders of the outlines of queries: NUMBER or IMAGE, as a labelme file or as a PNG."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class PixelRetrieval:
    """Graded truth, and the label file with the outline of each (query, image) pair."""

    name: str
    truth: Revisited
    labels: Mapping[Pair, Path]
    query_masks: Mapping[int, Path]


def load(root: Path, *, name: str) -> PixelRetrieval:
    """The truth of `proxford` or `prparis`."""
    truth = load_revisited(root, name=IMAGE_SETS[name])
    path = require_file(
        root / f"{CITIES[name]}_pair2labelpath.npy",
        what=f"{name} outlines",
        hint="--data must be the unpacked pixel_retrieval_benchmarks folder",
    )
    document = read_npy(path)
    if not isinstance(document, dict):
        raise DataError(f'{path}: a dict "<query>_<image>" → label file is needed')
    labels = {}
    for key, label in document.items():
        query, _, image = str(key).partition("_")
        if not query.isdigit() or not image.isdigit():
            raise DataError(f'{path}: the key {key!r} is not "<query>_<image>"')
        # Official label paths are relative to the folder; one that leaves it is not read.
        place = (root / str(label)).resolve()
        if not place.is_relative_to(root.resolve()):
            raise DataError(f"{path}: the label {label!r} of pair {key} lies outside {root}")
        labels[int(query), int(image)] = place
    return PixelRetrieval(name, truth, labels, _query_masks(root, name, truth))


def _query_masks(root: Path, name: str, truth: Revisited) -> dict[int, Path]:
    """The outline of what each query shows, where it is on disk: by the query's number, or by the name of its image."""
    found = {}
    for number, query in enumerate(truth.queries):
        stems = (str(number), query.image, Path(query.image).stem)
        folders = [root / folder for folder in (*QUERY_MASKS, *(f"{CITIES[name]}_{one}" for one in QUERY_MASKS))]
        places = (folder / f"{stem}{suffix}" for folder in folders for stem in stems for suffix in (".json", ".png"))
        place = next((path for path in places if path.is_file()), None)
        if place is not None:
            found[number] = place
    return found


def read_query_mask(path: Path, *, size_wh: tuple[int, int]) -> NDArray[np.bool_]:
    """A query's mask at the size of its image: a labelme file, or a picture that is white where the thing is."""
    import cv2

    width, height = size_wh
    if path.suffix == ".png":
        picture = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        if picture is None:
            raise DataError(f"{path} is no picture; give a PNG that is white where the thing is")
        return np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_NEAREST) > 0)
    canvas = np.zeros((height, width), dtype=np.uint8)
    for points in read_polygons(path):
        cv2.fillPoly(canvas, [points.astype(np.int32)], 1)
    mask: NDArray[np.bool_] = canvas > 0
    if not mask.any():
        raise DataError(f"{path}: its outline covers no pixel of the {width} × {height} image")
    return mask


def read_polygons(path: Path) -> list[NDArray[np.float64]]:
    """The polygons of a labelme file, points (n, 2) in x, y pixels; together they are one mask."""
    require_file(path, what="pixel retrieval label", hint="unpack the label files beside the pair list")
    document = read_json(path)
    shapes = document.get("shapes") if isinstance(document, dict) else None
    if not isinstance(shapes, list) or not shapes:
        raise DataError(f"{path}: a labelme file with at least one shape is needed")
    polygons = [_points(shape.get("points") if isinstance(shape, dict) else None, where=str(path)) for shape in shapes]
    if any(np.abs(points).max(initial=0) > LARGEST_COORDINATE for points in polygons):
        raise DataError(f"{path}: a point lies beyond {LARGEST_COORDINATE} px; get the label file again")
    return polygons


def _points(values: Any, *, where: str) -> NDArray[np.float64]:
    try:
        points = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        points = np.empty(0)
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise DataError(f"{where}: a polygon is a list of finite [x, y] points")
    return points


def read_matches(path: Path) -> dict[Pair, NDArray[Any]]:
    """Predictions by pair: polygon points (n, 2), empty when nothing was found, or a bool mask (h, w).

    Keys are the official `qimlist_{q}_imlist_{i}`.
    """
    document = read_npy(path)
    if not isinstance(document, dict):
        raise DataError(f'{path}: a dict "qimlist_<q>_imlist_<i>" → polygon or mask is needed')
    matches = {}
    for key, value in document.items():
        words = str(key).split("_")
        if len(words) != 4 or words[0] != "qimlist" or words[2] != "imlist" or not (words[1] + words[3]).isdigit():
            raise DataError(f'{path}: the key {key!r} is not "qimlist_<q>_imlist_<i>"')
        matches[int(words[1]), int(words[3])] = _match(value, where=f"{path}, {key}")
    return matches


def _match(value: Any, *, where: str) -> NDArray[Any]:
    try:
        array = np.asarray([] if value is None else value)
    except ValueError:  # points of several lengths
        array = np.empty(1)
    if array.ndim and len(array) == 0:
        return np.empty((0, 2))
    plane = isinstance(value, np.ndarray) and value.ndim == 2
    if plane and (array.dtype == bool or (array.dtype == np.uint8 and array.shape[1] != 2)):
        return array > 0
    if array.ndim == 3 and array.shape[1:] == (1, 2):  # OpenCV's contour shape
        array = array[:, 0]
    return _points(array.tolist(), where=where)
