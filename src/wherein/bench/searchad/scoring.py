"""SearchAD scored as its devkit scores (`official`) or as the paper defines (`paper`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wherein.bench import metrics
from wherein.bench.evaluation import DETAIL_LIMIT, Evaluation, Line, QueryScore
from wherein.bench.reference import reference
from wherein.bench.searchad import dataset as searchad
from wherein.errors import DataError

DEPTHS: Final = (5, 25, 100)
"""The depths of precision: P@5, P@25 and P@100."""


@dataclass
class _Notes:
    """What went past while rankings were read, told once at the end."""

    strangers: list[str] = field(default_factory=list)
    unknown_paths: dict[str, int] = field(default_factory=dict)
    doubles: dict[str, int] = field(default_factory=dict)
    unranked: dict[str, int] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    without_truth: list[str] = field(default_factory=list)
    hits: int = 0


@dataclass(frozen=True)
class _Ranking:
    """One label's ranking without its ignored images: where the relevant ones stand, and how it begins."""

    positions: NDArray[np.int64]
    length: int
    relevant: int
    first: list[dict[str, Any]]


def score(data: Path, predictions: Path, *, split: str, protocol: str) -> Evaluation:
    """Score a predictions or submission file against a split."""
    truth = searchad.load(data, split=split)
    notes = _Notes()
    rankings = _read_rankings(truth, predictions, notes)
    if not rankings:
        raise DataError(
            f"{predictions}: none of its labels ({_few(notes.strangers) or 'it has none'}) is one of the 90; "
            "labels are spelled like Animal-Real-Cat"
        )
    if notes.hits == 0:
        raise DataError(
            f"{predictions}: none of its images belongs to the {split} split; the truth of the test split is not "
            "public, and paths start with their source folder (acdc/…)"
        )
    classes = _classes(truth, rankings, protocol=protocol)
    if not classes:
        raise DataError(f"{predictions}: every ranking is empty once ignored images are left out")
    return Evaluation(
        benchmark="searchad",
        protocol=protocol,
        scores=_document(classes),
        queries=tuple(_query_score(label, classes[label], rankings.get(label)) for label in classes),
        curves=_curves(truth, rankings, classes, protocol=protocol),
        warnings=(*truth.warnings, *_warnings(rankings, notes, split=split, protocol=protocol)),
        reference=reference("searchad", {"split": split}),
        conditions={"split": split, "protocol": protocol},
    )


def _read_rankings(truth: searchad.SearchAD, predictions: Path, notes: _Notes) -> dict[str, _Ranking]:
    index = {path: row for row, path in enumerate(truth.images)}
    fingerprint = sum(map(hash, truth.images))
    by_id: dict[Any, int] | None = None
    rankings = {}
    for label, paths in searchad.stream_predictions(predictions):
        if label not in searchad.LABELS:
            notes.strangers.append(label)
            continue
        if paths and isinstance(paths[0], int) and by_id is None:
            by_id = _rows_by_id(truth, index)
        lookup: Mapping[Any, int] = by_id if by_id is not None else index
        try:
            # The same strings in another order have the same sum of (seeded, 64-bit) hashes. Then nothing is
            # unknown or doubled, and only the images that matter need a row: a table small enough for the cache.
            whole = len(paths) == len(index) and sum(map(hash, paths)) == fingerprint
            if whole:
                marked = np.concatenate([truth.positives[label], truth.ignored[label]]).tolist()
                lookup = {truth.images[row]: row for row in marked}
            rows = np.fromiter(map(lookup.get, paths, repeat(-1)), dtype=np.int64, count=len(paths))
        except TypeError:
            raise DataError(f"{predictions}, {label}: a ranking holds image paths, nothing nested") from None
        known = np.ones(len(rows), dtype=bool) if whole else rows >= 0
        _note(label, rows, known, notes, images=len(index), whole=whole)
        rankings[label] = _ranking(truth, label, rows, paths)
        _note_ranking(label, rankings[label], notes)
    return rankings


def _note(
    label: str, rows: NDArray[np.int64], known: NDArray[np.bool_], notes: _Notes, *, images: int, whole: bool
) -> None:
    ranked = int(np.count_nonzero(known))
    notes.hits += ranked
    if whole:
        return
    seen = np.zeros(images, dtype=bool)
    seen[rows[known]] = True
    if ranked < len(rows):
        notes.unknown_paths[label] = len(rows) - ranked
    if np.count_nonzero(seen) < ranked:
        notes.doubles[label] = ranked - int(np.count_nonzero(seen))


def _note_ranking(label: str, ranking: _Ranking, notes: _Notes) -> None:
    if len(ranking.positions) < ranking.relevant:
        notes.unranked[label] = ranking.relevant - len(ranking.positions)
    if ranking.length == 0:
        notes.empty.append(label)
    if ranking.relevant == 0:
        notes.without_truth.append(label)


def _rows_by_id(truth: searchad.SearchAD, index: Mapping[str, int]) -> dict[Any, int]:
    mapping = searchad.read_test_mapping(truth.root)
    return {number: index[path] for number, path in mapping.items() if path in index}


def _ranking(truth: searchad.SearchAD, label: str, rows: NDArray[np.int64], paths: list[Any]) -> _Ranking:
    """Where the relevant images stand; a row of -1 is an image that is neither relevant nor ignored."""
    ignored = np.zeros(len(truth.images) + 1, dtype=bool)
    ignored[truth.ignored[label]] = True  # the last row stays False: it answers for -1
    kept = np.flatnonzero(~ignored[rows])
    place = np.full(len(truth.images) + 1, -1, dtype=np.int64)
    # A path ranked twice counts at its last place, as in the devkit's lookup.
    place[rows[kept]] = np.arange(len(kept))
    positives = truth.positives[label]
    positions = np.sort(place[positives][place[positives] >= 0])
    hits = set(positions[positions < DETAIL_LIMIT].tolist())
    first = [
        {"image_id": paths[where], "relevant": number in hits}
        for number, where in enumerate(kept[:DETAIL_LIMIT].tolist())
    ]
    return _Ranking(positions, len(kept), len(positives), first)


def _classes(
    truth: searchad.SearchAD, rankings: Mapping[str, _Ranking], *, protocol: str
) -> dict[str, dict[str, float]]:
    """Figures per label: of the labels that can be scored (official), or of all 90 (paper)."""
    if protocol == "official":
        return {
            label: _figures(ranking, relevant=len(ranking.positions))
            for label, ranking in rankings.items()
            if ranking.length
        }
    nothing = _Ranking(np.empty(0, dtype=np.int64), 0, 0, [])
    return {
        label: _figures(rankings.get(label, nothing), relevant=len(truth.positives[label])) for label in searchad.LABELS
    }


def _figures(ranking: _Ranking, *, relevant: int) -> dict[str, float]:
    found, length = ranking.positions, ranking.length
    return {
        "MAP": metrics.average_precision(found, relevant=relevant),
        "MRP": metrics.r_precision(found, relevant=relevant),
        **{f"P@{k}": metrics.precision_at(found, k, length=length) for k in DEPTHS},
    }


def _document(classes: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    names = ("MAP", "MRP", *(f"P@{k}" for k in DEPTHS))
    categories: dict[str, list[Mapping[str, float]]] = {}
    for label, figures in classes.items():
        categories.setdefault(searchad.category_of(label), []).append(figures)
    return {
        "overall": _means(names, list(classes.values())),
        "classes": {label: dict(classes[label]) for label in searchad.LABELS if label in classes},
        "categories": {name: _means(names, categories[name]) for name in searchad.CATEGORIES if name in categories},
    }


def _means(names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in names}


def _query_score(label: str, figures: Mapping[str, float], ranking: _Ranking | None) -> QueryScore:
    detail: dict[str, Any] = {"ranked": 0, "first": []}
    if ranking:
        detail = {
            "relevant_images": ranking.relevant,
            "ranked": ranking.length,
            "found": len(ranking.positions),
            "best_rank": int(ranking.positions[0]) + 1 if len(ranking.positions) else None,
            "first": ranking.first,
        }
    renamed = {{"MAP": "AP", "MRP": "RP"}.get(name, name): value for name, value in figures.items()}
    return QueryScore(label, searchad.category_of(label), renamed, detail)


def _curves(
    truth: searchad.SearchAD,
    rankings: Mapping[str, _Ranking],
    classes: Mapping[str, Any],
    *,
    protocol: str,
) -> tuple[Line, ...]:
    lines: dict[str, list[NDArray[np.float64]]] = {"all labels": []}
    for label in classes:
        found = rankings[label].positions if label in rankings else np.empty(0, dtype=np.int64)
        relevant = len(found) if protocol == "official" else len(truth.positives[label])
        line = metrics.interpolated_precision(found, relevant=relevant)
        lines["all labels"].append(line)
        lines.setdefault(searchad.category_of(label), []).append(line)
    recall = metrics.RECALL_POINTS.tolist()
    return tuple(
        Line(name, "recall", "precision", recall, np.mean(group, axis=0).tolist()) for name, group in lines.items()
    )


def _warnings(rankings: Mapping[str, _Ranking], notes: _Notes, *, split: str, protocol: str) -> list[str]:
    absent = [label for label in searchad.LABELS if label not in rankings]
    fate = "leave the mean" if protocol == "official" else "count 0 in the mean over 90 labels"
    warnings = []
    if notes.strangers:
        warnings.append(
            f"labels outside the 90 are not scored: {_few(notes.strangers)} "
            "(the devkit would count an unknown label as 0)"
        )
    if absent:
        warnings.append(f"{len(absent)} of 90 labels have no ranking and {fate}: {_few(absent)}")
    if notes.empty:
        warnings.append(f"rankings empty once ignored images are left out {fate}: {_few(notes.empty)}")
    if notes.without_truth:
        warnings.append(
            f"{len(notes.without_truth)} ranked labels have no relevant image in {split} and score 0: "
            f"{_few(notes.without_truth)}"
        )
    if notes.unranked:
        rule = (
            "official scores divide by the relevant images found in the list and are too high; --protocol paper "
            "divides by all of them"
            if protocol == "official"
            else "they count as never found"
        )
        warnings.append(
            f"truncated rankings: {sum(notes.unranked.values())} relevant images of {len(notes.unranked)} labels "
            f"are not ranked ({_few(list(notes.unranked))}); {rule}"
        )
    if notes.doubles:
        warnings.append(
            f"{sum(notes.doubles.values())} duplicate paths in the rankings of {len(notes.doubles)} labels "
            f"({_few(list(notes.doubles))}); each counts at its last place, as in the devkit"
        )
    if notes.unknown_paths:
        warnings.append(
            f"{sum(notes.unknown_paths.values())} ranked paths of {len(notes.unknown_paths)} labels are not images "
            f"of the {split} split ({_few(list(notes.unknown_paths))}); they count as not relevant"
        )
    return warnings


def _few(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
