"""Predicted labels for other programs: COCO JSON, or a table in CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Final

from wherein.errors import InputError
from wherein.files import expanded, unwritable_told, write_durably
from wherein.output.exports import Labelled, coco_document
from wherein.values.labelling import Predicted

FORMATS: Final = ("coco", "csv")


def export_labels(predicted: Predicted, target: str) -> Path:
    """Write predictions as `coco:FILE` or `csv:FILE`; returns what was written."""
    kind, _, name = target.partition(":")
    if kind not in FORMATS or not name:
        raise InputError(f"labels to {target!r}: write coco:FILE or csv:FILE.")
    path = expanded(name)
    with unwritable_told(path):
        write_durably(path, labels_as(predicted, kind))
    return path


def labels_as(predicted: Predicted, kind: str) -> bytes:
    """The file of predictions: `coco`, where a whole image is annotated, or `csv`."""
    return _coco(predicted) if kind == "coco" else _csv(predicted)


def _coco(predicted: Predicted) -> bytes:
    labelled = [
        Labelled(one.image_id, one.size_wh, one.label, confidence=one.confidence, raw_score=one.score)
        for one in predicted.predictions
    ]
    document = coco_document(labelled, description=f"wherein: predicted by {predicted.spec}")
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


def _csv(predicted: Predicted) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["image_id", "label", "confidence", "raw_score"])
    for one in predicted.predictions:
        sure = "" if one.confidence is None else f"{one.confidence:.2f}"
        writer.writerow([plain_cell(one.image_id), plain_cell(one.label), sure, f"{one.score:.6f}"])
    return buffer.getvalue().encode("utf-8", "replace")


def plain_cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value
