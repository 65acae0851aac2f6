"""Your own exported pair: `onnx:FOLDER` runs `image.onnx` and, where there is one, `text.onnx` from FOLDER.

FOLDER/encoder.json states what the graphs need; every key has the default shown:

    {"size": 224, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "crop": "squash",
     "edge": null, "resample": null, "context": 77, "pad_id": 0, "lowercase": false, "batched": true,
     "image_output": null, "text_output": null, "patch_output": null}

`image.onnx` takes one float32 input (n, 3, size, size) and gives (n, d); `patch_output` names an output
(n, gh, gw, d) or (n, gh·gw, d) in the same space. `text.onnx` takes token ids (n, context) from
FOLDER/tokenizer.json, and an attention mask if it has a second input, and gives (n, d). `resample` names a filter of
Pillow (`bicubic`, …) where the model's own preprocessing is to be met to the grey level; a `centre` crop is then cut
out of the image resized to a shorter side of `edge`. Where `batched` is false, rows are run one by one:
what is quantised as it runs would else depend on its neighbours. `wherein export` writes such folders.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import PIL.Image

from wherein.arrays import Floats, unit
from wherein.encoders import Encoded
from wherein.encoders.digest import files_digest
from wherein.errors import SpecError
from wherein.files import expanded
from wherein.images.image import Image, Pixels
from wherein.values.region import Box

_LARGEST: Final = 4096
"""Pixels of an input's side: larger towers do not exist, and a damaged number would ask for gigabytes."""
_CROPS: Final = ("squash", "centre", "centre-rounded")
"""The last one shares an odd margin as torchvision does, which matters only to the last grey level."""


@dataclass(frozen=True, slots=True)
class OnnxSettings:
    """What encoder.json may say."""

    size: int = 224
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    crop: str = "squash"
    edge: int | None = None
    resample: str | None = None
    context: int = 77
    pad_id: int = 0
    lowercase: bool = False
    batched: bool = True
    image_output: str | None = None
    text_output: str | None = None
    patch_output: str | None = None

    def check(self) -> None:
        """ValueError where a value is not of its kind."""
        for name in ("mean", "std"):
            three = getattr(self, name)
            numbers = isinstance(three, tuple) and len(three) == 3 and all(type(n) in (int, float) for n in three)
            if not numbers or not all(math.isfinite(n) for n in three) or (name == "std" and 0 in three):
                raise ValueError(f"{name} = {three!r} is not three numbers")
        bounds = {"size": (1, _LARGEST), "edge": (1, _LARGEST), "context": (1, 1 << 16), "pad_id": (0, 1 << 31)}
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if (value is not None or name != "edge") and (type(value) is not int or not least <= value <= most):
                raise ValueError(f"{name} = {value!r} is not a number from {least} to {most}")
        for name in ("crop", "resample", "image_output", "text_output", "patch_output"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (value is None and name != "crop"):
                raise ValueError(f"{name} = {value!r} is not a text")
        for name in ("lowercase", "batched"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} = {getattr(self, name)!r} is neither true nor false")

    @classmethod
    def read(cls, path: Path) -> Self:
        """OnnxSettings from a JSON file; all defaults where it does not exist."""
        if not path.exists():
            return cls()
        try:
            values: dict[str, Any] = json.loads(path.read_text())
            tuples: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
            settings = cls(**tuples)
            settings.check()
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise SpecError(f"{path}: is not a valid encoder description ({error}).") from error
        if settings.crop not in _CROPS:
            raise SpecError(f"{path}: crop {settings.crop!r} is unknown; known: {', '.join(_CROPS)}.")
        if settings.resample is not None and settings.resample.upper() not in PIL.Image.Resampling.__members__:
            known = ", ".join(name.lower() for name in PIL.Image.Resampling.__members__)
            raise SpecError(f"{path}: resample {settings.resample!r} is unknown; known: {known}.")
        return settings


class OnnxEncoder:
    """An image tower and perhaps a text tower, exported to ONNX by the user."""

    dense_shape: tuple[int, int, int] | None = None
    patch_basis: Floats | None = None
    device: str = "cpu"
    batch: int = 1
    vectors: int = 1

    def __init__(self, variant: str, *, threads: int = 1) -> None:
        folder = expanded(variant)
        if not (folder / "image.onnx").is_file():
            raise SpecError(f"onnx:{variant}: no image.onnx in that folder; export the image tower there.")
        self.spec = f"onnx:{variant}"
        self._folder, self._threads = folder, threads
        self._settings = OnnxSettings.read(folder / "encoder.json")
        self.embeds_text = (folder / "text.onnx").is_file()
        self.input_hw = (self._settings.size, self._settings.size)
        probe = self.images(np.zeros((1, *self.input_hw, 3), np.uint8))
        self.dim = probe.global_.shape[1]
        self.grid_hw = None if probe.patches is None else (probe.patches.shape[1], probe.patches.shape[2])

    @cached_property
    def digest(self) -> str:
        """SHA-256 over every file that shapes the numbers."""
        files = [self._folder / name for name in ("encoder.json", "image.onnx", "text.onnx", "tokenizer.json")]
        return files_digest(path for path in files if path.is_file())

    def prepare(self, image: Image) -> Pixels:
        """The image squashed, or its central square, at the tower's size."""
        if self._settings.resample is not None:
            return self._resampled(image, PIL.Image.Resampling[self._settings.resample.upper()])
        if self._settings.crop != "squash":
            width, height = image.size_wh
            side = min(width, height)
            x, y = (width - side) / 2 / width, (height - side) / 2 / height
            image = image.crop(Box(x, y, 1 - x, 1 - y))
        return image.resized((self._settings.size, self._settings.size))

    def _resampled(self, image: Image, resample: PIL.Image.Resampling) -> Pixels:
        """The same by a filter of Pillow: squashed, or the middle of the image at a shorter side of `edge`."""
        size, picture = self._settings.size, PIL.Image.fromarray(image.pixels)
        if self._settings.crop == "squash":
            return np.asarray(picture.resize((size, size), resample))
        edge, (width, height) = self._settings.edge or size, image.size_wh
        shorter = min(width, height)
        large = picture.resize((edge * width // shorter, edge * height // shorter), resample)
        margins = (large.width - size, large.height - size)
        left, top = (round(one / 2) if self._settings.crop == "centre-rounded" else one // 2 for one in margins)
        return np.asarray(large.crop((left, top, left + size, top + size)))

    def images(self, batch: Pixels) -> Encoded:
        """Embed prepared images, uint8 (n, size, size, 3)."""
        mean, std = (np.array(v, np.float32) for v in (self._settings.mean, self._settings.std))
        pixels = ((batch.astype(np.float32) / 255.0 - mean) / std).transpose(0, 3, 1, 2)
        session = self._image
        names = [output.name for output in session.get_outputs()]
        wanted = [self._settings.image_output or names[0]]
        wanted += [self._settings.patch_output] if self._settings.patch_output else []
        if not len(batch):
            return Encoded(np.zeros((0, self.dim), np.float32), _no_grids(self.grid_hw, self.dim))
        found = self._run("image.onnx", session, wanted, {session.get_inputs()[0].name: np.ascontiguousarray(pixels)})
        global_ = unit(np.asarray(found[0], np.float32))
        return Encoded(global_, unit(_as_grid(found[1])) if len(found) > 1 else None)

    def texts(self, texts: Sequence[str]) -> Floats:
        """Embed texts: (n, d)."""
        if not self.embeds_text:
            raise SpecError(f"{self.spec} has no text.onnx: give an example image, or export the text tower.")
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        asked = [text.lower() for text in texts] if self._settings.lowercase else list(texts)
        encodings = self._tokenizer.encode_batch(asked)
        feeds = {}
        for put, values in zip(
            self._text.get_inputs(),
            ([e.ids for e in encodings], [e.attention_mask for e in encodings]),
            strict=False,
        ):
            feeds[put.name] = np.array(values, np.int32 if "int32" in put.type else np.int64)
        wanted = self._settings.text_output or self._text.get_outputs()[0].name
        return unit(np.asarray(self._run("text.onnx", self._text, [wanted], feeds)[0], np.float32))

    def _run(self, name: str, session: Any, wanted: list[str], feeds: dict[str, Any]) -> list[Any]:
        rows = range(len(next(iter(feeds.values()))))
        try:
            if self._settings.batched:
                found: list[Any] = session.run(wanted, feeds)
            else:
                each = [session.run(wanted, {key: value[[row]] for key, value in feeds.items()}) for row in rows]
                found = [np.concatenate(parts) for parts in zip(*each, strict=True)]
        except Exception as error:  # the runtime has one class per error code, all derived from Exception
            raise SpecError(
                f"{self._folder / name}: cannot be run as encoder.json says ({_reason(error)}). Correct one of them."
            ) from error
        return found

    @cached_property
    def _image(self) -> Any:
        return session(self._folder / "image.onnx", threads=self._threads)

    @cached_property
    def _text(self) -> Any:
        return session(self._folder / "text.onnx", threads=self._threads)

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        path = self._folder / "tokenizer.json"
        if not path.is_file():
            raise SpecError(f"{self.spec}: text.onnx needs a tokenizer.json beside it.")
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.enable_truncation(self._settings.context)
        tokenizer.enable_padding(length=self._settings.context, pad_id=self._settings.pad_id)
        return tokenizer


def runtime() -> Any:
    """The module onnxruntime with its telemetry off: its wheel sends events to its maker unless it is told not to.

    `wherein/__init__.py` sets the variable that is read when the library is loaded; a program that loaded it first is
    told here, where the library can still be asked to stop.
    """
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    return onnxruntime


def session(path: Path, *, threads: int) -> Any:
    """An ONNX Runtime session on the CPU that sleeps, rather than spins, while it waits."""
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise SpecError(f"{path}: cannot be loaded ({_reason(error)}). Export it again.") from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rpartition(" : ")[2]


def _no_grids(grid_hw: tuple[int, int] | None, dim: int) -> Floats | None:
    return None if grid_hw is None else np.zeros((0, *grid_hw, dim), np.float32)


def _as_grid(patches: npt.NDArray[np.float32]) -> Floats:
    if patches.ndim == 4:
        return np.asarray(patches, np.float32)
    n, count, dim = patches.shape
    side = round(count**0.5)
    if side * side != count:
        raise SpecError(f"patch output of shape {patches.shape} is not a square grid: export (n, gh, gw, d).")
    return np.asarray(patches.reshape(n, side, side, dim), np.float32)
