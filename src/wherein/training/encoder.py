"""A trained encoder: the one it was trained on, with labels that can be asked for and texts that are understood anew.

Images keep the embeddings that are stored already: everything that was learnt is in the vectors of the query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from wherein.arrays import Floats, unit
from wherein.encoders import Encoded, Encoder
from wherein.encoders.reading import Reads
from wherein.encoders.words import KnowsWords, RanksWords
from wherein.errors import QueryError, SpecError, did_you_mean
from wherein.images.image import Image, Pixels
from wherein.search.head import Head, Learnt
from wherein.training.examples import from_numbers
from wherein.training.kept import Arrays
from wherein.values.judgement import Curve
from wherein.values.training import LABEL_PREFIX, Card, said_label


class TrainedEncoder:
    """An encoder with what was learnt in a collection."""

    def __init__(self, base: Encoder, card: Card, numbers: Arrays) -> None:
        if base.digest != card.digest:
            raise SpecError(
                f"{card.spec}: was trained on other weights of {card.encoder} ({card.digest[:8]}, now "
                f"{base.digest[:8]}). Train it again: wherein train {card.name}."
            )
        self.stored_by = base
        """The encoder whose embeddings the collection keeps."""
        self.spec = card.spec
        content = b"".join(numbers[name].tobytes() for name in sorted(numbers))
        self.digest = hashlib.blake2b(content, digest_size=8).hexdigest() + base.digest
        self.dim, self.input_hw, self.grid_hw, self.dense_shape = (
            base.dim,
            base.input_hw,
            base.grid_hw,
            base.dense_shape,
        )
        self.patch_basis, self.device, self.batch, self.vectors = (
            base.patch_basis,
            base.device,
            base.batch,
            base.vectors,
        )
        self.embeds_text = True  # labels are texts, also where the base reads none
        self.head = head_of(numbers)
        self._places = np.asarray(numbers.get("place_vectors", self.head.vectors), np.float32)
        self._examples = from_numbers(numbers)
        self._moves = {
            name: np.asarray(numbers[name], np.float32) for name in ("text_move", "image_move") if name in numbers
        }

    def prepare(self, image: Image) -> Pixels:
        """As the encoder that it was trained on."""
        return self.stored_by.prepare(image)

    def images(self, batch: Pixels) -> Encoded:
        """As the encoder that it was trained on."""
        return self.stored_by.images(batch)

    def asked_images(self, vectors: Floats) -> Floats:
        """Embeddings of example images (n, d) as they are asked with."""
        return _moved(vectors, self._moves.get("image_move"))

    def asked_texts(self, vectors: Floats) -> Floats:
        """Embeddings of texts (n, d) as they are asked with."""
        return _moved(vectors, self._moves.get("text_move"))

    def texts(self, texts: Sequence[str]) -> Floats:
        """Embeddings of texts (n, d); `label:NAME` is what was learnt of that label."""
        names = [said_label(text) for text in texts]
        plain = [text for text, name in zip(texts, names, strict=True) if name is None]
        found = np.zeros((len(texts), self.dim), np.float32)
        if plain:
            if not self.stored_by.embeds_text:
                raise QueryError(f"{self.spec} knows labels and no other words: {', '.join(self.head.labels)}.")
            found[[name is None for name in names]] = self.asked_texts(self.stored_by.texts(plain))
        for row, name in enumerate(names):
            if name is not None:
                found[row] = self.head.vectors[self._number(name)]
        return found

    def texts_of_places(self, texts: Sequence[str]) -> Floats:
        """The same, to be compared with patches: a label is what was learnt of its boxes, where it had some."""
        found = self.texts(texts)
        for row, name in enumerate(map(said_label, texts)):
            if name is not None:
                found[row] = self._places[self._number(name)]
        return found

    def label_curve(self, label: str) -> Curve | None:
        """The confidence over the cosine with a label's vector; None where too few examples were held out."""
        return self.head.curves[self._number(label)]

    def taught(self, label: str) -> frozenset[str]:
        """The images that were right or wrong examples of a label."""
        examples = self._examples.only([label])
        told = np.flatnonzero(examples.marks.any(axis=1)).tolist()
        return frozenset(examples.image_ids[row] for row in told)

    def _number(self, label: str) -> int:
        number = self.head.number(label)
        if number is None:
            known = ", ".join(self.head.labels) or "none"
            raise QueryError(
                f"{self.spec} has learnt no label {label!r}; it knows: {known}.{did_you_mean(label, self.head.labels)}"
            )
        return number


class ReadingTrainedEncoder(TrainedEncoder):
    """A trained encoder whose base mends queries and knows which words it was taught; labels are left alone."""

    def read(self, text: str) -> str:
        """The text in words that the base was taught."""
        base = self.stored_by
        return text if said_label(text) is not None or not isinstance(base, Reads) else base.read(text)

    def unknown_words(self, text: str) -> tuple[str, ...]:
        """The words of a text that the base cannot know."""
        base = self.stored_by
        return () if said_label(text) is not None or not isinstance(base, KnowsWords) else base.unknown_words(text)

    def word_ranks(self, text: str) -> tuple[int, ...]:
        """How common the words of a text are, as the base says."""
        base = self.stored_by
        return () if said_label(text) is not None or not isinstance(base, RanksWords) else base.word_ranks(text)


def trained_encoder(base: Encoder, card: Card, numbers: Arrays) -> TrainedEncoder:
    """The encoder of something trained, which reads texts as its base does."""
    reads = isinstance(base, Reads | KnowsWords)
    return (ReadingTrainedEncoder if reads else TrainedEncoder)(base, card, numbers)


def head_of(numbers: Arrays) -> Head:
    """The head among the numbers of something trained; one without labels where there is none."""
    labels = tuple(map(str, numbers["labels"].tolist())) if "labels" in numbers else ()
    curves = numbers.get("curves", np.zeros((0, 2)))
    found = (None if not np.isfinite(row).all() else Curve(float(row[0]), float(row[1])) for row in curves)
    vectors = np.asarray(numbers.get("vectors", np.zeros((0, 0))), np.float32)
    return Head(labels, vectors, tuple(found))


def head_numbers(head: Head) -> Arrays:
    """A head as arrays."""
    curves = [(np.nan, np.nan) if curve is None else (curve.offset, curve.slope) for curve in head.curves]
    return {
        "labels": np.array(head.labels, np.str_),
        "vectors": head.vectors,
        "curves": np.array(curves, np.float64).reshape(-1, 2),
    }


def learnt_numbers(learnt: Mapping[int, tuple[Learnt, Learnt]]) -> Arrays:
    """What is learnt so far of some labels, as arrays."""
    order = sorted(learnt)
    return {
        "numbers": np.array(order, np.int64),
        "vectors": np.stack([[one.vector for one in learnt[number]] for number in order]),
        "offsets": np.array([[one.offset for one in learnt[number]] for number in order]),
        "held_out": np.stack([[one.held_out for one in learnt[number]] for number in order]),
        "margins": np.stack([[one.margins for one in learnt[number]] for number in order]),
    }


def learnt_from(stored: Arrays | None) -> dict[int, tuple[Learnt, Learnt]]:
    """What such arrays say; nothing where they are of another version."""
    if stored is None or not stored.keys() >= {"numbers", "vectors", "offsets", "held_out", "margins"}:
        return {}

    def one(row: int, which: int) -> Learnt:
        offset = float(stored["offsets"][row, which])
        arrays = (stored[name][row, which] for name in ("vectors", "held_out", "margins"))
        vector, held_out, margins = arrays
        return Learnt(vector, offset, held_out, margins)

    return {int(number): (one(row, 0), one(row, 1)) for row, number in enumerate(stored["numbers"].tolist())}


def require_no_labels(texts: Sequence[str], spec: str, known: Sequence[Card]) -> None:
    """Refuse `label:NAME` where the encoder has learnt no labels, and say which trained ones know it."""
    for text in texts:
        label = said_label(text)
        if label is None:
            continue
        taught = {one.label: card.spec for card in reversed(known) for one in card.labels}  # the first one counts
        if label in taught:
            way_out = f"search by the method {taught[label]}"
        elif taught:
            raise QueryError(
                f"{LABEL_PREFIX}{label}: no label {label!r} has been learnt; there are: {', '.join(sorted(taught))}."
                f"{did_you_mean(label, sorted(taught))} Or teach it first: `wherein train NAME --from tags`."
            )
        else:
            way_out = "teach it first: `wherein train NAME --from tags`"
        raise QueryError(f"{LABEL_PREFIX}{label} is a trained label, and {spec} has learnt none: {way_out}.")


def _moved(vectors: Floats, move: Floats | None) -> Floats:
    return vectors if move is None else unit(vectors + vectors @ move)
