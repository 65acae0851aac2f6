"""From examples of labels to an adapter: names and images that are asked with are moved, each where that helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import Encoder
from wherein.errors import InputError
from wherein.search.bank import Bank
from wherein.search.head import Usual
from wherein.training.adapter import Move, alike, learn_move
from wherein.training.examples import Examples, texts_of
from wherein.training.kept import Arrays, Checkpoint
from wherein.values.records import Progress
from wherein.values.training import Card

MOST_IMAGES: Final = 512
"""Example images that are compared with each other, at most: a step then takes 10 ms."""
NAMES_FIGURE: Final = "mean average precision by the label's name, held out"
IMAGES_FIGURE: Final = "mean average precision by an example image, held out"


def trained_adapter(
    card: Card,
    base: Encoder,
    examples: Examples,
    rows: Floats,
    *,
    usual: Usual,
    bank: Bank | None,
    checkpoint: Checkpoint,
    on_progress: Callable[[Progress], None],
) -> tuple[Card, Arrays]:
    """The numbers of an adapter of these examples (n, d), and the card with its figures."""
    if not base.embeds_text:
        raise InputError(f"{base.spec}: reads no texts, so there are no names to adapt. Train a head: the kind head.")
    texts = texts_of(examples, base.texts)
    known = np.concatenate([kind.rows for kind in bank.kinds]) if bank is not None else texts[:0]
    done = checkpoint.read() or {}
    moves, figures, notes = dict[str, Move](), list[tuple[str, float, float]](), list[str]()
    for half, (name, figure) in enumerate((("text_move", NAMES_FIGURE), ("image_move", IMAGES_FIGURE))):

        def step(now: int, total: int, half: int = half) -> None:
            on_progress(Progress(half * total + now, 2 * total, stage=f"learning {card.name}"))

        if f"{name}.figures" in done:
            moves[name] = _read(done, name)
        elif name == "text_move":
            moves[name] = learn_move(texts, rows, examples.marks.T, known, seed=card.seed, on_step=step)
        else:
            some = np.random.default_rng(card.seed).permutation(len(rows))[:MOST_IMAGES]
            images, marks = rows[some], alike(examples.marks[some])
            moves[name] = learn_move(images, images, marks, usual.sample, seed=card.seed, on_step=step)
        done |= _written(moves[name], name)
        checkpoint.write(done)
        figures.append((figure, moves[name].before, moves[name].after))
        notes.append(_note(moves[name], "texts" if name == "text_move" else "images"))
    checkpoint.clear()
    numbers = {name: move.matrix for name, move in moves.items() if not move.abstains}
    return replace(card, figures=tuple(figures), notes=(*card.notes, *notes)), dict(numbers)


def _note(move: Move, what: str) -> str:
    if move.abstains:
        return f"{what} are asked with as before: held-out examples gained nothing."
    return f"{what} are moved, after {move.steps} steps; usual {what} keep a cosine of {move.kept:.4f} with themselves."


def _written(move: Move, name: str) -> Arrays:
    figures = np.array([move.before, move.after, move.kept, move.steps], np.float64)
    return {name: move.matrix, f"{name}.figures": figures}


def _read(done: Arrays, name: str) -> Move:
    before, after, kept, steps = done[f"{name}.figures"].tolist()
    return Move(np.asarray(done[name], np.float32), before, after, kept, int(steps))
