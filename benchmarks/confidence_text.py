"""The model of texts that `confidence.py` ships, fitted on photographs that training held back.

A text of few words names a thing, one of many describes a scene, and each has its own line from signs to log odds;
between them the two are mixed (`wherein.search.signs`). Both are fitted together, first hits counting more. What is
counted as wrong there is often right for whoever asks, because only the photo that a caption was written for counts:
so where each line reaches 50 %, the default cut, is set by what is kept and refused, and its slope is chosen again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from confidence_page import error, sure_of
from wherein.search.confidence import Model
from wherein.search.signs import OF_NAME, OF_SCENE

FIRST = 5.0
"""First hits count so many times: they decide whether anything is shown."""
KEPT = 0.9
"""The share of the right first hits of held-back captions that stay at 50 %."""
SHOWN = 0.02
"""The share of other absent texts that show anything at 50 % among held-back photographs by people; the other
libraries hold photographs from the web, which may show what the list says is absent."""
SLOPES = (0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0)
"""How much steeper a line may be made once it is moved."""
BELIEVED = (0.4, 0.5, 0.6, 0.8, 1.0)
"""How much of the odds above even may be believed, chosen by the error of first hits; with less, hardly any hit would
reach 90 %."""
ABSENT = "held absent people"
CAPTIONS = ("held coco_human", "held flickr8k", "held web")


def moved(model: Model, judged: Mapping[str, Any]) -> Model:
    """A fitted model with its two lines moved to where they keep and refuse as much as they should."""
    captions = {name: one for name, one in judged.items() if name.startswith(CAPTIONS)}
    others = [one for name, one in judged.items() if name not in captions]
    scene = _line(model.offset + model.weights[0], OF_SCENE, model, 1.0)
    name = _line(model.offset, OF_NAME, model, 0.0)
    right = np.concatenate([scene(one)[0][one.first & one.right & scene(one)[1]] for one in captions.values()])
    middle = float(np.quantile(right, 1.0 - KEPT))
    slope = _slope(scene, list(captions.values()), middle)
    none, low, high = judged[ABSENT], -3.0, 3.0
    for _ in range(30):
        half = (low + high) / 2.0
        said = sure_of(_joined(model, (half, 1.0), (middle, slope)).odds(none.signs)) * none.less
        surest = np.maximum.reduceat(said, np.flatnonzero(none.first))
        low, high = (half, high) if np.quantile(surest, 1.0 - SHOWN) > 0.5 else (low, half)
    joined = _joined(model, (high, _slope(name, others, high)), (middle, slope))
    return min((replace(joined, believed=share) for share in BELIEVED), key=lambda one: _first_error(one, judged))


def _first_error(model: Model, judged: Mapping[str, Any]) -> float:
    """The calibration error of the first hits of all that was judged."""
    first = [(model.odds(one.signs[one.first & ~one.unknown]), one) for one in judged.values()]
    return error(
        sure_of(np.concatenate([odds for odds, _ in first])),
        np.concatenate([one.right[one.first & ~one.unknown] for _, one in first]),
    )


def _line(offset: float, columns: slice, model: Model, of: float) -> Any:
    """What a line alone says of judged hits, and of which of them it says anything."""
    weights = np.asarray(model.weights)[columns]

    def said(one: Any) -> tuple[np.ndarray, np.ndarray]:
        share = np.abs(1.0 - of - one.signs[:, 0])
        return offset + (one.signs[:, columns] @ weights) / np.maximum(share, 1e-9), share > 0.0

    return said


def _slope(line: Any, sets: Sequence[Any], middle: float) -> float:
    """The slope with the least calibration error of a line that reaches 50 % at `middle`."""
    odds, right = list[np.ndarray](), list[np.ndarray]()
    for one in sets:
        said, there = line(one)
        known = ~one.unknown & there
        odds.append(said[known] - middle)
        right.append(one.right[known])
    every, good = np.concatenate(odds), np.concatenate(right)
    return min(SLOPES, key=lambda slope: error(sure_of(slope * every), good))


def _joined(model: Model, name: tuple[float, float], scene: tuple[float, float]) -> Model:
    """The model of two lines, each with where it reaches 50 % and how much steeper it is."""
    slopes = np.ones(len(model.weights))
    slopes[OF_NAME], slopes[OF_SCENE] = name[1], scene[1]
    weights = slopes * np.asarray(model.weights)
    offset = name[1] * (model.offset - name[0])
    weights[0] = scene[1] * (model.offset + model.weights[0] - scene[0]) - offset
    return Model(float(offset), tuple(weights.tolist()))
