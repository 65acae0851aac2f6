"""Mid-level features: places of the `dense` map of `mini`, the most distinct of each image, whitened.

Between corners, which know no context, and one embedding, which knows no detail. A look at the whole image gives
32 × 32 places; a closer one adds the four quarters, so that several scales are seen. Each scale keeps the places that
differ most from its own mean: plain sky and table say nothing. All descriptors are whitened by the photographs that
come with the package. Best compared by `asmk:midlevel`; things that are turned are left to RootSIFT.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.encoders import Encoder, load
from wherein.errors import SpecError
from wherein.features import LocalFeatures
from wherein.images.image import Image, decode
from wherein.values.region import WHOLE, Box

PHOTOS: Final = Path(__file__).parents[1] / "demo" / "photos"
"""The photographs that descriptors are whitened by."""
_PLACES: Final = 600
"""Places kept of each look; of the quarters together as many again. Chosen by hand."""
_ONE_LOOK: Final = 256
"""The input side of `mini`."""
_QUARTERS: Final = tuple(Box(x, y, x + 0.5, y + 0.5) for y in (0.0, 0.5) for x in (0.0, 0.5))
"""What a closer look is taken at."""
_FLOOR: Final = 1e-3
"""Directions that vary less than this share of the strongest are not blown up further."""


class MidLevel:
    """Distinct places of a dense map, as `midlevel`; `midlevel:dense` looks at quarters when indexing too."""

    compact = False

    def __init__(self, variant: str = "") -> None:
        if variant not in ("", "dense"):
            raise SpecError(f"midlevel:{variant} does not exist; known: midlevel, midlevel:dense.")
        self.spec = f"midlevel:{variant}" if variant else "midlevel"
        self.side = 2 * _ONE_LOOK if variant else _ONE_LOOK
        self.query_side = 2 * _ONE_LOOK

    @cached_property
    def _encoder(self) -> Encoder:
        return load("mini", threads=1)

    @property
    def dim(self) -> int:
        """Of the dense map."""
        shape = self._encoder.dense_shape
        if shape is None:
            raise SpecError("midlevel needs an encoder with a dense map, which mini no longer has.")
        return shape[2]

    @cached_property
    def digest(self) -> str:
        """Of the encoder and of the photographs that whiten."""
        photos = sorted(PHOTOS.glob("*.jpg"))
        told = " ".join(["1", self.spec, self._encoder.digest, *(f"{one.name} {one.stat().st_size}" for one in photos)])
        return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()

    @cached_property
    def _whitening(self) -> tuple[Floats, Floats]:
        """(d,) mean and (d, d) map: afterwards all directions vary alike over ordinary photographs."""
        rows = np.concatenate([self._rows_of(decode(path)) for path in sorted(PHOTOS.glob("*.jpg"))]).astype(np.float64)
        mean = rows.mean(axis=0)
        values, axes = np.linalg.eigh(np.cov((rows - mean).T))
        stretch = 1.0 / np.sqrt(np.maximum(values, values.max() * _FLOOR))
        return mean.astype(np.float32), (axes * stretch).astype(np.float32)

    def features(self, image: Image, *, side: int) -> LocalFeatures:
        """One look at the whole, and with a larger `side` four closer ones."""
        whole = self._distinct(image, WHOLE, _PLACES)
        looks = [whole]
        if side > _ONE_LOOK and min(image.size_wh) > 1:
            looks += [self._distinct(image, box, _PLACES // len(_QUARTERS)) for box in _QUARTERS]
        points = np.concatenate([points for points, _ in looks])
        rows = np.concatenate([rows for _, rows in looks])
        width, height = image.size_wh
        scale = min(1.0, side / max(width, height))
        return LocalFeatures(points, rows, (max(1, round(width * scale)), max(1, round(height * scale))))

    def _distinct(self, image: Image, box: Box, most: int) -> tuple[Floats, Floats]:
        """The places of one look that differ most from its mean: keypoints and whitened descriptors."""
        rows = self._rows_of(image if box.area == 1.0 else image.crop(box))
        side = round(len(rows) ** 0.5)
        apart = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
        kept = np.argsort(-apart, kind="stable")[:most]
        kept = kept[apart[kept] > 1e-6]
        y, x = np.divmod(kept, side)
        points = np.zeros((len(kept), 4), np.float32)
        points[:, 0] = box.x1 + (x + 0.5) / side * (box.x2 - box.x1)
        points[:, 1] = box.y1 + (y + 0.5) / side * (box.y2 - box.y1)
        points[:, 2] = (box.x2 - box.x1) / side
        mean, map_ = self._whitening
        return points, unit((rows[kept] - mean) @ map_)

    def _rows_of(self, image: Image) -> Floats:
        """(places, d) of one forward pass."""
        dense = self._encoder.images(self._encoder.prepare(image)[None]).dense
        if dense is None:
            raise SpecError("mini gave no dense map, which midlevel needs.")
        return np.asarray(dense[0].reshape(-1, dense.shape[-1]), np.float32)
