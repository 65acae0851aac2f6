"""A torch encoder → a folder that `onnx:` runs, without torch: `wherein export SPEC FOLDER`.

The graphs are compared with torch before the folder is there: a cosine under LEAST is refused.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import load
from wherein.encoders.hf.base import TorchEncoder
from wherein.encoders.hf.hub import HubEncoder
from wherein.encoders.hf.runtime import torch_for
from wherein.encoders.onnx import OnnxEncoder, OnnxSettings
from wherein.encoders.openclip import OpenClipEncoder
from wherein.encoders.tokenizer import bpe_tokenizer
from wherein.errors import InputError, SpecError

LEAST: Final = 0.999
"""The cosine to torch that an exported pair must reach, for images and for texts."""
LEAST_INT8: Final = 0.95
"""The same of a pair in 8 bits, which is smaller and rounder."""
OPSET: Final = 17
"""An operator set that every onnxruntime since 1.14 runs."""
RESAMPLING: Final = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""Pillow's filters in the order of their numbers, by which preprocessing is described."""
_TEXTS: Final = ("a red tree", "Two dogs on a beach, seen from above.", "", "a photo of something " * 40)
"""Texts by which an exported tower is compared with its original: short, long, empty and too long."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written, and how near it is to what it was made from."""

    folder: Path
    bytes: int
    image_cosine: float
    text_cosine: float | None


def export_encoder(spec: str, folder: Path, *, int8: bool = False) -> Exported:
    """Write the encoder of a spec to a folder that is not there yet, or empty; it appears when it is complete."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; name a folder that is new or empty.")
    encoder = load(spec, device="cpu") if spec.partition(":")[0] not in ("mini", "toy", "onnx") else None
    if not isinstance(encoder, TorchEncoder):
        raise SpecError(
            f"{spec}: only models of torch are exported (hf:, openclip:, naclip:); it runs without already."
        )
    _check(encoder)
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".export-", dir=folder.absolute().parent))
    try:
        _write(encoder, aside, int8=int8)
        image, text = compare(encoder, OnnxEncoder(str(aside)))
        least = LEAST_INT8 if int8 else LEAST
        if min(image, 1.0 if text is None else text) < least:
            raise SpecError(
                f"{spec}: its graphs answer otherwise than torch (cosine {image:.4f}, {text}); not written."
            )
        if folder.exists():
            folder.rmdir()
        aside.chmod(0o755)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Exported(folder, sum(path.stat().st_size for path in folder.iterdir()), image, text)


def compare(encoder: TorchEncoder, exported: OnnxEncoder) -> tuple[float, float | None]:
    """The lowest cosine between both for random images, prepared by each itself, and for texts of every length."""
    from wherein.images.image import decode

    random = np.random.default_rng(0)
    coarse = [random.integers(0, 256, shape, dtype=np.uint8) for shape in ((12, 16, 3), (20, 9, 3), (7, 7, 3))]
    pictures = [decode(np.kron(one, np.ones((24, 24, 1), np.uint8))) for one in coarse]
    ours, theirs = (
        one.images(np.stack([one.prepare(picture) for picture in pictures])).global_ for one in (encoder, exported)
    )
    if not encoder.embeds_text:
        return _lowest(ours, theirs), None
    return _lowest(ours, theirs), _lowest(encoder.texts(_TEXTS), exported.texts(_TEXTS))


def _lowest(ours: Floats, theirs: Floats) -> float:
    return float((ours * theirs).sum(axis=1).min())


def _check(encoder: TorchEncoder) -> None:
    """Refuse what the form of `onnx:` cannot say: images of several vectors, or of another aspect each."""
    if encoder.vectors > 1:
        raise SpecError(f"{encoder.spec}: an image has {encoder.vectors} vectors, and an exported pair one each.")
    if encoder.input_hw[0] != encoder.input_hw[1] or type(encoder).__name__ == "Siglip2Encoder":
        raise SpecError(f"{encoder.spec}: takes images of any aspect, and an exported pair one square size.")
    if not isinstance(encoder, HubEncoder | OpenClipEncoder) or encoder.dense_shape is not None:
        raise SpecError(f"{encoder.spec}: this family cannot be exported; hf:, naclip: and openclip: can.")


def _write(encoder: TorchEncoder, folder: Path, *, int8: bool) -> None:
    torch = torch_for(encoder.spec)
    image = _image_tower(torch, encoder)
    outputs = ["embedding"] + (["patches"] if encoder.grid_hw is not None else [])
    pixels = torch.zeros((2, 3, *encoder.input_hw))
    _graph(torch, image, (pixels,), folder / "image.onnx", ["pixels"], outputs, {"pixels": {0: "n"}})
    settings = replace(describe(encoder), batched=not int8)
    if encoder.embeds_text:
        tokens = encoder.tokenize(["a red tree", "a dog"])
        names = [name for name in ("input_ids", "text", "attention_mask") if name in tokens]
        text = _text_tower(torch, encoder, names)
        given = tuple(tokens[name] for name in names)
        _graph(
            torch, text, given, folder / "text.onnx", names, ["embedding"], {name: {0: "n", 1: "t"} for name in names}
        )
        _tokenizer(encoder).save(str(folder / "tokenizer.json"))
    (folder / "encoder.json").write_text(json.dumps(asdict(settings), indent=2))
    if int8:
        for graph in sorted(folder.glob("*.onnx")):
            _quantise(graph)


def describe(encoder: TorchEncoder) -> OnnxSettings:
    """How the exported pair is to be fed, so that it sees what the encoder does."""
    patches = "patches" if encoder.grid_hw is not None else None
    if isinstance(encoder, OpenClipEncoder):
        own = encoder.preprocessing
        squash = own.resize_mode == "squash"
        if own.resize_mode == "longest":
            raise SpecError(f"{encoder.spec}: pads images to a square, which an exported pair cannot say.")
        return OnnxSettings(
            size=encoder.input_hw[0],
            mean=tuple(own.mean),
            std=tuple(own.std),
            crop="squash" if squash else "centre-rounded",
            resample=own.interpolation,
            context=int(encoder.tokenize(["a"])["text"].shape[1]),
            pad_id=int(encoder.tokenize([""])["text"][0, -1]),
            patch_output=patches,
        )
    if not isinstance(encoder, HubEncoder):
        raise SpecError(f"{encoder.spec}: this family cannot be exported.")
    processor, sizes = encoder.model.image_processor, encoder.sizes
    cropped = bool(sizes.get("do_center_crop", getattr(processor, "do_center_crop", False)))
    size = sizes.get("size", processor.size)
    padded = "attention_mask" not in encoder.tokenize(["a"]) if encoder.embeds_text else False
    return OnnxSettings(
        size=encoder.input_hw[0],
        mean=tuple(processor.image_mean),
        std=tuple(processor.image_std),
        crop="centre" if cropped else "squash",
        edge=size.get("shortest_edge") if cropped else None,
        resample=RESAMPLING[int(processor.resample)],
        context=encoder.longest_text if encoder.embeds_text else 77,
        pad_id=int(encoder.model.tokenizer.pad_token_id or 0) if encoder.embeds_text else 0,
        lowercase=padded,
        patch_output=patches,
    )


def _image_tower(torch: Any, encoder: TorchEncoder) -> Any:
    class ImageTower(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = encoder.network

        def forward(self, pixels: Any) -> Any:
            whole, patches = encoder.embed_images(pixels)
            if patches is None or encoder.grid_hw is None:
                return whole
            return whole, patches.reshape(-1, *encoder.grid_hw, encoder.dim)

    return ImageTower().eval()


def _text_tower(torch: Any, encoder: TorchEncoder, names: Sequence[str]) -> Any:
    class TextTower(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = encoder.network

        def forward(self, *tokens: Any) -> Any:
            return encoder.embed_texts(dict(zip(names, tokens, strict=True)))

    return TextTower().eval()


def _graph(
    torch: Any,
    module: Any,
    given: tuple[Any, ...],
    path: Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    free: Any,
) -> None:
    axes = free | {name: {0: "n"} for name in outputs}
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # a fused operator that ONNX does not have
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer warns of every shape that it takes for constant; compare() judges
        torch.onnx.export(
            module,
            given,
            str(path),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )
    torch.backends.mha.set_fastpath_enabled(fast)


def _quantise(path: Path) -> None:
    """Weights of matrix products in 8 bits, one scale a column; a quarter of the size."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    whole, plain = path.with_suffix(".whole"), path.with_suffix(".plain")
    path.rename(whole)
    quant_pre_process(str(whole), str(plain), skip_symbolic_shape=True)
    _unshare(plain)
    quantize_dynamic(
        str(plain), str(path), weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul", "Gemm"]
    )
    whole.unlink()
    plain.unlink()


def _unshare(path: Path) -> None:
    """Give every `Gemm` a weight of its own: onnxruntime turns each round in place, one that two share twice."""
    import onnx

    model = onnx.load(str(path))
    weights = {one.name: one for one in model.graph.initializer}
    seen = set[str]()
    for number, node in enumerate(model.graph.node):
        name = node.input[1] if node.op_type == "Gemm" else ""
        if name in seen and name in weights:
            copy = model.graph.initializer.add()
            copy.CopyFrom(weights[name])
            copy.name = node.input[1] = f"{name}.{number}"
        seen.add(name)
    onnx.save(model, str(path))


def _tokenizer(encoder: TorchEncoder) -> Any:
    if isinstance(encoder, HubEncoder):
        return encoder.model.tokenizer.backend_tokenizer
    if isinstance(encoder, OpenClipEncoder):
        own = encoder.tokenizer
        return own.tokenizer.backend_tokenizer if hasattr(own, "tokenizer") else bpe_tokenizer(own)
    raise SpecError(f"{encoder.spec}: this family cannot be exported.")
