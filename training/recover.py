"""The towers out of shipped ONNX files, as `train.py --start` reads them: a later edition begins where the last ended.

    python recover.py --weights ../src/wherein/encoders/weights/mini --pictures DATA --out OUT/shipped

Batch norms were folded into the convolutions at export. Each is put back so that it changes nothing: its statistics are
measured on training pictures, and its weight and bias undo them. Integer weights are widened, so what rounding took
away stays away until training mends it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn

import augment
from towers import ImageTower, TextTower, load_image_tower

Arrays = dict[str, NDArray[np.generic]]
CONVOLUTIONS = {"expand_conv": "bn0", "depthwise_conv": "bn1", "project_conv": "bn2", "conv_stem": "bn0"}


class Graph:
    """A graph's weights by the name under which nodes read them, widened to float32."""

    def __init__(self, path: Path) -> None:
        model = onnx.load(path)
        self.nodes = list(model.graph.node)
        self.arrays: Arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self.makers = {name: node for node in self.nodes for name in node.output}

    def weight(self, name: str) -> Tensor:
        """A weight, whether it is stored as it is, in half precision or as integers."""
        if name in self.arrays:
            return torch.from_numpy(np.array(self.arrays[name], np.float32))
        node = self.makers[name]
        if node.op_type == "Cast":
            return self.weight(node.input[0])
        if node.op_type == "Mul":
            return self.weight(node.input[0]) * self.weight(node.input[1])
        assert node.op_type == "DequantizeLinear", node.op_type
        values, shape = self.weight(node.input[0]), [1] * len(self.arrays[node.input[0]].shape)
        shape[next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)] = -1
        if len(node.input) > 2:
            values = values - self.weight(node.input[2]).reshape(shape)
        return values * self.weight(node.input[1]).reshape(shape)


def image_state(graph: Graph) -> dict[str, Tensor]:
    """The image tower's weights; every batch norm adds the folded bias and does nothing else."""
    state: dict[str, Tensor] = {}
    for node in graph.nodes:
        if node.op_type == "Conv" and node.name.startswith(("/backbone/", "/second/")):
            *above, layer, _ = node.name.strip("/").split("/")
            place = ".".join(above)
            norm = "bn1" if layer == "conv_head" else CONVOLUTIONS[layer]
            state[f"{place}.{layer}.weight"] = graph.weight(node.input[1])
            bias = graph.weight(node.input[2])
            ones, zeros = torch.ones_like(bias), torch.zeros_like(bias)
            still = {"weight": ones, "bias": bias, "running_mean": zeros, "running_var": ones - 1e-3}
            state |= {f"{place}.{norm}.{name}": value for name, value in still.items()}
            state[f"{place}.{norm}.num_batches_tracked"] = torch.tensor(0)
        elif node.name == "/Conv":
            state["whole.weight"] = graph.weight(node.input[1])[:, :, 0, 0]
            state["whole.bias"] = graph.weight(node.input[2])
        elif node.name.startswith(("/patch_", "/whole_", "/second/")) and node.op_type in ("Conv", "Gemm"):
            layer = ".".join(node.name.split("/")[1:-1])
            state[f"{layer}.weight"], state[f"{layer}.bias"] = (graph.weight(name) for name in node.input[1:3])
    state["patch_direct"] = graph.weight("tower.patch_direct")
    return state


def text_state(graph: Graph) -> dict[str, Tensor]:
    """The text tower's weights."""
    names = {name.removeprefix("tower.").removesuffix(".int8") for name in graph.arrays if name.startswith("tower.")}
    state = {}
    for name in sorted(names):
        if f"tower.{name}.int8" in graph.arrays:
            state[name] = graph.weight(f"tower.{name}.int8") * graph.weight(f"tower.{name}.scale")
        elif not name.endswith(".scale"):
            state[name] = graph.weight(f"tower.{name}")
    for node in graph.nodes:
        if node.op_type == "MatMul" and len(node.input) == 2 and node.input[1].startswith("onnx::MatMul"):
            layer = ".".join(node.name.strip("/").split("/")[1:-1])
            state[f"{layer}.weight"] = graph.weight(node.input[1]).T.contiguous()
    return state


@torch.no_grad()
def restore_norms(tower: ImageTower, pictures: Tensor) -> None:
    """Give every batch norm the statistics of its input, and the weight and bias that undo them."""
    sums: dict[nn.BatchNorm2d, list[Tensor]] = {}

    def watch(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(norm, nn.BatchNorm2d)
        x = inputs[0].double()
        sums.setdefault(norm, []).append(torch.stack([x.mean((0, 2, 3)), x.square().mean((0, 2, 3))]))

    norms = [norm for norm in tower.modules() if isinstance(norm, nn.BatchNorm2d)]
    hooks = [norm.register_forward_pre_hook(watch) for norm in norms]
    tower.eval()
    for part in pictures.split(64):
        tower(augment.plain(part, side=224))
    for hook in hooks:
        hook.remove()
    for norm, found in sums.items():
        mean, square = torch.stack(found).mean(0)
        variance = (square - mean.square()).clamp(min=1e-6)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)
        norm.weight.copy_((variance + norm.eps).sqrt())
        norm.bias.add_(mean)


def recover(weights: Path, pictures: Tensor) -> tuple[ImageTower, TextTower]:
    """Both towers of a folder of shipped weights; `pictures`, uint8 (n, h, w, 3), restore the batch norms."""
    image, text = load_image_tower(image_state(Graph(weights / "image.onnx"))), TextTower()
    text.load_state_dict(text_state(Graph(weights / "text.onnx")))
    image, text = image.to(pictures.device), text.to(pictures.device)
    restore_norms(image, pictures)
    return image.eval(), text.eval()


def main() -> None:
    """Write OUT-image.safetensors and OUT-text.safetensors."""
    from data import decode_all, read_rows
    from train import Model, save

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, required=True, help="training archives")
    parser.add_argument("--count", type=int, default=768)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rows = sorted(read_rows(args.pictures), key=lambda row: (row["shard"], row["file"]))
    chosen = rows[:: max(1, len(rows) // args.count)]
    pictures = torch.from_numpy(decode_all(args.pictures, chosen, workers=2))
    save(Model(*recover(args.weights, pictures)), args.out.parent, args.out.name)


if __name__ == "__main__":
    main()
