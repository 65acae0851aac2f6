"""Signs: what tells a right hit from a wrong one, in numbers that mean the same in every collection and encoder.

A score says little by itself: a cosine of 0.3 is much for one image and little for the next. So a text is compared with
a bank of other texts (`wherein.search.bank`), an example with what it and the hit usually look like, and any other
score with the best of the rest. Each sign is counted in deviations, so that a constant added to every cosine, or
another scale, changes none.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.arrays import Floats
from wherein.search.background import Background
from wherein.search.bank import Bank, Texts

SOFT: Final = 2.0
"""How much better fitting texts of the bank count for more, per deviation: between their mean (0) and the best alone.
Of 1, 2 and 3.3, 2 kept most right first hits of photographs held back where 5 % of other nonsense was shown."""
FITTING: Final = 20
"""Scenes of the bank that say what an image shows: the best so many."""
SHARPNESS: Final = 3.3
"""How fast a text of the bank counts less the worse it fits, per deviation of the image's fits: of `mini`'s, a cosine
of 0.017 below the best counts e times less."""
SPREAD_SEEN: Final = 64
"""Images that say how far fits are apart: `mini`'s deviations differ by a tenth, so that their mean is known to a
hundredth."""
NEXT: Final = 5
"""A hit is compared with so many that follow it."""
USUAL_LEAD: Final = 0.7
"""How far the first hit of a text that describes a scene usually leads, in deviations of fits (`mini`, captions)."""
DESCRIBES: Final = 5
"""A text of so many words describes one scene rather than naming a thing that many images show."""
ALIKE: Final = slice(10, 30)
"""The neighbours that say how like an image its look-alikes are; the ten nearest may be the very same thing."""
PAIRED: Final = 128
"""Images of which any two are compared to say how like two images usually are: eight thousand pairs."""
FEWEST: Final = 20
"""Fewer images do not show what is usual, so nothing is said to stand out among them."""
_MAD: Final = 1.4826  # the median deviation of a normal distribution is its standard deviation over this
_OUTLIERS: Final = 0.25
"""Where most scores are equal their median deviation is 0; then a quarter of the standard deviation stands for it, as
in `evidence`."""
_LEAST_SPREAD: Final = 1e-6
"""Divides nothing: scores that are spread by less are all the same."""


def text_signs(
    query: Floats, hits: Floats, bank: Bank, *, words: int, spread: float, ordered: Floats | None = None
) -> Floats:
    """(hits, 4): how far the query beats the bank, fits better than usual, agrees with what fits, and how a hit leads.

    `query` (d,) and `hits` (n, d) are embeddings, `words` is how many the text has, `spread` how far fits of the bank
    usually are apart (`fit_spread`), and `ordered` the highest scores of the collection for it, highest first; without
    them the hits are compared with each other.
    """
    own, scenes = hits @ query, bank.kinds[1]
    fits = np.concatenate([hits @ kind.rows.T for kind in bank.kinds], axis=1)
    best = fits.max(axis=1)
    blurred = best + np.log(np.exp((fits - best[:, None]) * (SOFT / spread)).mean(axis=1)) * (spread / SOFT)
    agrees = _agreement(fits[:, -len(scenes.rows) :], scenes.rows @ query, scenes, spread)
    lead = np.zeros(len(hits))
    if words >= DESCRIBES:
        following = _following(own, np.sort(own)[::-1] if ordered is None else ordered)
        lead = np.clip((own - following) / spread - USUAL_LEAD, -1.0, 1.0)
    signs = [(own - blurred) / spread, (own - fits.mean(axis=1)) / spread, agrees, lead]
    return np.asarray(np.stack(signs, axis=1), np.float32)


def fit_spread(images: Floats, bank: Bank) -> float:
    """How far fits of the bank's texts to (n, d) images are apart: the mean of the deviations of some images."""
    if not len(images):
        return 1.0
    some = images[:: -(-len(images) // SPREAD_SEEN)]
    fits = np.concatenate([some @ kind.rows.T for kind in bank.kinds], axis=1)
    return max(float(fits.std(axis=1).mean()), _LEAST_SPREAD)


def _agreement(fits: Floats, close: Floats, kind: Texts, spread: float) -> Floats:
    """(hits,): how like the query the texts of one kind are that fit each hit best, in deviations."""
    best = np.argpartition(-fits, FITTING - 1, axis=1)[:, :FITTING]
    fit = np.take_along_axis(fits, best, axis=1)
    weights = np.exp(SHARPNESS * (fit - fit.max(axis=1, keepdims=True)) / spread)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(((weights * close[best]).sum(axis=1) - kind.mean) / kind.std, np.float32)


def _following(own: Floats, ordered: Floats) -> Floats:
    """(hits,): the mean of the NEXT scores below each, of `ordered` scores, highest first."""
    if len(ordered) < 2:
        return own
    first = np.searchsorted(-ordered, -(own - _LEAST_SPREAD), side="left")
    sums = np.concatenate([[0.0], np.cumsum(ordered, dtype=np.float64)])
    start = np.minimum(first, len(ordered) - 1)
    end = np.minimum(start + NEXT, len(ordered))
    return np.asarray((sums[end] - sums[start]) / (end - start), np.float32)


def example_signs(queries: Floats, hits: Floats, others: Floats) -> Floats:
    """(hits, 2): how far a hit is more like the example than either is like its look-alikes, and than any two images.

    `queries` (m, d), `hits` (n, d) and `others` (o, d), images of the same collection, are embeddings.
    """
    own = (hits @ queries.T).max(axis=1)
    asked = _usual((others @ queries.T).max(axis=1)[None], itself=False)
    level, spread = (values[0] for values in asked)
    hit_level, hit_spread = _usual(hits @ others.T, itself=True)
    above = (own - np.maximum(level, hit_level)) / np.sqrt(spread * hit_spread)
    some = others[:: -(-len(others) // PAIRED)]
    pairs = (some @ some.T)[~np.eye(len(some), dtype=np.bool_)]
    like = (own - pairs.mean()) / max(float(pairs.std()), _LEAST_SPREAD)
    return np.asarray(np.stack([above, like], axis=1), np.float32)


def _usual(cosines: Floats, *, itself: bool) -> tuple[Floats, Floats]:
    """Of each row (r, o): how like it its look-alikes are, and its deviation; `itself` may be among them."""
    first, last = ALIKE.start + itself, min(ALIKE.stop + itself, cosines.shape[1])
    first = min(first, last - 1)
    nearest = np.sort(np.partition(cosines, -last, axis=1)[:, -last:], axis=1)[:, ::-1]
    middle = np.median(cosines, axis=1)
    mad = np.median(np.abs(cosines - middle[:, None]), axis=1)
    spread = np.maximum(np.maximum(_MAD * mad, _OUTLIERS * cosines.std(axis=1)), _LEAST_SPREAD)
    return nearest[:, first:last].mean(axis=1), np.asarray(spread, np.float32)


def stands_out(scores: Floats, background: Background) -> Floats:
    """(n,): how far any scores lie above the best of the rest, in deviations of the background they come from."""
    tail = background.tail
    if len(tail) < 2:
        return np.zeros(len(scores), np.float32)
    first = min(ALIKE.start, len(tail) - 1)
    spread = max(_MAD * background.mad, _OUTLIERS * background.std)
    if spread <= _LEAST_SPREAD:
        return np.zeros(len(scores), np.float32)
    return np.asarray((np.asarray(scores, np.float64) - tail[first : ALIKE.stop].mean()) / spread, np.float32)
