"""An adapter: a small change of the vectors that are asked with, learnt on embeddings that are stored already.

A query q is asked as q + q M, where M is linear, of low rank and starts at zero. It is learnt by contrast: a label's
name should score its images above others, and an image should prefer the names it bears. An adapter of the stored
images would add nothing: a score is bilinear, so a linear map of one side can stand for maps of both.

What the encoder knew is kept in two ways: moving texts that say what pictures usually show costs, and M is shrunk until
those stay where they were, but for KEPT. How long it is trained is chosen on examples that are held out, in turn; where
that gains nothing, nothing is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats, unit
from wherein.search.head import Marks, average_precision

RANK: Final = 32
"""Directions that a move may have: enough for as many labels, and a sixteenth of the 512 numbers of `mini`."""
RATE: Final = 0.003
"""How far Adam steps; the moves of underwater photographs stop getting better after 30 to 100 such steps."""
STEPS: Final = (10, 20, 40, 80, 160)
"""After how many steps training may end; 0, which moves nothing, is always among the choices."""
KEEP: Final = 30.0
"""What the squared length of the moves of usual queries costs, beside a contrast of about 1."""
KEPT: Final = 0.999
"""The mean cosine of usual queries with what they become, at least: with 0.995 captions lost up to 1.1 points of R@1,
with this half a point at most, in fourteen trainings on three sets (`benchmarks/learning.py --adapters`)."""
FOLDS: Final = 5
"""Parts that are held out in turn, at most."""
SHARPNESS: Final = 2.0
"""Scores are scaled to this standard deviation before the contrast: the larger, the sharper it tells them apart."""

OnStep = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """What was learnt: the change M (d, d), how well held-out examples stood before and after, and what it costs."""

    matrix: Floats
    before: float
    after: float
    kept: float
    """The mean cosine of usual queries with what they become."""
    steps: int

    @property
    def abstains(self) -> bool:
        """Whether nothing is moved."""
        return self.steps == 0


def learn_move(
    queries: Floats, targets: Floats, marks: Marks, usual: Floats, *, seed: int, on_step: OnStep = lambda *_: None
) -> Move:
    """Learn to move queries (m, d) towards the targets (n, d) that are right (1) for them, from wrong ones (−1).

    `marks` is (m, n); 0 says nothing. `usual` (b, d) are queries that should stay as they are. Where the queries are
    the targets themselves, what is held out is asked with and not learnt from.
    """
    own = queries is targets
    chance = np.random.default_rng(seed)
    folds = _folds(marks, chance)
    total = (len(folds) + 1) * len(STEPS)
    gained, before, done = np.zeros((len(folds), len(STEPS))), list[float](), 0
    for number, fold in enumerate(folds):
        taught = np.where(fold[None] | (fold[:, None] if own else False), np.int8(0), marks).astype(np.int8)
        asked, tested = (queries[fold], marks[fold]) if own else (queries, marks[:, fold])
        answers = targets if own else targets[fold]
        stood = _standing(asked, answers, tested)
        before.append(stood)
        for step, matrix in enumerate(_trained(queries, targets, taught, usual, seed=seed)):
            gained[number, step] = _standing(asked + asked @ matrix, answers, tested) - stood
            done += 1
            on_step(done, total)
    best = int(gained.mean(axis=0).argmax()) if len(folds) else 0
    mean = float(gained[:, best].mean()) if len(folds) else 0.0
    error = float(gained[:, best].std() / np.sqrt(max(len(folds) - 1, 1))) if len(folds) else 0.0
    stood = float(np.mean(before)) if before else 0.0
    if not len(folds) or mean - error <= 0.0:
        return Move(np.zeros((queries.shape[1],) * 2, np.float32), stood, stood, 1.0, 0)
    every = list(_trained(queries, targets, marks, usual, seed=seed))
    on_step(total, total)
    return Move(every[best], stood, stood + mean, _cosine(usual, every[best]), STEPS[best])


def alike(marks: Marks) -> Marks:
    """(n, labels) which image shows what → (n, n) which images show the same (1), or what the other does not (−1)."""
    right, wrong = (marks == 1).astype(np.float32), (marks == -1).astype(np.float32)
    same, apart = right @ right.T > 0, (right @ wrong.T > 0) | (wrong @ right.T > 0)
    found = np.where(same, 1, np.where(apart, -1, 0)).astype(np.int8)
    np.fill_diagonal(found, 0)
    return found


def _folds(marks: Marks, chance: np.random.Generator) -> list[npt.NDArray[np.bool_]]:
    """Which targets are held out in turn, such that each query has right ones on both sides as far as possible."""
    right = (marks == 1).sum(axis=1)
    count = int(min(FOLDS, right.max(initial=0)))
    if count < 2:
        return []
    first = np.where((marks == 1).any(axis=0), (marks == 1).argmax(axis=0), len(marks))
    order = chance.permutation(marks.shape[1])
    order = order[np.argsort(first[order], kind="stable")]
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order)) % count
    return [number == one for one in range(count)]


def _standing(queries: Floats, targets: Floats, marks: Marks) -> float:
    """The mean average precision of queries over targets that are right or wrong for them."""
    scores = queries @ targets.T
    found = [
        average_precision(own[said != 0], said[said != 0] > 0)
        for own, said in zip(scores, marks, strict=True)
        if (said == 1).any() and (said == -1).any()
    ]
    return float(np.mean(found)) if found else 0.0


def _trained(queries: Floats, targets: Floats, marks: Marks, usual: Floats, *, seed: int) -> Sequence[Floats]:
    """M after each of STEPS, shrunk until usual queries stay where they were."""
    chance, width = np.random.default_rng(seed), queries.shape[1]
    down = np.asarray(chance.standard_normal((width, RANK)) / np.sqrt(width), np.float32)
    up = np.zeros((RANK, width), np.float32)
    sharp = SHARPNESS / max(float((queries @ targets.T).std()), 1e-6)
    states = (np.zeros((2, width, RANK), np.float32), np.zeros((2, RANK, width), np.float32))
    grams = usual.T @ usual / max(len(usual), 1)
    found = list[Floats]()
    for step in range(1, STEPS[-1] + 1):
        slope = _slope(queries, (queries @ down) @ np.asarray(up, np.float32), targets, marks, sharp)
        slope += 2.0 * KEEP * (grams @ down) @ up
        for weights, gradient, state in ((down, slope @ up.T, states[0]), (up, down.T @ slope, states[1])):
            _adam(weights, gradient, state, step)
        if step in STEPS:
            share = _share_kept(usual, np.asarray((usual @ down) @ up, np.float32))
            found.append(np.asarray(share * (down @ up), np.float32))
    return found


def _slope(queries: Floats, moves: Floats, targets: Floats, marks: Marks, sharp: float) -> Floats:
    """The gradient (d, d) of the contrast, both ways, with respect to M."""
    scores = sharp * ((queries + moves) @ targets.T)
    said, right = marks != 0, marks == 1
    pull = np.zeros_like(scores)
    for axis in (1, 0):
        counts = right.sum(axis=axis, keepdims=True)
        asked = counts > 0
        masked = np.where(said, scores, -np.inf)
        shifted = np.exp(np.where(said, scores - np.where(asked, masked.max(axis=axis, keepdims=True), 0.0), -np.inf))
        likely = shifted / np.maximum(shifted.sum(axis=axis, keepdims=True), 1e-12)
        wanted = right / np.maximum(counts, 1)
        pull += np.where(asked, likely - wanted, 0.0) / max(int(asked.sum()), 1)
    return np.asarray(sharp * (queries.T @ (pull.astype(np.float32) @ targets)), np.float32)


def _adam(weights: Floats, gradient: Floats, state: Floats, step: int) -> None:
    """One step of Adam (Kingma and Ba, 2015) with its usual constants; changes weights and state where they are."""
    state[0] += 0.1 * (gradient - state[0])
    state[1] += 0.001 * (np.square(gradient) - state[1])
    weights -= RATE * (state[0] / (1 - 0.9**step)) / (np.sqrt(state[1] / (1 - 0.999**step)) + 1e-8)


def _share_kept(usual: Floats, moves: Floats) -> float:
    """The largest of some shares of their moves (b, d) that leaves usual queries of unit length where they were."""
    along, length = np.einsum("bd,bd->b", usual, moves), np.square(moves).sum(axis=1)
    for share in (1.0, 0.8, 0.6, 0.4, 0.2, 0.1):
        kept = (1.0 + share * along) / np.sqrt(np.maximum(1.0 + 2.0 * share * along + share**2 * length, 1e-12))
        if not len(kept) or float(kept.mean()) >= KEPT:
            return share
    return 0.0


def _cosine(usual: Floats, matrix: Floats) -> float:
    """The mean cosine of queries with what they become."""
    return float(np.einsum("nd,nd->n", usual, unit(usual + usual @ matrix)).mean()) if len(usual) else 1.0
