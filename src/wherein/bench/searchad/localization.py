"""SearchAD's boxes as a scored task: does a hit point at the thing, and how well does its box fit?

The paper names this as future work and gives no rule. Here an image counts at a threshold only if the box of its hit
overlaps a box of the label by more than it; what fails still counts as relevant, as in pixel retrieval's paper.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from wherein.bench import metrics
from wherein.bench.searchad import dataset as searchad
from wherein.bench.task import Answers

FIGURES: Final = ("mAP@50", "mAP@50:5:95", "mIoU", "pointing")

Xyxy = tuple[float, ...]


def true_boxes(annotations: Mapping[str, Sequence[tuple[str, Xyxy]]], label: str) -> dict[str, list[Xyxy]]:
    """The boxes of a label that are large enough to count, by image."""
    found: dict[str, list[Xyxy]] = {}
    for image, entries in annotations.items():
        boxes = [box for name, box in entries if name == label and _area(box) >= searchad.MIN_AREA]
        if boxes:
            found[image] = boxes
    return found


def localization(annotations: Mapping[str, Sequence[tuple[str, Xyxy]]], answers: Answers) -> dict[str, Any]:
    """mAP@50, mAP@50:5:95, mean IoU and pointing: overall, and of each label that has relevant images."""
    position = answers.position()
    rows: dict[str, dict[str, float]] = {}
    for label, kept in answers.kept.items():
        boxes = true_boxes(annotations, label)
        if boxes and label in searchad.LABELS:
            shows = [image for image, entries in annotations.items() if any(name == label for name, _ in entries)]
            junk = [position[image] for image in shows if image not in boxes]
            rows[label] = _figures(boxes, kept, position, junk)
    if not rows:
        return {}
    return {"overall": {name: float(np.mean([row[name] for row in rows.values()])) for name in FIGURES}, **rows}


def _figures(
    boxes: Mapping[str, Sequence[Xyxy]], kept: Mapping[str, Any], position: Mapping[str, int], junk: Sequence[int]
) -> dict[str, float]:
    said: Mapping[str, Sequence[float]] = kept.get("boxes", {})
    ious, points = {}, []
    for image, true in boxes.items():
        box = said.get(str(position[image]))
        ious[image] = max((_iou(box, one) for one in true), default=0.0) if box else 0.0
        points.append(box is not None and any(_holds(one, box) for one in true))
    levels = []
    for threshold in metrics.IOU_THRESHOLDS:
        right = [position[image] for image, value in ious.items() if value > threshold]
        wrong = [position[image] for image, value in ious.items() if value <= threshold]
        # A relevant image whose box is wrong keeps its place in the ranking: it stands there as a wrong answer.
        found = (
            metrics.positions_of(kept["ranking"], relevant=right, junk=junk) if right else np.empty(0, dtype=np.int64)
        )
        levels.append(metrics.average_precision(found, relevant=len(right) + len(wrong)))
    return {
        "mAP@50": levels[0],
        "mAP@50:5:95": float(np.mean(levels)),
        "mIoU": float(np.mean(list(ious.values()))),
        "pointing": float(np.mean(points)),
    }


def _area(box: Sequence[float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _iou(one: Sequence[float], other: Sequence[float]) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    both = max(width, 0.0) * max(height, 0.0)
    return both / (_area(one) + _area(other) - both) if both else 0.0


def _holds(box: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the middle of the other box lies in the box."""
    x, y = (other[0] + other[2]) / 2, (other[1] + other[3]) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]
