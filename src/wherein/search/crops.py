"""A place in image files, cropped and encoded while somebody waits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.encoders import Encoder
from wherein.errors import ImageError
from wherein.images.image import Pixels
from wherein.images.isolated import decode_given
from wherein.images.picture import Detail
from wherein.parallel import in_parallel
from wherein.store.originals import Original
from wherein.values.region import Box


def crop_embeddings(
    files: Sequence[Original | None], place: Box, encoder: Encoder, *, at_least: Detail | None = None
) -> tuple[Ints, Floats]:
    """Which of the files could be read (n,), and the embeddings (n, d) of the place in each."""

    def crop(file: Original | None) -> Pixels | None:
        if file is None:
            return None
        try:
            image = decode_given(file.read(), at_least=at_least, name=str(file.path))
            return encoder.prepare(image.crop(place))
        except ImageError:
            return None

    crops = {number: made for number, made in enumerate(in_parallel(crop, files)) if made is not None}
    if not crops:
        return np.zeros(0, np.int64), np.zeros((0, encoder.dim), np.float32)
    return np.array(list(crops), np.int64), encoder.images(np.stack(list(crops.values()))).global_
