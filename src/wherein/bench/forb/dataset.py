"""FORB: flat objects, with rejection. Its metadata and the per-object result files."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wherein.bench.readers import field_of, finite, read_ndjson, read_text, require_file
from wherein.errors import DataError

# Database sizes of the full benchmark, in the global order of the objects.
OFFICIAL_SIZES: Final[dict[str, int]] = {
    "animated_cards": 12529,
    "photorealistic_cards": 1005,
    "bookcovers": 11209,
    "paintings": 1045,
    "currency": 1583,
    "logos": 709,
    "packaged_goods": 2858,
    "movie_posters": 23497,
}
OBJECTS: Final = tuple(OFFICIAL_SIZES)
DIFFICULTIES: Final = ("easy", "medium", "hard")


@dataclass(frozen=True)
class ForbQuery:
    """One query; `truth` holds 1-based ids within its object, as published."""

    object: str
    query_id: str
    image: str
    truth: tuple[int, ...]
    difficulty: str


@dataclass(frozen=True)
class Forb:
    """The queries of the objects found on disk, the database, and how many of its images each object has."""

    root: Path
    objects: tuple[str, ...]
    queries: tuple[ForbQuery, ...]
    database: tuple[str, ...]
    sizes: Mapping[str, int]
    warnings: tuple[str, ...]

    @property
    def offsets(self) -> dict[str, int]:
        """The global id of each object's first database image."""
        return offsets_of(self.sizes)


def offsets_of(sizes: Mapping[str, int]) -> dict[str, int]:
    """The global id of each object's first database image."""
    offsets, before = {}, 0
    for name in OBJECTS:
        offsets[name] = before
        before += sizes.get(name, 0)
    return offsets


OFFICIAL_OFFSETS: Final = offsets_of(OFFICIAL_SIZES)
OFFICIAL_TOTAL: Final = sum(OFFICIAL_SIZES.values())


def metadata_folder(root: Path) -> Path:
    """The folder with the ndjson files: ROOT/metadata, or ROOT itself."""
    for folder in (root / "metadata", root):
        if any((folder / f"{name}_gt.ndjson").is_file() for name in OBJECTS):
            return folder
    raise DataError(
        f"no FORB truth under {root}: <object>_gt.ndjson is needed in metadata/; objects are {', '.join(OBJECTS)}"
    )


def load(root: Path) -> Forb:
    """Queries and truth of every object on disk."""
    folder = metadata_folder(root)
    objects = tuple(name for name in OBJECTS if (folder / f"{name}_gt.ndjson").is_file())
    warnings = []
    if len(objects) < len(OBJECTS):
        absent = ", ".join(name for name in OBJECTS if name not in objects)
        warnings.append(f"only {len(objects)} of {len(OBJECTS)} objects have truth on disk; without {absent}")
    queries = tuple(query for name in objects for query in _queries(folder / f"{name}_gt.ndjson", name))
    if not queries:
        raise DataError(f"the <object>_gt.ndjson files in {folder} are empty; download the metadata again")
    database, sizes = _database(folder)
    if not database:
        warnings.append("no usable all_database_images.txt: the offsets of the full benchmark are used")
    return Forb(root, objects, queries, database, sizes, tuple(warnings))


def require_truth_within(queries: Iterable[ForbQuery], sizes: Mapping[str, int]) -> None:
    """Refuse truth beyond an object's database images: its global id would be another object's."""
    for query in queries:
        if max(query.truth, default=0) > sizes.get(query.object, 0):
            raise DataError(
                f"{query.object}, query_id {query.query_id}: groundtruth_ids hold {max(query.truth)}, but there are "
                f"{sizes.get(query.object, 0)} database images of it; metadata and database list do not belong together"
            )


def _queries(path: Path, name: str) -> list[ForbQuery]:
    queries = []
    for number, record in read_ndjson(path):
        where = f"{path}, line {number}"
        ids = field_of(record, "groundtruth_ids", list, where=where)
        if not all(type(item) is int and item >= 1 for item in ids):
            raise DataError(f"{where}: groundtruth_ids counts from 1 within {name}, found {ids!r}")
        difficulty = str(record.get("difficulty", ""))
        if difficulty not in DIFFICULTIES:
            raise DataError(f"{where}: difficulty {difficulty!r} is none of {', '.join(DIFFICULTIES)}")
        query_id = str(field_of(record, "query_id", (int, str), where=where))
        queries.append(ForbQuery(name, query_id, str(record.get("query_image", "")), tuple(ids), difficulty))
    _no_doubles([query.query_id for query in queries], path)
    return queries


def _no_doubles(ids: list[str], path: Path) -> None:
    if len(set(ids)) < len(ids):
        double = next(query_id for query_id in ids if ids.count(query_id) > 1)
        raise DataError(f"{path}: query_id {double} appears twice; every query has one line")


def _database(folder: Path) -> tuple[tuple[str, ...], dict[str, int]]:
    """Database images in global order, and how many belong to each object (official where unknown)."""
    listing = folder / "all_database_images.txt"
    if listing.is_file():
        images = tuple(filter(None, map(str.strip, read_text(listing).splitlines())))
        owners = [next((part for part in image.split("/") if part in OFFICIAL_SIZES), "") for image in images]
        in_order = owners == sorted(owners, key=lambda name: (*OBJECTS, "").index(name))
        if images and "" not in owners and in_order:
            return images, dict(Counter(owners))
    files = {name: folder / f"{name}_database.ndjson" for name in OBJECTS}
    if all(path.is_file() for path in files.values()):
        listed = {
            name: [str(record.get("image", "")) for _, record in read_ndjson(path)] for name, path in files.items()
        }
        return tuple(image for images in listed.values() for image in images), {n: len(i) for n, i in listed.items()}
    return (), dict(OFFICIAL_SIZES)


OUT_OF_DOMAIN: Final = "out_of_domain.ndjson"
"""A file beside the results: what images of other domains find in the whole database. FORB has no such file: its paper
only plans such queries."""

BEFORE: Final = "_before_reranking"
"""How the keys end under which results keep what they had before re-ranking."""


@dataclass(frozen=True)
class ForbResults:
    """The candidates of one result file by query id, in the order of its lines."""

    path: Path
    query_ids: tuple[str, ...]
    candidates: tuple[tuple[int, ...], ...]
    scores: tuple[tuple[float, ...], ...]


def read_results(folder: Path, *, name: str, against: str, before: bool = False) -> ForbResults:
    """`{object}_{all|oods}.ndjson`: ids of database images, best first, with their scores.

    With `before`, those that stood there before re-ranking; of a file without them, what it has.
    """
    path = require_file(
        folder / f"{name}_{against}.ndjson",
        what=f"FORB results of {name} against {against}",
        hint="--predictions is the folder with <object>_all.ndjson and <object>_oods.ndjson for every object",
    )
    query_ids, candidates, scores = [], [], []
    for number, record in read_ndjson(path):
        where = f"{path}, line {number}"
        query_ids.append(str(field_of(record, "query_id", (int, str), where=where)))
        tail = BEFORE if before and f"candidate_db_ids{BEFORE}" in record else ""
        ids = field_of(record, f"candidate_db_ids{tail}", list, where=where)
        values = field_of(record, f"global_scores{tail}", list, where=where)
        _check_candidates(ids, values, where=where)
        candidates.append(tuple(ids))
        scores.append(tuple(values))
    _no_doubles(query_ids, path)
    return ForbResults(path, tuple(query_ids), tuple(candidates), tuple(scores))


def has_before(folder: Path, *, name: str) -> bool:
    """Whether the results of an object say what stood there before re-ranking."""
    path = folder / f"{name}_all.ndjson"
    first = next(read_ndjson(path), None) if path.is_file() else None
    return first is not None and f"candidate_db_ids{BEFORE}" in first[1]


def read_strangers(folder: Path) -> tuple[float, ...] | None:
    """The best score of every query of another domain, −1 where it found nothing; None without such a file."""
    path = folder / OUT_OF_DOMAIN
    if not path.is_file():
        return None
    best = []
    for number, record in read_ndjson(path):
        values = field_of(record, "global_scores", list, where=f"{path}, line {number}")
        best.append(max((finite(value, where=f"{path}, line {number}") for value in values), default=-1.0))
    return tuple(best)


def _check_candidates(ids: list[Any], values: list[Any], *, where: str) -> None:
    if len(ids) != len(values):
        raise DataError(f"{where}: {len(ids)} candidate_db_ids but {len(values)} global_scores; one score each")
    for item in ids:
        if type(item) is not int or item < 0:
            raise DataError(f"{where}: candidate {item!r} is not a 0-based position in the database")
    for value in values:
        finite(value, where=f"{where}, score")
