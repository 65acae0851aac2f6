"""Keypoint verification: where one view of the example explains the image's keypoints, drawn in three ways.

`points` is the union of the matched points, as the pixel retrieval study draws it; `hull` the convex hull around them;
`warp` the example's own outline, carried into the image by the map that its keypoints agree on.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from wherein.arrays import Floats
from wherein.features import LocalFeatures
from wherein.features.verify import Verification, verify
from wherein.localizers import Heatmap, Keyed, Scene, Sought

SIDE: Final = 256
"""The longer side of the drawing, in pixels: that of thumbnails."""
POINT: Final = 1 / 48
"""The radius of a matched point, as a share of the longer side, where its keypoint is not larger."""


class _KeypointLocalizer:
    """Verifies the image against each example, and draws the best one."""

    def __call__(self, sought: Sought, scene: Scene) -> Heatmap:
        """1 inside the drawing, 0 outside; all zeros where nothing is verified."""
        scale = SIDE / max(scene.size_wh)
        canvas = np.zeros([max(1, round(side * scale)) for side in reversed(scene.size_wh)], np.uint8)
        if scene.features is not None and sought.keyed:
            each = [(verify(one.features, scene.features), one) for one in sought.keyed]
            found, example = max(each, key=lambda pair: pair[0].inliers)
            if found.found:
                self._draw(canvas, found, example, scene.features)
        return canvas.astype(np.float32)

    def _draw(self, canvas: _Canvas, found: Verification, example: Keyed, image: LocalFeatures) -> None:
        raise NotImplementedError


_Canvas = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


class PointsLocalizer(_KeypointLocalizer):
    """`points`: a disc on every inlier, as large as its keypoint."""

    def _draw(self, canvas: _Canvas, found: Verification, example: Keyed, image: LocalFeatures) -> None:  # noqa: ARG002
        longer = max(canvas.shape)
        for x, y, size, _ in image.keypoints[found.matches[:, 1]].tolist():
            centre = (int(x * canvas.shape[1]), int(y * canvas.shape[0]))
            cv2.circle(canvas, centre, max(1, round(max(POINT, size / 2) * longer)), 1, cv2.FILLED)


class HullLocalizer(_KeypointLocalizer):
    """`hull`: the convex hull of the inliers."""

    def _draw(self, canvas: _Canvas, found: Verification, example: Keyed, image: LocalFeatures) -> None:  # noqa: ARG002
        places = image.keypoints[found.matches[:, 1], :2]
        _fill(canvas, [np.asarray(cv2.convexHull(places), np.float32).reshape(-1, 2)])


class WarpLocalizer(_KeypointLocalizer):
    """`warp`: the example's outline in the image: of its mask, else of its frame."""

    def _draw(self, canvas: _Canvas, found: Verification, example: Keyed, image: LocalFeatures) -> None:
        polygons = [] if example.outline is None else _warped(example, found, image)
        if not polygons and found.outline is not None:
            polygons = [found.outline]
        _fill(canvas, polygons)


def _warped(example: Keyed, found: Verification, image: LocalFeatures) -> list[Floats]:
    """The example's polygons in the image; none where a part of them would lie behind the camera."""
    ours, theirs = found.matches.T
    matrix, _ = cv2.findHomography(example.features.keypoints[ours, :2], image.keypoints[theirs, :2])
    if matrix is None:
        return []
    lifted = [np.column_stack([polygon, np.ones(len(polygon))]) @ matrix.T for polygon in example.outline or ()]
    middle = np.sign((np.array([0.5, 0.5, 1.0]) @ matrix.T)[2])
    if any((points[:, 2] * middle < 1e-6).any() for points in lifted):
        return []
    return [np.asarray(points[:, :2] / points[:, 2:], np.float32) for points in lifted]


def _fill(canvas: _Canvas, polygons: list[Floats]) -> None:
    """Polygons in [0, 1], filled by the even-odd rule."""
    size_wh = np.array(canvas.shape[::-1])
    corners = [np.rint(np.clip(polygon, -4, 5) * size_wh).astype(np.int32) for polygon in polygons]
    if corners:
        cv2.fillPoly(canvas, corners, (1,))
