"""The model of texts that `confidence.py` ships, fitted on photographs that training held back.

A text of few words names a thing, a short one says some more of it, one of many describes a scene, and each has its own
line from signs to log odds (`wherein.search.signs`), fitted to its own texts, first hits counting more. What is counted
as wrong there is often right for whoever asks, because only the photo that a caption was written for counts: so where
each line reaches 50 %, the default cut, is set by what is kept and refused, and its slope is chosen again.

How common the words are says little of which hit is right, and much of whether any is: so that sign is weighed after
the others, by right first hits against the surest hits of texts that nothing answers; of texts that are longer than a
name, against wrong first hits as much, or right ones of rare words would be less sure than wrong ones of common words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from confidence_figures import error, sure_of
from confidence_fit import fit, logistic
from wherein.search.confidence import Model
from wherein.search.signs import OF_NAME, OF_SCENE, OF_SHORT, TEXT_SIGNS

FIRST = 5.0
"""First hits count so many times: they decide whether anything is shown."""
KEPT = 0.87
"""The share of the right first hits of held-back captions that stay at 50 %. This and SHOWN were chosen among a few
near values so that the older lists of absent texts and the development sets have something to spare."""
SHOWN = (0.033, 0.06)
"""The share of other absent texts that show anything at 50 % among held-back photographs of people and of things: of
names, and of short texts, half of which is often there (a lobster *on a plate*). The other libraries hold photographs
from the web, which may show what the list says is absent."""
SLOPES = (0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0)
"""How much steeper a line may be made once it is moved."""
BELIEVED = (0.4, 0.5, 0.6, 0.8, 1.0)
"""How much of the odds above even may be believed, chosen by the error of first hits; with less, hardly any hit would
reach 90 %."""
ABSENT = ("held absent people", "held absent words", "held unseen people")
CAPTIONS = ("held coco_human", "held flickr8k", "held web")
LINES = (OF_NAME, OF_SHORT, OF_SCENE)
FREE = len(LINES) - 1
"""The first so many signs say which line a text belongs to; the first line is that of texts with none of them."""
HALF = 0.5
"""A line is fitted to the texts that are at least so far its own."""


def text_model(judged: Mapping[str, Any]) -> Model:
    """The model of texts: its lines, each fitted to its own texts, moved and joined."""
    captions = {name: one for name, one in judged.items() if name.startswith(CAPTIONS)}
    offsets, believed, weights = list[float](), list[float](), np.zeros(len(TEXT_SIGNS))
    for number, columns in enumerate(LINES):
        fitted = captions if columns is OF_SCENE else judged
        sets = [own for one in fitted.values() if (own := _of_line(one, number)) is not None]
        line = _with_rare(fit([replace(one, signs=one.signs[:, :-1]) for one in sets], first=FIRST), number, judged)
        middle = _keeping(line, sets) if columns is OF_SCENE else _refusing(line, number, judged)
        slope = _slope(line, sets, middle)
        line = Model(slope * (line.offset - middle), tuple(slope * weight for weight in line.weights))
        offsets.append(line.offset)
        weights[columns] = line.weights
        believed.append(min(BELIEVED, key=lambda share: _first_error(replace(line, believed=(share,)), sets)))
    weights[:FREE] = np.array(offsets[1:]) - offsets[0]
    return Model(offsets[0], tuple(weights.tolist()), tuple(believed))


def _of_line(one: Any, number: int) -> Any | None:
    """Those judged hits of a trial whose texts belong to one line, with its signs; None where there are none."""
    shares = np.c_[1.0 - one.signs[:, :FREE].sum(axis=1), one.signs[:, :FREE]]
    own = shares[:, number] >= HALF
    if not own.any():
        return None
    rows = {name: getattr(one, name)[own] for name in ("right", "unknown", "query", "answerable", "less")}
    return replace(one, **rows, signs=one.signs[own][:, LINES[number]] / shares[own, number, None])


def _with_rare(line: Model, number: int, judged: Mapping[str, Any]) -> Model:
    """A line with a weight for its last sign, how common words are."""
    line = replace(line, weights=(*line.weights, 0.0))
    right, wrong, absent = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for one in (own for each in judged.values() if (own := _of_line(each, number)) is not None):
        odds, starts = np.asarray(line.odds(one.signs), np.float64), np.flatnonzero(one.first)
        both = np.c_[odds, one.signs[:, -1]]
        if one.answerable.any():
            right.append(both[one.first & one.right])
            if LINES[number] is not OF_NAME:
                wrong.append(both[one.first & ~one.right & ~one.unknown])
            continue
        ends = np.r_[starts[1:], len(odds)]
        surest = [start + int(odds[start:end].argmax()) for start, end in zip(starts, ends, strict=True)]
        absent.append(both[[place for place in surest if one.less[place] == 1.0]])  # others show nothing anyway
    kinds = [np.concatenate(own) for own in (right, wrong, absent) if own]
    y = np.repeat([1.0, *[0.0] * (len(kinds) - 1)], [len(own) for own in kinds])
    worth = [np.full(len(own), 1.0 / max(len(own), 1)) for own in kinds]
    worth[1:] = [own / (len(kinds) - 1) for own in worth[1:]]  # right and not right count the same
    told = logistic(np.concatenate(kinds), y, np.concatenate(worth))
    return replace(line, weights=(*line.weights[:-1], told.weights[1] / max(told.weights[0], 1e-9)))


def _keeping(line: Model, sets: Sequence[Any]) -> float:
    """The log odds above which KEPT of the right first hits are."""
    right = np.concatenate([line.odds(one.signs[one.first & one.right]) for one in sets])
    return float(np.quantile(right, 1.0 - KEPT))


def _refusing(line: Model, number: int, judged: Mapping[str, Any]) -> float:
    """The log odds above which only SHOWN of the absent texts of a line have a hit."""
    surest = list[float]()
    for one in (own for name in ABSENT if (own := _of_line(judged[name], number)) is not None):
        said = np.where(one.less < 1.0, -np.inf, line.odds(one.signs))  # a text without a known word shows nothing
        surest += np.maximum.reduceat(said, np.flatnonzero(one.first)).tolist()
    return float(np.quantile(surest, 1.0 - SHOWN[number]))


def _first_error(line: Model, sets: Sequence[Any]) -> float:
    """The calibration error of first hits."""
    known = [one.first & ~one.unknown for one in sets]
    odds = np.concatenate([line.odds(one.signs[own]) for one, own in zip(sets, known, strict=True)])
    return error(sure_of(odds), np.concatenate([one.right[own] for one, own in zip(sets, known, strict=True)]))


def _slope(line: Model, sets: Sequence[Any], middle: float) -> float:
    """The slope with the least calibration error of a line that reaches 50 % at `middle`."""
    every = np.concatenate([line.odds(one.signs[~one.unknown]) - middle for one in sets])
    good = np.concatenate([one.right[~one.unknown] for one in sets])
    return min(SLOPES, key=lambda slope: error(sure_of(slope * every), good))
