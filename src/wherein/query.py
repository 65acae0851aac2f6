"""What is asked: a query is a list of parts, and a method says how to search. Both print as they are written.

red car^2                     a text, weighted
photo.jpg#0.1,0.2,0.5,0.9     a region of an example image
photo.jpg#mask=dog.png        the pixels of an example that are white in another picture
mini+patches~max              a method: an encoder, how it is searched, options
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from wherein.encoders import families
from wherein.errors import QueryError, RegionError, SpecError
from wherein.image import ImageLike, decode
from wherein.kernels import KERNELS
from wherein.localizers import KEYPOINTS, LOCALIZERS, SEGMENTER
from wherein.masks import Mask, MaskLike, mask_box, read_mask
from wherein.region import Box, Grid, place, split_place

SEARCHES: Final = ("whole", "append-short", "append-long", "patches", "proposals", "pyramid", "theoretical")
GRIDS: Final = "static-5, static-9, static-36, static-9@OVERLAP"
OPTIONS: Final = {
    "cells": ("soft", "best", "any"),
    "fill": ("patch", "crop"),
    "support": ("mean", "max"),
    "pooling": ("summary", "gaussian"),
    "context": ("beside", "alone"),
    "localizer": ("auto", *LOCALIZERS),
    "outline": ("refined", "coarse"),
    "weighting": ("alpha", "average", "ranked"),
    "matcher": ("nearest", "learned"),
    "model": ("homography", "affine", "fundamental"),
}
STEPS: Final[dict[str, str]] = {
    "locate": "wherein.locating:LOCATE",
    "segrank": "wherein.locating:SEGRANK",
    "sp": "wherein.reranking:SP",
    "qe": "wherein.reranking:QE",
    "diffusion": "wherein.reranking:DIFFUSION",
    "propagate": "wherein.reranking:PROPAGATE",
}
"""What is done with a ranking: word → `module:function`, a `wherein.search.Step`."""
AUGMENT: Final = "dba"
"""Database-side augmentation: every image's embedding moved towards its neighbours', before anything is asked."""
WHERE_SEARCH: Final = "static-36"
"""What a query with a place is searched with when no method is named."""
_WEIGHT: Final = re.compile(r"^(?P<rest>.+)\^(?P<weight>\d+(?:\.\d+)?)$", re.DOTALL)
_MASK: Final = re.compile(r"^(?P<file>.+)#mask=(?P<mask>.+)$", re.DOTALL)
_BOX: Final = re.compile(r"^(?P<file>.+)#(?P<box>[-+0-9.,eE ]+)$", re.DOTALL)


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

    def __post_init__(self) -> None:
        if (self.text is None) == (self.image is None):
            raise QueryError("a part of a query is either a text or an image: give exactly one.")
        if self.text is not None and not self.text.strip():
            raise QueryError("a text part is empty: say what to look for.")
        if self.box is not None and self.image is None:
            raise QueryError("a box belongs to an example image: give the part an image.")
        if self.mask is not None and (self.image is None or self.box is not None):
            raise QueryError("a mask belongs to an example image, and says more than a box: give the image and no box.")
        if not isinstance(self.where, Box | None):
            raise QueryError(f"a place is a Box: write where=wherein.place({self.where!r}).")
        if not 0.0 < self.weight < float("inf"):
            raise QueryError(f"weight {self.weight:g} is not positive; to avoid something, use --not.")

    def __str__(self) -> str:
        if self.text is not None:
            words = self.text
        else:
            named = isinstance(self.image, str | os.PathLike)
            words = os.fspath(self.image) if named else "image"  # type: ignore[arg-type]
            words += "" if self.box is None else f"#{self.box}"
            if self.mask is not None:
                words += "#mask" + ("" if isinstance(self.mask, np.ndarray) else f"={os.fspath(self.mask)}")
        weight = "" if self.weight == 1.0 else f"^{self.weight:g}"
        where = "" if self.where is None else f" @ {self.said_where or self.where}"
        return f"{'-' if self.negative else ''}{words}{weight}{where}"

    def pixels(self) -> Mask | None:
        """The mask, read and checked; None where the part has none."""
        return None if self.mask is None else read_mask(self.mask)

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
            raise QueryError("the query is empty: give a text, --image FILE or --query FILE.json.")
        if all(part.negative for part in self.parts):
            raise QueryError("the query only says what to avoid: add a text or an image to look for.")

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))

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
        return cls((Part(image=query),))  # type: ignore[arg-type]


def parse_text(text: str) -> Part:
    """`red car^2` → a text part of weight 2; `a fish in the upper left` → `a fish`, to be there."""
    words, weight = _weighted(text)
    what, said = split_place(words)
    return Part(text=what, weight=weight, where=None if said is None else place(said), said_where=said)


def parse_image(text: str) -> Part:
    """`photo.jpg#x1,y1,x2,y2^0.5` or `photo.jpg#mask=dog.png` → an image part."""
    # os.path, not Path.exists: a text longer than any file's name is no file rather than an error.
    name, weight = (text, 1.0) if os.path.exists(text) else _weighted(text)  # noqa: PTH110
    known = os.path.exists(name)  # noqa: PTH110
    masked = None if known else _MASK.match(name)
    if masked is not None:
        mask = Path(masked["mask"]).expanduser()
        read_mask(mask)  # what cannot be read is told before anything is searched
        return Part(image=Path(masked["file"]).expanduser(), mask=mask, weight=weight)
    found = None if known else _BOX.match(name)
    if found is None:
        return Part(image=Path(name).expanduser(), weight=weight)
    return Part(image=Path(found["file"]).expanduser(), box=Box.parse(found["box"]), weight=weight)


def parse_negative(text: str) -> Part:
    """A text, or an image where a file of that name exists, to avoid."""
    part = parse_image(text)
    is_file = isinstance(part.image, Path) and os.path.isfile(part.image)  # noqa: PTH113
    return replace(part if is_file else parse_text(text), negative=True)


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
    except ValueError as error:
        raise QueryError(f"{path}: is not JSON ({error}).") from error
    return query_of(document, path)


def query_of(document: Any, path: Path) -> Query:
    """The query that a document from the file `path` holds."""
    if isinstance(document, dict) and "supportsets" in document:
        return Query(tuple(_searchad_parts(document["supportsets"], path)))
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
        box = Box(*map(float, values["box"])) if values.get("box") is not None else None
        image = _beside(path, str(values["image"])) if "image" in values else None
        said = values.get("where")
        where = None if said is None else place(said) if isinstance(said, str) else Box(*map(float, said))
        weight, negative = float(values.get("weight", 1.0)), bool(values.get("negative", False))
        mask = _beside(path, str(values["mask"])) if values.get("mask") is not None else None
        return Part(values.get("text"), image, box, weight, negative, where, mask=mask)
    except (QueryError, TypeError, ValueError) as error:
        raise QueryError(f"{path}: part {number}: {error}") from error


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


@dataclass(frozen=True, slots=True)
class Words:
    """A kernel over local features: `bow`, `asmk:rootsift:upright`, `bow@65536` (a codebook of that size)."""

    kernel: str
    features: str = ""
    """The spec of the features; empty: those of the layer `local`."""
    size: int | None = None

    @classmethod
    def parse(cls, word: str) -> Self:
        """Read `KERNEL[:FEATURES][@WORDS]`."""
        rest, at, size = word.partition("@")
        kernel, _, features = rest.partition(":")
        if at and not (size.isdigit() and int(size) > 0):
            raise SpecError(f"{word!r}: {size!r} is no number of words; write {kernel}@65536.")
        return cls(kernel, features, int(size) if at else None)


@dataclass(frozen=True, slots=True)
class Method:
    """How to search: `ENCODER+SEARCH~OPTION`, every part optional. Prints as it was written."""

    written: str = ""
    encoder: str | None = None
    search: str | None = None
    """A word of SEARCHES or a grid; None: `whole`, or WHERE_SEARCH where the query names a place."""
    cells: str = "soft"
    fill: str = "patch"
    support: str = "mean"
    pooling: str = "summary"
    """How an example becomes one vector: as its encoder sums it up, or from its patches, the middle counting most."""
    context: str = "beside"
    """Whether what is found in a place counts beside the whole image, standardised, or alone, as cosines."""
    localizer: str = "auto"
    outline: str = "refined"
    weighting: str = "alpha"
    matcher: str = "nearest"
    model: str = "homography"
    augmented: bool = False
    """Whether the word `dba` was written."""
    steps: tuple[str, ...] = ()
    """Words of STEPS, in the order they are done."""
    words: Words | None = None
    """How local features are compared; alone, or beside an encoder, to be fused."""

    def __str__(self) -> str:
        return self.written or self.search or "whole"

    @property
    def grid(self) -> Grid | None:
        """The static grid that is searched, if it is one."""
        return Grid.parse(self.search) if self.search is not None and self.search.startswith("static-") else None

    @property
    def layer(self) -> str:
        """The kind of layer that a collection needs for this method."""
        grid = self.grid
        if not self.embeds:
            return "global"
        if grid is not None:
            return str(grid) if self.fill == "crop" else "cells"
        return self.search if self.search in ("patches", "proposals", "pyramid") else "global"

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers a collection must be indexed with to answer this method, and no more."""
        located = ("patches", "dense", "thumbs") if {"locate", "segrank"} & set(self.steps) else ()
        local = (self.local,) if self.local is not None else ()
        under = ("patches",) if self.grid is not None and self.embeds and self.context == "beside" else ()
        regions = ("proposals",) if self.search == "proposals" else ()
        return tuple(dict.fromkeys(("global", self.layer, *under, *located, *regions, *local)))

    @property
    def embeds(self) -> bool:
        """Whether an encoder takes part: always, unless local features are named and no encoder is."""
        return self.encoder is not None or self.words is None

    @property
    def local(self) -> str | None:
        """The kind of layer of local features that the method needs, if it does."""
        if self.words is not None and self.words.features:
            return f"local:{self.words.features}"
        keyed = self.localizer in KEYPOINTS or "sp" in self.steps
        return "local" if self.words is not None or keyed else None

    def with_step(self, word: str) -> Self:
        """With one more step, done last; unchanged where it is done already."""
        if word in self.steps:
            return self
        return replace(self, steps=(*self.steps, word), written=f"{self}+{word}")

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Read a spec; an unknown part is answered with the known ones."""
        method = cls(written=spec)
        for word in spec.split("+") if spec else []:
            name, *options = word.split("~")
            if name in SEARCHES:
                method = replace(method, search=name)
            elif name == AUGMENT:
                method = replace(method, augmented=True)
            elif name in STEPS:
                method = replace(method, steps=(*method.steps, name))
            elif name.startswith("static-"):
                method = replace(method, search=str(_grid(name, spec)))
            elif re.split("[:@]", name)[0] in KERNELS:
                method = replace(method, words=Words.parse(name))
            elif name.partition(":")[0] in families():
                method = replace(method, encoder=name)
            else:
                encoders = ", ".join(sorted(families()))
                raise SpecError(
                    f"method {spec!r}: nothing is called {name!r}. Encoders: {encoders}. Local: {', '.join(KERNELS)}. "
                    f"Searches: {', '.join(SEARCHES)}, {GRIDS}. Steps: {', '.join((AUGMENT, *STEPS))}."
                )
            for option in options:
                chosen: dict[str, Any] = {_option(option, spec): option}
                method = replace(method, **chosen)
        return method

    def for_query(self, query: Query) -> Self:
        """With the search word filled in: a place in the query, and no method named, means a grid."""
        if self.search is not None:
            return self
        placed = not self.written and any(part.where is not None for part in query.parts)
        if not placed:
            return replace(self, search="whole")
        default = self.parse(WHERE_SEARCH)
        return replace(self, search=default.search, cells=default.cells, written=WHERE_SEARCH)


def _grid(word: str, spec: str) -> Grid:
    try:
        return Grid.parse(word)
    except RegionError as error:
        raise SpecError(f"method {spec!r}: {error}") from error


def _option(option: str, spec: str) -> str:
    if option.startswith(f"{SEGMENTER}:"):
        return "localizer"
    for name, values in OPTIONS.items():
        if option in values:
            return name
    known = ", ".join([*(f"~{value}" for values in OPTIONS.values() for value in values), f"~{SEGMENTER}:FOLDER"])
    raise SpecError(f"method {spec!r}: no option ~{option}; known: {known}.")
