"""Wrong first hits of captions that do answer them: what a person says who looks at the photographs.

`captions_by_eye.csv` names a set, the number of a caption in it and a photograph: all wrong first hits of the weights
that it was made with, looked at in an order that says nothing of confidence. One answers (1) where the photograph shows
all that the caption says.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from confidence_figures import RESAMPLED, auroc, cells, draws

BY_EYE = Path(__file__).with_name("captions_by_eye.csv")
SETS = ("captions coco_human", "captions flickr8k")
SUREST = 60


def by_eye_lines(judged: Mapping[Any, Any], odds: Mapping[Any, np.ndarray]) -> list[str]:
    """Right against wrong first hits, with what was seen beside the labels."""
    with BY_EYE.open(encoding="utf-8", newline="") as file:
        seen = {(row["set"], int(row["text"]), row["image"]): row["answers"] == "1" for row in csv.DictReader(file)}
    lines = [
        "\n## Captions judged by eye\n",
        "Only the photograph that a caption was written for counts as right above, and others may answer it too. All",
        "wrong first hits were looked at, in an order that said nothing of confidence (`captions_by_eye.csv`). They",
        "answer where they show all that is said. Right against wrong first hits (AUROC): by the labels (`official`,",
        "which stays the figure to go by), with those that answer counted as right, and left out. Photographs that are",
        "first only since the weights changed were not looked at, and count as wrong. `drawn` is between which bounds",
        f"95 % of {RESAMPLED} draws of as many captions have the official one.\n",
        "| set | wrong | looked at | answer | official | drawn | answers are right | answers left out |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    wrong = list[tuple[float, bool]]()
    for name in SETS:
        one, own = judged["text", name], odds["text", name]
        first = np.flatnonzero(one.first & ~one.unknown)
        keys = [(name.split()[1], int(one.query[place]), Path(str(one.images[place])).stem) for place in first.tolist()]
        right, value = one.right[first], own[first]
        known = np.array([key in seen for key in keys]) & ~right
        answers = np.array([seen.get(key, False) for key in keys]) & ~right
        official, (low, high) = auroc(value[right], value[~right]), _drawn(value, right)
        seen_so = auroc(value[right | answers], value[~right & ~answers]), auroc(value[right], value[~right & ~answers])
        counts = f"{(~right).sum()} | {known.sum()} | {answers.sum()}"
        lines.append(f"| {name} | {counts} | {cells(official)} | {low:.3f} to {high:.3f} | {cells(*seen_so)} |")
        wrong += zip(value[~right].tolist(), answers[~right].tolist(), strict=True)
    surest = sorted(wrong, reverse=True)[:SUREST]
    return [*lines, f"\nOf the {SUREST} surest wrong hits {sum(answers for _, answers in surest)} answer."]


def _drawn(value: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Between what 95 % of the areas lie, where captions are drawn again."""
    found = [auroc(value[own][right[own]], value[own][~right[own]]) for own in draws(len(value))]
    low, high = np.nanquantile(found, [0.025, 0.975])
    return float(low), float(high)
