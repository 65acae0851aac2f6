"""Local features: what an image shows, point by point. One family per file, chosen by the word before the colon.

A spec is `family` or `family:variant`, for example `rootsift` or `rootsift:upright`. Families of other packages
join through the entry-point group `wherein.features`. Nothing heavy is imported before `load_features`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from wherein import plugins
from wherein.arrays import Floats, unit
from wherein.errors import CollectionCorrupt, MissingExtra, SpecError, did_you_mean

if TYPE_CHECKING:
    from wherein.features.quantiser import Quantiser
    from wherein.images.image import Image
    from wherein.values.region import Box

_MAGIC: Final = b"wf1"
_COMPACT: Final = b"wfq"
_HEAD: Final = struct.Struct("<3sxHHHH")
_POINT: Final = np.dtype([("x", "<u2"), ("y", "<u2"), ("scale", "u1"), ("angle", "u1")])
_OCTAVE: Final = 16.0
"""Steps of an octave in which the scale of a keypoint is kept: 256 of them, a byte, reach over sixteen octaves."""
_LOWEST: Final = -14.0
"""The smallest scale that is kept, as a power of two of the longer side."""
FEATURE_BYTES: Final = _POINT.itemsize
"""Bytes of one stored keypoint; its descriptor adds one byte per dimension."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalFeatures:
    """Keypoints and descriptors of one image, strongest first."""

    keypoints: Floats
    """(n, 4): x and y in [0, 1]; scale as a share of the longer side; angle in turns, [0, 1)"""
    descriptors: Floats
    """(n, d), unit norm"""
    size_wh: tuple[int, int]
    """Width and height of what was looked at: gives distances in pixels, and the shape of the outline."""

    def __post_init__(self) -> None:
        points, descriptors = self.keypoints.shape, self.descriptors.shape
        if len(points) != 2 or len(descriptors) != 2 or points != (descriptors[0], 4) or min(self.size_wh) < 1:
            raise SpecError(
                f"local features of keypoints {points}, descriptors {descriptors} and size {self.size_wh} do not fit: "
                "give (n, 4), (n, d) and a width and height of at least 1."
            )

    def __len__(self) -> int:
        return len(self.keypoints)

    @property
    def pixels(self) -> Floats:
        """(n, 2) positions in pixels of `size_wh`."""
        return np.asarray(self.keypoints[:, :2] * np.array(self.size_wh, np.float32), np.float32)

    def take(self, chosen: npt.NDArray[Any]) -> LocalFeatures:
        """Those that an index or mask names."""
        return replace(self, keypoints=self.keypoints[chosen], descriptors=self.descriptors[chosen])

    def inside(self, box: Box) -> npt.NDArray[np.bool_]:
        """Which keypoints lie in a box, its border included."""
        x, y = self.keypoints[:, 0], self.keypoints[:, 1]
        return np.asarray((x >= box.x1) & (x <= box.x2) & (y >= box.y1) & (y <= box.y2), np.bool_)

    def cropped(self, box: Box) -> LocalFeatures:
        """Those in a box, as features of the box alone."""
        within = self.take(self.inside(box))
        low, spread = np.array([box.x1, box.y1]), np.array([box.x2 - box.x1, box.y2 - box.y1])
        wide, high = np.maximum(1, np.rint(np.array(self.size_wh) * spread)).astype(int).tolist()
        points = within.keypoints.copy()
        points[:, :2] = np.clip((points[:, :2] - low) / spread, 0.0, 1.0)
        points[:, 2] *= max(self.size_wh) / max(wide, high)
        return LocalFeatures(points, within.descriptors, (wide, high))


class FeatureFamily(Protocol):
    """Images → local features. Built as `Family(variant)`; its calls are thread-safe."""

    spec: str
    dim: int
    digest: str
    """A content digest of everything that shapes the numbers; two digests never share a layer."""
    side: int
    """The longer side, in pixels, that an indexed image is looked at with."""
    query_side: int
    """The same of a query: larger where the thing fills only a part of the photo."""
    compact: bool
    """Whether descriptors are stored as the few bytes of the shipped quantiser, instead of one a number."""

    def features(self, image: Image, *, side: int) -> LocalFeatures:
        """The features of an image, shrunk to a longer side of `side` where it is larger."""


def feature_families() -> dict[str, str]:
    """Every family that can be loaded: its name → `module:Class`, as `wherein.plugins` lists them."""
    return plugins.table("features")


def load_features(spec: str) -> FeatureFamily:
    """The family of a spec."""
    family, _, variant = spec.partition(":")
    known = feature_families()
    if family not in known:
        raise SpecError(
            f"no local features are called {family!r} (in {spec!r}); known: {', '.join(sorted(known))}."
            f"{did_you_mean(family, known)}"
        )
    made: FeatureFamily = plugins.load("features", family)(variant)
    return made


def require_installed(family: FeatureFamily) -> None:
    """Raise MissingExtra where a module that a family `needs` is not installed; nothing is loaded for that."""
    missing = [name for name in getattr(family, "needs", ()) if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"{family.spec} needs an extra ({', '.join(missing)} is missing): pip install 'wherein[learned]'."
        )


def pack(features: LocalFeatures, *, compact: bool = False) -> bytes:
    """As stored: 6 bytes a keypoint, d a descriptor (the quantiser's parts where `compact`), 12 in front.

    A descriptor keeps its direction as int8, its own largest value being 127; unit norm restores the rest.
    """
    n = len(features)
    points = np.empty(n, _POINT)
    points["x"] = np.rint(np.clip(features.keypoints[:, 0], 0, 1) * 65535)
    points["y"] = np.rint(np.clip(features.keypoints[:, 1], 0, 1) * 65535)
    octaves = np.log2(np.maximum(features.keypoints[:, 2], 2.0**_LOWEST)) - _LOWEST
    points["scale"] = np.clip(np.rint(octaves * _OCTAVE), 0, 255)
    points["angle"] = np.rint(features.keypoints[:, 3] * 256).astype(np.int64) % 256
    codes = _quantiser().encode(features.descriptors) if compact else _directions(features.descriptors)
    head = _HEAD.pack(_COMPACT if compact else _MAGIC, n, codes.shape[1], *features.size_wh)
    return b"".join([head, points.tobytes(), codes.tobytes()])


def unpack(data: bytes) -> LocalFeatures:
    """The features that `pack` stored."""
    try:
        magic, n, d, width, height = _HEAD.unpack_from(data)
        if magic not in (_MAGIC, _COMPACT) or len(data) != _HEAD.size + n * (_POINT.itemsize + d):
            raise ValueError(f"{len(data)} bytes that begin with {data[:4]!r}")
        points = np.frombuffer(data, _POINT, n, _HEAD.size)
    except (struct.error, ValueError) as error:
        raise CollectionCorrupt(f"local features cannot be read ({error}). Run `wherein check` to mend it.") from error
    keypoints = np.empty((n, 4), np.float32)
    keypoints[:, 0], keypoints[:, 1] = points["x"] / np.float32(65535), points["y"] / np.float32(65535)
    keypoints[:, 2] = np.exp2(points["scale"] / np.float32(_OCTAVE) + np.float32(_LOWEST))
    keypoints[:, 3] = points["angle"] / np.float32(256)
    codes = np.frombuffer(data, np.uint8, n * d, _HEAD.size + points.nbytes).reshape(n, d)
    rows = _quantiser().decode(codes) if magic == _COMPACT else unit(codes.view(np.int8).astype(np.float32))
    return LocalFeatures(keypoints, rows, (width, height))


def _directions(descriptors: Floats) -> npt.NDArray[np.int8]:
    largest = np.maximum(np.abs(descriptors).max(axis=1, keepdims=True, initial=0.0), 1e-12)
    return np.asarray(np.rint(descriptors / largest * 127), np.int8)


def _quantiser() -> Quantiser:
    from wherein.features.quantiser import rootsift_quantiser

    return rootsift_quantiser()


def check_features(family: FeatureFamily) -> None:
    """Raise SpecError unless `family` keeps the contract. For authors of features and for our own tests."""
    from wherein.images.image import Image

    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)
    textured = Image(np.repeat(np.repeat(coarse, 8, axis=0), 8, axis=1), (320, 240))
    found = family.features(textured, side=family.side)
    _require(family, len(found) > 0, "a textured image gives no features")
    _require(family, found.keypoints.dtype == found.descriptors.dtype == np.float32, "its arrays are not float32")
    _require(family, found.descriptors.shape[1] == family.dim, f"descriptors are not of dim {family.dim}")
    norms = np.linalg.norm(found.descriptors, axis=1)
    _require(family, bool(np.allclose(norms, 1.0, atol=1e-3)), "descriptors are not of unit norm")
    places = found.keypoints[:, :2]
    _require(family, bool(((places >= 0) & (places <= 1)).all()), "a keypoint leaves the image")
    turns = found.keypoints[:, 3]
    _require(family, bool(((turns >= 0) & (turns < 1)).all()), "an angle is not in turns, [0, 1)")
    again = family.features(textured, side=family.side)
    _require(family, np.array_equal(again.descriptors, found.descriptors), "two looks at one image differ")
    _require(family, len(family.digest) >= 8, "digest has fewer than 8 characters")
    for size in ((1, 1), (3, 200), (64, 64)):
        plain = family.features(Image(np.full((*size, 3), 127, np.uint8), size[::-1]), side=family.side)
        _require(family, plain.descriptors.shape[1:] == (family.dim,), f"a plain image of {size} breaks the shape")


def _require(family: FeatureFamily, holds: bool, complaint: str) -> None:
    if not holds:
        raise SpecError(f"local features {family.spec!r} break the contract: {complaint}.")
