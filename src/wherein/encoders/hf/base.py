"""What every torch encoder shares: preprocessing, batches, device and precision. A family adds how it embeds."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import Encoded
from wherein.encoders.hf.runtime import choose_device, choose_precision, torch_for
from wherein.errors import SpecError
from wherein.images.image import Image, Pixels

CPU_BATCH: Final = 8
"""Images at a time on a processor. A guess, not measured: memory grows with it, and results do not change."""
GPU_BATCH: Final = 64
"""A guess, not measured: enough to keep a GPU busy, and little memory even at a large input."""
TEXT_BATCH: Final = 256
"""Texts at a time. A guess, not measured: they are short, and results do not change with it."""


class TorchEncoder:
    """An encoder whose network runs in torch. Its weights are read when they are first needed."""

    embeds_text: bool = True
    vectors: int = 1
    """How many embeddings an image has: 1, or those of `Encoded.several`."""
    dense_shape: tuple[int, int, int] | None = None
    patch_basis: Floats | None = None
    dim: int
    digest: str
    grid_hw: tuple[int, int] | None

    def __init__(self, spec: str, *, threads: int = 1, device: str = "auto", precision: str = "auto") -> None:
        self.spec = spec
        self.device = choose_device(device, self.spec)
        self.batch = CPU_BATCH if self.device == "cpu" else GPU_BATCH
        self.dtype = choose_precision(precision, self.device, self.spec)
        self._threads, self._lock, self._loading = threads, threading.Lock(), threading.Lock()
        self._network: Any = None
        self.input_hw = self.find_input_hw()
        self.describe()

    # what a family says

    def describe(self) -> None:
        """Set `dim` and `grid_hw` from the model's settings."""
        raise NotImplementedError

    def embed_images(self, pixels: Any) -> tuple[Any, Any | None]:
        """(n, d) and, where the model has them, patches (n, gh · gw, d), of normalised pixels (n, 3, h, w)."""
        raise NotImplementedError

    def embed_texts(self, tokens: dict[str, Any]) -> Any:  # noqa: ARG002 — families that read text do
        """(n, d) of what `tokenize` gave."""
        raise SpecError(f"{self.spec} reads no text: search with an example image, or index with another encoder.")

    def tokenize(self, texts: Sequence[str]) -> dict[str, Any]:
        """Texts as the model's own tokenizer writes them, cut at its longest."""
        raise NotImplementedError

    def normalised(self, batch: Any) -> Any:
        """Prepared images, uint8 (n, h, w, 3) on the device → (n, 3, h, w) as the model takes them."""
        raise NotImplementedError

    def load_network(self, dtype: Any) -> Any:
        """The network, on the CPU, for inference."""
        raise NotImplementedError

    def find_input_hw(self) -> tuple[int, int]:
        """Height and width of a prepared image."""
        raise NotImplementedError

    def prepare(self, image: Image) -> Pixels:
        """The image resized and cropped by the model's own preprocessing, before it is rescaled and normalised."""
        raise NotImplementedError

    # the contract

    def images(self, batch: Pixels) -> Encoded:
        """Embed prepared images, uint8 (n, ih, iw, 3)."""
        torch = torch_for(self.spec)
        parts = [self._some(batch[start : start + self.batch]) for start in range(0, len(batch), self.batch)]
        whole = torch.cat([part[0] for part in parts]) if parts else torch.zeros((0, self.vectors, self.dim))
        embedded = whole.reshape(len(batch), self.vectors, self.dim).numpy()
        several = embedded if self.vectors > 1 else None
        global_ = embedded[:, 0] if several is None else _unit(embedded.mean(axis=1))
        grid = self.dense_shape or (None if self.grid_hw is None else (*self.grid_hw, self.dim))
        if grid is None:
            return Encoded(global_, several=several)
        maps = torch.cat([part[1] for part in parts]) if parts else torch.zeros((0,))
        placed = maps.reshape(len(batch), *grid).numpy()
        return Encoded(global_, dense=placed) if self.dense_shape else Encoded(global_, placed, several=several)

    def texts(self, texts: Sequence[str]) -> Floats:
        """Embed texts: (n, d)."""
        torch = torch_for(self.spec)
        if not self.embeds_text:
            self.embed_texts({})
        rows = [torch.zeros((0, self.dim))]
        for start in range(0, len(texts), TEXT_BATCH):
            tokens = {
                name: ids.to(self.device) for name, ids in self.tokenize(texts[start : start + TEXT_BATCH]).items()
            }
            with self._running():
                rows.append(_unit_rows(self.embed_texts(tokens)))
        return np.asarray(torch.cat(rows).numpy(), np.float32)

    # what families use

    @property
    def network(self) -> Any:
        """The network, on its device and in its precision; the first thread that needs it reads the weights."""
        with self._loading:
            if self._network is None:
                self._network = self.load_network(self.dtype).to(self.device)
            return self._network

    def patch_grid(self, patch: int) -> tuple[int, int]:
        """Rows and columns of patches in the input; a size that no whole patches fill is refused."""
        rows, columns = (side // patch for side in self.input_hw)
        if not rows or not columns:
            raise SpecError(f"{self.spec}: an input of {self.input_hw} holds no patch of {patch} pixels.")
        return rows, columns

    def _some(self, batch: Pixels) -> tuple[Any, Any | None]:
        owned = batch if batch.flags.writeable else batch.copy()  # torch warns of arrays that it may not write to
        pixels = torch_for(self.spec).from_numpy(owned).to(self.device)
        with self._running():
            whole, patches = self.embed_images(self.normalised(pixels))
            return _unit_rows(whole), None if patches is None else _unit_rows(patches)

    def _running(self) -> _Running:
        return _Running(self)


class _Running:
    """Inference on the encoder's own number of threads; one call at a time on a GPU, side by side on the CPU."""

    def __init__(self, encoder: TorchEncoder) -> None:
        self._torch = torch_for(encoder.spec)
        self._lock = None if encoder.device == "cpu" else encoder._lock
        self._mode = self._torch.inference_mode()
        if self._torch.get_num_threads() != encoder._threads:
            self._torch.set_num_threads(encoder._threads)

    def __enter__(self) -> None:
        if self._lock is not None:
            self._lock.acquire()
        self._mode.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._mode.__exit__(*raised)
        if self._lock is not None:
            self._lock.release()


def _unit_rows(rows: Any) -> Any:
    """float32 on the CPU, of unit norm along the last axis."""
    rows = rows.float()
    return (rows / rows.norm(dim=-1, keepdim=True).clamp_min(1e-12)).cpu()


def _unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12), np.float32)
