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

from wherein.arrays import Floats, Ints
from wherein.encoders import Encoder
from wherein.index.rows import RowTable

# All as short as names: an encoder may treat sentences otherwise, and that must not count as style.
_PHOTO: Final = ("a photo", "a photograph", "photo of something", "a camera picture")
_DRAWN: Final = ("a drawing", "a cartoon", "clip art", "an illustration", "a logo", "a sketch", "an icon")
RAMP: Final = 0.08
"""How far an image's cosine with `photo_direction` lies below the usual one where it counts as wholly drawn: the
median of `mini`'s clip art."""
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


class Drawn:
    """How drawn the images of a collection look, from the embeddings of whole images."""

    def __init__(self, table: RowTable, encoder: Encoder, sample: Ints) -> None:
        self._table, self._direction = table, photo_direction(encoder)
        seen = self._seen(sample)
        self._usual = min(0.0, float(np.median(seen))) if len(seen) else 0.0
        self._sample, self._sampled = sample, self._share(seen)

    def shares(self, images: Ints) -> Floats:
        """(len(images),) how drawn each of some images looks, from 0 to 1."""
        return self._sampled if images is self._sample else self._share(self._seen(images))

    def _share(self, seen: Floats) -> Floats:
        return np.asarray(np.clip((self._usual - seen) / RAMP, 0.0, 1.0), np.float32)

    def _seen(self, images: Ints) -> Floats:
        if self._direction is None or not len(images):
            return np.zeros(len(images), np.float32)
        return np.asarray(self._table.vectors(images) @ self._direction, np.float32)


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
