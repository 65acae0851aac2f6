"""Signs: what tells a right hit from a wrong one, in numbers that mean the same in every collection and encoder.

A score says little by itself: a cosine of 0.3 is much for one image and little for the next. So a text is compared with
a bank of other texts (`wherein.search.bank`), an example with what it and the hit usually look like, and any other
score with the best of the rest. Each sign is counted in deviations, so that a constant added to every cosine, or
another scale, changes none.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.arrays import Floats, Mask
from wherein.search.background import Background
from wherein.search.bank import Bank, Texts

RELATED: Final = 1.0
"""A name of the bank that is closer to a name than usual by so many deviations may mean the same and is no rival: there
are fifty breeds of dogs. 0.5, 1 and 1.5 were tried; 1 kept most right hits at 5 % of nonsense."""
MEANS_THE_SAME: Final = 0.95
"""For a text that describes a scene, all but the nearest twentieth of the bank are rivals."""
FITTING: Final = 20
"""Texts of the bank that say what an image shows: the best so many of each kind."""
SHARPNESS: Final = 3.3
"""How fast a text of the bank counts less the worse it fits, per deviation of the image's fits: of `mini`'s, a cosine
of 0.017 below the best counts e times less."""
NEXT: Final = 5
"""A hit is compared with so many that follow it."""
USUAL_LEAD: Final = 0.7
"""How far the first hit of a text that describes a scene usually leads, in deviations of fits (`mini`, captions)."""
DESCRIBES: Final = 5
"""A text of so many words describes one scene rather than naming a thing that many images show."""
ALIKE: Final = slice(10, 30)
"""The neighbours that say how like an image its look-alikes are; the ten nearest may be the very same thing."""
FEWEST: Final = 20
"""Fewer images do not show what is usual, so nothing is said to stand out among them."""
_MAD: Final = 1.4826  # the median deviation of a normal distribution is its standard deviation over this
_OUTLIERS: Final = 0.25
_LEAST_SPREAD: Final = 1e-6


def text_signs(query: Floats, hits: Floats, bank: Bank, *, words: int, ordered: Floats | None = None) -> Floats:
    """(hits, 3): how far the query beats rival texts, how well it agrees with what fits, how far the hit leads.

    `query` (d,) and `hits` (n, d) are embeddings, `words` is how many the text has, and `ordered` the highest scores of
    the collection for it, highest first; without them the hits are compared with each other.
    """
    own, describes = hits @ query, words >= DESCRIBES
    fits = [hits @ kind.rows.T for kind in bank.kinds]
    alike = [kind.rows @ query for kind in bank.kinds]
    spread = np.maximum(np.concatenate(fits, axis=1).std(axis=1), _LEAST_SPREAD)
    seen = list(zip(fits, alike, bank.kinds, strict=True))
    rivals = [fit[:, _is_rival(close, kind, describes)] for fit, close, kind in seen[: None if describes else 1]]
    beats = (own - np.max([rival.max(axis=1, initial=-1.0) for rival in rivals], axis=0)) / spread
    agrees = np.max([_agreement(fit, close, kind, spread) for fit, close, kind in seen], axis=0)
    lead = np.zeros(len(hits))
    if describes:
        lead = np.clip(
            (own - _following(own, np.sort(own)[::-1] if ordered is None else ordered)) / spread - USUAL_LEAD, -1.0, 1.0
        )
    return np.asarray(np.stack([beats, agrees, lead], axis=1), np.float32)


def _is_rival(close: Floats, kind: Texts, describes: bool) -> Mask:
    """Which texts of the bank mean something else than a query that they are so `close` (m,) to."""
    most = float(np.quantile(close, MEANS_THE_SAME)) if describes else kind.mean + RELATED * kind.std
    return np.asarray(close < most, np.bool_)


def _agreement(fits: Floats, close: Floats, kind: Texts, spread: Floats) -> Floats:
    """(hits,): how like the query the texts of one kind are that fit each hit best, in deviations."""
    best = np.argpartition(-fits, FITTING - 1, axis=1)[:, :FITTING]
    fit = np.take_along_axis(fits, best, axis=1)
    weights = np.exp(SHARPNESS * (fit - fit.max(axis=1, keepdims=True)) / spread[:, None])
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
    """(hits, 2): how far a hit is more like the example than either is like its look-alikes, and than the rest.

    `queries` (m, d), `hits` (n, d) and `others` (o, d), images of the same collection, are embeddings.
    """
    own = (hits @ queries.T).max(axis=1)
    asked = _usual((others @ queries.T).max(axis=1)[None], itself=False)
    level, middle, spread = (values[0] for values in asked)
    hit_level, hit_middle, hit_spread = _usual(hits @ others.T, itself=True)
    above = (own - np.maximum(level, hit_level)) / np.sqrt(spread * hit_spread)
    apart = ((own - middle) / spread + (own - hit_middle) / hit_spread) / 2.0
    return np.asarray(np.stack([above, apart], axis=1), np.float32)


def _usual(cosines: Floats, *, itself: bool) -> tuple[Floats, Floats, Floats]:
    """Of each row (r, o): how like it its look-alikes are, its median and its deviation; `itself` may be among them."""
    first, last = ALIKE.start + itself, min(ALIKE.stop + itself, cosines.shape[1])
    first = min(first, last - 1)
    nearest = np.sort(np.partition(cosines, -last, axis=1)[:, -last:], axis=1)[:, ::-1]
    middle = np.median(cosines, axis=1)
    mad = np.median(np.abs(cosines - middle[:, None]), axis=1)
    spread = np.maximum(np.maximum(_MAD * mad, _OUTLIERS * cosines.std(axis=1)), _LEAST_SPREAD)
    return nearest[:, first:last].mean(axis=1), middle, np.asarray(spread, np.float32)


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
