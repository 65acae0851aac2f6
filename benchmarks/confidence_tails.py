"""Which tail of a query's own scores predicts best how many wrong images score how much, and whether that helps.

Three tails are fitted to the scores of half of the images for texts that nothing answers, and asked about the other
half: a normal distribution, an exponential and a generalised Pareto distribution of what exceeds the ninth tenth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import norm

from confidence_figures import cells, share

BODY = 0.9
"""Where the fitted tail begins: this share of the scores lies below."""
LEVELS = (0.05, 0.01, 0.003)
TAILS = ("normal", "exponential", "generalised Pareto")
LEAST_SHAPE, MOST_SHAPE = -0.5, 0.5
"""Shapes of a generalised Pareto distribution that cosines may have."""


def p_values(tail: str, sample: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """How likely an image that is no answer scores at least so much, by one tail of a sample of scores."""
    if tail == "normal":
        return np.asarray(norm.sf(scores, sample.mean(), sample.std() + 1e-9))
    start = float(np.quantile(sample, BODY))
    excess = np.sort(sample[sample > start]) - start
    empirical = 1.0 - np.searchsorted(np.sort(sample), scores, "left") / len(sample)
    over = np.maximum(scores - start, 0.0)
    beyond = np.exp(-over / excess.mean()) if tail == "exponential" else _pareto(excess, over)
    return np.where(scores > start, (1.0 - BODY) * beyond, empirical)


def _pareto(excess: np.ndarray, over: np.ndarray) -> np.ndarray:
    """The survival of a generalised Pareto distribution fitted by probability-weighted moments."""
    count = len(excess)
    first = excess.mean()
    second = float(np.mean(excess * (count - np.arange(1, count + 1)) / max(count - 1, 1)))
    ratio = first / max(second, 1e-12)
    shape = float(np.clip(2.0 - first / max(first - 2.0 * second, 1e-12), LEAST_SHAPE, MOST_SHAPE)) if ratio else 0.0
    scale = first * (1.0 - shape)
    if abs(shape) < 1e-6:
        return np.exp(-over / scale)
    return np.asarray(np.maximum(1.0 + shape * over / scale, 1e-12) ** (-1.0 / shape))


def tail_lines(libraries: Mapping[str, tuple[np.ndarray, Sequence[np.ndarray]]]) -> list[str]:
    """How often wrong images reach a score that a tail says one in so many reaches."""
    lines = [
        "\n## Tails\n",
        "Of texts that nothing answers, tails are fitted to the scores of one half of the images and asked about the",
        "other. Given is how many times as many images as predicted exceed the score that a share of 5, 1 and 0.3 %",
        "should (1 is right), and the largest distance of the p-values of the other half's best image from an even",
        "distribution (0 is right).\n",
        "| images | tail | 5 % | 1 % | 0.3 % | best image |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, (rows, queries) in libraries.items():
        half = len(rows) // 2
        for tail in TAILS:
            seen, best = [], []
            for query in queries:
                scores = rows @ query
                p = p_values(tail, scores[:half], scores[half:])
                seen.append([share(p <= level) / level for level in LEVELS])
                best.append(1.0 - (1.0 - p.min()) ** len(p))
            order = np.sort(best)
            apart = float(np.abs(order - (np.arange(len(order)) + 0.5) / len(order)).max())
            lines.append(f"| {name} | {tail} | {cells(*np.mean(seen, axis=0), apart)} |")
    return lines


def false_alarm_lines(found: Sequence[Any], rows: np.ndarray, absent: int) -> list[str]:
    """What is kept with one false alarm allowed: by confidences, or by the tail of the query's own scores."""
    lines = [
        "\n## False alarms\n",
        "Nouns, and the 200 texts that nothing answers, asked of the captioned photographs with one false alarm",
        "allowed: by the sum of what each of the first 20 hits lacks to certainty (as shipped), and by the number of",
        "images that a tail of the query's own scores expects to score as much. Images kept, a query.\n",
        "| rule | wrong, nouns | right, nouns | wrong, absent | absent that show anything |",
        "|---|---:|---:|---:|---:|",
    ]
    for rule in ("confidence", *TAILS):
        counts = []
        for ask, ids, sure, scores in found:
            if rule == "confidence":
                kept = np.cumsum(1.0 - sure) <= 1.0
            else:
                kept = len(rows) * p_values(rule, scores[len(ids) :], scores[: len(ids)]) <= 1.0
            right = np.array([one in ask.right for one in ids])
            known = np.array([one not in ask.unknown for one in ids]) | right
            counts.append((int((kept & ~right & known).sum()), int((kept & right).sum()), bool(kept.any())))
        values = np.array(counts, float)
        nouns, nothing = values[:-absent], values[-absent:]
        lines.append(
            f"| {rule} | {cells(nouns[:, 0].mean(), nouns[:, 1].mean(), nothing[:, 0].mean(), nothing[:, 2].mean())} |"
        )
    return lines
