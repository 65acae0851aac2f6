"""The sub-region study: where the one described frame lands among all frames."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.bench import metrics
from wherein.bench.evaluation import DETAIL_LIMIT, Evaluation, Line, QueryScore
from wherein.bench.reference import reference
from wherein.bench.subregion import dataset as subregion
from wherein.errors import DataError

DEPTHS: Final = (1, 10, 100, 1000)
"""The depths of the paper's recall."""
CURVE_DEPTHS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
"""The depths at which its curve of recall is drawn."""

Query = tuple[str, str, str, str]  # set, author, id, text


@dataclass(frozen=True)
class _Place:
    """The 1-based rank of the target, or one past the ranking's end when it is not in it."""

    rank: int
    found: bool
    length: int
    first: tuple[int, ...]


def score(data: Path, predictions: Path, *, protocol: str) -> Evaluation:
    """Score ndjson rankings; the paper's metrics are the official ones here."""
    truth = subregion.load(data)
    places = _places(truth, predictions)
    texts = [text for text in subregion.TEXTS if any(query[3] == text for query in places)]
    absent = [
        (annotation, text)
        for annotation in truth.annotations
        for text in texts
        if (annotation.set, annotation.author, annotation.id, text) not in places
    ]
    if absent:
        annotation, text = absent[0]
        raise DataError(
            f"{predictions}: {len(absent)} queries have no ranking, the first is author {annotation.author!r}, "
            f"id {annotation.id}, text {text}; every annotation needs a line"
        )
    groups = _groups(truth, places, texts)
    document: dict[str, dict[str, dict[str, float]]] = {}
    for (name, text), group in groups.items():
        figures = metrics.known_item([place.rank for place in group], found=[place.found for place in group], ks=DEPTHS)
        if not any(place.length for place in group):
            figures["MNR"] = float("nan")  # nothing was ranked, so nothing is known of any rank
        document.setdefault(name, {})[text] = figures
    return Evaluation(
        benchmark="subregion",
        protocol=protocol,
        scores=document,
        queries=tuple(
            _query_score(annotation, text, places[annotation.set, annotation.author, annotation.id, text])
            for annotation in truth.annotations
            for text in texts
        ),
        curves=_curves(groups),
        warnings=(*truth.warnings, *_warnings(places, texts)),
        reference=reference("subregion", {}),
    )


def _places(truth: subregion.SubRegion, predictions: Path) -> dict[Query, _Place]:
    """The place of every predicted query's target; `author` may be written `skippable/author`."""
    owners: dict[tuple[str, str], list[subregion.Annotation]] = {}
    for annotation in truth.annotations:
        folder = subregion.SETS[annotation.set]
        for author in dict.fromkeys((annotation.author, f"{annotation.set}/{annotation.author}",
                                     f"{folder}/{annotation.author}")):  # fmt: skip
            owners.setdefault((author, annotation.id), []).append(annotation)
    places: dict[Query, _Place] = {}
    for line in subregion.read_predictions(predictions):
        where = f"{predictions}, line {line.line}"
        meant = owners.get((line.author.removesuffix(".json"), line.id), [])
        if not meant:
            raise DataError(f"{where}: there is no annotation {line.id} by {line.author!r} under {truth.root}")
        if len(meant) > 1:
            raise DataError(
                f"{where}: author {line.author!r} has an annotation {line.id} in both sets; "
                f'write "skippable/{line.author}" or "non_skippable/{line.author}"'
            )
        annotation = meant[0]
        query = (annotation.set, annotation.author, annotation.id, line.text)
        if query in places:
            raise DataError(f"{where}: a second ranking for {line.author!r}, id {line.id}, text {line.text}")
        places[query] = _place(line.ranking, annotation.frame)
    if not places:
        raise DataError(f"{predictions} holds no rankings; it needs one line per annotation and text")
    return places


def _place(ranking: tuple[int, ...], target: int) -> _Place:
    found = target in ranking
    rank = ranking.index(target) + 1 if found else len(ranking) + 1
    return _Place(rank, found, len(ranking), ranking[:DETAIL_LIMIT])


def _groups(
    truth: subregion.SubRegion, places: Mapping[Query, _Place], texts: list[str]
) -> dict[tuple[str, str], list[_Place]]:
    groups: dict[tuple[str, str], list[_Place]] = {}
    for name in (*subregion.SETS, "all"):
        for text in texts:
            members = [a for a in truth.annotations if name in ("all", a.set)]
            if members:
                groups[name, text] = [places[a.set, a.author, a.id, text] for a in members]
    return groups


def _query_score(annotation: subregion.Annotation, text: str, place: _Place) -> QueryScore:
    first = [{"image_id": str(frame), "relevant": frame == annotation.frame} for frame in place.first]
    detail: dict[str, Any] = {
        "text": annotation.short if text == "short" else annotation.long,
        "frame": annotation.frame,
        "box": list(annotation.xyxy),
        "found": place.found,
        "first": first,
    }
    recalls = {f"R@{k}": float(place.found and place.rank <= k) for k in DEPTHS}
    return QueryScore(
        f"{annotation.set}/{annotation.author}/{annotation.id}/{text}",
        f"{annotation.set} {text}",
        {"rank": float(place.rank), **recalls},
        detail,
    )


def _curves(groups: Mapping[tuple[str, str], list[_Place]]) -> tuple[Line, ...]:
    curves = []
    for (name, text), group in groups.items():
        ranks = np.array([place.rank if place.found else np.inf for place in group])
        recalls = [float(np.mean(ranks <= k)) for k in CURVE_DEPTHS]
        curves.append(Line(f"{name}, {text}", "rank", "recall", list(map(float, CURVE_DEPTHS)), recalls))
    return tuple(curves)


def _warnings(places: Mapping[Query, _Place], texts: list[str]) -> list[str]:
    warnings = [
        f"no rankings for the {text} texts; their figures are left out" for text in subregion.TEXTS if text not in texts
    ]
    empty = sum(not place.length for place in places.values())
    if empty:
        warnings.append(f"{empty} of {len(places)} rankings are empty; where all of a group are, it has no MNR")
    lost = [place for place in places.values() if not place.found]
    if lost:
        shortest = min(place.length for place in lost)
        warnings.append(
            f"truncated rankings: {len(lost)} of {len(places)} do not hold their target (as few as {shortest} "
            "frames); it is taken to come right after the last frame, so MNR is a lower bound"
        )
        if shortest < max(DEPTHS):
            warnings.append(f"recall beyond R@{shortest} counts those targets as not found")
    return warnings
