"""Models of the real size with random weights: what they cost is what trained ones cost, and nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wherein.encoders.hf.runtime import torch_for, transformers_for
from wherein.errors import MissingExtra


def untrained_grounding_dino(*, size_hw: tuple[int, int], prompt: Sequence[int]) -> Callable[[], None] | None:
    """Looks at one blank image of a size for a prompt of tokens each time it is called; None without the extra `hf`."""
    try:
        torch, transformers = torch_for("a grounded detector"), transformers_for("a grounded detector")
    except MissingExtra:
        return None
    model: Any = transformers.GroundingDinoForObjectDetection(transformers.GroundingDinoConfig())
    model.eval()
    ids = torch.tensor([list(prompt)])

    def look() -> None:
        with torch.inference_mode():
            model(pixel_values=torch.zeros(1, 3, *size_hw), input_ids=ids, attention_mask=torch.ones_like(ids))

    return look
