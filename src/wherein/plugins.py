"""The one plug-in surface: what can be named in a spec, and where its code lives.

Every kind of plug-in is a table of names, each with the `module:NAME` of an object that keeps the kind's contract. What
is built in stands here; other packages add theirs through the entry-point group `wherein.KIND`. Nothing is imported
before it is used, and what is built in cannot be shadowed.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any, Final

from wherein.errors import SpecError

BUILT_IN: Final[dict[str, dict[str, str]]] = {
    "encoders": {
        "hf": "wherein.encoders.hf:HfEncoder",
        "mini": "wherein.encoders.mini:MiniEncoder",
        "naclip": "wherein.encoders.naclip:NaclipEncoder",
        "naradio": "wherein.encoders.radio:open_naradio",
        "onnx": "wherein.encoders.onnx:OnnxEncoder",
        "openclip": "wherein.encoders.openclip:OpenClipEncoder",
        "radio": "wherein.encoders.radio:open_radio",
        "toy": "wherein.encoders.toy:ToyEncoder",
    },
    "features": {
        "aliked": "wherein.features.aliked:Aliked",
        "disk": "wherein.features.disk:Disk",
        "hf": "wherein.features.hf:HubFeatures",
        "midlevel": "wherein.features.midlevel:MidLevel",
        "onnx": "wherein.features.onnx:OnnxFeatures",
        "rootsift": "wherein.features.rootsift:RootSift",
        "xfeat": "wherein.features.xfeat:XFeat",
    },
    "kernels": {
        "bow": "wherein.kernels.bow:BagOfWords",
        "vlad": "wherein.kernels.vlad:Vlad",
        "asmk": "wherein.kernels.asmk:Asmk",
        "mean": "wherein.kernels.mean:Mean",
    },
    "localizers": {
        "similar": "wherein.localizers.similar:SimilarLocalizer",
        "match": "wherein.localizers.match:MatchLocalizer",
        "support": "wherein.localizers.support:SupportLocalizer",
        "points": "wherein.localizers.keypoints:PointsLocalizer",
        "hull": "wherein.localizers.keypoints:HullLocalizer",
        "warp": "wherein.localizers.keypoints:WarpLocalizer",
    },
    "words": {
        "whole": "wherein.search.words.whole:WHOLE",
        "append-short": "wherein.search.words.append:APPEND_SHORT",
        "append-long": "wherein.search.words.append:APPEND_LONG",
        "patches": "wherein.search.words.patches:PATCHES",
        "static": "wherein.search.words.static:STATIC",
        "proposals": "wherein.search.words.proposals:PROPOSALS",
        "detected": "wherein.search.words.detected:DETECTED",
        "pyramid": "wherein.search.words.pyramid:PYRAMID",
        "theoretical": "wherein.search.words.theoretical:THEORETICAL",
    },
    "steps": {
        "locate": "wherein.search.steps.locate:LOCATE",
        "segrank": "wherein.search.steps.segrank:SEGRANK",
        "sp": "wherein.search.steps.sp:SP",
        "hypergraph": "wherein.search.steps.hypergraph:HYPERGRAPH",
        "propagate": "wherein.search.steps.propagate:PROPAGATE",
        "qe": "wherein.search.steps.qe:QE",
        "diffusion": "wherein.search.steps.diffusion:DIFFUSION",
        "zoom": "wherein.search.steps.zoom:ZOOM",
        "ground": "wherein.search.steps.ground:Ground",
    },
    "layers": {
        "global": "wherein.layers.whole:WholeImages",
        "patches": "wherein.layers.patches:PatchRows",
        "cells": "wherein.layers.cells:Sixths",
        "dense": "wherein.layers.dense:Dense",
        "thumbs": "wherein.layers.thumbs:Thumbnails",
        "local": "wherein.layers.local:LocalPoints",
        "proposals": "wherein.layers.proposals:ProposedRegions",
        "pyramid": "wherein.layers.pyramid:SizesAveraged",
        "static": "wherein.layers.crops:GridCrops",
        "detected": "wherein.layers.detected:DetectedBoxes",
    },
    "detectors": {
        "hf": "wherein.detectors.hf:open_detector",
    },
    "exports": {
        "coco": "wherein.output.exports:write_coco",
        "fiftyone": "wherein.output.exports:write_fiftyone",
        "overlays": "wherein.output.exports:write_overlays",
    },
    "executors": {
        "threads": "wherein.indexing.threads:Threads",
        "ray": "wherein.indexing.ray:Ray",
    },
    "indexes": {
        "exact": "wherein.index.exact:ExactRows",
        "compressed": "wherein.index.compressed:CompressedRows",
        "milvus": "wherein.index.milvus:MilvusRows",
    },
}
"""Of each kind of plug-in, the names that come with wherein."""

EXTRAS: Final[dict[tuple[str, str], tuple[str, tuple[str, ...]]]] = {
    ("encoders", "hf"): ("hf", ("torch", "transformers")),
    ("encoders", "naclip"): ("hf", ("torch", "open_clip")),
    ("encoders", "naradio"): ("hf", ("torch",)),
    ("encoders", "openclip"): ("hf", ("torch", "open_clip")),
    ("encoders", "radio"): ("hf", ("torch",)),
    ("features", "aliked"): ("learned", ("lightglue",)),
    ("features", "disk"): ("learned", ("lightglue",)),
    ("features", "hf"): ("hf", ("torch", "transformers")),
    ("features", "xfeat"): ("learned", ("xfeat",)),
    ("detectors", "hf"): ("hf", ("torch", "transformers")),
    ("steps", "ground"): ("hf", ("torch", "transformers")),
    ("executors", "ray"): ("scale", ("ray",)),
    ("indexes", "milvus"): ("scale", ("pymilvus",)),
}
"""Of what comes with wherein and needs more than its core: the extra, and the modules that the extra brings."""

AUTO: Final = "auto"
"""The index that is asked where none is named: compressed where the collection keeps codes, exact elsewhere."""


@cache
def _installed() -> list[tuple[str, str, str]]:
    """(group, name, `module:NAME`) of what other packages add to any kind, found by one look through all of them."""
    found = entry_points()
    return [
        (group, entry.name, entry.value)
        for group in (f"wherein.{kind}" for kind in BUILT_IN)
        for entry in found.select(group=group)
    ]


@cache
def table(kind: str) -> dict[str, str]:
    """Every name of a kind of plug-in and its `module:NAME`, those of other packages first."""
    return {name: value for group, name, value in _installed() if group == f"wherein.{kind}"} | BUILT_IN[kind]


def is_known(kind: str, name: str) -> bool:
    """Whether a kind of plug-in has that name; other packages are looked through only where wherein has none such."""
    return name in BUILT_IN[kind] or name in table(kind)


@cache
def load(kind: str, name: str) -> Any:
    """The object that a name of a kind stands for; an unknown name is answered with the known ones."""
    if not is_known(kind, name):
        raise SpecError(f"none of the {kind} is called {name!r}; known: {', '.join(sorted(table(kind)))}.")
    module, _, attribute = (BUILT_IN[kind].get(name) or table(kind)[name]).partition(":")
    return getattr(import_module(module), attribute)


def is_available(kind: str, name: str) -> bool:
    """Whether what a name stands for can be used here; nothing is imported to find out."""
    _, modules = EXTRAS.get((kind, name), ("", ()))
    return is_known(kind, name) and all(find_spec(module) is not None for module in modules)


def how_to_install(kind: str, name: str) -> str:
    """The one command that installs what a name needs beyond the core; empty where it needs nothing."""
    extra, _ = EXTRAS.get((kind, name), ("", ()))
    return f"pip install 'wherein[{extra}]'" if extra else ""
