"""SearchAD: rare things in driving scenes. Labels, image-level truth, support sets, prediction files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wherein.bench.readers import finite, read_json, require_file, stream_json_object
from wherein.errors import DataError

MIN_AREA: Final = 50  # px²: an image whose boxes of a label are all smaller is ignored for that label
SPLITS: Final = ("train", "val")
SOURCES: Final = (
    "acdc", "bdd100k_images_100k", "cityscapes", "ECP", "IDD_Segmentation", "kitti", "lostandfound",
    "mapillary_sign", "mapillary_vistas", "nuscenes", "wd_both02", "wd_publicv2p0",
)  # fmt: skip
TEST_MAPPING: Final = "searchad_test_mapping_id_to_imagepath.json"

_CLASSES: Final[dict[str, str]] = {
    "Animal-Real": "Cat Cow Deer Dog Donkey Horse Sheep Wildlife",
    "Animal-Statue": "Cow Deer Elephant Horse Lion",
    "Human": "Construction-Worker Firefighter Medical On-Loading-Area Police Refuse-Collector With-Sticks-or-Crutches",
    "Marking": "Bicycle-Symbol Bus-Text Stop-Text Temporarily-Invalidated Yellow-Lane-Arrow",
    "Object": "Ball Beacon Euro-Pallet Hand-Dolly Hydrant Office-Chair Pallet-Truck Platform-Truck Rollator "
    "Shopping-Cart Shopping-Trolley Suitcase-Trolley Traffic-Cone Trash-Bin Wheelbarrow",
    "Rideable": "Cityscooter Police-Motorcycle Quad Segway Skateboard Skates Ski Stroller Three-Wheeler "
    "Toy-Car Wheelchair",
    "Scene": "Active-Amber-Lights Active-Emergency-Lights Fog Open-Door Open-Hood Open-Trunk Snow Tunnel",
    "Sign": "Animal-Sign Road-Bumper-Sign Temporarily-Invalidated-Sign Train-Sign Warning-Triangle",
    "Trailer": "Agricultural-Trailer Bicycle-Trailer Boat-Trailer Car-Trailer Caravan-Trailer Carriage Warning-Trailer",
    "Vehicle-Construction": "Concrete-Mixer Excavator Forklift Harvester Loader Steamroller Tractor Truck-Crane",
    "Vehicle-Duty": "Fire Garbage Medical Military Police Winter",
    "Vehicle-Special": "Bicycle-On-Back Bicycle-On-Roof Car-Truck Recreational Train",
}
LABELS: Final = tuple(f"{group}-{name}" for group, names in _CLASSES.items() for name in names.split())
CATEGORIES: Final = tuple(dict.fromkeys(label.split("-")[0] for label in LABELS))
"""The first words of the labels."""


def category_of(label: str) -> str:
    """The category of a label: its first word (`Sign-Animal-Sign` is a Sign)."""
    return label.split("-", 1)[0]


@dataclass(frozen=True)
class SearchAD:
    """One split: its images and, per label, the rows of `images` that are relevant or ignored.

    `boxes` counts the boxes of each label, those outside the 90 included.
    """

    root: Path
    split: str
    images: tuple[str, ...]
    positives: Mapping[str, NDArray[np.int64]]
    ignored: Mapping[str, NDArray[np.int64]]
    boxes: Mapping[str, int]
    warnings: tuple[str, ...]


def annotations_path(root: Path, split: str) -> Path:
    """Where the annotations of a split lie."""
    if split not in SPLITS:
        raise DataError(f"SearchAD has no public split {split!r}; choose one of {', '.join(SPLITS)}")
    return require_file(
        root / f"searchad_annotations_{split}.json",
        what=f"SearchAD {split} annotations",
        hint="--data must be the folder the SearchAD archive was unpacked into",
    )


def read_annotations(root: Path, split: str) -> dict[str, list[tuple[str, tuple[float, ...]]]]:
    """Every image path of a split with its (label, x1 y1 x2 y2 in pixels), as written."""
    path = annotations_path(root, split)
    document = read_json(path)
    if not isinstance(document, dict):
        raise DataError(f"{path}: an object of image paths is needed at the top")
    return {
        image: [_annotation(entry, where=f"{path}, image {image!r}") for entry in _entries(entries, image, path)]
        for image, entries in document.items()
    }


def _entries(entries: Any, image: str, path: Path) -> list[Any]:
    if not isinstance(entries, list):
        raise DataError(f"{path}, image {image!r}: a list of annotations is needed")
    return entries


def _annotation(entry: Any, *, where: str) -> tuple[str, tuple[float, ...]]:
    label = entry.get("label") if isinstance(entry, dict) else None
    box = entry.get("bbox") if isinstance(entry, dict) else None
    if not isinstance(label, str) or not isinstance(box, list) or len(box) != 4:
        raise DataError(f'{where}: an annotation is {{"label": …, "bbox": [x1, y1, x2, y2]}}, found {entry!r}')
    return label, tuple(finite(side, where=f"{where}, the box of {label!r}") for side in box)


def load(root: Path, *, split: str = "val") -> SearchAD:
    """Image-level truth: positive from 50 px² on, ignored where every box of the label is smaller."""
    annotations = read_annotations(root, split)
    positives: dict[str, list[int]] = {label: [] for label in LABELS}
    ignored: dict[str, list[int]] = {label: [] for label in LABELS}
    boxes: dict[str, int] = {}
    swapped = 0
    for row, entries in enumerate(annotations.values()):
        large: dict[str, bool] = {}
        for label, (x1, y1, x2, y2) in entries:
            boxes[label] = boxes.get(label, 0) + 1
            swapped += x1 > x2 or y1 > y2
            large[label] = large.get(label, False) or (x2 - x1) * (y2 - y1) >= MIN_AREA
        for label, enough in large.items():
            if label in positives:
                (positives if enough else ignored)[label].append(row)
    warnings = []
    if swapped:
        warnings.append(
            f"{swapped} boxes of the {split} annotations have swapped corners; their area is taken as the "
            "devkit takes it, so one swapped on a single axis counts as too small"
        )
    return SearchAD(
        root=root,
        split=split,
        images=tuple(annotations),
        positives={label: np.array(rows, dtype=np.int64) for label, rows in positives.items()},
        ignored={label: np.array(rows, dtype=np.int64) for label, rows in ignored.items()},
        boxes=boxes,
        warnings=tuple(warnings),
    )


@dataclass(frozen=True)
class SupportSet:
    """The default query of a label: words, and example images with boxes in pixels (x1, y1, x2, y2).

    `unread` names the parts of the file that were not understood.
    """

    label: str
    keywords: tuple[str, ...]
    descriptions: tuple[str, ...]
    examples: tuple[tuple[str, tuple[float, float, float, float]], ...]
    unread: tuple[str, ...]


def load_queries(root: Path) -> tuple[SupportSet, ...]:
    """The default queries, by label; the layout of their language part is read tolerantly."""
    folder = root / "default_queries"
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"{folder} has no <Label>.json files; unpack default_queries from the SearchAD archive")
    return tuple(parse_query(read_json(path), label=path.stem, where=str(path)) for path in files)


def parse_query(document: Any, *, label: str, where: str) -> SupportSet:
    """One default query file."""
    sets = document.get("supportsets", document) if isinstance(document, dict) else None
    if not isinstance(sets, dict):
        raise DataError(f'{where}: "supportsets" with "vision" and "language" is needed')
    unread: list[str] = [f"supportsets.{key}" for key in sets if key not in ("vision", "language")]
    words: dict[str, list[str]] = {"keywords": [], "descriptions": []}
    _collect_words(sets.get("language"), "language", None, words=words, unread=unread)
    examples = tuple(_examples(sets.get("vision") or {}, where=where))
    return SupportSet(label, tuple(words["keywords"]), tuple(words["descriptions"]), examples, tuple(unread))


def _collect_words(value: Any, path: str, kind: str | None, *, words: dict[str, list[str]], unread: list[str]) -> None:
    """Sort every string into keywords or descriptions by the key it stands under, else by its length."""
    if isinstance(value, str):
        chosen = kind or ("descriptions" if len(value.split()) > 5 else "keywords")
        words[chosen].append(value)
        if kind is None:
            unread.append(f"{path}: taken as {chosen} by its length")
    elif isinstance(value, dict):
        for key, part in value.items():
            lower = key.lower()
            known = "keywords" if "keyword" in lower else "descriptions" if "description" in lower else kind
            _collect_words(part, f"{path}.{key}", known, words=words, unread=unread)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            _collect_words(part, f"{path}[{number}]", kind, words=words, unread=unread)
    elif value is not None:
        unread.append(f"{path}: {type(value).__name__}")


def _examples(vision: Any, *, where: str) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    if not isinstance(vision, dict):
        raise DataError(f'{where}: "vision" must map image paths to boxes')
    for image, entries in vision.items():
        for entry in entries if isinstance(entries, list) else [entries]:
            box = entry.get("bbox") if isinstance(entry, dict) else None
            sides = [box.get(side) for side in ("min_x", "min_y", "max_x", "max_y")] if isinstance(box, dict) else box
            if not isinstance(sides, list) or len(sides) != 4 or None in sides:
                raise DataError(f"{where}, image {image!r}: a box with min_x, min_y, max_x, max_y is needed")
            x1, y1, x2, y2 = (finite(side, where=f"{where}, image {image!r}") for side in sides)
            yield image, (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))


def read_test_mapping(root: Path) -> dict[int, str]:
    """Test image paths by their integer id."""
    path = require_file(root / TEST_MAPPING, what="SearchAD test mapping", hint="it comes with the SearchAD archive")
    document = read_json(path)
    try:
        return {int(key): str(value) for key, value in document.items()}
    except (AttributeError, ValueError) as error:
        raise DataError(f'{path}: {{"<id>": "<image path>"}} is needed ({error})') from error


def stream_predictions(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """(label, ranking) one label at a time, from a predictions file or a submission file.

    Rankings hold image paths in the first and integer ids of the test mapping in the second.
    """
    for label, ranking in stream_json_object(path, nested="predictions"):
        if label == "metadata" and isinstance(ranking, dict):
            continue
        if not isinstance(ranking, list):
            raise DataError(f"{path}: {label!r} must hold a list of image paths, best first")
        yield label, ranking
