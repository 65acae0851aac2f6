"""Signs: what tells a right hit from a wrong one, in numbers that mean the same in every collection and encoder.

A score says little by itself: a cosine of 0.3 is much for one image and little for the next. So a text is compared with
a bank of other texts (`wherein.search.bank`), an example with its look-alikes (`wherein.search.others`), and any other
score with the best of the rest. Each sign is counted in deviations, so that a constant added to every cosine, or
another scale, changes none.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.encoders.reading import unframed
from wherein.search.background import SAMPLE, Background
from wherein.search.bank import Bank
from wherein.search.others import ALIKE
from wherein.search.seen import Fits, Seen

NEXT: Final = 5
"""A hit is compared with so many that follow it."""
USUAL_LEAD: Final = 0.7
"""How far the first hit of a text that describes a scene usually leads, in deviations of fits (`mini`, captions)."""
LEAD_LEAST, LEAD_MOST = -1.5, 2.0
"""Leads beyond these, from the usual one, say no more."""
LONGEST_NAME: Final = 3
"""Names of the bank have so many words at most; an encoder may embed them otherwise than sentences (`mini` does)."""
ARTICLES: Final = frozenset({"a", "an", "the"})
SHORT_UP_TO, DESCRIBES_FROM = 5, 7
"""A text that is longer than a name is short up to five words, and describes a scene from seven on; one of six words
is half of each."""
TEXT_SIGNS: Final = (
    "short",
    "describes",
    "beats names",
    "scores, of a name",
    "usual",
    "agrees with scenes, of a name",
    "common, of a name",
    "scores, short",
    "usual, short",
    "agrees with scenes, short",
    "leads, short",
    "common, short",
    "beats scenes",
    "scores",
    "agrees with scenes",
    "leads",
    "common",
)
"""What `text_signs` gives: after the first two, those of texts that name a thing, of short ones, and of texts that
describe a scene."""
OF_NAME, OF_SHORT, OF_SCENE = slice(2, 7), slice(7, 12), slice(12, 17)
FEWEST: Final = 20
"""Fewer images do not show what is usual, so nothing is said to stand out among them."""
_MAD: Final = 1.4826  # the median deviation of a normal distribution is its standard deviation over this
_OUTLIERS: Final = 0.25
"""Where most scores are equal their median deviation is 0; then a quarter of the standard deviation stands for it, as
in `evidence`."""
_LEAST_SPREAD: Final = 1e-6
"""The least that scores are divided by: those that are spread by less are all the same."""


def text_signs(
    query: Floats,
    hits: Floats,
    seen: Seen,
    bank: Bank,
    *,
    words: int,
    fits: Fits,
    common: float = 0.0,
    background: Background | None = None,
) -> Floats:
    """(hits, signs) of a text, as TEXT_SIGNS names them.

    How far the query beats the bank's texts of its own kind, scores more than texts usually do, means what the scenes
    mean that fit best, is as near to names as is usual, how a hit leads, and how common the words are. No sign asks how
    other images score, but for the next few, so that unrelated ones that join a collection move little (how well texts
    usually fit is still measured on its images). `query` (d,) and `hits` (n, d) are embeddings, `seen` what the bank
    says of the hits, `words` how many the text has, `common` how common they are (`wherein.search.common`), and
    `background` that of its scores; without it hits are compared with each other.
    """
    own, spread = hits @ query, fits.spread
    named, short, described = _asked_with(words)
    ordered = np.sort(own)[::-1] if background is None else background.tail
    beats_names, beats_scenes = ((own - best) / spread for best in seen.best_fit)
    asked = bank.kinds[words > LONGEST_NAME]
    names, scenes = bank.kinds
    heard = bank.heard(query)
    nearness = min(heard.nearness - bank.near[words > LONGEST_NAME], 0.0)
    usual = np.full(len(hits), nearness / names.std)
    agrees = ((seen.shares * heard.scenes[seen.scenes]).sum(axis=1) - scenes.usual(asked)) / scenes.std
    lead = np.clip((own - _following(own, ordered)) / spread - USUAL_LEAD, LEAD_LEAST, LEAD_MOST)
    scores = (own - fits.mean) / spread
    commonness = np.full(len(hits), common)
    of_name = [beats_names, scores, usual, agrees, commonness]
    of_short = [scores, usual, agrees, lead, commonness]
    of_scene = [beats_scenes, scores, agrees, lead, commonness]
    shares = [np.full(len(hits), share) for share in (short, described)]
    lines = ((named, of_name), (short, of_short), (described, of_scene))
    return np.asarray(np.stack([*shares, *(share * one for share, own in lines for one in own)], axis=1), np.float32)


def count_words(text: str) -> int:
    """How many words a text has; `a photo of a dog` asks for a dog, and is a name as `dog` is."""
    return len(unframed(text).split())


def asked_otherwise(text: str) -> str | None:
    """A name without its article, or with one: people ask for a thing either way. None where it is no name."""
    words = unframed(text).split()
    if len(words) > 1 and len(words) <= LONGEST_NAME and words[0].lower() in ARTICLES:
        return " ".join(words[1:])
    if not words or len(words) >= LONGEST_NAME or words[0].lower() in ARTICLES:
        return None
    return f"{'an' if words[0][0].lower() in 'aeiou' else 'a'} {' '.join(words)}"


def _asked_with(words: int) -> tuple[float, float, float]:
    """How far a text of so many words names a thing, says some more of it, and describes a scene."""
    described = min(max((words - SHORT_UP_TO) / (DESCRIBES_FROM - SHORT_UP_TO), 0.0), 1.0)
    named = float(words <= LONGEST_NAME)
    return named, 1.0 - named - described, described


def _following(own: Floats, ordered: Floats) -> Floats:
    """(hits,): the mean of the NEXT scores below each, of `ordered` scores, highest first; copies count once."""
    ordered = ordered[np.diff(ordered, prepend=np.inf) < -_LEAST_SPREAD]
    if len(ordered) < 2:
        return own
    first = np.searchsorted(-ordered, -(own - _LEAST_SPREAD), side="left")
    sums = np.concatenate([[0.0], np.cumsum(ordered, dtype=np.float64)])
    start = np.minimum(first, len(ordered) - 1)
    end = np.minimum(start + NEXT, len(ordered))
    return np.asarray((sums[end] - sums[start]) / (end - start), np.float32)


def stands_out(scores: Floats, background: Background) -> Floats:
    """(n,): how far any scores lie above the best of the rest, in deviations of the background they come from.

    Deviations measured on few images are wide of the mark (Student's t), so they are told as those of a normal
    distribution that are as rare: 5.6 among 11 images say no more than 3.9 among thousands.
    """
    tail = background.tail
    if len(tail) < 2:
        return np.zeros(len(scores), np.float32)
    first = min(ALIKE.start, len(tail) - 1)
    spread = max(_MAD * background.mad, _OUTLIERS * background.std)
    if spread <= _LEAST_SPREAD:
        return np.zeros(len(scores), np.float32)
    found = (np.asarray(scores, np.float64) - tail[first : ALIKE.stop].mean()) / spread
    return np.asarray(_as_of_many(found, min(background.n, SAMPLE)), np.float32)


def _as_of_many(deviations: npt.NDArray[np.float64], freedom: int) -> npt.NDArray[np.float64]:
    """Student's t as normal deviations, by the simpler approximation of Wallace (1959): 3 % too far at ten degrees.

    As many degrees of freedom as scores: the best of the rest, from where deviations are counted, is not their mean.
    """
    return np.asarray(np.sign(deviations) * np.sqrt(freedom * np.log1p(deviations**2 / freedom)))
