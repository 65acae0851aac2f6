"""Training and labels of a served collection: the same calls as of a local one, over HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import quote

from wherein.errors import InputError
from wherein.options import DEFAULT_CUT, Filters, flag, only_filters, several
from wherein.values.labelling import Answer, Predicted, Prediction
from wherein.values.method import Method
from wherein.values.query import Part, marked
from wherein.values.records import Progress
from wherein.values.training import Card

if TYPE_CHECKING:
    from wherein.door import Door


class RemoteLearning:
    """What a served collection learns, and what its labels say."""

    _door: Door
    _base: str

    def thumb(self, image_id: str) -> bytes:
        """A small JPEG of an image."""
        return self._door.content("GET", f"{self._base}/thumb", query={"image_id": image_id})

    def _followed(self, job: dict[str, Any], on_progress: Callable[[Progress], None]) -> dict[str, Any]:
        """The report of a job when it has ended."""
        raise NotImplementedError

    def train(
        self,
        name: str,
        source: str | os.PathLike[str] | Mapping[str, Any] = "tags",
        *,
        encoder: str | None = None,
        kind: str = "head",
        labels: Sequence[str] | None = None,
        seed: int = 0,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> Card:
        """As `Collection.train`; a COCO file is read here and sent."""
        given = _document(source) if Path(str(source)).suffix.lower() == ".json" else source
        body = {"name": name, "source": given, "encoder": encoder, "kind": kind, "seed": seed}
        body |= {"labels": None if labels is None else list(labels)}
        job = self._door.json("POST", f"{self._base}/train", body=body)
        return Card.from_dict(self._followed(job, on_progress))

    def trained(self) -> list[Card]:
        """As `Collection.trained`."""
        return [Card.from_dict(one) for one in self._door.json("GET", f"{self._base}/trained")]

    def export_trained(self, name: str) -> bytes:
        """As `Collection.export_trained`."""
        return self._door.content("GET", self._at(name))

    def remove_trained(self, name: str) -> None:
        """As `Collection.remove_trained`."""
        self._door.json("DELETE", self._at(name))

    def label(
        self,
        name: str,
        *,
        labels: Sequence[str] | None = None,
        min_confidence: float = DEFAULT_CUT,
        tag: bool = False,
        **filters: Unpack[Filters],
    ) -> Predicted:
        """As `Collection.label`."""
        only_filters(filters)
        wanted, passing = None if labels is None else list(labels), as_sent(filters)
        if tag or wanted == []:  # an address cannot name no label; to tag with none changes nothing
            body = {"labels": wanted, "min_confidence": min_confidence} | passing
            return Predicted.from_dict(self._door.json("POST", f"{self._at(name)}/tags", body=body))
        query = {"label": wanted, "min_confidence": min_confidence} | passing
        return Predicted.from_dict(self._door.json("GET", f"{self._at(name)}/labels", query=query))

    def review(self, name: str, label: str, *, k: int = 20) -> list[Prediction]:
        """As `Collection.review`."""
        found = self._door.json("GET", f"{self._at(name)}/review", query={"label": label, "limit": k})
        return [Prediction.from_dict(one) for one in found]

    def answer(self, name: str, label: str, image_id: str, *, right: bool) -> Answer:
        """As `Collection.answer`."""
        flag("right", right)
        body = {"label": label, "image_id": image_id, "right": right}
        return Answer(**self._door.json("POST", f"{self._at(name)}/answers", body=body))

    def unlabel(self, step: int | None = None) -> str:
        """As `Collection.unlabel`."""
        return str(self._door.json("POST", f"{self._base}/untag-labels", body={"step": step})["changed"])

    def marks(self, *, right: Iterable[str] = (), wrong: Iterable[str] = ()) -> tuple[Part, ...]:
        """As `Collection.marks`."""
        each = [(image_id, True) for image_id in right] + [(image_id, False) for image_id in wrong]
        return tuple(marked(image_id, self.thumb(image_id), right=is_right) for image_id, is_right in each)

    def _at(self, name: str) -> str:
        return f"{self._base}/trained/{quote(name, safe='')}"


def _document(source: object) -> Any:
    path = Path(str(source)).expanduser()
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error}).") from error


def as_sent(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON has them: methods and dates as they are written, a lone tag as a list."""
    lists = {name: several(name, given[name]) for name in ("tags", "among") if given.get(name) is not None}
    return {
        name: str(value) if isinstance(value, Method | date | os.PathLike) else value for name, value in given.items()
    } | lists
