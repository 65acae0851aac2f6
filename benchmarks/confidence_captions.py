"""How well right first hits of captions are told from wrong ones, in more than one draw, and by how long they are.

The first caption of a photograph, and which half of the photographs is left out, are one draw of many: with other
captions of the same photographs, and the other half, the areas differ by several hundredths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from confidence_figures import auroc, cells, draws, sure_of

Key = tuple[str, str]
SOURCES = ("coco_human", "flickr8k")
LENGTHS = ("short", "between", "long")
EVERY_HEAD = """
## Every caption

Right against wrong first hits (AUROC) as above, but of all five captions of each photograph, asked of either half of
the photographs: `first half` has the answers that the tables above have. `least` and `most` are of one caption of each
photograph; `drawn` is between which bounds 95 % of the areas lie where photographs are drawn again, with all their
captions.

| captions | first half | other half | both | drawn | least | most | by score |
|---|---:|---:|---:|---:|---:|---:|---:|"""
LENGTH_HEAD = """
## Short captions by length

By score and by confidence, right against wrong first hits (AUROC) of short captions: of up to five words, by the line
of short texts; of six, between the lines; and of seven, by the line of scenes. Confidence orders hits of one length
about as well as scores do; of all together worse, because the line of short texts is set to refuse what is absent (half
of "a lobster on a plate" is often there), so that right hits of it are less sure than those of longer texts.

| captions | length | right | wrong | by score | by confidence | mean confidence of right | of wrong |
|---|---|---:|---:|---:|---:|---:|---:|"""


def every_caption_lines(judged: Mapping[Key, Any], odds: Mapping[Key, np.ndarray]) -> list[str]:
    """The table of all five captions."""
    lines = [EVERY_HEAD]
    told = {source: _first_hits(source, judged, odds) for source in SOURCES}
    if all(len(own) for own in told.values()):
        for name, own in (*told.items(), ("both", np.concatenate(list(told.values())))):
            halves = [_area(own[own["half"] == half]) for half in (0, 1)]
            each = [_area(own[own["caption"] == number]) for number in range(5)]
            photographs = [np.flatnonzero(own["photo"] == one) for one in np.unique(own["photo"])]
            again = [_area(own[np.concatenate([photographs[one] for one in some])]) for some in draws(len(photographs))]
            low, high = np.quantile(again, [0.025, 0.975])
            figures = cells(*halves, _area(own)), cells(min(each), max(each), _area(own, "score"))
            lines.append(f"| {name} | {figures[0]} | {low:.3f} to {high:.3f} | {figures[1]} |")
    return lines


def length_lines(judged: Mapping[Key, Any], odds: Mapping[Key, np.ndarray]) -> list[str]:
    """The table of short captions by their length."""
    lines = [LENGTH_HEAD]
    for name in ("short captions", "mixed short captions"):
        one = judged["text", name]
        said = sure_of(odds["text", name]) * one.less
        of_line = np.digitize(one.signs[:, 1], (0.25, 0.75))  # how far a text describes a scene: 0, a half or 1
        for number, length in enumerate(LENGTHS):
            known = one.first & ~one.unknown & (of_line == number)
            right, wrong = known & one.right, known & ~one.right
            areas = [auroc(value[right], value[wrong]) for value in (one.score, said)]
            told = cells(*areas, float(said[right].mean()), float(said[wrong].mean()))
            lines.append(f"| {name} | {length} | {right.sum()} | {wrong.sum()} | {told} |")
    return lines


def _first_hits(source: str, judged: Mapping[Key, Any], odds: Mapping[Key, np.ndarray]) -> np.ndarray:
    """The judged first hits of every caption of a source: half, photograph, caption, right, odds and score."""
    found = list[tuple[int, str, int, bool, float, float]]()
    for half, name in enumerate(("half", "rest")):
        key = "text", f"every {source} {name}"
        if key in judged:
            one = judged[key]
            for place in np.flatnonzero(one.first & ~one.unknown).tolist():
                photo, caption = divmod(int(one.query[place]), 5)
                row = half, f"{source} {photo}", caption, bool(one.right[place])
                found.append((*row, float(odds[key][place]), float(one.score[place])))
    kinds = [("half", int), ("photo", "U40"), ("caption", int), ("right", bool), ("odds", float), ("score", float)]
    return np.array(found, kinds)


def _area(hits: np.ndarray | Sequence[Any], by: str = "odds") -> float:
    own = np.asarray(hits)
    return auroc(own[by][own["right"]], own[by][~own["right"]])
