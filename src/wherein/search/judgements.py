"""What people judged: which hits were right, kept with a collection (`kept/judged.json`), and the curves they move.

A judgement counts in full for the query it was made of, less for a query that shares only some of its words, and
OTHER_QUERY for one that shares none. Each call to `Curves.judge` is a step, which can be taken back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.copies import write_guarded
from wherein.errors import InputError
from wherein.options import DEFAULT_CUT
from wherein.search.calibrate import fit, migrated_name, prior_of, reliability
from wherein.values.judgement import ARROW, Calibration, Curve, Reliability, Tenth, name_of
from wherein.values.query import Query

JUDGED_LEAST: Final = 10
"""Right and wrong hits that a curve needs each, where no shipped one is there to begin with."""
OTHER_QUERY: Final = 0.2
"""How much a judgement counts for a query that shares no word with its own. With a fifth, what is 93 % sure is still
90 % or more after one wrong hit of another query, 80 to 90 % after six and 20 to 60 % after fifty, as
tests/test_judgements.py checks."""
UNDO_MOST: Final = 100
"""Steps that can be taken back, at most: a file that is read at every search must stay small."""
_FORMAT: Final = 2
"""Format 1 named calibrations after the fields of a method; they are renamed when read."""
_SAYS_LITTLE: Final = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "in", "is", "near", "of", "on", "or", "some", "the", "to", "with")
)
"""Words that two queries may share without being alike."""
_FITTED_MOST: Final = 256
"""Curves that stay fitted, at most: a few pages of searches."""
_SHOWN_AT: Final = 0.9
"""The confidence by which a person is told how far a curve moved."""


def resemblance(asked: str, judged: str, *, words: bool) -> float:
    """How much a judgement of one query counts for another: 1 for the same, OTHER_QUERY for one unlike it.

    Where queries are texts (`words`), those between share some of their words; examples are the same or are not.
    """
    if asked == judged:
        return 1.0
    ours, theirs = (frozenset(re.findall(r"\w+", name.lower())) - _SAYS_LITTLE for name in (asked, judged))
    shared = len(ours & theirs) / len(ours | theirs) if words and ours | theirs else 0.0
    return OTHER_QUERY + (1.0 - OTHER_QUERY) * shared


@dataclass(frozen=True, slots=True)
class _Kept:
    """The file of judged hits: source → (query → image) → [measure, 1 for right]; and what each step replaced."""

    judged: dict[str, dict[str, list[float]]]
    steps: dict[str, dict[str, dict[str, list[float] | None]]]
    last: int


class Curves:
    """The curves of one collection: shipped ones, moved by what people judged there."""

    def __init__(self, folder: Path) -> None:
        self._home, self._path = folder, folder / "kept" / "judged.json"
        self._read_at = -1
        self._kept = _Kept({}, {}, 0)
        self._fitted = dict[tuple[str, str], Curve | None]()

    def of(self, source: str | None, query: Query) -> Curve | None:
        """The curve of a source for a query, if there is one."""
        if source is None:
            return None
        judged, key = self._known().judged.get(source, {}), (source, name_of(query))
        if not judged:
            return prior_of(source)
        if key not in self._fitted:
            if len(self._fitted) >= _FITTED_MOST:
                self._fitted.clear()
            self._fitted[key] = _fitted(source, judged, key[1])
        return self._fitted[key]

    def judged(self) -> Mapping[str, Mapping[str, list[float]]]:
        """What is kept: source → the names of its judged hits → measure, 1 for right."""
        return self._known().judged

    def judge(self, judged: Mapping[str, Mapping[str, tuple[float, bool]]]) -> list[Calibration]:
        """Keep judged hits: source → their names (`judged_name`) → measure, right. One step, for each source a line."""
        kept = self._known()
        before = {source: dict(hits) for source, hits in kept.judged.items()}
        step = kept.last + 1
        replaced = dict[str, dict[str, list[float] | None]]()
        judged = {source: hits for source, hits in judged.items() if hits}
        for source, hits in judged.items():
            mine = kept.judged.setdefault(source, {})
            replaced[source] = {name: mine.get(name) for name in hits}
            mine |= {name: [measure, int(right)] for name, (measure, right) in hits.items()}
        steps = dict(list({**kept.steps, str(step): replaced}.items())[-UNDO_MOST:])
        self._write(_Kept(kept.judged, steps, step))
        return [
            _calibration(source, before.get(source, {}), kept.judged[source], new=hits, step=step)
            for source, hits in judged.items()
        ]

    def undo(self, step: int | None = None) -> str:
        """Take back what one step judged, the last one unless given; says so in a sentence."""
        kept = self._known()
        number = str(max(map(int, kept.steps), default=0) if step is None else step)
        if number not in kept.steps:
            what = "nothing is judged that" if step is None else f"step {step} is not among those that"
            raise InputError(f"{what} can be taken back. `wherein calibrate --reset` forgets every judgement.")
        hits = 0
        for source, replaced in kept.steps.pop(number).items():
            mine = kept.judged.get(source, {})
            hits += len(replaced)
            for name, value in replaced.items():
                if value is None:
                    mine.pop(name, None)
                else:
                    mine[name] = value
        self._write(_Kept({source: mine for source, mine in kept.judged.items() if mine}, kept.steps, kept.last))
        return f"{_counted(hits, 'judgement')} taken back."

    def reset(self) -> str:
        """Forget every judgement; the shipped curves hold again."""
        count = sum(map(len, self._known().judged.values()))
        self._write(_Kept({}, {}, self._known().last))
        return f"{_counted(count, 'judgement')} forgotten: confidence is what it was before any."

    def reliability(self) -> list[Reliability]:
        """How far confidence can be trusted, by what was judged of each source; none while there is no curve."""
        found = []
        for source, judged in self._known().judged.items():
            curve = _fitted(source, judged, "")
            if curve is not None:
                pairs = np.array(list(judged.values()), np.float64).reshape(-1, 2)
                sure, right = curve.confidence(pairs[:, 0].astype(np.float32)), pairs[:, 1] > 0
                tenths = (
                    Tenth(low, hits, said, round(share * hits)) for low, hits, said, share in reliability(sure, right)
                )
                told = at_cut(sure, right)
                found.append(Reliability(source, int(right.sum()), int((~right).sum()), tuple(tenths), told))
        return found

    def _known(self) -> _Kept:
        version = self._path.stat().st_mtime_ns if self._path.exists() else 0
        if self._read_at != version:
            self._kept, self._read_at = self._read(), version
            self._fitted.clear()
        return self._kept

    def _write(self, kept: _Kept) -> None:
        document = {"format": _FORMAT, "judged": kept.judged, "steps": kept.steps, "last": kept.last}
        self._read_at = -1  # read again: two writes may bear one time
        write_guarded(self._home, "kept/judged.json", json.dumps(document, ensure_ascii=False).encode())

    def _read(self) -> _Kept:
        if not self._path.exists():
            return _Kept({}, {}, 0)
        try:
            known: dict[str, Any] = json.loads(self._path.read_text("utf-8"))
            judged, steps = known["judged"], known.get("steps", {})
            if known["format"] == 1:
                judged = {migrated_name(source): hits for source, hits in judged.items()}
                steps = {
                    step: {migrated_name(source): hits for source, hits in replaced.items()}
                    for step, replaced in steps.items()
                }
            return _Kept(dict(judged), dict(steps), int(known.get("last", 0)))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{self._path}: cannot be read ({error}). Remove it, and judge again.") from error


def _fitted(source: str, judged: Mapping[str, list[float]], asked: str) -> Curve | None:
    """The curve of a source as the query `asked` sees it."""
    pairs = np.array(list(judged.values()), np.float64).reshape(-1, 2)
    right, prior = pairs[:, 1] > 0, prior_of(source)
    if prior is None and min(right.sum(), (~right).sum()) < JUDGED_LEAST:
        return None
    words = source.endswith(" text")
    worth = np.array([resemblance(asked, name.rpartition(ARROW)[0], words=words) for name in judged], np.float32)
    return fit(pairs[:, 0].astype(np.float32), right, worth=worth, prior=prior)


def _calibration(
    source: str,
    before: Mapping[str, list[float]],
    now: Mapping[str, list[float]],
    *,
    new: Mapping[str, tuple[float, bool]],
    step: int,
) -> Calibration:
    """What is judged of a source after a step, and what the step changed."""
    right = int(sum(value for _, value in now.values()))
    asked = next(iter(new)).rpartition(ARROW)[0]
    curve = _fitted(source, now, "")
    same = _moved(lambda judged: _fitted(source, judged, asked), before, now)
    other = _moved(lambda judged: _fitted(source, judged, ""), before, now)
    good = sum(right for _, right in new.values())
    said = f"{good:,} right and {len(new) - good:,} wrong hits were judged"
    if curve is None:
        said += f". Hits get a confidence when {JUDGED_LEAST} right and {JUDGED_LEAST} wrong ones are"
    elif same is None or other is None:
        said += ": hits found in this way have a confidence now"
    else:
        said += (
            f": what was {_said(_SHOWN_AT)} sure is now {_said(same)} for this query and {_said(other)} for unlike ones"
        )
    if curve is not None:
        pairs = np.array(list(now.values()), np.float64).reshape(-1, 2)
        said += f". {at_cut(curve.confidence(pairs[:, 0].astype(np.float32)), pairs[:, 1] > 0).removesuffix('.')}"
    return Calibration(source, right, len(now) - right, curve, f"{said}.", step)


def at_cut(sure: Floats, right: npt.NDArray[np.bool_]) -> str:
    """Of judged hits that are at least as likely right as wrong, how many were right, in a sentence."""
    kept = sure >= DEFAULT_CUT
    if not kept.any():
        return f"No judged hit is at {_said(DEFAULT_CUT)} or more."
    return (
        f"At {_said(DEFAULT_CUT)}, {int(right[kept].sum()):,} of {_counted(int(kept.sum()), 'judged hit')} were right."
    )


def _moved(
    curve_of: Callable[[Mapping[str, list[float]]], Curve | None],
    before: Mapping[str, list[float]],
    now: Mapping[str, list[float]],
) -> float | None:
    """What the confidence _SHOWN_AT has become; None where there is no curve now or was none."""
    old, new = curve_of(before), curve_of(now)
    if old is None or new is None or old.slope <= 0.0:
        return None
    at = (np.log(_SHOWN_AT / (1.0 - _SHOWN_AT)) - old.offset) / old.slope
    return float(new.confidence(np.array([at], np.float32))[0])


def _said(share: float) -> str:
    return f"{100 * share:.0f} %"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
