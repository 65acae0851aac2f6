"""`locate`: the mask and the box of what matched, in every hit that is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wherein import plugins
from wherein.localizers import KEYPOINTS
from wherein.search.engine import Context, Ranked
from wherein.search.locating import asked_of, located
from wherein.search.steps import SearchStep
from wherein.values.method import Method, Option

LOCATED_MOST: Final = 500
"""Hits that are located, at most: a benchmark may rank millions, and this many take about five seconds."""
_MODELS: Final = (
    "onnx:FOLDER",
    "hf:NAME",
    "ground:hf:NAME",
    "hf-match:NAME",
    "onnx-match:FOLDER",
    "onnx-shot:FOLDER",
)
"""How models of the user's own are written after the step."""
LOCALIZER: Final = Option("localizer", ("auto", *plugins.table("localizers")), models=_MODELS)
OUTLINE: Final = Option("outline", ("refined", "coarse"))
"""Whether outlines follow the edges of the picture, or the patches they come from."""


class Locate(SearchStep):
    """Outlines the hits; their order stays."""

    name = "locate"
    summary = "outlines what matched in every hit that is shown"
    options = (LOCALIZER, OUTLINE)
    layers = ("patches", "dense", "thumbs")

    def needs_local(self, method: Method) -> bool:
        """Keypoint localizers read local features."""
        return method.choice(self.name, "localizer") in KEYPOINTS

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The same ranking, located."""
        sought = asked_of(context, self.name)
        count = min(context.k, LOCATED_MOST)
        first = [located(one, context, sought, self.name)[0] for one in ranked.candidates[:count]]
        return replace(ranked, candidates=(*first, *ranked.candidates[count:]))


LOCATE: Final = Locate()
