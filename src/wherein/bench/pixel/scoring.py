"""Pixel retrieval: mIoU over ground-truth pairs, and mAP@50:5:95 of a ranking when one is given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wherein.bench import metrics
from wherein.bench.evaluation import Evaluation, Line, QueryScore
from wherein.bench.overlap import polygon_ious, region_ious
from wherein.bench.pixel import dataset as pixel
from wherein.bench.pixel.pictures import pair_name
from wherein.bench.reference import reference
from wherein.bench.revisited import dataset as revisited
from wherein.errors import DataError

LEVELS: Final = ("medium", "hard")
SHOWN: Final = 6
"""Pairs with the highest and with the lowest IoU that are kept of every query, at most so many of each."""

Ious = Mapping[pixel.Pair, tuple[float, float]]


def score(data: Path, predictions: Path, *, name: str, ranks: Path | None, protocol: str) -> Evaluation:
    """Score matching results, and the ranking too when `ranks` is given."""
    truth = pixel.load(data, name=name)
    matches = pixel.read_matches(predictions)
    warnings: list[str] = list(truth.truth.warnings)
    ious, empty = _overlaps(truth, matches, warnings)
    document: dict[str, Any] = {level: {} for level in LEVELS}
    curves: list[Line] = []
    if ranks is None:
        warnings.append(
            "without a ranking of the database there is no mAP@50:5:95 (`wherein evaluate` takes one as --ranks)"
        )
    else:
        order, notes = revisited.read_ranks(ranks, data=truth.truth)
        warnings += notes
        for level in LEVELS:
            document[level]["mAP"] = _image_map(truth, order, level)
            document[level]["mAP@50:5:95"] = _located_map(truth, ious, order, level, curves, protocol=protocol)
    for level in LEVELS:
        document[level]["mIoU"] = _mean_iou(truth, ious, level, warnings)
        document[level]["mIoU-script"] = _script_iou(truth, ious, empty, level)
        if np.isnan(document[level]["mIoU-script"]["D"]):
            document[level]["mIoU-script"] = {"D": None, "S": None}
            warnings.append(
                f"{level}: a query without pairs makes the official script's mean NaN (mIoU-script is null)"
            )
    document["ious"] = {f"{query}_{image}": list(values) for (query, image), values in ious.items()}
    return Evaluation(
        benchmark=name,
        protocol=protocol,
        scores=document,
        queries=tuple(_query_score(truth, ious, number) for number in range(len(truth.truth.queries))),
        curves=tuple(curves),
        warnings=tuple(warnings),
        reference=reference(name, {"protocol": protocol}),
        conditions={"protocol": protocol},
    )


def _pairs(truth: pixel.PixelRetrieval, number: int, level: str) -> list[pixel.Pair]:
    relevant, _ = truth.truth.queries[number].under(level)
    return [(number, image) for image in relevant.tolist()]


def _overlaps(
    truth: pixel.PixelRetrieval, matches: Mapping[pixel.Pair, NDArray[Any]], warnings: list[str]
) -> tuple[dict[pixel.Pair, tuple[float, float]], set[pixel.Pair]]:
    """Box and mask IoU of every labelled ground-truth pair, and the pairs whose prediction is empty."""
    ious: dict[pixel.Pair, tuple[float, float]] = {}
    absent: list[str] = []
    unlabelled: list[str] = []
    far: list[str] = []
    empty: set[pixel.Pair] = set()
    for number in range(len(truth.truth.queries)):
        for pair in _pairs(truth, number, "medium"):
            name = f"{pair[0]}_{pair[1]}"
            match = matches.get(pair)
            if pair not in truth.labels:
                unlabelled.append(name)
                continue
            if match is None:
                absent.append(name)
            if match is None or _is_empty(match):
                empty.add(pair)
                ious[pair] = (0.0, 0.0)
            elif _reach(match) > pixel.LARGEST_COORDINATE:
                far.append(name)
                ious[pair] = (0.0, 0.0)
            else:
                ious[pair] = _pair_ious(match, truth.labels[pair])
    if not ious:
        raise DataError(f"none of the ground-truth pairs of {truth.name} has a label file; check --data")
    for names, what in (
        (unlabelled, "ground-truth pairs have no outline and are left out"),
        (absent, "ground-truth pairs have no prediction and count as empty (IoU 0)"),
        (far, f"predictions reach beyond {pixel.LARGEST_COORDINATE} px and count as IoU 0"),
    ):
        if names:
            warnings.append(f"{len(names)} {what}: {', '.join(names[:4])}{' …' if len(names) > 4 else ''}")
    strange = len(matches.keys() - ious.keys())
    if strange:
        warnings.append(f"{strange} predictions are for pairs that are not ground truth; they were not used")
    return ious, empty


def _is_empty(match: NDArray[Any]) -> bool:
    """Was nothing found: no point, or no pixel?"""
    return len(match) == 0 or (match.dtype == bool and not match.any())


def _reach(match: NDArray[Any]) -> float:
    """The largest coordinate of points, or the longer side of a mask."""
    return float(max(match.shape) if match.dtype == bool else np.abs(match).max())


def _pair_ious(match: NDArray[Any], label: Path) -> tuple[float, float]:
    polygons = pixel.read_polygons(label)
    return region_ious(match, polygons) if match.dtype == bool else polygon_ious(match, polygons)


def _mean_iou(truth: pixel.PixelRetrieval, ious: Ious, level: str, warnings: list[str]) -> dict[str, float | None]:
    """Mean over a query's labelled pairs, then over the queries that have any."""
    means = []
    bare = 0
    for number in range(len(truth.truth.queries)):
        pairs = [ious[pair] for pair in _pairs(truth, number, level) if pair in ious]
        if pairs:
            means.append(np.mean(pairs, axis=0))
        else:
            bare += 1
    if bare:
        warnings.append(f"{level}: {bare} queries have no labelled pair and leave the mean of mIoU")
    if not means:
        return {"D": None, "S": None}
    box, mask = np.mean(means, axis=0)
    return {"D": float(box), "S": float(mask)}


def _script_iou(truth: pixel.PixelRetrieval, ious: Ious, empty: set[pixel.Pair], level: str) -> dict[str, float]:
    """As the official script averages: easy pairs with an empty prediction are left out, no pairs give NaN."""
    means = []
    for number, query in enumerate(truth.truth.queries):
        easy = set(query.easy.tolist())
        pairs = [
            ious[pair]
            for pair in _pairs(truth, number, level)
            if pair in ious and not (pair in empty and pair[1] in easy)
        ]
        means.append(np.mean(pairs, axis=0) if pairs else np.full(2, np.nan))
    box, mask = np.mean(means, axis=0)
    return {"D": float(box), "S": float(mask)}


def _image_map(truth: pixel.PixelRetrieval, order: NDArray[np.int64], level: str) -> float | None:
    """The revisited benchmark's own mAP of the ranking, whatever the regions are."""
    found = []
    for number, query in enumerate(truth.truth.queries):
        relevant, junk = query.under(level)
        if len(relevant):
            positions = metrics.positions_of(order[:, number], relevant=relevant, junk=junk)
            found.append(metrics.trapezoidal_ap(positions, relevant=len(relevant)))
    return float(np.mean(found)) if found else None


def _located_map(
    truth: pixel.PixelRetrieval,
    ious: Ious,
    order: NDArray[np.int64],
    level: str,
    curves: list[Line],
    *,
    protocol: str,
) -> float | dict[str, float]:
    """The official figure, or the paper's for boxes (D) and masks (S); a curve over IoU thresholds for each."""
    if protocol == "official":
        queries = [_located(truth, ious, order, level, number, 0) for number in range(len(truth.truth.queries))]
        mean, levels = metrics.map_50_5_95(queries, keep_failed=False, skipped=pixel.SKIPPED[truth.name])
        curves.append(Line(level, "IoU threshold", "mAP", list(metrics.IOU_THRESHOLDS), levels.tolist()))
        return mean
    figures = {}
    for part, name in enumerate(("D", "S")):
        queries = [_located(truth, ious, order, level, n, part) for n in range(len(truth.truth.queries))]
        figures[name], levels = metrics.map_50_5_95(queries, keep_failed=True)
        curves.append(Line(f"{level} {name}", "IoU threshold", "mAP", list(metrics.IOU_THRESHOLDS), levels.tolist()))
    return figures


def _located(
    truth: pixel.PixelRetrieval, ious: Ious, order: NDArray[np.int64], level: str, number: int, part: int
) -> metrics.LocatedQuery:
    relevant, junk = truth.truth.queries[number].under(level)
    reached = np.array([ious.get((number, image), (0.0, 0.0))[part] for image in relevant.tolist()])
    return metrics.located_query(order[:, number], relevant=relevant, ious=reached, junk=junk)


def _query_score(truth: pixel.PixelRetrieval, ious: Ious, number: int) -> QueryScore:
    query = truth.truth.queries[number]
    figures: dict[str, float] = {}
    for level in LEVELS:
        pairs = [ious[pair] for pair in _pairs(truth, number, level) if pair in ious]
        if pairs:
            box, mask = np.mean(pairs, axis=0)
            figures |= {f"{level} mIoU D": float(box), f"{level} mIoU S": float(mask)}
    pairs_by_iou = sorted(
        ((ious[pair], pair[1]) for pair in _pairs(truth, number, "medium") if pair in ious), reverse=True
    )
    listed = [
        {
            "image_id": truth.truth.images[image],
            "score": mask,
            "box_iou": box,
            "relevant": True,
            "picture": pair_name(number, image),
        }
        for (box, mask), image in pairs_by_iou
    ]
    best = listed[: min(SHOWN, (len(listed) + 1) // 2)]  # each pair is shown once
    worst = listed[len(best) :][::-1][:SHOWN]
    detail = {"query": query.image, "best_pairs": best, **({"worst_pairs": worst} if worst else {})}
    return QueryScore(str(number), query.image, figures, detail)
