"""The sub-region search study on the Marine Video Kit: annotations per author, and our prediction lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wherein.bench.readers import field_of, finite, read_json, read_ndjson, require_file
from wherein.errors import DataError

FRAME_WH: Final = (682, 384)
"""Width and height of the frames that boxes were drawn on, in pixels."""
SETS: Final = {"skippable": "skippable", "non-skippable": "non_skippable"}
TEXTS: Final = ("short", "long")
FRAMES: Final = "frames.txt"
"""Beside the annotations: the path of every frame in the order of its number, one a line."""
IMAGE_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".bmp")


@dataclass(frozen=True)
class Annotation:
    """One described region: its frame, two texts, and its box in pixels of a 682×384 frame (x1<x2, y1<y2)."""

    set: str
    author: str
    id: str
    frame: int
    short: str
    long: str
    xyxy: tuple[float, float, float, float]


@dataclass(frozen=True)
class SubRegion:
    """The annotations of both sets."""

    root: Path
    annotations: tuple[Annotation, ...]
    warnings: tuple[str, ...]


def load(root: Path) -> SubRegion:
    """Every `skippable/<author>.json` and `non_skippable/<author>.json`."""
    annotations: list[Annotation] = []
    warnings = []
    swapped = 0
    for name, folder in SETS.items():
        files = sorted((root / folder).glob("*.json"))
        if not files:
            warnings.append(f"no annotations in {root / folder}; the {name} figures are left out")
        for path in files:
            for annotation, turned in _annotations(path, name):
                annotations.append(annotation)
                swapped += turned
    if not annotations:
        raise DataError(f"no annotations under {root}: skippable/ and non_skippable/ hold one JSON list per author")
    if swapped:
        warnings.append(f"{swapped} boxes had swapped corners; they were put in order")
    return SubRegion(root, tuple(annotations), tuple(warnings))


def _annotations(path: Path, name: str) -> Iterator[tuple[Annotation, bool]]:
    document = read_json(path)
    if not isinstance(document, list):
        raise DataError(f"{path}: a list of annotations is needed")
    seen = set()
    for number, record in enumerate(document):
        where = f"{path}, annotation {number}"
        if not isinstance(record, dict):
            raise DataError(f"{where}: an object is needed")
        x1, y1, x2, y2 = _rect(field_of(record, "rect", list, where=where), where=where)
        identity = str(field_of(record, "id", (int, str), where=where))
        if identity in seen:
            raise DataError(f"{where}: id {identity} appears twice in this file")
        seen.add(identity)
        annotation = Annotation(
            set=name,
            author=path.stem,
            id=identity,
            frame=field_of(record, "frameIdx", int, where=where),
            short=field_of(record, "desc_short", str, where=where),
            long=field_of(record, "desc_long", str, where=where),
            xyxy=(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)),
        )
        yield annotation, x1 > x2 or y1 > y2


def _rect(values: list[Any], *, where: str) -> tuple[float, float, float, float]:
    if len(values) != 4:
        raise DataError(f"{where}: rect {values!r} is not x1, y1, x2, y2 in pixels")
    x1, y1, x2, y2 = (finite(value, where=f"{where}, rect") for value in values)
    return x1, y1, x2, y2


def frames_of(folder: Path) -> tuple[str, ...]:
    """Frame paths relative to `folder` in the order `frameIdx` counts them.

    That is the order of `frames.txt` beside the folder, which an export of our annotations has; without one, sorted
    folders and their sorted files, as the study counts them.
    """
    listed = folder.parent / FRAMES
    if listed.is_file():
        return _listed_frames(listed, folder)
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    names = tuple(path.relative_to(folder).as_posix() for path in found)
    stray = next((name for name in names if name.count("/") != 1), None)
    if stray is not None:
        raise DataError(
            f"{folder / stray} does not lie in the folder of a video, so nobody can say which number it has: move it, "
            f"or list every frame in {listed}, one path a line, in the order that frameIdx counts"
        )
    return names


def _listed_frames(path: Path, folder: Path) -> tuple[str, ...]:
    names = tuple(line for line in path.read_text(encoding="utf-8").splitlines() if line)
    if len(set(names)) < len(names):
        double = next(name for number, name in enumerate(names) if name in names[:number])
        raise DataError(f"{path}: lists {double} twice; every frame has one number")
    absent = [name for name in names if not (folder / name).is_file()]
    if absent:
        raise DataError(
            f"{path}: {len(absent)} of {len(names)} frames are not below {folder}, first {absent[0]}; "
            "put the images there as they were annotated"
        )
    return names


@dataclass(frozen=True)
class KnownItemPrediction:
    """One ranking of frame numbers, best first, for one text of one annotation."""

    author: str
    id: str
    text: str
    ranking: tuple[int, ...]
    line: int


def read_predictions(path: Path) -> Iterator[KnownItemPrediction]:
    """The lines `{"author", "id", "text": "short"|"long", "ranking": [frame…]}`, one at a time."""
    require_file(path, what="sub-region predictions", hint="give an ndjson file with one line per query and text")
    for number, record in read_ndjson(path):
        where = f"{path}, line {number}"
        text = field_of(record, "text", str, where=where)
        if text not in TEXTS:
            raise DataError(f"{where}: text {text!r} is none of {', '.join(TEXTS)}")
        ranking = field_of(record, "ranking", list, where=where)
        if not all(type(frame) is int and frame >= 0 for frame in ranking):
            raise DataError(f"{where}: ranking must hold frame numbers counted from 0, best first")
        if len(set(ranking)) < len(ranking):
            double = next(frame for frame in ranking if ranking.count(frame) > 1)
            raise DataError(f"{where}: frame {double} is ranked twice; rank every frame once")
        author = field_of(record, "author", str, where=where)
        identity = str(field_of(record, "id", (int, str), where=where))
        yield KnownItemPrediction(author, identity, text, tuple(ranking), number)
