"""Which points of an example are seen again in an image, for lines drawn between the two."""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.features import load_features
from wherein.features.verify import verify
from wherein.images.image import ImageLike
from wherein.images.isolated import decode_given
from wherein.search.local import query_features
from wherein.values.query import Query
from wherein.values.ranking import PointMatches
from wherein.values.region import WHOLE

FAMILY: Final = "rootsift"
"""The local features that are compared: they need no model and no layer."""
LINES: Final = 200
"""The most matches that are told, the strongest first: more lines than that hide the picture they are drawn over."""


def point_matches(query: Query, image: ImageLike) -> PointMatches:
    """The matches of the example of a query that has most of them in an image."""
    family = load_features(FAMILY)
    theirs = family.features(decode_given(image), side=family.query_side)
    best = PointMatches(part=0, inliers=0, lines=())
    for number, part in enumerate(query.parts):
        if part.image is None or part.negative:
            continue
        ((_, mine),) = query_features(Query((part,)), family)
        found = verify(mine, theirs)
        if found.inliers > best.inliers:
            box = part.region or WHOLE
            size, corner = np.array([box.x2 - box.x1, box.y2 - box.y1]), np.array([box.x1, box.y1])
            here = corner + size * mine.keypoints[found.matches[:LINES, 0], :2]
            pairs = np.hstack([here, theirs.keypoints[found.matches[:LINES, 1], :2]])
            lines = tuple((a, b, c, d) for a, b, c, d in np.clip(np.round(pairs, 4), 0.0, 1.0).tolist())
            best = PointMatches(part=number, inliers=found.inliers, lines=lines)
    return best
