"""Whole-ranking methods on any embedding: query expansion, database-side augmentation, diffusion; propagation.

All are pure: embeddings are (n, d) of unit norm, scores higher is better. Each needs no training.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np

from wherein.arrays import Floats, Ints, unit

Weighting = Literal["average", "ranked", "alpha"]

NEIGHBOURS: Final = 5
"""Hits a query is moved towards, and neighbours a stored embedding is; chosen by hand, few because collections may show
a thing only a few times."""
ALPHA: Final = 3.0
"""The power of a cosine by which a neighbour counts: that of Radenović et al. (2018), who introduced α-weighting."""
GRAPH_NEIGHBOURS: Final = 20
"""Neighbours an image has in the graph that scores are spread along. Chosen by hand, not tuned."""
SEEDS: Final = 10
"""Best hits that scores are spread from. Chosen by hand, not tuned."""
_DAMPING: Final = 0.9
"""How much of a score comes from neighbours in each round; the rest goes back to the seeds. Chosen by hand, not
tuned."""
_SHARE: Final = 0.9
"""The share of inliers that an image inherits from the one it was verified through: less than all, so that who was
verified directly stays ahead."""
_ROUNDS: Final = 20
"""Rounds of spreading: what is left to change is then 0.9²⁰, an eighth of the first."""


def expand(
    query: Floats, rows: Floats, scores: Floats, *, weighting: Weighting = "alpha", alpha: float = ALPHA
) -> Floats:
    """The query (d,) moved towards the hits it has: (n, d) rows with their scores (n,), best first; unit norm.

    `average` weighs all hits as the query itself, `ranked` less with each place, `alpha` by score to the power α:
    hits that are not alike hardly count.
    """
    return unit(query + _weights(scores, weighting, alpha) @ rows)


def expansion(
    hits: Floats, scores: Floats, *, weighting: Weighting = "alpha", alpha: float = ALPHA
) -> tuple[Floats, float]:
    """What is added to a query that is moved towards its hits, (d,), and the length of the sum.

    `hits` (n, d) are the embeddings it is moved towards, `scores` (n,) its cosines with them. The expanded query's
    cosine with a row is (query · row + added · row) / length, so the query's own vector is not needed.
    """
    weights = _weights(scores, weighting, alpha)
    length = 1.0 + 2.0 * float(weights @ scores) + float(weights @ (hits @ hits.T) @ weights)
    return np.asarray(weights @ hits, np.float32), float(np.sqrt(max(length, 1e-12)))


def augment(
    rows: Floats, *, neighbours: int = NEIGHBOURS, weighting: Weighting = "alpha", alpha: float = ALPHA
) -> Floats:
    """Database-side augmentation: every one of (n, d) rows expanded by its nearest neighbours."""
    near, scores = nearest(rows, neighbours=neighbours)
    weights = np.stack([_weights(own, weighting, alpha) for own in scores]) if len(rows) else scores
    return unit(rows + np.einsum("nk,nkd->nd", weights, rows[near]))


def nearest(rows: Floats, *, neighbours: int) -> tuple[Ints, Floats]:
    """Each row's nearest others and their cosines, best first: (n, k) numbers, (n, k) scores."""
    import faiss

    k = min(neighbours, max(len(rows) - 1, 0))
    if not k:
        return np.zeros((len(rows), 0), np.int64), np.zeros((len(rows), 0), np.float32)
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(np.ascontiguousarray(rows, np.float32))
    scores, found = index.search(np.ascontiguousarray(rows, np.float32), k + 1)
    # A row's twin may come before the row itself: drop the row wherever it is, else the last.
    own = found == np.arange(len(rows))[:, None]
    own[~own.any(axis=1), -1] = True
    return found[~own].reshape(len(rows), k), scores[~own].reshape(len(rows), k).astype(np.float32)


def diffuse(neighbours: tuple[Ints, Floats], scores: Floats, *, seeds: int = SEEDS, alpha: float = ALPHA) -> Floats:
    """Spreads scores (n,) along the graph of mutual nearest neighbours that `nearest` gives.

    The best `seeds` scores are the source; the steady state of a walk that goes back to them is the new score
    (Donoser and Bischof, 2013; Iscen et al., 2017), scaled to the old ones' highest.
    """
    near, cosines = neighbours
    if not near.shape[1] or not np.isfinite(scores).any():
        return scores.copy()
    mutual = (near[near] == np.arange(len(near))[:, None, None]).any(axis=2)
    weights = np.where(mutual, np.maximum(cosines, 0.0) ** alpha, 0.0)
    degrees = 1.0 / np.sqrt(np.maximum(weights.sum(axis=1), 1e-12))
    weights = weights * degrees[:, None] * degrees[near]
    source = np.zeros(len(near))
    top = np.argsort(-scores, kind="stable")[:seeds]
    source[top] = np.maximum(scores[top], 0.0) ** alpha
    state = source.copy()
    for _ in range(_ROUNDS):
        state = _DAMPING * np.einsum("nk,nk->n", weights, state[near]) + (1 - _DAMPING) * source
    highest = float(state.max())
    return np.asarray(state * (float(scores.max()) / highest), np.float32) if highest > 0 else scores.copy()


def passed_on(verified: int, link: int) -> int:
    """Inliers that an image inherits from a verified one it shares something with: those of the weaker link, less a
    tenth, so that who was verified directly stays ahead."""
    return math.floor(_SHARE * min(verified, link))


def _weights(scores: Floats, weighting: Weighting, alpha: float) -> Floats:
    if weighting == "average":
        return np.ones(len(scores), np.float32)
    if weighting == "ranked":
        return np.asarray((len(scores) - np.arange(len(scores))) / (len(scores) + 1), np.float32)
    return np.asarray(np.maximum(scores, 0.0) ** alpha, np.float32)
