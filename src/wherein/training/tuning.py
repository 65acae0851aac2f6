"""From examples of labels to a fine-tuned model: whole images, what is in their boxes, and the texts of each label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.encoders import Encoder, load
from wherein.images.image import ImageLike, Pixels, decode
from wherein.training.examples import Examples, spoken
from wherein.training.full import Recipe, TrainingViews, fine_tune
from wherein.values.records import Progress
from wherein.values.region import Box
from wherein.values.training import Card

TEXTS_FIGURE: Final = "mean average precision by the labels' texts, held out"
MARGIN: Final = 0.2
"""How much of a box's sides is added around it: what surrounds a thing says what it is."""
BOXES_MOST: Final = 2
"""Boxes of one label in one image that are looked at, the largest ones: fish of one shoal teach little more, and each
takes as long as an image."""
LEAST_SIDE: Final = 0.03
"""Boxes with a shorter side, as a share of the image's, show too little of anything."""


def trained_full(
    card: Card,
    examples: Examples,
    encoder: Encoder,
    *,
    picture: Callable[[str], ImageLike],
    folder: Path,
    recipe: Recipe | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> tuple[Card, Path]:
    """The card with its figures, and the folder of the model, below `folder`; `picture` gives an image by its id.

    It changes the encoder, which must be one that serves nobody else.
    """
    shown = shown_of(examples, encoder, picture)

    def step(done: int, total: int) -> None:
        on_progress(Progress(done, total, stage=f"fine-tuning {card.name}"))

    model, history = fine_tune(encoder, shown, folder, seed=card.seed, recipe=recipe, on_step=step)
    rounds, crops = len(history.standings), len(shown.owners) - shown.whole
    notes = [f"{rounds} rounds, of which the model after {history.best} is kept; {crops:,} boxes were shown as images."]
    figures: tuple[tuple[str, float, float], ...] = ()
    if history.before or history.after:
        figures = ((TEXTS_FIGURE, history.before, history.after),)
    else:
        notes.append("Examples are too few to hold some out, so what it gained is not known.")
    if not history.best:
        notes.append("Held-out images gained nothing: the model is as it was.")
    else:
        notes.append(f"Usual texts keep a cosine of {history.kept:.3f} with what they were.")
    notes.append(f"Index with it first: `wherein index --encoder {card.spec}`.")
    return replace(card, figures=figures, notes=(*card.notes, *notes)), model


def shown_of(examples: Examples, encoder: Encoder, picture: Callable[[str], ImageLike]) -> TrainingViews:
    """Whole images, then what is in boxes: a crop shows its label, and none of the others that its image lacks."""
    crops = [
        (row, label, around(box))
        for (row, label), boxes in sorted(examples.boxes.items())
        for box in sorted(boxes, key=lambda one: one.area, reverse=True)[:BOXES_MOST]
        if min(box.x2 - box.x1, box.y2 - box.y1) >= LEAST_SIDE
    ]
    places: list[tuple[int, Box | None]] = [(row, None) for row in range(len(examples.image_ids))]
    places += [(row, box) for row, _, box in crops]
    marks = np.zeros((len(places), len(examples.labels)), np.int8)
    marks[: len(examples.image_ids)] = examples.marks
    for number, (row, label, _) in enumerate(crops, len(examples.image_ids)):
        marks[number] = np.where(examples.marks[row] == -1, -1, 0)  # others that the image shows may be in the crop
        marks[number, label] = 1

    def images(numbers: Sequence[int]) -> Pixels:
        read = {row: decode(picture(examples.image_ids[row])) for row in {places[number][0] for number in numbers}}
        cut = (read[row] if box is None else read[row].crop(box) for row, box in (places[one] for one in numbers))
        return np.stack([encoder.prepare(one) for one in cut])

    texts = tuple(
        examples.texts.get(label) or (f"a photo of {spoken(label)}", spoken(label)) for label in examples.labels
    )
    return TrainingViews(images, marks, len(examples.image_ids), [row for row, _ in places], texts)


def around(box: Box) -> Box:
    """A box with a margin, within the image."""
    wide, high = MARGIN * (box.x2 - box.x1), MARGIN * (box.y2 - box.y1)
    return Box(max(0.0, box.x1 - wide), max(0.0, box.y1 - high), min(1.0, box.x2 + wide), min(1.0, box.y2 + high))


def fine_tuned(spec: str, folder: Path, *, threads: int) -> Encoder:
    """The encoder of a fine-tuned model, called by the name it was trained as."""
    made: Any = load(f"{spec.partition(':')[0]}:{folder}", threads=threads)
    made.spec = spec
    encoder: Encoder = made
    return encoder
