"""SearchAD's ablations that need no other ranking: objects by size, and what the first 50 images show instead."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.bench import metrics
from wherein.bench.searchad import dataset as searchad
from wherein.bench.task import Answers, Variant

TOP: Final = 50
"""First images of a label that confusion is counted in, as many as in the SearchAD paper's Figure 11."""


def variants(root: Path, split: str, answers: Answers, *, options: Variant) -> dict[str, Any]:
    """The figures that were asked for, by name."""
    found: dict[str, Any] = {}
    if options.size_thirds:
        found |= size_thirds(searchad.read_annotations(root, split), answers)
    if options.confusion:
        found[f"confusion@{TOP}"] = confusion(searchad.load(root, split=split), answers)
    return found


Annotations = Mapping[str, Sequence[tuple[str, tuple[float, ...]]]]


def size_thirds(annotations: Annotations, answers: Answers) -> dict[str, dict[str, float]]:
    """MAP and MRP for the smallest and the largest third of each label's objects.

    An image is relevant if it shows an object of the third; images that show only others of the label leave the
    ranking, as do the ignored ones.
    """
    figures: dict[str, dict[str, list[float]]] = {name: {"MAP": [], "MRP": []} for name in ("small", "large")}
    position = answers.position()
    objects = _objects(annotations)
    for label, kept in answers.kept.items():
        areas = sorted(area for boxes in objects.get(label, {}).values() for area in boxes if area >= searchad.MIN_AREA)
        third = len(areas) // 3
        if third == 0:
            continue
        limits = {"small": (areas[0], areas[third - 1]), "large": (areas[-third], areas[-1])}
        for name, (low, high) in limits.items():
            shown = {image: any(low <= area <= high for area in boxes) for image, boxes in objects[label].items()}
            relevant = [position[image] for image, yes in shown.items() if yes]
            junk = [position[image] for image, yes in shown.items() if not yes]
            found = metrics.positions_of(kept["ranking"], relevant=relevant, junk=junk)
            figures[name]["MAP"].append(metrics.average_precision(found, relevant=len(relevant)))
            figures[name]["MRP"].append(metrics.r_precision(found, relevant=len(relevant)))
    return {
        f"{name} third of objects": {metric: float(np.mean(values)) for metric, values in by_metric.items()}
        | {"n": float(len(by_metric["MAP"]))}
        for name, by_metric in figures.items()
        if by_metric["MAP"]
    }


def _objects(annotations: Annotations) -> dict[str, dict[str, list[float]]]:
    """Areas of boxes in px² by label and image."""
    found: dict[str, dict[str, list[float]]] = {}
    for image, entries in annotations.items():
        for label, (x1, y1, x2, y2) in entries:
            found.setdefault(label, {}).setdefault(image, []).append((x2 - x1) * (y2 - y1))
    return found


def confusion(truth: searchad.SearchAD, answers: Answers) -> dict[str, Any]:
    """Row: a label that was asked for; column: the share of its first 50 images that show another label.

    Images that are ignored for the label asked for leave its ranking first, as in every other figure.
    """
    position = answers.position()
    rows_of = np.array([position[image] for image in truth.images], dtype=np.int64)
    labels = [label for label in answers.kept if label in truth.positives]
    shows = np.zeros((len(answers.image_ids), len(labels)), dtype=bool)
    for column, label in enumerate(labels):
        shows[rows_of[truth.positives[label]], column] = True
    matrix = []
    for label in labels:
        ranking = np.asarray(answers.kept[label]["ranking"], dtype=np.int64)
        first = ranking[~np.isin(ranking, rows_of[truth.ignored[label]])][:TOP]
        matrix.append(shows[first].mean(axis=0) if len(first) else np.zeros(len(labels)))
    return {
        "labels": labels,
        "matrix": [row.tolist() for row in matrix],
        "P@50": {label: float(matrix[n][n]) for n, label in enumerate(labels)},
    }
