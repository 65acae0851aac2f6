"""Localizers: (query, image) → Heatmap → Mask + Box. One family per file, chosen by a word.

A localizer sees no files: of the query its embeddings and the grids of its examples (`Sought`), of the image what a
collection keeps (`Scene`). It answers with a heatmap, float32 (h, w) in [0, 1], at the resolution it works in;
`edges` turns that into pixels. Nothing heavy is imported before `load_localizer`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from wherein import plugins
from wherein.arrays import Floats, Mask, unit
from wherein.errors import SpecError, did_you_mean
from wherein.features import LocalFeatures
from wherein.images.image import Image, Pixels
from wherein.values.models import GROUND, is_segmenter, reads_image
from wherein.values.region import Box

if TYPE_CHECKING:
    from wherein.localizers.colours import Colours

Heatmap = Floats
"""float32 (h, w) in [0, 1]: how likely each place shows what is sought."""

KEYPOINTS: Final = ("points", "hull", "warp")
"""The localizers that go by local features."""
SEGMENTER: Final = "onnx"
"""The word of a segmenter that the user has exported: `onnx:FOLDER`."""


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One view of an example image: its grid, and how much of each patch is meant."""

    grid: Floats
    """(gh, gw, c), unit norm"""
    cover: Floats
    """(gh, gw) in [0, 1]"""

    @property
    def whole(self) -> bool:
        """Whether all of the image is meant, so that it shows nothing that is not."""
        return bool(self.cover.min() > 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class Keyed:
    """One example's keypoints, in the frame of its region."""

    features: LocalFeatures
    outline: tuple[Floats, ...] | None = None
    """Polygons (m, 2) of the meant pixels, in [0, 1] of that frame; None where all of it is meant."""


@dataclass(frozen=True, slots=True, eq=False)
class Sought:
    """What is looked for, as localizers see it; vectors and patches share one space, `dense` has its own."""

    vectors: Floats
    """(m, c) texts and whole examples"""
    avoided: Floats
    """(a, c) what is not meant"""
    patches: tuple[Example, ...] = ()
    dense: tuple[Example, ...] = ()
    not_patches: tuple[Example, ...] = ()
    not_dense: tuple[Example, ...] = ()
    texts: bool = False
    """Whether a text is among what is looked for."""
    keyed: tuple[Keyed, ...] = ()
    """The examples' keypoints, where the localizer goes by them."""
    words: tuple[str, ...] = ()
    """The texts among what is looked for."""
    examples: Callable[[], list[Image]] = list
    """The pictures of what is looked for, decoded when they are asked for."""
    colours: Colours | None = None
    """What the colours of examples say, where regions of them are meant."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What is known of an image in which something is located."""

    size_wh: tuple[int, int]
    patches: Floats | None = None
    """(gh, gw, c)"""
    dense: Floats | None = None
    """(dh, dw, dd)"""
    thumb: Pixels | None = None
    """A small picture, uint8 (h, w, 3), whose edges refine the heatmap."""
    features: LocalFeatures | None = None
    file: Callable[[], Image | None] = lambda: None
    """The image itself, decoded when it is asked for; None where its file cannot be read."""

    def look(self) -> Image | None:
        """The image in all its pixels, or its small picture; None where there is neither."""
        found = self.file()
        return Image(self.thumb, self.size_wh) if found is None and self.thumb is not None else found

    def views(self, sought: Sought) -> tuple[Floats, tuple[Example, ...], tuple[Example, ...]] | None:
        """This image's finest grid for which `sought` has examples, those, and the ones to avoid."""
        if self.dense is not None and sought.dense:
            return self.dense, sought.dense, sought.not_dense
        if self.patches is not None and sought.patches:
            return self.patches, sought.patches, sought.not_patches
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Where in an image something was found; box and mask are None where it was not."""

    heatmap: Heatmap
    mask: Mask | None = None
    box: Box | None = None
    score: float = 0.0
    """How well the region answers: a cosine."""
    notes: tuple[str, ...] = ()
    """What a person should know about how the query was read."""


class Localizer(Protocol):
    """Says where in an image something is. Its calls are thread-safe, and the same input gives the same answer."""

    def __call__(self, sought: Sought, scene: Scene) -> Heatmap:
        """A heatmap at any resolution; all zeros where the localizer has nothing to go by."""


def load_localizer(word: str) -> Localizer:
    """The localizer of a word that `wherein.plugins` lists, of `onnx:FOLDER`, of `hf:NAME` or of another model."""
    if is_segmenter(word):
        from wherein.localizers.segment import SegmentLocalizer

        return SegmentLocalizer(word)
    if reads_image(word) and not word.startswith(f"{GROUND}:"):
        from wherein.localizers.pairs import open_pairs

        return open_pairs(word)
    if reads_image(word):
        from wherein.localizers.ground import GroundLocalizer

        return GroundLocalizer(word.partition(":")[2])
    known = plugins.table("localizers")
    if word not in known:
        raise SpecError(
            f"no localizer is called {word!r}; known: {', '.join(known)}, onnx:FOLDER, hf:NAME, ground:hf:NAME, "
            "hf-match:NAME, onnx-match:FOLDER, onnx-shot:FOLDER."
            f"{did_you_mean(word, known)}"
        )
    localizer: Localizer = plugins.load("localizers", word)()
    return localizer


def check_localizer(localizer: Localizer) -> None:
    """Raise SpecError unless `localizer` keeps the contract. For authors of localizers and for our own tests."""
    random = np.random.default_rng(0)
    for grid_hw, size_wh in (((8, 8), (64, 48)), ((4, 6), (30, 20)), ((1, 1), (1, 1))):
        grid = unit(random.standard_normal((*grid_hw, 5)).astype(np.float32))
        thumb = random.integers(0, 256, (size_wh[1], size_wh[0], 3), dtype=np.uint8)
        cover = np.zeros(grid_hw, np.float32)
        cover[: (grid_hw[0] + 1) // 2] = 1.0
        example = Example(grid, cover)
        keypoints = random.random((40, 4)).astype(np.float32)
        features = LocalFeatures(keypoints, unit(random.standard_normal((40, 16)).astype(np.float32)), size_wh)
        nothing = np.zeros((0, 5), np.float32)
        sought = Sought(grid[0, :1], nothing, patches=(example,), dense=(example,), keyed=(Keyed(features),))
        scene = Scene(size_wh, grid, grid, thumb, features)
        heat = localizer(sought, scene)
        _require(heat.ndim == 2 and heat.dtype == np.float32, f"gave {heat.dtype} {heat.shape}, not a float32 (h, w)")
        _require(bool(np.isfinite(heat).all()), "gave a heatmap with NaN or infinity")
        _require(heat.min() >= 0.0 and heat.max() <= 1.0, f"left [0, 1]: {heat.min():g} … {heat.max():g}")
        _require(np.array_equal(heat, localizer(sought, scene)), "answers the same question in two ways")
        # Keypoints know left from right, so a mirror is asked about without them.
        plain, mirrored = (
            Scene(size_wh, grid, grid, thumb),
            Scene(size_wh, grid[:, ::-1], grid[:, ::-1], thumb[:, ::-1]),
        )
        for asked in (sought, replace(sought, patches=(), dense=())):
            ours, theirs = localizer(asked, plain), localizer(asked, mirrored)
            _require(np.allclose(ours, theirs[:, ::-1], atol=1e-3), "does not mirror when the image does")
        empty = localizer(sought, Scene(size_wh))
        _require(not empty.any(), "found something in an image of which nothing is known")


def _require(holds: bool, complaint: str) -> None:
    if not holds:
        raise SpecError(f"the localizer breaks the contract: it {complaint}.")
