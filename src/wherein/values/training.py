"""What training says of itself: a card of the data, the figures before and after, and what got worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

LABEL_PREFIX: Final = "label:"
"""How a trained label is written in a query: `label:pylon`."""


def said_label(text: str | None) -> str | None:
    """The trained label that a text names; None where it is plain words."""
    if text is None or not text.strip().lower().startswith(LABEL_PREFIX):
        return None
    return text.strip()[len(LABEL_PREFIX) :].strip()


@dataclass(frozen=True, slots=True)
class LabelFigures:
    """What is known of one label: its examples, and how high right ones stand, from 0 to 1.

    Each right example is held out and compared with the wrong ones: 1 where it scores above all of them, 1 / 2 where
    one is above it, and so on; the figures are means of that. None where there are too few examples to tell.
    """

    label: str
    right: int
    wrong: int
    by_text: float | None
    by_average: float | None
    trained: float | None
    confident: bool
    """Whether hits get a confidence."""

    @property
    def before(self) -> float | None:
        """The better of what the label's text and the mean of its examples give without training."""
        known = [figure for figure in (self.by_text, self.by_average) if figure is not None]
        return max(known) if known else None

    @property
    def worse(self) -> bool:
        """Whether its examples stand lower than without training."""
        return self.trained is not None and self.before is not None and self.trained < self.before - 1e-9


@dataclass(frozen=True, slots=True)
class Card:
    """What was trained, from what, and what came of it."""

    name: str
    encoder: str
    """The spec of the encoder that it was trained on."""
    digest: str
    """The weights of that encoder."""
    kind: str
    """What was trained: `head`, `adapter` or `full`."""
    source: str
    """Where the labels came from, in a word: `tags`, `judgements`, or the name of a file."""
    made: str
    """The day, as 2026-01-31."""
    seed: int
    images: int
    labels: tuple[LabelFigures, ...]
    notes: tuple[str, ...] = ()
    """What was left out of the data, and what a person should know, in sentences."""
    figures: tuple[tuple[str, float, float], ...] = ()
    """What else was measured on the part that was held out: its name, before, after."""
    seconds: float = 0.0

    @property
    def spec(self) -> str:
        """How it is named in a method: `mini:NAME`."""
        return f"{self.encoder}:{self.name}"

    @property
    def worse(self) -> tuple[str, ...]:
        """What got worse, by name."""
        labels = [one.label for one in self.labels if one.worse]
        return (*labels, *(name for name, before, after in self.figures if after < before - 1e-9))

    def to_dict(self) -> dict[str, Any]:
        """The card as JSON has it."""
        return asdict(self) | {"spec": self.spec, "worse": list(self.worse)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The card that `to_dict` wrote."""
        labels = tuple(LabelFigures(**one) for one in values["labels"])
        rest = {key: value for key, value in values.items() if key not in ("spec", "worse", "labels")}
        figures = tuple((str(name), float(before), float(after)) for name, before, after in values["figures"])
        return cls(**rest | {"labels": labels, "notes": tuple(values["notes"]), "figures": figures})


def lines_of(card: Card) -> Sequence[str]:
    """The card for people, line by line."""
    said = [f"{card.spec}: a {card.kind} from {card.source}, {card.images:,} images, seed {card.seed}, {card.made}"]
    if card.labels:
        said.append(f"{'label':<24} {'right':>6} {'wrong':>6} {'text':>6} {'mean':>6} {'trained':>8}")
    for one in card.labels:
        figures = (_percent(one.by_text), _percent(one.by_average), _percent(one.trained))
        marks = "  worse than before" if one.worse else "" if one.confident else "  no confidence"
        row = f"{one.label:<24} {one.right:>6,} {one.wrong:>6,} {figures[0]:>6} {figures[1]:>6} {figures[2]:>8}{marks}"
        said.append(row)
    said += [f"{name}: {before:.4f} before, {after:.4f} after" for name, before, after in card.figures]
    return (*said, *card.notes)


def _percent(figure: float | None) -> str:
    return "–" if figure is None else f"{100 * figure:.1f}"
