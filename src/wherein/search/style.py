"""Plain words mean photographs: in a mixed library drawings stand lower, unless the words ask for them.

Clip art shows one thing, large and alone, and so answers a bare word better than any photograph does. How drawn an
image looks is read off the encoder itself: the cosine of its embedding with the direction that leads from texts such
as “a drawing” to texts such as “a photo”. Only images on the side of the drawings lose, so photographs keep their
scores; where most of a collection is drawn, only what is more drawn than usual does.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import Encoder

_PHOTO: Final = ("a photo", "a photograph", "a photo of something", "a picture taken with a camera")
_DRAWN: Final = ("a drawing", "a cartoon", "clip art", "an illustration", "a logo", "a sketch", "an icon")
RAMP: Final = 0.08
"""The cosine with that direction at which an image counts as wholly drawn: the median of `mini`'s clip art."""
STRENGTH: Final = 3.0
"""What a drawing loses, in standard deviations of the query's scores. RAMP and STRENGTH were chosen on clip art and
photographs of the same names from the training data, where more lost photographs (docs/results/drawn.md)."""
_LEAST_DIRECTION: Final = 0.05
"""A shorter difference of the two kinds of texts says that the encoder does not tell them apart."""
_STYLE_WORDS: Final = """
abstract alphabet anime animated animation art artwork avatar badge banner blueprint brochure caricature cartoon chart
clipart comic crest diagram doodle drawing drawn emblem emoji emoticon engraving etching flag flyer font fresco glyph
graffiti graph graphic icon illustrated illustration infographic insignia letter lithograph logo manga map meme mosaic
mural ornament painted painting pattern pictogram pixel poster print render rendering screenshot silhouette sketch
sketched smiley stencil sticker symbol text typography vector wallpaper watercolor watercolour woodcut
"""
"""Words that ask for something drawn, or name what is always drawn."""
_STYLES: Final = frozenset(_STYLE_WORDS.split())
_DIRECTIONS: Final = dict[str, Floats | None]()
"""What `photo_direction` found, by the digest of the encoder: two calls of its text tower are not repeated."""


def asks_for_style(text: str) -> bool:
    """Whether a text says that something drawn is meant: `a cartoon dog`, `company logos`."""
    words = re.findall(r"[a-z]+", text.lower())
    return any(word in _STYLES or word.removesuffix("s") in _STYLES for word in words)


def photo_direction(encoder: Encoder) -> Floats | None:
    """(d,) the unit vector from drawings to photographs; None where the encoder does not tell them apart."""
    if encoder.digest not in _DIRECTIONS:
        apart = encoder.texts(_PHOTO).mean(axis=0) - encoder.texts(_DRAWN).mean(axis=0)
        length = float(np.linalg.norm(apart))
        known = length >= _LEAST_DIRECTION
        _DIRECTIONS[encoder.digest] = np.asarray(apart / length, np.float32) if known else None
    return _DIRECTIONS[encoder.digest]


def drawn_shares(embeddings: Floats, encoder: Encoder) -> Floats:
    """(images, d) → (images,) how drawn each image looks, from 0 to 1."""
    direction = photo_direction(encoder)
    if direction is None or not len(embeddings):
        return np.zeros(len(embeddings), np.float32)
    seen = embeddings @ direction
    usual = min(0.0, float(np.median(seen)))
    return np.asarray(np.clip((usual - seen) / RAMP, 0.0, 1.0), np.float32)


def lowered(scores: Floats, drawn: Floats) -> Floats:
    """(images,) scores, those of drawings lowered."""
    return np.asarray(scores - STRENGTH * float(scores.std(dtype=np.float64)) * drawn, np.float32)


def style_note(before: Floats, after: Floats, *, last: float) -> tuple[str, ...]:
    """What to say where drawings would have been among the hits, the last of which scored `last`."""
    count = int(((before >= last) & (after < last)).sum())
    if not count:
        return ()
    are = "1 drawing stands" if count == 1 else f"{count:,} drawings stand"
    return (
        f"{are} lower, because plain words are read as photographs. Say “cartoon”, “drawing” or “logo” to find those, "
        "or add ~any-style to the method.",
    )
