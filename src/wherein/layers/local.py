"""`local`, or `local:xfeat`: keypoints and descriptors of a family of local features."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from wherein.encoders import Encoder
from wherein.errors import InputError
from wherein.features import FeatureFamily, load_features, pack, require_installed
from wherein.images.image import Image
from wherein.layers import BytesKind
from wherein.store.manifest import Layer

LOCAL: Final = "local"
DEFAULT_FEATURES: Final = "rootsift"
"""The family that `local` alone stands for."""


class LocalPoints(BytesKind):
    """The packed local features of an image."""

    word = LOCAL
    summary = "keypoints and their descriptors, for verifying that two images show the same thing"

    def __init__(self, kind: str) -> None:
        self.kind = kind
        word, colon, self.spec = kind.partition(":")
        if word != LOCAL or bool(colon) != bool(self.spec):
            raise InputError(f"layer {kind!r}: write local, or local:FAMILY such as local:xfeat.")

    @cached_property
    def family(self) -> FeatureFamily:
        """The family of local features."""
        return load_features(self.spec or DEFAULT_FEATURES)

    def check(self) -> None:
        """Refuse the layer where its family of features is not installed."""
        require_installed(self.family)

    def layer(self, encoder: Encoder | None = None) -> Layer:  # noqa: ARG002 — made without an encoder
        """The layer as it is stored: packed bytes, of another length for each image."""
        family = self.family
        name = f"{LOCAL}.{family.spec.replace(':', '-').replace('/', '_')}.{family.digest[:8]}"
        return Layer(name=name, kind=self.kind, spec=family.spec, digest=family.digest)

    def side(self, encoder: Encoder) -> int:  # noqa: ARG002 — made without an encoder
        """The side that its family looks at."""
        return self.family.side

    def make(self, image: Image) -> bytes:
        """The local features of an image, packed into bytes."""
        return pack(self.family.features(image, side=self.family.side), compact=self.family.compact)
