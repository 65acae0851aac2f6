"""What is asked: a query is a list of parts. It prints as it is written.

red car^2                     a text, weighted
photo.jpg#0.1,0.2,0.5,0.9     a region of an example image
photo.jpg#mask=dog.png        the pixels of an example that are white in another picture
clip.mp4#t=4                  the frame of a video at that second, as a hit's id says it
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.arrays import Mask
from wherein.errors import InputError, QueryError
from wherein.files import expanded
from wherein.images.image import ImageLike, decode, is_image_like
from wherein.images.picture import IMAGE_SUFFIXES
from wherein.images.video import frame_at, is_video, split_frame
from wherein.values.masks import MaskLike, mask_box, read_mask
from wherein.values.region import Box, place, split_place
from wherein.values.training import said_label

_WEIGHT: Final = re.compile(r"^(?P<rest>.+)\^(?P<weight>[-+]?\d*\.?\d+)$", re.DOTALL)
_MASK: Final = re.compile(r"^(?P<file>.+)#mask=(?P<mask>.+)$", re.DOTALL)
_BOX: Final = re.compile(r"^(?P<file>.+)#(?P<box>[-+0-9.,eE ]+)$", re.DOTALL)

# Rocchio's classical weights: what is right counts nearly as much as the query, what is wrong much less.
RIGHT_WEIGHT: Final = 0.75
"""How much a mark ✓ counts beside the query: Rocchio's classical weights, where what is wrong counts much less."""
WRONG_WEIGHT: Final = 0.25
"""How much a mark ✗ counts against what is looked for, by the same classical weights."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One thing to look for, or to avoid: a text, or an image or a region of it."""

    text: str | None = None
    image: ImageLike | None = None
    box: Box | None = None
    weight: float = 1.0
    negative: bool = False
    where: Box | None = None
    """Where in the searched images it should be."""
    said_where: str | None = None
    """The words of the text that were read as a place, so that they can be shown."""
    mask: MaskLike | None = None
    """The pixels of the example that are meant: bool (h, w) at any resolution of its aspect, or a picture of them."""
    name: str | None = None
    """What the image is called; None: its id, the path of its file, or `image`."""
    image_id: str | None = None
    """Which image of the searched collection it is; a search learns from several of those (docs/search.md)."""

    def __post_init__(self) -> None:
        if (self.text is None) == (self.image is None):
            raise QueryError("a part of a query is either a text or an image: give exactly one.")
        if not isinstance(self.text, str | None):
            raise QueryError(f"text = {self.text!r}: is no text. An example is given as image.")
        if self.text is not None and not self.text.strip():
            raise QueryError("a text part is empty: say what to look for.")
        if self.image is not None and not is_image_like(self.image):
            raise QueryError(f"image = {self.image!r}: an example is a path, bytes, an array or a PIL image.")
        if not isinstance(self.box, Box | None):
            raise QueryError(f"box = {self.box!r}: a box is a Box, as wherein.Box(0, 0, 0.5, 1).")
        if self.box is not None and self.image is None:
            raise QueryError("a box belongs to an example image: give the part an image.")
        if self.image_id is not None and self.image is None:
            raise QueryError(f"image_id = {self.image_id!r}: belongs to an example image: give the part an image.")
        if self.mask is not None and (self.image is None or self.box is not None):
            raise QueryError("a mask belongs to an example image, and says more than a box: give the image and no box.")
        if not isinstance(self.where, Box | None):
            raise QueryError(f"a place is a Box: write where=wherein.place({self.where!r}).")
        if not isinstance(self.weight, Real) or not 0.0 < self.weight < float("inf"):
            raise QueryError(
                f"weight = {self.weight!r}: is no number above zero. What is to be avoided is a negative part."
            )

    def __str__(self) -> str:
        if self.text is not None:
            words = self.text
        else:
            words = self._called
            words += "" if self.box is None else f"#{self.box}"
            if self.mask is not None:
                words += "#mask" + ("" if isinstance(self.mask, np.ndarray) else f"={os.fspath(self.mask)}")
        weight = "" if self.weight == 1.0 else f"^{self.weight:g}"
        where = "" if self.where is None else f" @ {self.said_where or self.where}"
        return f"{'-' if self.negative else ''}{words}{weight}{where}"

    @property
    def _called(self) -> str:
        if self.name is not None or self.image_id is not None:
            return self.name or self.image_id or "image"
        return os.fspath(self.image) if isinstance(self.image, str | os.PathLike) else "image"

    @property
    def label(self) -> str:
        """What is looked for in clean words: the text, or the name of the example's file."""
        return self.text.strip() if self.text is not None else posixpath.basename(self._called) or "image"

    @property
    def trained_label(self) -> str | None:
        """The trained label that is asked for, as `label:pylon`; None for plain words and images."""
        return said_label(self.text)

    def pixels(self) -> Mask | None:
        """The mask, read and checked; None where the part has none."""
        return None if self.mask is None else read_mask(self.mask)

    @property
    def is_mark(self) -> bool:
        """Whether it is an image of the collection that a person marked, as `marked` makes it."""
        weight = WRONG_WEIGHT if self.negative else RIGHT_WEIGHT
        return self.image_id is not None and self.is_whole and self.where is None and self.weight == weight

    @property
    def is_whole(self) -> bool:
        """Whether the whole example is meant, and no box or mask of it; no file is read to tell."""
        return self.box is None and self.mask is None

    @property
    def region(self) -> Box | None:
        """The box of the example that is meant, its own or the one around its mask; None is the whole image."""
        mask = self.pixels()
        return self.box if mask is None else mask_box(mask)


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """Parts that are looked for together; at least one of them is positive."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise QueryError("the query is empty: give a text or an example image.")
        if all(part.negative for part in self.parts):
            raise QueryError("the query only says what to avoid: add a text or an image to look for.")

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))

    @property
    def label(self) -> str:
        """What is looked for in clean words, without weights, places and what is to be avoided."""
        return ", ".join(dict.fromkeys(part.label for part in self.parts if not part.negative))

    @classmethod
    def of(cls, query: Query | Part | ImageLike | Sequence[Any]) -> Query:
        """From a query, a part, a text, an image, or a sequence of those; a str is a text, a Path an image."""
        if isinstance(query, Query):
            return query
        if isinstance(query, list | tuple):
            return cls(tuple(p for item in query for p in ((item,) if isinstance(item, Part) else cls.of(item).parts)))
        if isinstance(query, Part):
            return _lone(query)
        if isinstance(query, str):
            return cls((parse_text(query),))
        if isinstance(query, os.PathLike):
            return cls((_example(os.fsdecode(query)),))
        if not is_image_like(query):
            raise QueryError(
                f"cannot search for a {type(query).__name__}: give a text, an image (a Path, bytes, an array, a PIL "
                "image), a Part, or a list of those."
            )
        return cls((Part(image=query),))  # type: ignore[arg-type]


def marked(image_id: str, image: ImageLike, *, right: bool) -> Part:
    """An image of the collection that a person marked as right (✓) or wrong (✗), as a part of a query."""
    return Part(image=image, weight=RIGHT_WEIGHT if right else WRONG_WEIGHT, negative=not right, image_id=image_id)


def parse_text(text: str) -> Part:
    """`red car^2` → a text part of weight 2; `a fish in the upper left` → `a fish`, to be there."""
    words, weight = _weighted(text)
    what, said = split_place(words)
    return Part(text=what, weight=weight, where=None if said is None else place(said), said_where=said)


def parse_image(text: str) -> Part:
    """`photo.jpg#x1,y1,x2,y2^0.5`, `photo.jpg#mask=dog.png` or `clip.mp4#t=4` → an image part."""
    if "\0" in text:
        raise QueryError(f"{text!r}: is no file's name.")
    # os.path, not Path.exists: a text longer than any file's name is no file rather than an error.
    name, weight = (text, 1.0) if os.path.exists(text) else _weighted(text)  # noqa: PTH110
    known = os.path.exists(name)  # noqa: PTH110
    masked = None if known else _MASK.match(name)
    if masked is not None:
        mask = expanded(masked["mask"])
        read_mask(mask)  # what cannot be read is told before anything is searched
        return replace(_example(masked["file"]), mask=mask, weight=weight)
    found = None if known else _BOX.match(name)
    if found is None:
        return replace(_example(name), weight=weight)
    return replace(_example(found["file"]), box=Box.parse(found["box"]), weight=weight)


def _example(name: str) -> Part:
    """A file as an example; `clip.mp4#t=4` is the frame at that second, where no file but such a video is there."""
    path, frame = expanded(name), split_frame(name)
    film = name.rpartition("#t=")[0] or name
    if frame is None and is_video(film) and os.path.isfile(os.path.expanduser(film)):  # noqa: PTH111, PTH113
        raise QueryError(f"{name}: is a video. Say which second of it is meant, as {film}#t=4.")
    if frame is None or os.path.exists(path) or not os.path.isfile(os.path.expanduser(frame[0])):  # noqa: PTH110, PTH111, PTH113
        return Part(image=path)
    return Part(image=frame_at(expanded(frame[0]), frame[1]).pixels, name=name)


def parse_negative(text: str, *, ids: bool = False) -> Part:
    """A text, or an image where a file of that name exists, to avoid; with `ids` the id of an image may be named."""
    part = parse_image(text)
    if part.name is not None:
        return replace(part, negative=True)
    file = Path(str(part.image))
    if os.path.isfile(file) or (ids and file.suffix.lower() in IMAGE_SUFFIXES):  # noqa: PTH113
        return replace(part, negative=True)
    if part.region is not None or file.suffix.lower() in IMAGE_SUFFIXES:
        raise QueryError(f"{file}: there is no such file to avoid. Check its path.")
    return replace(parse_text(text), negative=True)


def read_query(path: Path) -> Query:
    """A query file: a whole support set. Ours, or one of SearchAD's default queries.

    Ours: {"parts": [{"text": …}, {"image": FILE, "box": [x1, y1, x2, y2]}, …]}, each part with an optional weight,
    "negative": true, and "where": a box or a word such as "top-left". A "mask", a picture of the meant pixels, may
    stand in place of the box. Files are looked for beside the query file, then beside its folder.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise QueryError(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise QueryError(f"{path}: is not JSON ({error}).") from error
    return query_of(document, path)


def query_of(document: Any, path: Path) -> Query:
    """The query that a document from the file `path` holds."""
    if isinstance(document, dict) and "supportsets" in document:
        try:
            return Query(tuple(_searchad_parts(document["supportsets"], path)))
        except InputError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise QueryError(f"{path}: its supportsets are not as SearchAD writes them.") from error
    if not isinstance(document, dict) or not isinstance(document.get("parts"), list):
        raise QueryError(f'{path}: has no "parts" list; write {{"parts": [{{"text": "red car"}}]}}.')
    return Query(tuple(_part(values, path, number) for number, values in enumerate(document["parts"], 1)))


def _part(values: Any, path: Path, number: int) -> Part:
    known = {"text", "image", "box", "mask", "where", "weight", "negative"}
    if not isinstance(values, dict) or not values.keys() <= known:
        raise QueryError(f"{path}: part {number} may hold {', '.join(sorted(known))} and nothing else.")
    if not isinstance(values.get("text", ""), str):
        raise QueryError(f"{path}: part {number}: its text is not in quotes.")
    try:
        box = _box(values["box"]) if values.get("box") is not None else None
        image = _beside(path, str(values["image"])) if "image" in values else None
        said = values.get("where")
        where = None if said is None else place(said) if isinstance(said, str) else _box(said)
        weight, negative = values.get("weight", 1.0), values.get("negative", False)
        if not _is_number(weight):
            raise QueryError(f"its weight {weight!r} is not a number.")
        if not isinstance(negative, bool):
            raise QueryError(f"negative is {negative!r}: write true or false, without quotes.")
        mask = _beside(path, str(values["mask"])) if values.get("mask") is not None else None
        return Part(values.get("text"), image, box, weight, negative, where, mask=mask)
    except InputError as error:
        raise QueryError(f"{path}: part {number}: {error}") from error


def _box(values: Any) -> Box:
    if not isinstance(values, list) or len(values) != 4 or not all(map(_is_number, values)):
        raise QueryError(f"{json.dumps(values)} is not a box: write [x1, y1, x2, y2] in [0, 1].")
    return Box(*values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _searchad_parts(supports: Any, path: Path) -> Iterator[Part]:
    """Texts and example boxes of a SearchAD default query; its boxes are pixels."""
    for text in _strings(supports.get("language", {})):
        yield Part(text=text)
    for name, boxes in supports.get("vision", {}).items():
        image = _beside(path, name)
        size_wh = decode(image).full_wh
        for entry in boxes:
            corners = [float(entry["bbox"][key]) for key in ("min_x", "min_y", "max_x", "max_y")]
            yield Part(image=image, box=Box.from_pixels(corners, size_wh=size_wh))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _beside(path: Path, name: str) -> Path:
    for folder in (path.parent, path.parent.parent):
        if (folder / name).is_file():
            return folder / name
    raise QueryError(f"{path}: example {name} is neither beside it nor beside its folder.")


def _weighted(text: str) -> tuple[str, float]:
    found = _WEIGHT.match(text)
    return (found["rest"], float(found["weight"])) if found else (text, 1.0)


def _lone(part: Part) -> Query:
    return Query((part,))
