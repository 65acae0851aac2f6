"""SearchAD beside scoring: is the download complete, what is in it, and the file to submit."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wherein.bench.readers import stream_json_object
from wherein.bench.searchad.dataset import (
    LABELS,
    MIN_AREA,
    SOURCES,
    SPLITS,
    TEST_MAPPING,
    load,
    read_annotations,
    read_test_mapping,
    stream_predictions,
)
from wherein.errors import DataError

SEARCH_MODES: Final = ("Language", "Vision", "Multimodal")


@dataclass(frozen=True)
class ToolCheck:
    """One thing looked at: `ok`, what it is, and what was found."""

    ok: bool
    what: str
    found: str


def check(root: Path, *, images: bool = True) -> tuple[ToolCheck, ...]:
    """Files, labels, default queries and source folders of a SearchAD download, present or missing.

    With `images`, every image path the files name is looked for on disk.
    """
    if not root.is_dir():
        raise DataError(f"{root} is not a folder; --data must be the folder SearchAD was unpacked into")
    findings: list[ToolCheck] = []
    named: set[str] = set()
    for split in SPLITS:
        file = f"searchad_annotations_{split}.json"
        if not (root / file).is_file():
            findings.append(ToolCheck(False, file, "missing"))
            continue
        annotations = read_annotations(root, split)
        named.update(annotations)
        used = {label for entries in annotations.values() for label, _ in entries}
        unused = [label for label in LABELS if label not in used]
        said = f"{len(annotations)} images, {len(LABELS) - len(unused)} of {len(LABELS)} labels"
        findings.append(ToolCheck(not unused, file, said + (f"; without {_few(unused)}" if unused else "")))
    if (root / TEST_MAPPING).is_file():
        test = read_test_mapping(root)
        named.update(test.values())
        findings.append(ToolCheck(True, TEST_MAPPING, f"{len(test)} images"))
    else:
        findings.append(ToolCheck(False, TEST_MAPPING, "missing"))
    findings.append(_queries_finding(root))
    findings += [_source_finding(root, source, named, images=images) for source in SOURCES]
    return tuple(findings)


def _queries_finding(root: Path) -> ToolCheck:
    files = {path.stem for path in (root / "default_queries").glob("*.json")}
    absent = [label for label in LABELS if label not in files]
    if not files:
        return ToolCheck(False, "default_queries/", "missing")
    said = f"{len(LABELS) - len(absent)} of {len(LABELS)} labels"
    return ToolCheck(not absent, "default_queries/", said + (f"; without {_few(absent)}" if absent else ""))


def _source_finding(root: Path, source: str, named: Iterable[str], *, images: bool) -> ToolCheck:
    what = f"{source}/"
    wanted = [path for path in named if path.startswith(what)]
    if not (root / source).is_dir():
        return ToolCheck(False, what, f"folder missing ({len(wanted)} images are named in it)")
    if not images:
        return ToolCheck(True, what, f"folder present ({len(wanted)} images named, not looked for)")
    there = sum((root / path).is_file() for path in wanted)
    return ToolCheck(there == len(wanted), what, f"{there} of {len(wanted)} images on disk")


def _few(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True)
class Statistics:
    """Counts per label (rows, rarest first) and column: a split or a source folder, then `total`."""

    level: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    images: tuple[int, ...]


def statistics(
    root: Path, *, splits: Sequence[str] = SPLITS, level: str = "object", by_source: bool = False
) -> Statistics:
    """How often each of the 90 labels occurs.

    `level`: `object` counts boxes, `image` the images with such a box, `truth` the images that are positive
    under the 50 px² rule.
    """
    if level not in ("object", "image", "truth"):
        raise DataError(f"level {level!r} is none of object, image, truth")
    counts: dict[str, Counter[str]] = {}
    images: Counter[str] = Counter()
    for split in splits:
        rows = _truth_rows(root, split) if level == "truth" else _label_rows(root, split, distinct=level == "image")
        for path, labels in rows:
            column = path.split("/", 1)[0] if by_source else split
            images[column] += 1
            counts.setdefault(column, Counter()).update(labels)
    columns = tuple(name for name in (SOURCES if by_source else splits) if name in counts)
    table = {label: tuple(counts[column][label] for column in columns) for label in LABELS}
    ordered = sorted(LABELS, key=lambda label: (sum(table[label]), label))
    return Statistics(
        level=level,
        columns=(*columns, "total"),
        rows=tuple((label, (*table[label], sum(table[label]))) for label in ordered),
        images=(*(images[column] for column in columns), sum(images[column] for column in columns)),
    )


def _label_rows(root: Path, split: str, *, distinct: bool) -> Iterable[tuple[str, list[str]]]:
    for path, entries in read_annotations(root, split).items():
        labels = [label for label, _ in entries]
        yield path, list(dict.fromkeys(labels)) if distinct else labels


def _truth_rows(root: Path, split: str) -> Iterable[tuple[str, list[str]]]:
    data = load(root, split=split)
    labels: list[list[str]] = [[] for _ in data.images]
    for label, rows in data.positives.items():
        for row in rows:
            labels[row].append(label)
    return zip(data.images, labels, strict=True)


@dataclass(frozen=True)
class Metadata:
    """What a submission says about itself; checked when made."""

    team: str
    model: str
    affiliation: str
    mode: str
    trained: bool
    default_queries: bool

    def __post_init__(self) -> None:
        for name, value in (("team", self.team), ("model", self.model), ("affiliation", self.affiliation)):
            if not value.strip():
                raise DataError(f"the submission's {name} is empty; the benchmark server refuses that")
        if self.mode not in SEARCH_MODES:
            raise DataError(f"search mode {self.mode!r} is none of {', '.join(SEARCH_MODES)}")

    def document(self) -> dict[str, str]:
        """The fields under their official names."""
        return {
            "Team Name": self.team.strip(),
            "Model Name": self.model.strip(),
            "Paper/Code/Affiliation": self.affiliation.strip(),
            "Search Mode": self.mode,
            "SearchAD Train": "Yes" if self.trained else "No",
            "Default Queries": "Yes" if self.default_queries else "No",
        }


def write_submission(root: Path, *, predictions: Path, out: Path, metadata: Metadata) -> tuple[str, ...]:
    """Write the submission file for the test split; warnings say what the server may hold against it.

    A path that is not in the test mapping, or one ranked twice, is an error: leaving it out would shift the
    ranking silently.
    """
    ids = {path: number for number, path in read_test_mapping(root).items()}
    rankings: dict[str, list[int]] = {}
    warnings: list[str] = []
    for label, ranking in stream_predictions(predictions):
        unknown = next((path for path in ranking if path not in ids), None)
        if unknown is not None:
            raise DataError(f"{predictions}, {label}: {unknown!r} is not an image of the test split ({TEST_MAPPING})")
        rankings[label] = [ids[path] for path in ranking]
        if len(set(rankings[label])) < len(ranking):
            raise DataError(f"{predictions}, {label}: an image is ranked twice; rank every image once")
        if len(ranking) < len(ids):
            warnings.append(f"{label}: {len(ranking)} of {len(ids)} test images are ranked; a full ranking is expected")
    strange = [label for label in rankings if label not in LABELS]
    absent = [label for label in LABELS if label not in rankings]
    if strange:
        warnings.append(f"labels that are not among the 90: {_few(strange)}")
    if absent:
        warnings.append(f"labels without a ranking: {_few(absent)}")
    document = {"metadata": metadata.document(), "predictions": rankings}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document), encoding="utf-8")
    return tuple(warnings)


@dataclass(frozen=True)
class Submission:
    """A submission read back: its metadata, and image paths per label."""

    metadata: dict[str, str]
    rankings: dict[str, list[str]]


def read_submission(path: Path, *, root: Path) -> Submission:
    """A submission file with its ids turned back into image paths of the test split."""
    images = read_test_mapping(root)
    metadata: dict[str, str] = {}
    rankings: dict[str, list[str]] = {}
    for key, value in stream_json_object(path, nested="predictions"):
        if key == "metadata" and isinstance(value, dict):
            metadata = {str(name): str(text) for name, text in value.items()}
            continue
        unknown = next((number for number in value if number not in images), None)
        if unknown is not None:
            raise DataError(f"{path}, {key}: {unknown!r} is not an id of {TEST_MAPPING}")
        rankings[key] = [images[number] for number in value]
    return Submission(metadata, rankings)


def write_truth(root: Path, *, split: str, out: Path) -> tuple[Path, Path]:
    """Write `{label: [paths]}` of the relevant and of the ignored images, under the devkit's file names."""
    data = load(root, split=split)
    out.mkdir(parents=True, exist_ok=True)
    paths = (
        out / f"searchad_{split}_image_level_annotations_min_box_{MIN_AREA}.json",
        out / f"searchad_{split}_image_level_ignore_images_min_box_{MIN_AREA}.json",
    )
    for path, rows_of in zip(paths, (data.positives, data.ignored), strict=True):
        document = {label: [data.images[row] for row in rows] for label, rows in rows_of.items() if len(rows)}
        path.write_text(json.dumps(document, indent=4), encoding="utf-8")
    return paths
