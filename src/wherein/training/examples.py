"""Labels as they are given (tags, COCO files, judgements) → which images are right and wrong examples of what.

What cannot be used is left out and said; where nothing is left to learn from, the error says why and the way out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.errors import InputError, RegionError, did_you_mean
from wherein.search.head import Marks
from wherein.values.judgement import ARROW
from wherein.values.region import Box

Resolve = Callable[[str], str | None]
"""The image_id that a name in a file means; None where the collection has no such image."""
_SHOWN: Final = 3
"""Names that a note lists, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Which images are right (1) and wrong (−1) examples of which label; 0 where nothing is said."""

    labels: tuple[str, ...]
    image_ids: tuple[str, ...]
    marks: Marks
    """(images, labels)"""
    boxes: Mapping[tuple[int, int], tuple[Box, ...]] = field(default_factory=dict)
    """(image, label) → where in the image it is, where that is known."""
    notes: tuple[str, ...] = ()
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """label → texts that describe it (its support set), where some are given."""

    def only(self, labels: Sequence[str]) -> Examples:
        """Those of these labels that there are; notes say which there are not."""
        gone = tuple(f"{label}: left out, no image bears it any more." for label in labels if label not in self.labels)
        kept = [number for number, label in enumerate(self.labels) if label in labels]
        boxes = {(row, kept.index(label)): boxes for (row, label), boxes in self.boxes.items() if label in kept}
        names, notes = tuple(self.labels[number] for number in kept), (*self.notes, *gone)
        return replace(self, labels=names, marks=self.marks[:, kept], boxes=boxes, notes=notes)

    def usable(self, wanted: Sequence[str] | None = None) -> Examples:
        """The labels that can be learnt, of those `wanted`; raises InputError where none can."""
        unknown = [label for label in wanted or () if label not in self.labels]
        if unknown:
            known = ", ".join(self.labels[:20]) or "none"
            raise InputError(f"label {unknown[0]!r}: is not in the data; there are: {known}.{_near(unknown[0], self)}")
        chosen = [number for number, label in enumerate(self.labels) if wanted is None or label in wanted]
        notes = list(self.notes)
        right, wrong = (self.marks == 1).sum(axis=0), (self.marks == -1).sum(axis=0)
        for number in chosen:
            lacking = "right" if not right[number] else "wrong" if not wrong[number] else ""
            if lacking:
                notes.append(f"{self.labels[number]}: left out, it has no {lacking} example.")
        kept = [number for number in chosen if right[number] and wrong[number]]
        if not kept:
            raise InputError(f"{_nothing_to_learn(self, chosen)}{''.join(' ' + note for note in self.notes)}")
        rows = np.flatnonzero((self.marks[:, kept] != 0).any(axis=1)).tolist()
        place = {(row, label): (a, b) for a, row in enumerate(rows) for b, label in enumerate(kept)}
        return replace(
            self,
            labels=tuple(self.labels[number] for number in kept),
            image_ids=tuple(self.image_ids[row] for row in rows),
            marks=self.marks[np.ix_(rows, kept)],
            boxes={place[key]: boxes for key, boxes in self.boxes.items() if key in place},
            notes=tuple(notes),
        )


def spoken(label: str) -> str:
    """A label as words: `traffic_cone` is read as “traffic cone”."""
    return label.replace("_", " ").strip()


def texts_of(examples: Examples, embed: Callable[[Sequence[str]], Floats]) -> Floats:
    """(labels, d) what each label means in words: the mean of the texts that describe it, or its name."""
    said = [examples.texts.get(label) or (spoken(label),) for label in examples.labels]
    found = embed([text for own in said for text in own])
    ends = np.cumsum([len(own) for own in said])[:-1]
    return unit(np.stack([own.sum(axis=0) for own in np.split(found, ends)]))


def from_tags(tagged: Mapping[str, Iterable[str]], *, given: Mapping[str, Sequence[str]] | None = None) -> Examples:
    """Tags and the ids that bear each: an image with a tag shows it, one with other tags only does not.

    Tags that a label has `given` say nothing: nobody learns from its own guesses.
    """
    guessed = {tag: frozenset(image_ids) for tag, image_ids in (given or {}).items()}
    bearers = {tag: frozenset(image_ids) - guessed.get(tag, frozenset()) for tag, image_ids in tagged.items()}
    labels, image_ids = tuple(sorted(bearers)), sorted(frozenset[str]().union(*bearers.values()))
    marks = np.full((len(image_ids), len(labels)), -1, np.int8)
    for number, label in enumerate(labels):
        marks[[image_id in guessed.get(label, ()) for image_id in image_ids], number] = 0
        marks[[image_id in bearers[label] for image_id in image_ids], number] = 1
    return Examples(labels, tuple(image_ids), marks)


def with_answers(examples: Examples, said: Mapping[str, Mapping[str, bool]]) -> Examples:
    """The examples and what people answered since: label → image_id → whether it is right. An answer counts more."""
    columns = {label: number for number, label in enumerate(examples.labels)}
    told = [(label, *one) for label, images in said.items() if label in columns for one in images.items()]
    rows = {image_id: row for row, image_id in enumerate(examples.image_ids)}
    for _, image_id, _ in told:
        rows.setdefault(image_id, len(rows))
    marks = np.zeros((len(rows), len(columns)), np.int8)
    marks[: len(examples.image_ids)] = examples.marks
    for label, image_id, right in told:
        marks[rows[image_id], columns[label]] = 1 if right else -1
    return replace(examples, image_ids=tuple(rows), marks=marks)


def as_numbers(examples: Examples) -> dict[str, Any]:
    """Examples as arrays, kept with what they taught."""
    names = {"taught_labels": examples.labels, "taught_ids": examples.image_ids}
    names |= {"taught_texts": tuple(json.dumps(examples.texts.get(label, ())) for label in examples.labels)}
    placed = [(*key, box.x1, box.y1, box.x2, box.y2) for key, boxes in examples.boxes.items() for box in boxes]
    found = {key: np.array(values, np.str_) for key, values in names.items()}
    return found | {"taught": examples.marks, "taught_boxes": np.array(placed, np.float64).reshape(-1, 6)}


def from_numbers(numbers: Mapping[str, Any]) -> Examples:
    """The examples that something was taught with; none where it was trained before they were kept."""
    names = ("taught_labels", "taught_ids")
    labels, image_ids = (tuple(map(str, numbers.get(name, np.zeros(0)).tolist())) for name in names)
    marks = np.asarray(numbers.get("taught", np.zeros((0, len(labels)))), np.int8)
    boxes = defaultdict[tuple[int, int], list[Box]](list)
    for row, label, *sides in np.asarray(numbers.get("taught_boxes", np.zeros((0, 6)))).tolist():
        boxes[int(row), int(label)].append(Box(*sides))
    said = zip(labels, numbers.get("taught_texts", np.zeros(0)).tolist(), strict=False)
    texts = {label: tuple(map(str, own)) for label, own in ((label, json.loads(text)) for label, text in said) if own}
    return Examples(labels, image_ids, marks, {key: tuple(own) for key, own in boxes.items()}, texts=texts)


def from_judgements(judged: Iterable[Mapping[str, Sequence[float]]]) -> Examples:
    """Judged hits by name, as a collection keeps them: each query is a label, its ✓ are right and its ✗ wrong."""
    said = dict[tuple[str, str], int]()
    for hits in judged:
        for name, (_, right) in hits.items():
            query, _, image_id = name.rpartition(ARROW)
            said[query, image_id] = 1 if right else -1
    if not said:
        raise InputError("there is nothing to learn from: no hit has been judged right or wrong yet.")
    labels, image_ids = tuple(sorted({q for q, _ in said})), tuple(sorted({i for _, i in said}))
    columns, rows = ({name: number for number, name in enumerate(names)} for names in (labels, image_ids))
    marks = np.zeros((len(image_ids), len(labels)), np.int8)
    for (query, image_id), mark in said.items():
        marks[rows[image_id], columns[query]] = mark
    return Examples(labels, image_ids, marks)


def read_coco(path: Path) -> dict[str, Any]:
    """The document of a COCO file."""
    try:
        document = json.loads(path.expanduser().read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON ({error}).") from error
    return document if isinstance(document, dict) else {}


def from_coco(document: Mapping[str, Any], resolve: Resolve, *, name: str) -> Examples:
    """A COCO document: an image shows what its annotations say, and nothing else of the document's categories.

    Images that the collection lacks and boxes without an area are left out, and said. A category may have `texts` that
    describe it beside its name.
    """
    try:
        categories = {int(one["id"]): str(one["name"]) for one in document["categories"]}
        texts = {str(one["name"]): tuple(map(str, one["texts"])) for one in document["categories"] if one.get("texts")}
        images = {int(one["id"]): one for one in document["images"]}
        annotations = [dict(one) for one in document["annotations"]]
        found = {number: resolve(str(one["file_name"])) for number, one in images.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        said = '"images", "categories" and "annotations" lists'
        raise InputError(f"{name}: is no COCO file ({error!r}); it needs {said}.") from error
    unnamed = [number for number, label in categories.items() if not spoken(label)]
    if unnamed:
        raise InputError(f"{name}, category {unnamed[0]}: has no name, so nobody could ask for it. Give it one.")
    labels = tuple(sorted(set(categories.values())))
    image_ids = tuple(sorted({image_id for image_id in found.values() if image_id is not None}))
    rows, columns = ({own: number for number, own in enumerate(names)} for names in (image_ids, labels))
    marks = np.full((len(image_ids), len(labels)), -1, np.int8)
    boxes, empty = defaultdict[tuple[int, int], list[Box]](list), 0
    for one in annotations:
        box: Box | None = None
        try:
            image, label = images[int(one["image_id"])], columns[categories[int(one["category_id"])]]
            box = _box(one, image)
            mark = 1
        except RegionError:
            empty, mark = empty + 1, 0
        except (KeyError, TypeError, ValueError) as error:
            said = _unread(one, images, categories)
            raise InputError(f"{name}, annotation {one.get('id', '?')}: {said}. Mend it, or leave it out.") from error
        image_id = found[int(image["id"])]
        if image_id is not None:
            key = (rows[image_id], label)
            marks[key] = max(marks[key], mark)  # an empty box neither shows it nor shows that it is not there
            if box is not None:
                boxes[key].append(box)
    notes = _left([str(images[number]["file_name"]) for number, own in found.items() if own is None], total=len(images))
    if empty:
        notes += (f"{empty:,} annotations were left out: their boxes are empty or outside the image.",)
    return Examples(labels, image_ids, marks, {key: tuple(own) for key, own in boxes.items()}, notes, texts)


def _unread(annotation: Mapping[str, Any], images: Mapping[int, Any], categories: Mapping[int, str]) -> str:
    """Why an annotation cannot be read."""
    for key, known, where in (("image_id", images, "images"), ("category_id", categories, "categories")):
        if key not in annotation:
            return f'has no "{key}"'
        if annotation[key] not in known:
            return f'its {key} {annotation[key]!r} is not among the file\'s "{where}"'
    return f"its bbox {annotation.get('bbox')!r} is not four numbers: x, y, width, height in pixels"


def _box(annotation: Mapping[str, Any], image: Mapping[str, Any]) -> Box | None:
    """Where an annotation is; None where it is of the whole image."""
    if annotation.get("bbox") is None or not image.get("width") or not image.get("height"):
        return None
    x, y, width, height = (float(value) for value in annotation["bbox"])
    wide, high = float(image["width"]), float(image["height"])
    corners = [x / wide, y / high, (x + width) / wide, (y + height) / high]
    return Box(*(min(max(value, 0.0), 1.0) for value in corners))


def _left(names: Sequence[str], *, total: int) -> tuple[str, ...]:
    if not names:
        return ()
    shown = ", ".join(names[:_SHOWN]) + ("" if len(names) <= _SHOWN else ", …")
    return (f"{len(names):,} of {total:,} images of the file are not in the collection and were left out: {shown}.",)


def _nothing_to_learn(examples: Examples, chosen: Sequence[int]) -> str:
    if not chosen or not (examples.marks[:, chosen] == 1).any():
        return "there is nothing to learn from: no image of the collection bears a label."
    named = ", ".join(examples.labels[number] for number in chosen[:_SHOWN])
    return (
        f"only one label is there ({named}), so nothing says what is not one: mark some images that show something "
        "else, with any other tag, or with ✗."
    )


def _near(label: str, examples: Examples) -> str:
    return did_you_mean(label, examples.labels)
