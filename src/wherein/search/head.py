"""A head: one vector for each label, learnt from a few examples on embeddings that are stored already.

It is a linear probe, a prototype and a classifier that starts from the label's text, in one: ridge regression of
right (+1) and wrong (−1) examples on centred embeddings, where the regression explains only what the text does not.
In its dual form the solution is a cache of the examples with learnt values, as Tip-Adapter's; the kernel is linear, so
the cache folds into one vector, which any index can be asked with. With much regularisation the vector is the
difference of the prototypes, with little it is a linear probe. Some images of the collection count as weak wrong
examples: they say what is usual here.

What each example would score if it had not been seen follows in closed form, so figures and confidences come from
held-out scores even where examples are few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats, unit
from wherein.search.calibrate import fit
from wherein.values.judgement import Curve

Doubles = npt.NDArray[np.float64]
_Two = tuple[Doubles, Doubles]
Marks = npt.NDArray[np.int8]

RIDGE: Final = 0.1
"""How much the length of a vector costs. Chosen with UNLABELLED on underwater photographs, with a look at road and
objects (`benchmarks/learning.py`); half or three times as much changes the mean average precision by about a point."""
UNLABELLED: Final = 0.2
"""What all unlabelled images together count beside the wrong examples, which count the rest of 1."""
TELLING: Final = 0.2
"""What a text adds for each standard deviation that it ranks the right examples above what is usual, where a right
example has 1 and a wrong one −1. Chosen with STEADY, TEXT_MOST and TEXT_STRENGTHS on every set of
`benchmarks/learning.py`, also on those that its page reports."""
STEADY: Final = 0.5
"""What is added to the variance of how a text ranks the right examples, in the same units: a few tell it badly."""
TEXT_MOST: Final = 0.8
"""What a standard deviation of the text's score adds at most: the examples always say something too."""
TEXT_STRENGTHS: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""What a text may add where held-out examples say so: from next to nothing, for meaningless names, to TEXT_MOST."""
SURE: Final = 2.0
"""How many times its own error held-out examples must gain by another strength of the text for it to be taken."""
SOFT: Final = 0.3
"""How far apart two scores are to be wholly apart, in standard deviations of those of the wrong examples. Chosen with
DOUBT on the clothes of the training data."""
DOUBT: Final = 0.05
"""What the standing of one held-out example varies by at least, whatever the others say."""
TRIALS: Final = 32
"""Right examples of a label that are held out one by one, at most: their mean standing is then known to 0.05."""
AGAINST: Final = 256
"""Wrong examples that each is compared with, at most."""
SAMPLE: Final = 512
"""Unlabelled images that are looked at, at most: as many as an embedding of `mini` has numbers."""
CURVE_LEAST: Final = 8
"""Right and wrong held-out scores that a confidence needs each, of all labels together."""
_BLOCK: Final = 256
"""Examples that are added to a regression at once: half as many as an embedding of `mini` has numbers."""
_ROUNDS: Final = 50
"""Steps in which the share of right images in the collection is found; it changes by less than 1 % after twenty."""


@dataclass(frozen=True, eq=False)
class Usual:
    """What embeddings are like here: their mean, their spread around it, and a sample of them."""

    mean: Doubles
    spread: float
    sample: Floats

    @classmethod
    def of(cls, rows: Floats) -> Usual:
        """From the embeddings (m, d) of a sample of the collection."""
        mean = rows.mean(axis=0, dtype=np.float64)
        spread = float(np.sqrt(np.square(rows - mean).sum(axis=1).mean())) if len(rows) else 1.0
        return cls(mean, max(spread, 1e-6), rows[:: max(1, -(-len(rows) // SAMPLE))])

    def centred(self, rows: Floats) -> Doubles:
        """(n, d) rows without what they share, of unit spread."""
        return np.asarray((rows - self.mean) / self.spread, np.float64)

    @cached_property
    def design(self) -> Doubles:
        """(m, d + 1) the sample, centred, with a 1 for the offset."""
        return _with_offset(self.centred(self.sample))

    @cached_property
    def inverse(self) -> Doubles:
        """(d + 1, d + 1) what regression solves with before any example: the sample counts UNLABELLED in all.

        It is the same for every label and query, so it is made once; examples are added to it one block at a time.
        """
        penalty = np.full(self.design.shape[1], RIDGE)
        penalty[-1] = 1e-9  # the offset is free
        weight = UNLABELLED / max(len(self.design), 1)
        return np.asarray(np.linalg.inv(weight * (self.design.T @ self.design) + np.diag(penalty)), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """What was learnt of one label: value(x) = vector · x + offset, about 1 for right images and −1 for wrong ones."""

    vector: Floats
    offset: float
    held_out: Floats
    """(n,) the value of each example had it not been seen; NaN where it is the only one of its kind."""
    margins: Floats
    """(TRIALS, AGAINST): by how much some right examples are above some wrong ones, had neither of the two been seen;
    NaN where there are fewer."""

    def values(self, rows: Floats) -> Floats:
        """(n,) the values of embeddings."""
        return np.asarray(rows @ self.vector + self.offset, np.float32)

    def plus(self, other: Learnt, times: float) -> Learnt:
        """With so many times another one added."""
        return Learnt(
            np.asarray(self.vector + np.float32(times) * other.vector, np.float32),
            self.offset + times * other.offset,
            np.asarray(self.held_out + np.float32(times) * other.held_out, np.float32),
            np.asarray(self.margins + np.float32(times) * other.margins, np.float32),
        )

    def standings(self) -> Doubles:
        """How high each held-out right example stands: 1 / (1 + wrong examples above it)."""
        return standings(self.margins)


def learn_label(
    rows: Floats, right: npt.NDArray[np.bool_], usual: Usual, *, text: Floats | None = None
) -> tuple[Learnt, Learnt]:
    """Learn one label from the embeddings (n, d) of its `right` examples (n,) and of wrong ones.

    Returns what the examples say, and what a text (d,) of strength 1 adds to that: the regression explains what the
    text does not, and is linear, so that any strength of the text is a sum of the two.
    """
    count, rest = len(rows), usual.sample
    direction, middle = _text_scale(usual, text)
    added = np.concatenate([rows, rest]) @ direction - middle
    design = np.concatenate([_with_offset(usual.centred(rows)), usual.design])
    weights = np.full(len(design), UNLABELLED / max(len(rest), 1))
    weights[:count][right] = 1.0 / max(int(right.sum()), 1)
    weights[:count][~right] = (1.0 - UNLABELLED) / max(int((~right).sum()), 1)
    inverse = _with_examples(usual.inverse, design[:count], weights[:count])
    weighted = design * weights[:, None]
    signs = np.concatenate([np.where(right, 1.0, -1.0), -np.ones(len(rest))])
    wanted = np.stack([signs, -added], axis=1)
    found = inverse @ (weighted.T @ wanted)
    fitted, moves = design @ found, weighted[:count] @ inverse
    leverage = np.einsum("nd,nd->n", moves, design[:count])
    gaps = (wanted - fitted)[:count]
    missed = gaps / np.maximum(1.0 - leverage, 1e-6)[:, None]
    own = np.stack([np.zeros(len(design)), added], axis=1)
    unseen = (wanted + own)[:count] - missed
    margins = np.full((2, TRIALS, AGAINST), np.nan)
    if int(right.sum()) < 2:
        unseen[right] = np.nan
    else:
        tried = _some(np.flatnonzero(right), TRIALS)
        others = _some(np.flatnonzero(~right), AGAINST)
        margins[:, : len(tried), : len(others)] = _margins(
            design[tried],
            design[others],
            inverse,
            weights=(weights[tried], weights[others]),
            wanted=((wanted + own)[tried], (wanted + own)[others]),
            missed=(gaps[tried], gaps[others]),
        )
    vectors = found[:-1].T / usual.spread
    offsets = found[-1] - vectors @ usual.mean
    vectors[1], offsets[1] = vectors[1] + direction, offsets[1] - middle
    one, two = (
        Learnt(
            np.asarray(vectors[n], np.float32),
            float(offsets[n]),
            np.asarray(unseen[:, n], np.float32),
            np.asarray(margins[n], np.float32),
        )
        for n in (0, 1)
    )
    return one, two


def _with_offset(rows: Doubles) -> Doubles:
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1)


def _with_examples(inverse: Doubles, design: Doubles, weights: Doubles) -> Doubles:
    """The inverse (d, d) once so many rows (n, d) of these weights (n,) are added to what it inverts (Woodbury)."""
    for start in range(0, len(design), _BLOCK):
        rows, own = design[start : start + _BLOCK], weights[start : start + _BLOCK]
        moved = rows @ inverse
        inverse = inverse - moved.T @ np.linalg.solve(moved @ rows.T + np.diag(1.0 / own), moved)
    return inverse


def _some(numbers: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """At most so many of them, evenly."""
    return numbers[:: max(1, -(-len(numbers) // most))]


def _margins(one: Doubles, two: Doubles, inverse: Doubles, *, weights: _Two, wanted: _Two, missed: _Two) -> Doubles:
    """(2, n, m) how far each of some rows (n, d) is above each of others (m, d) in a regression without both.

    Of each, its weight, what it should be (·, 2), and what the regression with all of them misses of that. Leaving two
    out is a system of two equations in what is missed of them.
    """
    between = one @ inverse @ two.T
    lean_one, lean_two = between * weights[1], between * weights[0][:, None]
    free_one = (1.0 - weights[0] * np.einsum("nd,nd->n", one @ inverse, one))[:, None]
    free_two = 1.0 - weights[1] * np.einsum("nd,nd->n", two @ inverse, two)
    size = np.maximum(free_one * free_two - lean_one * lean_two, 1e-6)
    found = []
    for n in (0, 1):
        first, second = missed[0][:, n, None], missed[1][:, n]
        above = wanted[0][:, n, None] - (free_two * first + lean_one * second) / size
        below = wanted[1][:, n] - (free_one * second + lean_two * first) / size
        found.append(above - below)
    return np.stack(found)


def standings(margins: Floats) -> Doubles:
    """Of rows of margins over wrong examples: 1 / (1 + those above); rows of NaN are left out."""
    told = margins[np.isfinite(margins).any(axis=1)]
    return np.asarray(1.0 / (1.0 + (told <= 0.0).sum(axis=1)), np.float64)  # a NaN is never above


def soft_standings(margins: Floats) -> Doubles:
    """The same, where a wrong example that scores about as much as the right one counts in part."""
    told = np.asarray(margins[np.isfinite(margins).any(axis=1)], np.float64)
    spread = np.nanstd(told, axis=1, keepdims=True) if len(told) else np.ones((0, 1))
    apart = told / (SOFT * np.maximum(spread, 1e-9))
    return np.asarray(1.0 / (1.0 + np.nansum(1.0 / (1.0 + np.exp(np.clip(apart, -50.0, 50.0))), axis=1)), np.float64)


def _text_scale(usual: Usual, text: Floats | None) -> tuple[Doubles, float]:
    """The direction (d,) and the middle by which a text's scores are standard deviations from what is usual."""
    if text is None or not len(usual.sample):
        return np.zeros(len(usual.mean)), 0.0
    scores = usual.sample @ text
    spread = max(float(scores.std()), 1e-6)
    return np.asarray(text, np.float64) / spread, float(scores.mean()) / spread


def told_by(text: Floats, right: Floats, usual: Usual) -> float:
    """How much a text counts beside examples: as much as it tells the right ones (n, d) from what is usual.

    As of any sign in a linear discriminant, the weight is the distance of the means over the variance. A text that
    ranks every right example high is leant on; one that ranks them here and there, or low, is left to the examples.
    """
    direction, middle = _text_scale(usual, text)
    ranked = right @ direction - middle
    return float(np.clip(TELLING * ranked.mean() / (ranked.var() + STEADY), 0.0, TEXT_MOST)) if len(ranked) else 0.0


def text_strength(learnt: Sequence[tuple[Learnt, Learnt]], *, usually: float) -> float:
    """How much the texts count: the strength at which held-out examples are ranked best, of all labels together.

    It is what it is `usually` unless another one is better by more than SURE times the error of what it gains.
    """

    def ranked(strength: float) -> Doubles:
        return np.concatenate([soft_standings(examples.plus(text, strength).margins) for examples, text in learnt])

    before, best, chosen = ranked(usually), 0.0, usually
    for strength in TEXT_STRENGTHS if len(before) else ():
        gains = ranked(strength) - before
        sure = float(gains.mean()) - SURE * float(np.sqrt((gains.var() + DOUBT**2) / len(gains)))
        if sure > best:
            best, chosen = sure, strength
    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """What was learnt of several labels."""

    labels: tuple[str, ...]
    vectors: Floats
    """(labels, d), unit length"""
    curves: tuple[Curve | None, ...]
    """Of each label, the confidence over the cosine with its vector; None where too little is known."""

    def number(self, label: str) -> int | None:
        """Which label that is; None for an unknown one."""
        return self.labels.index(label) if label in self.labels else None


def learn_head(
    rows: Floats,
    marks: Marks,
    usual: Usual,
    *,
    labels: Sequence[str],
    texts: Floats | None,
    known: dict[int, tuple[Learnt, Learnt]] | None = None,
    on_label: Callable[[dict[int, tuple[Learnt, Learnt]]], None] = lambda _: None,
) -> tuple[Head, tuple[Learnt, ...]]:
    """Learn every label from rows (n, d) and marks (n, labels): 1 right, −1 wrong, 0 not said.

    `on_label` is told what is learnt so far after each label; given back as `known`, that is not learnt again.
    """
    learnt = dict(known or {})
    for number in range(len(labels)):
        if number not in learnt:
            said = marks[:, number] != 0
            text = None if texts is None else texts[number]
            pair = learn_label(rows[said], marks[said, number] > 0, usual, text=text)
            learnt[number] = (_spread(pair[0], said), _spread(pair[1], said))
            on_label(learnt)
    pairs = [learnt[number] for number in range(len(labels))]
    strength = 0.0
    if texts is not None:
        told = [told_by(text, rows[marks[:, number] > 0], usual) for number, text in enumerate(texts)]
        strength = text_strength(pairs, usually=float(np.mean(told)))
    every = tuple(examples.plus(text, strength) for examples, text in pairs)
    vectors = unit(np.stack([one.vector for one in every]))
    return Head(tuple(labels), vectors, _curves(every, marks, usual)), every


def _spread(learnt: Learnt, said: npt.NDArray[np.bool_]) -> Learnt:
    """What was held out of some examples, among all of them."""
    held_out = np.full(len(said), np.nan, np.float32)
    held_out[said] = learnt.held_out
    return Learnt(learnt.vector, learnt.offset, held_out, learnt.margins)


def _curves(learnt: Sequence[Learnt], marks: Marks, usual: Usual) -> tuple[Curve | None, ...]:
    """The confidence of each label over its cosines: from its held-out values, all labels together as a prior."""
    told = [np.isfinite(one.held_out) & (marks[:, number] != 0) for number, one in enumerate(learnt)]
    values = np.concatenate([one.held_out[own] for one, own in zip(learnt, told, strict=True)])
    right = np.concatenate([marks[own, number] > 0 for number, own in enumerate(told)])
    if min(int(right.sum()), int((~right).sum())) < CURVE_LEAST:
        return (None,) * len(learnt)
    together = fit(values, right)
    found = list[Curve | None]()
    for number, (one, own) in enumerate(zip(learnt, told, strict=True)):
        mine = marks[own, number] > 0
        curve = fit(one.held_out[own], mine, prior=together)
        share = (float(mine.sum()) + 1.0) / (len(mine) + 2.0)
        curve = as_common_here(curve, one.values(usual.sample), share=share)
        length = float(np.linalg.norm(one.vector))
        found.append(Curve(curve.offset + curve.slope * one.offset, curve.slope * length))
    return tuple(found)


def as_common_here(curve: Curve, values: Floats, *, share: float) -> Curve:
    """The curve for a collection with these values, where it was fitted with a `share` of right examples.

    Examples are chosen, so right ones are more common among them than in the collection. How common they are here is
    found by expectation and maximisation (Saerens, Latinne and Decaestecker, 2002).
    """
    if not len(values):
        return curve
    likely, common = curve.confidence(values).astype(np.float64), share
    for _ in range(_ROUNDS):
        up, down = likely * common / share, (1.0 - likely) * (1.0 - common) / (1.0 - share)
        common = float(np.clip((up / np.maximum(up + down, 1e-12)).mean(), 1e-4, 1.0 - 1e-4))
    odds = np.log(common / (1.0 - common)) - np.log(share / (1.0 - share))
    return Curve(curve.offset + float(odds), curve.slope)


def average_precision(values: Floats, right: npt.NDArray[np.bool_]) -> float:
    """The mean, over right images, of the share of right ones down to each; ties count as they come."""
    ranks = np.flatnonzero(right[np.argsort(-values, kind="stable")]) + 1
    return float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0
