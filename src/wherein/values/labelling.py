"""What trained labels say of images: predictions with confidence, tags that followed, and what people answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Prediction:
    """One label of one image, as it was learnt."""

    image_id: str
    label: str
    confidence: float | None
    """How likely the label is right; None where too few examples were held out to tell."""
    score: float
    """The cosine with the label's vector."""
    size_wh: tuple[int, int]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `asdict` wrote."""
        width, height = values["size_wh"]
        return cls(**{**values, "size_wh": (int(width), int(height))})


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a trained encoder says of the images of a collection, and what was done with it."""

    spec: str
    predictions: tuple[Prediction, ...]
    """By label, the surest first; only those that are sure enough."""
    tagged: int = 0
    """Images that got a tag, counted once for each tag."""
    left: int = 0
    """Images that would have got one, had not a person said something of them."""
    step: int | None = None
    """The number by which the tags can be taken back; None where nothing was tagged."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `to_dict` wrote."""
        predictions = tuple(Prediction.from_dict(one) for one in values["predictions"])
        return cls(**{**values, "predictions": predictions, "notes": tuple(values["notes"])})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said of a label of an image, and the number by which that can be taken back."""

    label: str
    image_id: str
    right: bool
    step: int
    told: str
    """What followed from it, in a sentence."""
