"""Spatial verification: do two images show one thing, and where? Matches, then a map that carries many of them.

Descriptors are matched by mutual nearest neighbours and the ratio test, or by a learned matcher; a map (homography,
affine or fundamental) is fitted by OpenCV's USAC with MAGSAC++, and maps that no camera makes are turned down:
mirrored, collapsed, absurdly scaled. What is left counts as inliers; few are chance, and are no verification at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.features import LocalFeatures
from wherein.features.matchers import Matcher

Model = Literal["homography", "affine", "fundamental"]
Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

RATIO: Final = 0.88
"""The nearest descriptor must be closer than this share of the second nearest one's distance. Lowe's 0.8 is stricter;
chosen by hand."""
CHANCE: Final = 8
"""Inliers below this are found between unrelated images too, and count as none. Chosen by hand."""
_SIDE: Final = 480.0
"""Positions are in pixels of images of this longer side, so that one reach holds at every resolution."""
_REACH: Final = 4.0
"""How far from its place an inlier may lie, in pixels of images of the longer side `_SIDE`. Chosen by hand."""
_SCALES: Final = (0.05, 20.0)
"""A map that shows the query at less or more than this scale is no view of it. Chosen by hand."""
_STRETCH: Final = 6.0
"""A map that stretches one direction so many times more than another is no view of the query. Chosen by hand."""
_ROUNDS: Final = 2000
"""Maps that USAC tries at most: OpenCV's default."""
_SURE: Final = 0.999
"""How sure USAC must be that no better map is left; OpenCV's own defaults are 0.99 and 0.995. Chosen by hand."""
_FEWEST: Final = {"homography": 4, "affine": 3, "fundamental": 8}
"""Matches that define each kind of map, and one more for a fundamental matrix, which seven define."""
_SAMPLE: Final = 7
"""Matches that define a fundamental matrix."""


@dataclass(frozen=True, slots=True, eq=False)
class Verification:
    """What holds between a query and an image."""

    inliers: int
    """Matches that the map carries; 0 where there is no map worth believing."""
    matches: Ints
    """(inliers, 2): feature of the query, feature of the image"""
    outline: Floats | None = None
    """(m, 2) corners of the query's outline in the image, clipped to it, in [0, 1]; None without a planar map"""

    @property
    def found(self) -> bool:
        """Whether the two show one thing."""
        return self.inliers > 0


NOTHING: Final = Verification(0, np.zeros((0, 2), np.int64))
"""The answer where two images share nothing."""


def match(query: LocalFeatures, image: LocalFeatures, *, ratio: float = RATIO) -> Ints:
    """(m, 2) mutual nearest neighbours that pass the ratio test: feature of the query, feature of the image."""
    if len(query) < 2 or len(image) < 2:
        return np.zeros((0, 2), np.int64)
    cosines = query.descriptors @ image.descriptors.T
    rows = np.arange(len(query))
    nearest = cosines.argmax(axis=1)
    best = cosines[rows, nearest]
    columns = cosines.max(axis=0)
    cosines[rows, nearest] = -2.0
    second = cosines.max(axis=1)
    # For unit vectors the squared distance is 2 − 2·cosine.
    clear = (1.0 - best) < ratio**2 * (1.0 - second)
    kept = np.flatnonzero(clear & (best >= columns[nearest]))
    return np.stack([kept, nearest[kept]], axis=1).astype(np.int64)


def verify(
    query: LocalFeatures,
    image: LocalFeatures,
    *,
    model: Model = "homography",
    matcher: Matcher = match,
    chance: int = CHANCE,
) -> Verification:
    """Match two images and fit a map from the query into the image; fewer inliers than `chance` are none."""
    pairs = _one_to_one(matcher(query, image), query, image)
    if len(pairs) < max(chance, _FEWEST[model]):
        return NOTHING
    a, b = _places(query)[pairs[:, 0]], _places(image)[pairs[:, 1]]
    fitted = _fit(a, b, model)
    if fitted is None:
        return NOTHING
    matrix, chosen = fitted
    inliers = int(chosen.sum())
    if inliers < chance or not _spread(a[chosen]) or not _spread(b[chosen]):
        return NOTHING
    if model == "fundamental":
        return Verification(inliers, pairs[chosen]) if _no_accident(inliers, len(pairs)) else NOTHING
    if not plausible(matrix, a[chosen]):
        return NOTHING
    return Verification(inliers, pairs[chosen], _outline(matrix, query, image))


def plausible(matrix: Doubles, points: Doubles) -> bool:
    """Whether a 3 × 3 map keeps the side, size and shape of a surface, at every one of (n, 2) points."""
    if not np.isfinite(matrix).all():
        return False
    depth = points @ matrix[2, :2] + matrix[2, 2]
    if (depth * np.sign(depth[0]) < 1e-6).any():
        return False  # the horizon runs through what was matched
    at = points.mean(axis=0)
    jacobian = _jacobian(matrix, at)
    area = float(np.linalg.det(jacobian))
    if area <= 0.0:
        return False  # mirrored, or turned inside out
    wide, narrow = np.linalg.svd(jacobian, compute_uv=False)
    return bool(_SCALES[0] < area**0.5 < _SCALES[1] and wide < _STRETCH * narrow)


def _fit(a: Doubles, b: Doubles, model: Model) -> tuple[Doubles, npt.NDArray[np.bool_]] | None:
    """The map and its inliers. OpenCV's sampler is seeded by the call, so equal input gives equal output."""
    import cv2

    try:
        if model == "fundamental":
            matrix, mask = cv2.findFundamentalMat(a, b, cv2.USAC_MAGSAC, _REACH, _SURE, _ROUNDS)
        elif model == "affine":
            small, mask = cv2.estimateAffine2D(
                a, b, method=cv2.USAC_MAGSAC, ransacReprojThreshold=_REACH, maxIters=_ROUNDS, confidence=_SURE
            )
            matrix = None if small is None else np.vstack([small, [0.0, 0.0, 1.0]])
        else:
            matrix, mask = cv2.findHomography(a, b, cv2.USAC_MAGSAC, _REACH, maxIters=_ROUNDS, confidence=_SURE)
    except cv2.error:  # degenerate samples end in an exception in some builds
        return None
    if matrix is None or mask is None or matrix.shape != (3, 3):
        return None
    return np.asarray(matrix, np.float64), np.asarray(mask).ravel() > 0


def _no_accident(inliers: int, matches: int) -> bool:
    """Whether so many of some matches lie near the lines of a fundamental matrix by more than chance.

    A line passes near many points, so their number means something only beside how many were tried: the expected
    number of equally good accidents must be below 1 (Moisan and Stival, 2004).
    """
    near = 2.0 * _REACH / _SIDE * math.sqrt(2.0)
    choices = math.log(matches) + _choose(matches, inliers) + _choose(inliers, _SAMPLE)
    return choices + (inliers - _SAMPLE) * math.log(near) < 0.0


def _choose(n: int, k: int) -> float:
    """ln of the ways to choose k of n."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _places(features: LocalFeatures) -> Doubles:
    return np.asarray(features.pixels, np.float64) * (_SIDE / max(features.size_wh))


def _one_to_one(pairs: Ints, query: LocalFeatures, image: LocalFeatures) -> Ints:
    """One match a place: SIFT gives one place several orientations, which must not be counted as several inliers."""
    if not len(pairs):
        return pairs
    cell = np.concatenate([_places(query)[pairs[:, 0]], _places(image)[pairs[:, 1]]], axis=1)
    _, first = np.unique(np.rint(cell / (_REACH / 2)).astype(np.int64), axis=0, return_index=True)
    return pairs[np.sort(first)]


def _spread(points: Doubles) -> bool:
    """Whether points span a surface: not one spot, not one line."""
    axes = np.linalg.svd(points - points.mean(axis=0), compute_uv=False) / len(points) ** 0.5
    return bool(axes[1] > 2 * _REACH)


def _jacobian(matrix: Doubles, at: Doubles) -> Doubles:
    """The map's derivative at a point."""
    x, y, depth = matrix @ np.array([at[0], at[1], 1.0])
    jacobian = (matrix[:2, :2] - np.outer([x / depth, y / depth], matrix[2, :2])) / depth
    return np.asarray(jacobian, np.float64)


def _outline(matrix: Doubles, query: LocalFeatures, image: LocalFeatures) -> Floats | None:
    """The query's frame as seen in the image: clipped to what the camera had in front of it and to the image."""
    own = np.array(query.size_wh) * (_SIDE / max(query.size_wh))
    frame = np.array([[0.0, 0.0], [own[0], 0.0], own, [0.0, own[1]]])
    lifted = np.concatenate([frame, np.ones((4, 1))], axis=1) @ matrix.T
    sign = np.sign((np.concatenate([own / 2, [1.0]]) @ matrix.T)[2]) or 1.0
    seen = _clip(lifted * sign, np.array([0.0, 0.0, 1.0]), 1e-3)
    if len(seen) < 3:
        return None
    flat = seen[:, :2] / seen[:, 2:] / (np.array(image.size_wh) * (_SIDE / max(image.size_wh)))
    for side, least in (([1.0, 0.0], 0.0), ([-1.0, 0.0], -1.0), ([0.0, 1.0], 0.0), ([0.0, -1.0], -1.0)):
        flat = _clip(flat, np.array(side), least)
    return np.asarray(np.clip(flat, 0, 1), np.float32) if len(flat) >= 3 else None


def _clip(polygon: Doubles, direction: Doubles, least: float) -> Doubles:
    """The part of a polygon (n, c) where direction · point ≥ least (Sutherland and Hodgman)."""
    kept = []
    for one, two in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        here, there = float(one @ direction) - least, float(two @ direction) - least
        if here >= 0:
            kept.append(one)
        if (here >= 0) != (there >= 0):
            kept.append(one + (two - one) * (here / (here - there)))
    return np.array(kept).reshape(-1, polygon.shape[1])
