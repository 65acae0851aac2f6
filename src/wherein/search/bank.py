"""The bank: two thousand plain texts that say what pictures usually show, in the space of an encoder.

An image fits some of them; a text that asks for it must fit it better than those that mean something else, and must
mean much the same as those that fit it best. So a query is compared with the bank instead of with other images, and
what is seen does not depend on what else is in the collection. Half of the bank are names (`a kettle`), half are
scenes (`a man is running on the beach`): a query is compared with its own kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from typing import Final, Protocol, runtime_checkable

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import Encoder, stored_by
from wherein.store.shards import Array

NAMES: Final = 1024
"""The first so many texts of the bank are names, the others are scenes."""
NEAREST: Final = 5
"""The names of the bank that say how usual it is to ask for such a thing: so many that mean most nearly the same."""
MEASURED: Final = 8
"""One text of the bank in so many is measured to say how near to names texts usually are."""
REMEMBERED: Final = 8
"""Queries whose words are remembered: one search asks with a few."""
BATCH: Final = 64
"""Texts that are embedded at once."""
_LEAST_KNOWN: Final = 0.5
"""The share of the bank's texts that must have embeddings of their own, or the encoder cannot be asked with words."""
_LEAST_SPREAD: Final = 1e-6
"""Cosines of texts that are spread by less are all the same: only rounding tells them apart."""
Keep = Callable[[str, Callable[[], Array]], Array]
"""Gives the array of a name, made where it is not kept."""
_KNOWN: Final = dict[str, "Bank | None"]()
"""Banks by the digest of their encoder: a process makes each once."""


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Texts of one kind, and how alike two of them usually are."""

    rows: Floats
    """(m, d) unit vectors"""
    middle: Floats
    """(d,) the mean of the rows."""
    mean: float
    std: float

    @classmethod
    def of(cls, rows: Floats) -> Texts:
        """Texts of one kind, from their embeddings."""
        alike = (rows @ rows.T)[~np.eye(len(rows), dtype=np.bool_)]
        # Column by column: products with images then read them as they lie, and take a third less time.
        return cls(np.asfortranarray(rows), rows.mean(axis=0), float(alike.mean()), float(alike.std()))

    def usual(self, asked: Texts) -> float:
        """How like these texts of the kind `asked` usually are: encoders may hold names and scenes apart."""
        return self.mean if asked is self else float(self.middle @ asked.middle)


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """What the bank says of a query."""

    nearness: float
    """How near it is to the names that mean most nearly the same."""
    scenes: Floats
    """(m,) how like each scene it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Bank:
    """Names and scenes as one encoder sees them."""

    kinds: tuple[Texts, Texts]
    near: tuple[float, float]
    """How near to names a name and a scene usually are."""
    _heard: dict[bytes, Heard] = field(default_factory=dict)
    """What it said to the last queries: hits and the images that are counted ask for the same."""

    @classmethod
    def of(cls, names: Floats, scenes: Floats) -> Bank:
        """From the embeddings of names and of scenes."""
        some = names[::MEASURED], scenes[::MEASURED]
        own = _nearest(some[0] @ names.T, itself=True), _nearest(some[1] @ names.T, itself=False)
        return cls((Texts.of(names), Texts.of(scenes)), (float(np.median(own[0])), float(np.median(own[1]))))

    def heard(self, query: Floats) -> Heard:
        """What its texts say of a text (d,)."""
        known = self._heard.get(key := query.tobytes())
        if known is None:
            names, scenes = (kind.rows @ query for kind in self.kinds)
            known = Heard(float(_nearest(names[None], itself=False)[0]), scenes)
            if len(self._heard) >= REMEMBERED:
                self._heard.clear()
            self._heard[key] = known
        return known


def _nearest(cosines: Floats, *, itself: bool) -> Floats:
    """(n,) the mean of the NEAREST highest of (n, names) cosines; that with a name itself, the highest, is left out."""
    best = np.sort(np.partition(cosines, -NEAREST - 1, axis=1)[:, -NEAREST - 1 :], axis=1)
    return np.asarray((best[:, :-1] if itself else best[:, 1:]).mean(axis=1), np.float32)


def bank_of(encoder: Encoder, keep: Keep) -> Bank | None:
    """The bank of an encoder; None where it reads no texts, or takes most of the bank's for the same.

    That of `mini` is shipped; another encoder's is embedded once and kept with the collection. What was trained on an
    encoder asks with its texts, moved.
    """
    base = stored_by(encoder)
    if not base.embeds_text:
        return None
    if encoder.digest not in _KNOWN:
        rows = _shipped(base.digest)
        made = keep(f"bank.{base.digest[:12]}", lambda: _embedded(base)) if rows is None else rows
        known = np.asarray(made, np.float32)
        _KNOWN[encoder.digest] = _made(encoder.asked_texts(known) if isinstance(encoder, MovesTexts) else known)
    return _KNOWN[encoder.digest]


@runtime_checkable
class MovesTexts(Protocol):
    """An encoder that asks with other vectors than those of the texts of the encoder that it was trained on."""

    def asked_texts(self, vectors: Floats) -> Floats:
        """Embeddings of texts (n, d) as they are asked with."""


def texts() -> list[str]:
    """The bank's texts: names, then scenes."""
    return (files("wherein.search") / "bank.txt").read_text("utf-8").splitlines()


def _made(rows: Floats) -> Bank | None:
    if len({row.tobytes() for row in rows.round(4) + 0.0}) < _LEAST_KNOWN * len(rows):  # and −0 is 0
        return None
    bank = Bank.of(rows[:NAMES], rows[NAMES:])
    return bank if min(kind.std for kind in bank.kinds) > _LEAST_SPREAD else None


def _embedded(encoder: Encoder) -> Array:
    every = texts()
    return np.concatenate([encoder.texts(every[at : at + BATCH]) for at in range(0, len(every), BATCH)])


def _shipped(digest: str) -> Floats | None:
    """The rows that come with wherein, where they were made by these weights."""
    with as_file(files("wherein.search") / "bank.mini.npz") as path, np.load(path, allow_pickle=False) as stored:
        if str(stored["digest"]) != digest:
            return None
        rows = stored["rows"].astype(np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)
