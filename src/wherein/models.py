"""The facade of models: which encoders and detectors there are, how they are opened, and where they run.

The command and the server ask here, and never import the file of one family of models.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wherein.detectors import Detection, Detector, load_detector
from wherein.encoders import DEVICE_VARIABLE, describe_families, families_that_name_no_model, load
from wherein.encoders.known import DEFAULT, HEADER, KNOWN, columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wherein.encoders.export import Exported

__all__ = [
    "DEFAULT",
    "HEADER",
    "KNOWN",
    "Detection",
    "Detector",
    "columns",
    "describe_families",
    "export_encoder",
    "families_that_name_no_model",
    "load",
    "load_detector",
    "untrained_grounding_dino",
    "use_models",
]


def untrained_grounding_dino(*, size_hw: tuple[int, int], prompt: Sequence[int]) -> Callable[[], None] | None:
    """Looks at one blank image each time it is called, with random weights of the real size; None without `hf`."""
    from wherein.encoders.hf.untrained import untrained_grounding_dino as made

    return made(size_hw=size_hw, prompt=prompt)


def use_models(*, device: str | None, trust_remote_code: bool) -> None:
    """Say for this process where models run and whether their repositories may run Python of their own."""
    if device is not None:
        os.environ[DEVICE_VARIABLE] = device  # the processes that are started from here inherit it
    if trust_remote_code:
        from wherein.encoders.hf.runtime import allow_remote_code

        allow_remote_code(True)


def export_encoder(spec: str, folder: Path, *, int8: bool = False) -> Exported:
    """Write an encoder of torch to a new folder that `onnx:FOLDER` runs without torch, once it was compared with it."""
    from wherein.encoders.export import export_encoder as export

    return export(spec, folder, int8=int8)
