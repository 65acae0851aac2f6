"""Methods that look inside images: how many texts that nothing answers fool them, and what they still find.

    captions  captioned photographs, half of those that are searched elsewhere, with every layer that a method needs
    small     photographs with boxes, without those in which an asked thing is large: what shows only inside

Photographs with boxes come from the training pictures (`regions.jsonl`), so the encoder has seen them: what is
measured on them is how much is kept, before and after, not how well it is found.
"""

from __future__ import annotations

import json
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import wherein
from confidence_figures import cells, share, sure_of
from confidence_fit import logistic
from confidence_held import OTHER_ABSENT, Held
from confidence_sets import (
    ABSENT_LISTS,
    OVERLAP,
    PLACES,
    PRESENT,
    Ask,
    Sets,
    Trial,
    absent_texts,
    lines_of,
    named,
    text,
    unanswered,
)
from made_up import make_collection
from wherein.options import Asked
from wherein.parallel import one_blas_thread
from wherein.search.confidence import Model
from wherein.values.region import Box, iou

METHODS = ("mini", "pyramid", "static-36", "patches", "proposals")
"""Asked without a place."""
AT_PLACES = ("static-36", "patches", "static-36+zoom")
"""Asked with one. `zoom` reads files, a second a query, so it is asked for half of one list alone."""
SMALL = 0.05
"""The largest box of a small thing, as a share of the photograph."""
FEWEST = 5
"""Photographs that show a thing small, at least, where it is asked for; so do two fifths of those that show it."""
STEP = 4
"""Every fourth label of a photograph is asked for at its place: about three hundred queries."""
INSIDE = "inside-half-captions"
INSIDE_HEAD = """
## Looking inside

Methods that look inside an image compare a text with hundreds of places, one of which is like it by chance. So their
odds are bounded by those of the surest whole image of the collection for the same text, and more where a hit stands
out (`alone`: what it would be without the bound). The bound is fitted on photographs that training held back, other
absent texts, and, of places, labels of photographs with boxes that are not asked for here; how many of those texts
may show something was chosen by the four older lists below. Since the bound keeps away what nothing answers, the
lines themselves are fitted to what is there alone, of the development sets and those photographs.

Given are texts that nothing answers and that show anything at 50 % among 350 captioned photographs; and right first
hits at 50 % or more: of nouns and words there, and of 38 things in 601 photographs that show them only small (boxes
of at most a twentieth of the photograph); at places, of labels where their boxes are in 940 photographs, and of
`underwater`; and how many of them are where the cut is so high that 95 % of these absent texts show nothing (`95 %`).
Photographs with boxes are training pictures. `sixth absent` are 84 texts (`sixth_absent_texts.txt`: plain things,
animals, documents, rare names, and scenes next to what is there; of 88 four were dropped because an image may answer
them), committed before anything was tried, and nothing was chosen by it; `seventh absent` is described above. `zoom`
was asked half of the last list. `mini` is what a search of whole images says.

With the third edition, by models without a bound that were fitted to absent texts too: of the first and the sixth list
`static-36` showed 9.5 and 10.7 %, `patches` 9.0 and 10.7 %, `proposals` 9.0 and 14.3 %; nouns, words, small kept .97,
.92, .79 (`static-36`) and 1.00, .96, .79 (`patches`), and where 95 % was refused .95, .83, .61 and .98, .78, .58. At
places they showed 3.5 and 4.8 % (`static-36`), 5.0 and 8.3 % (`patches`), and kept boxes, underwater .43, .73 and
.44, .68. So things that show only small are less sure than before at 50 %, and what is at a place is surer.

Tried as a bound: the surest whole image alone, without a fit (words kept by `static-36` and `patches` were .75 and
.77 at about as many absent texts, and a cup at its place in the demonstration fell to 21 %); how far the words stand
out of the bank's names at the very place (it says nothing more in libraries of hundreds: some place there fits any
words); one line of all signs together (it weighs what tells hits of one text apart, and hardly the rest).
"""
MOST = ("surest whole image", "stands out")
"""The signs of what bounds a text."""
SHOWN = {"place": 0.08, "anywhere": 0.08, "again": 0.06}
"""Of other texts that nothing answers, how many may show a hit among held-back photographs, a few of which may answer
them: chosen among .05 to .12 so that at most a twentieth of each of the four older lists of absent texts does."""
Key = tuple[str, str]


class Boxed:
    """Training photographs with boxes; ids are file names."""

    def __init__(self, data: Path) -> None:
        self.data = data

    @cached_property
    def rows(self) -> dict[str, dict[str, list[Box]]]:
        """Photograph → label → its boxes."""
        found = dict[str, dict[str, list[Box]]]()
        for row in self._read:
            for one in row["boxes"]:
                found.setdefault(row["file"], {}).setdefault(one["text"], []).append(Box(*one["box"]))
        return found

    @cached_property
    def _read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.data / "regions.jsonl").read_text("utf-8").splitlines()]

    def write(self, folder: Path) -> None:
        """The photographs as files."""
        folder.mkdir(parents=True, exist_ok=True)
        for shard in sorted({row["shard"] for row in self._read}):
            with zipfile.ZipFile(self.data / shard) as archive:
                for row in self._read:
                    if row["shard"] == shard:
                        (folder / row["file"]).write_bytes(archive.read(row["file"]))

    def _is_small(self, one: str, label: str) -> bool:
        return all(box.area <= SMALL for box in self.rows[one].get(label, ()))

    @cached_property
    def labels(self) -> list[str]:
        """Things that are often small."""
        every = Counter(label for own in self.rows.values() for label in own)
        small = Counter(label for one, own in self.rows.items() for label in own if self._is_small(one, label))
        return [label for label in sorted(every) if small[label] >= max(FEWEST, 0.4 * every[label])]

    @cached_property
    def small(self) -> frozenset[str]:
        """Photographs in which each of those is small, or is not."""
        return frozenset(one for one in self.rows if all(self._is_small(one, label) for label in self.labels))

    def small_asks(self) -> tuple[Ask, ...]:
        """Each of them, asked of those photographs."""
        asks = (Ask(text(named(label)), self._with(label, self.small)) for label in self.labels)
        return tuple(ask for ask in asks if len(ask.right) >= FEWEST)

    def place_asks(self, *, fitted: bool) -> tuple[Ask, ...]:
        """Labels at their largest boxes, asked of all: right where one is there, unknown where it is elsewhere.

        Every second label, in the order of letters, is for fitting.
        """
        found, labels = list[Ask](), sorted({label for own in self.rows.values() for label in own})[not fitted :: 2]
        asked = [(one, label) for one, own in sorted(self.rows.items()) for label in labels if label in own][::STEP]
        for one, label in asked:
            place = max(self.rows[one][label], key=lambda box: box.area)
            having = self._with(label, self.rows)
            right = frozenset(
                other for other in having if any(iou(box, place) >= OVERLAP for box in self.rows[other][label])
            )
            found.append(Ask(text(named(label), where=place), right, having - right))
        return tuple(found)

    def _with(self, label: str, images: Sequence[str] | frozenset[str] | Mapping[str, Any]) -> frozenset[str]:
        return frozenset(one for one in images if label in self.rows[one])

    def stays(self, image_id: str, library: str) -> bool:
        """Whether an image is part of a library, by its name without `boxed-`."""
        return library == "all" or image_id in self.small


def inside_trials(sets: Sets, boxed: Boxed) -> Iterator[Trial]:
    """Absent texts, and what is there, asked of the same photographs by each method; nothing is fitted on them."""
    kinds = {"mini": "text", "pyramid": "text", "static-36+zoom": "again"}

    def trial(method: str, what: str, library: str, asks: tuple[Ask, ...], *, where: bool = False) -> Trial:
        kind = kinds.get(method, "place" if where else "anywhere")
        return Trial(kind, f"inside {method} {what}", library, method, asks, fitted=False)

    there = {"nouns": tuple(sets.noun_asks()), "words": tuple(sets.present_asks(lines_of(PRESENT)))}
    for method in METHODS:
        for what in ABSENT_LISTS:
            yield trial(method, what, INSIDE, unanswered(absent_texts(what)))
        for what, asks in there.items():
            yield trial(method, what, INSIDE, asks)
        if method in ("mini", "static-36", "patches"):
            yield trial(method, "small", "boxed-small", boxed.small_asks())
    for method in AT_PLACES:
        few = "zoom" in method
        for what in ABSENT_LISTS[-1:] if few else ABSENT_LISTS:
            texts = absent_texts(what)[:: 2 if few else 1]
            yield trial(method, f"{what} at places", INSIDE, unanswered(texts, where=True), where=True)
        if not few:
            yield trial(method, "boxes at places", "boxed-all", boxed.place_asks(fitted=False), where=True)
            yield trial(method, "underwater", "underwater", tuple(sets.place_asks()), where=True)


def held_trials(held: Held, boxed: Boxed) -> Iterator[Trial]:
    """What the bounds are fitted on: what is there, and texts that nothing answers, asked of held-back photographs.

    Nouns and boxes are also what the lines that are bounded are fitted on, beside the development sets.
    """
    there = {"nouns people": tuple(held.noun_asks()), "words half-all": tuple(held.word_asks())}
    absent = {"absent people": lines_of(OTHER_ABSENT), "absent words": lines_of(OTHER_ABSENT)}
    absent |= {"unseen people": held.unseen()}
    for method in ("static-36", "patches", "mini+qe"):
        kind = "again" if "+" in method else "anywhere"
        every = there | {name: unanswered(texts) for name, texts in absent.items()}
        for name, asks in every.items():
            fitted = kind == "anywhere" and name.startswith("nouns")
            yield Trial(kind, f"held {name} by {method}", f"held-{name.split()[1]}", method, asks, fitted=fitted)
        if kind == "again":
            continue
        for name, texts in absent.items():
            asks = unanswered(texts, where=True)
            yield Trial("place", f"held {name} by {method}", f"held-{name.split()[1]}", method, asks, fitted=False)
        asks = boxed.place_asks(fitted=True)
        yield Trial("place", f"held boxes by {method}", "boxed-all", method, asks)


def fit_most(kind: str, sets: Sequence[Any], models: Mapping[str, Model]) -> Model:
    """What bounds texts: right first hits against those of texts that nothing answers, by MOST.

    It is moved so that of the latter SHOWN have a hit at 50 % or more.
    """
    right, absent = list[np.ndarray](), list[np.ndarray]()
    for one in sets:
        known = one.first & (one.right if one.answerable.any() else one.less == 1.0)  # others show nothing anyway
        (right if one.answerable.any() else absent).append(one.most_signs(models)[known])
    x, y = np.concatenate([*right, *absent]), np.repeat([1.0, 0.0], [sum(map(len, right)), sum(map(len, absent))])
    told = logistic(x, y, np.where(y > 0, 1.0 / max(y.sum(), 1.0), 1.0 / max((1.0 - y).sum(), 1.0)))
    surest = [
        np.maximum.reduceat(
            np.where(one.less < 1.0, -np.inf, told.odds(one.most_signs(models))), np.flatnonzero(one.first)
        )
        for one in sets
        if not one.answerable.any()
    ]
    cut = float(np.quantile(np.concatenate(surest), 1.0 - SHOWN[kind], method="higher"))
    return replace(told, offset=told.offset - cut)


def inside_lines(
    judged: Mapping[Key, Any], alone: Mapping[Key, np.ndarray], said: Mapping[Key, np.ndarray]
) -> list[str]:
    """The table of methods that look inside; `alone` are log odds before they are bounded by whole images."""
    names = {key: key[1].split(" ", 2) for key in judged if key[1].startswith("inside ")}
    lines = [INSIDE_HEAD]
    for places, kept in ((False, ("nouns", "words", "small")), (True, ("boxes at places", "underwater"))):
        lists = [f"{one} at places" if places else one for one in ABSENT_LISTS]
        heads = [*lists, *kept, *(f"{what}, 95 %" for what in kept)]
        lines += ["", f"| method | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
        for method in AT_PLACES if places else METHODS:
            own = {
                what: key for key, (_, by, what) in names.items() if by == method and (what in lists or what in kept)
            }
            bounded = any(judged[key].whole.size for key in own.values())
            for name, odds in (("alone", alone), ("", said))[0 if bounded else 1 :]:
                sure = {what: sure_of(odds[key]) * judged[key].less for what, key in own.items()}
                surest = {what: _surest(judged[own[what]], sure[what]) for what in lists if what in own}
                cut = float(np.quantile(np.concatenate(list(surest.values())), 0.95))
                first = {what: _right_first(judged[own[what]], sure[what]) for what in kept if what in own}
                shown = [share(surest[what] >= 0.5) if what in own else np.nan for what in lists]
                stay = [share(first[what] >= 0.5) if what in own else np.nan for what in kept]
                fair = [share(first[what] > cut) if what in own else np.nan for what in kept]
                lines.append(f"| {method}{name and f', {name}'} | {cells(*shown, *stay, *fair)} |")
    return lines


def inside_cost(out: Path, sets: Sets, *, many: int) -> list[str]:
    """What the confidence of 21 hits costs in a library of `many` made-up images, for each noun."""
    home, said = out / "libraries" / f"made-up.{many}", list[str]()
    if not home.exists():
        making = home.with_suffix(".part")
        make_collection(making, images=many, encoder="mini", kinds=("global", "patches", "cells"))
        making.rename(home)
    collection = wherein.open(home)
    for method in ("static-36", "patches"):
        for where in (None, Box.parse(PLACES[0])):
            spent = list[float]()
            for ask in sets.noun_asks():
                asked = Asked.of(text(ask.query.parts[0].text or "", where=where), {"method": method, "k": 21})
                measured = collection._ranked(asked)[-1]
                before = time.process_time()
                with one_blas_thread():  # as a search does
                    _ = measured and measured.values()
                spent.append(1000 * (time.process_time() - before))
            said.append(f"`{method}`{' at a place' if where else ''} {np.median(spent):.1f}")
    return ["", f"Processor milliseconds of confidence among {many:,} made-up images, the median: {', '.join(said)}."]


def _surest(one: Any, sure: np.ndarray) -> np.ndarray:
    """(queries,) how sure the surest hit of each is."""
    return np.asarray(np.maximum.reduceat(sure, np.flatnonzero(one.first)))


def _right_first(one: Any, sure: np.ndarray) -> np.ndarray:
    """How sure right first hits are."""
    return sure[one.first & one.right]
