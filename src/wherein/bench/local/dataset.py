"""Small local sets, recognised by the shape of their folder; an image_id is relative to what is indexed."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wherein.bench.readers import field_of, finite, read_ndjson
from wherein.errors import DataError, RegionError
from wherein.images.picture import IMAGE_SUFFIXES
from wherein.values.region import Box

SHAPES: Final = {
    "captions": "captions.jsonl",
    "covers": "queries/, database/ and qrels.jsonl",
    "facades": "queries/, database/ and qrels.jsonl",
    "objects": "one folder of images per identity",
    "masks": "images/SEQUENCE/ and masks/SEQUENCE/",
    "road": "images/odd_*, images/plain_* and masks/odd_*",
    "underwater": "boxes.jsonl",
    "classes": "one folder of images per class, named as the class is called",
}


@dataclass(frozen=True)
class Captions:
    """Photos under `root` and their captions, each a query for its own photo."""

    root: Path
    captions: tuple[tuple[str, str], ...]  # (image_id, text)


@dataclass(frozen=True)
class QueryImage:
    """A query image, what it should find, and its own image_id where it is in the collection itself."""

    name: str
    path: Path
    relevant: tuple[str, ...]
    own: str | None = None


@dataclass(frozen=True)
class QueryImages:
    """A database under `root` and query images with their relevant images."""

    root: Path
    queries: tuple[QueryImage, ...]
    image_ids: tuple[str, ...]


@dataclass(frozen=True)
class Classes:
    """Images under `root` and the class of each."""

    root: Path
    class_of: dict[str, str]


@dataclass(frozen=True)
class Clip:
    """One video sequence: its first frame is the query, the frames that show the object the truth."""

    name: str
    query: str
    masks: dict[str, Path]  # image_id → mask, the query's included

    def frames(self) -> dict[str, Path]:
        """The masks of the frames to be found."""
        return {image_id: mask for image_id, mask in self.masks.items() if image_id != self.query}


@dataclass(frozen=True)
class Masks:
    """Frames under `root`, in sequences."""

    root: Path
    clips: tuple[Clip, ...]
    image_ids: tuple[str, ...]


@dataclass(frozen=True)
class Road:
    """Road photos under `root`; `odd` has the mask of what is odd in a photo."""

    root: Path
    odd: dict[str, Path]
    image_ids: tuple[str, ...]


@dataclass(frozen=True)
class Boxed:
    """Photos under `root` and the boxes of each, by label."""

    root: Path
    boxes: dict[str, dict[str, tuple[Box, ...]]]  # image_id → label → boxes


def images_under(root: Path) -> tuple[str, ...]:
    """The image_ids of a folder: every image file in it, at any depth, sorted."""
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; check the folder given with --data")
    paths = (path.relative_to(root) for path in root.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    found = sorted(path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))
    if not found:
        raise DataError(f"{root} holds no image; check the folder given with --data")
    return tuple(found)


def files_of(root: Path, image_ids: Iterable[str]) -> dict[str, Path]:
    """The file of each image_id."""
    return {image_id: root / image_id for image_id in image_ids}


def recognise(data: Path) -> tuple[str, ...]:
    """The local sets whose shape a folder has."""
    found = []
    if (data / "captions.jsonl").is_file():
        found.append("captions")
    if (data / "qrels.jsonl").is_file():
        found += ["covers", "facades"]
    if (data / "boxes.jsonl").is_file():
        found.append("underwater")
    if (data / "images").is_dir() and (data / "masks").is_dir():
        odd = any(path.is_file() for path in (data / "images").glob("odd_*"))
        found.append("road" if odd else "masks")
    if not found and data.is_dir() and any(path.is_dir() for path in data.iterdir()):
        found += ["objects", "classes"]
    return tuple(found)


def _require(path: Path, *, benchmark: str, data: Path) -> Path:
    if path.exists():
        return path
    if not data.is_dir():
        raise DataError(f"{data} is not a folder; check the folder given with --data")
    others = " or ".join(recognise(data))
    hint = f"the folder looks like {others}" if others else "check the folder given with --data"
    raise DataError(f"{benchmark}: {path} is missing; the set is {SHAPES[benchmark]}; {hint}")


def _refuse_another(benchmark: str, data: Path) -> None:
    """Refuse a folder that has the shape of other sets and not of this one, though it could be read as this one."""
    others = recognise(data)
    if others and benchmark not in others:
        raise DataError(f"{benchmark}: {data} looks like {' or '.join(others)}; the set is {SHAPES[benchmark]}")


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, record in read_ndjson(path):
        yield f"{path}, line {number}", record


def _image_id(name: str, *, root: Path, data: Path, where: str) -> str:
    """The image_id of a file named relative to the set, which must lie under `root`."""
    path = data / name
    if not path.is_file():
        raise DataError(f"{where}: {name} does not exist under {data}; restore the file or drop the line")
    inside = Path(os.path.normpath(path))
    if not inside.is_relative_to(root):
        raise DataError(f"{where}: {name} is not under {root}, the folder that is searched")
    return inside.relative_to(root).as_posix()


def _images_root(data: Path) -> Path:
    return data / "images" if (data / "images").is_dir() else data


def load_captions(data: Path) -> Captions:
    """`captions.jsonl`: `{"image", "captions": [text, …]}`."""
    path = _require(data / "captions.jsonl", benchmark="captions", data=data)
    root, found = _images_root(data), []
    for where, record in _lines(path):
        image_id = _image_id(field_of(record, "image", str, where=where), root=root, data=data, where=where)
        found += [(image_id, str(text)) for text in field_of(record, "captions", list, where=where)]
    if not found:
        raise DataError(f"{path} holds no caption; each line is {{'image', 'captions'}}")
    return Captions(root=root, captions=tuple(found))


def load_examples(data: Path, *, benchmark: str = "covers") -> QueryImages:
    """`queries/`, `database/` and `qrels.jsonl`: `{"query", "relevant": [path, …]}`."""
    path = _require(data / "qrels.jsonl", benchmark=benchmark, data=data)
    root = _require(data / "database", benchmark=benchmark, data=data)
    queries = []
    for where, record in _lines(path):
        name = field_of(record, "query", str, where=where)
        if not (data / name).is_file():
            raise DataError(f"{where}: the query {name} does not exist under {data}; restore the file")
        names = field_of(record, "relevant", list, where=where)
        relevant = tuple(_image_id(str(one), root=root, data=data, where=where) for one in names)
        if len(set(relevant)) != len(relevant):
            raise DataError(f"{where}: a relevant image is listed twice; keep it once")
        queries.append(QueryImage(name=name, path=data / name, relevant=relevant))
    if len({query.name for query in queries}) != len(queries):
        raise DataError(f"{path}: a query is listed twice; put its relevant images on one line")
    return QueryImages(root=root, queries=tuple(queries), image_ids=images_under(root))


def load_objects(data: Path) -> QueryImages:
    """One folder per identity: each photo is a query for the other photos of its folder."""
    class_of = _folders(data, benchmark="objects")
    members: dict[str, list[str]] = {}
    for image_id, name in class_of.items():
        members.setdefault(name, []).append(image_id)
    queries = [
        QueryImage(
            name=image_id,
            path=data / image_id,
            relevant=tuple(other for other in members[name] if other != image_id),
            own=image_id,
        )
        for image_id, name in class_of.items()
        if len(members[name]) > 1
    ]
    if not queries:
        raise DataError(f"objects: no folder of {data} holds two images, so there is nothing to find")
    return QueryImages(root=data, queries=tuple(queries), image_ids=tuple(class_of))


def load_classes(data: Path) -> Classes:
    """One folder per class, named as the class is called."""
    return Classes(root=data, class_of=_folders(data, benchmark="classes"))


def _folders(data: Path, *, benchmark: str) -> dict[str, str]:
    _refuse_another(benchmark, data)
    ids = images_under(data)
    loose = [image_id for image_id in ids if "/" not in image_id]
    if loose:
        raise DataError(f"{benchmark}: {data / loose[0]} is in no folder; the set is {SHAPES[benchmark]}")
    return {image_id: image_id.split("/", 1)[0] for image_id in ids}


def load_masks(data: Path) -> Masks:
    """`images/SEQUENCE/` and `masks/SEQUENCE/`, frames in the order of their names."""
    root = _require(data / "images", benchmark="masks", data=data)
    masks = _require(data / "masks", benchmark="masks", data=data)
    _refuse_another("masks", data)
    ids = images_under(root)
    by_name: dict[str, list[str]] = {}
    for image_id in ids:
        if "/" not in image_id:
            raise DataError(f"masks: {root / image_id} is in no sequence's folder; the set is {SHAPES['masks']}")
        by_name.setdefault(image_id.rpartition("/")[0], []).append(image_id)
    clips = []
    for name, frames in by_name.items():
        pairs = {frame: _mask_beside(masks, frame) for frame in frames}
        shown = {frame: mask for frame, mask in pairs.items() if mask is not None}
        if frames[0] not in shown:
            raise DataError(f"masks: {frames[0]} is the query of {name} but has no mask in {masks}")
        clips.append(Clip(name=name, query=frames[0], masks=shown))
    return Masks(root=root, clips=tuple(clips), image_ids=ids)


def _mask_beside(masks: Path, image_id: str) -> Path | None:
    path = masks / Path(image_id).with_suffix(".png")
    return path if path.is_file() else None


def load_road(data: Path) -> Road:
    """`images/odd_*` with `masks/odd_*`, and `images/plain_*`."""
    root = _require(data / "images", benchmark="road", data=data)
    masks = _require(data / "masks", benchmark="road", data=data)
    ids = images_under(root)
    odd = {}
    for image_id in ids:
        if Path(image_id).name.startswith("odd_"):
            mask = _mask_beside(masks, image_id)
            if mask is None:
                raise DataError(f"road: {image_id} has no mask in {masks}; restore it or take the photo away")
            odd[image_id] = mask
    if not odd:
        raise DataError(f"road: {root} holds no odd_* photo; the set is {SHAPES['road']}")
    return Road(root=root, odd=odd, image_ids=ids)


def load_boxed(data: Path) -> Boxed:
    """`boxes.jsonl`: `{"image", "boxes": [{"label", "box": normalised xyxy}, …]}`."""
    path = _require(data / "boxes.jsonl", benchmark="underwater", data=data)
    root = _images_root(data)
    found: dict[str, dict[str, tuple[Box, ...]]] = {}
    for where, record in _lines(path):
        image_id = _image_id(field_of(record, "image", str, where=where), root=root, data=data, where=where)
        by_label: dict[str, tuple[Box, ...]] = {}
        for entry in field_of(record, "boxes", list, where=where):
            label = field_of(entry, "label", str, where=where)
            box = _box(field_of(entry, "box", list, where=where), where=where)
            by_label[label] = (*by_label.get(label, ()), box)
        found[image_id] = by_label
    return Boxed(root=root, boxes=found)


def _box(values: list[Any], *, where: str) -> Box:
    try:
        x1, y1, x2, y2 = (min(1.0, max(0.0, finite(value, where=where))) for value in values)
        return Box(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))  # corners may be swapped
    except (ValueError, RegionError) as error:
        raise DataError(f"{where}: the box {values} is not x1, y1, x2, y2 in [0, 1] with an area") from error


def read_mask(path: Path) -> NDArray[np.bool_]:
    """A mask file as bool (h, w): everything that is not zero."""
    import PIL.Image

    try:
        with PIL.Image.open(path) as picture:
            values = np.asarray(picture)
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"the mask {path} cannot be read: {error}; restore the file") from error
    return np.asarray(values.any(axis=2) if values.ndim == 3 else values != 0)
