"""How to search: a method names an encoder, what is searched and how, and what is done with the ranking.

mini+patches~max              an encoder, how it is searched, an option
bow+sp                        words of local features, then spatial verification

It prints as it is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from wherein.encoders import families
from wherein.errors import RegionError, SpecError, did_you_mean
from wherein.kernels import KERNELS
from wherein.localizers import KEYPOINTS, LOCALIZERS, is_model
from wherein.values.query import Query
from wherein.values.region import Grid

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
    "style": ("photos", "any-style"),
}
STEPS: Final[dict[str, str]] = {
    "locate": "wherein.search.steps.locate:LOCATE",
    "segrank": "wherein.search.steps.locate:SEGRANK",
    "sp": "wherein.search.steps.rerank:SP",
    "qe": "wherein.search.steps.rerank:QE",
    "diffusion": "wherein.search.steps.rerank:DIFFUSION",
    "propagate": "wherein.search.steps.rerank:PROPAGATE",
    "zoom": "wherein.search.steps.zoom:ZOOM",
    "ground": "wherein.search.steps.ground:GroundStep",
}
"""What is done with a ranking: word → `module:function`, a `wherein.search.engine.Step`; what MODEL_STEPS name makes
one of the model that is written after the word."""
MODEL_STEPS: Final = ("ground",)
"""Steps that name a model: `ground:hf:NAME`."""
AUGMENT: Final = "dba"
"""Database-side augmentation: every image's embedding moved towards its neighbours', before anything is asked."""
WHERE_SEARCH: Final = "static-36"
"""What a query with a place is searched with when no method is named."""


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
    style: str = "photos"
    """Whether texts mean photographs, unless their words say otherwise, or images of any style."""
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
        keyed = self.localizer in KEYPOINTS or not {"sp", "propagate"}.isdisjoint(self.steps)
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
                method = method._with("search", name)
            elif name == AUGMENT:
                method = replace(method, augmented=True)
            elif name.partition(":")[0] in STEPS:
                method = replace(method, steps=(*method.steps, _step(name, spec)))
            elif name.startswith("static-"):
                method = method._with("search", str(_grid(name, spec)))
            elif re.split("[:@]", name)[0] in KERNELS:
                method = method._with("words", Words.parse(name))
            elif name.partition(":")[0] in families():
                method = method._with("encoder", name)
            else:
                encoders = ", ".join(sorted(families()))
                words = (*families(), *KERNELS, *SEARCHES, "static-5", "static-9", "static-36", AUGMENT, *STEPS)
                raise SpecError(
                    f"method {spec!r}: nothing is called {name!r}. Encoders: {encoders}. Local: {', '.join(KERNELS)}. "
                    f"Searches: {', '.join(SEARCHES)}, {GRIDS}. Steps: {', '.join((AUGMENT, *STEPS))}."
                    f"{did_you_mean(name, words)}"
                )
            for option in options:
                chosen: dict[str, Any] = {_option(option, spec): option}
                method = replace(method, **chosen)
        return method

    def _with(self, what: str, value: str | Words) -> Self:
        """With its encoder, search or words, of which a method has one each."""
        if getattr(self, what) is not None:
            kinds = {"search": "searches", "words": "kernels of local features", "encoder": "encoders"}
            raise SpecError(f"method {self.written!r}: names two {kinds[what]}; name one.")
        chosen: dict[str, Any] = {what: value}
        return replace(self, **chosen)

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


def _step(word: str, spec: str) -> str:
    """A step as it is written; one that needs a model must name it, and no other may."""
    name, colon, _ = word.partition(":")
    if bool(colon) != (name in MODEL_STEPS):
        how = f"write {name}:hf:MODEL" if name in MODEL_STEPS else f"write {name} alone"
        raise SpecError(f"method {spec!r}: {word!r} cannot be done; {how}.")
    return word


def _option(option: str, spec: str) -> str:
    if is_model(option):
        return "localizer"
    for name, values in OPTIONS.items():
        if option in values:
            return name
    known = ", ".join(
        [
            *(f"~{value}" for values in OPTIONS.values() for value in values),
            "~onnx:FOLDER",
            "~hf:NAME",
            "~ground:hf:NAME",
        ]
    )
    close = did_you_mean(option, [value for values in OPTIONS.values() for value in values])
    raise SpecError(f"method {spec!r}: no option ~{option}; known: {known}.{close}")
