"""Trained towers → the ONNX files, bases and tokenizer that the package ships.

Pixels go in as `uint8 (n, 256, 256, 3)`; scaling and unit norms are inside the graphs. Most of the image tower computes
in 8-bit integers (`integers.py`); its heads are stored in 8 bits too, its other weights in half precision, and both are
widened when a session starts. The text tower's are 8-bit integers with a scale for each output, or for each row of a
table; a runtime that can multiplies them as they are, by inputs that it rounds to 8 bits, and others widen them.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file
from torch import Tensor, nn

import texts as wording
from augment import scale
from data import decode_all, read_rows
from integers import to_integers
from quiet import onnxruntime
from towers import CHANNELS_8, CHANNELS_16, CHANNELS_32, DIM, ImageTower, Maps, TextTower, load_image_tower, twice

SIDE, DENSE, BASIS = 256, 64, 64
# How much each map counts in the dense one: fine detail and parts lead, meaning helps.
DENSE_SHARES = (1.0, 1.0, 0.7)
WHITENING = 0.25
# Weights of the image file with more numbers than this are stored in 8 bits: the heads, which would be half of it.
LARGE = 100_000
# Of the training pictures: how many give the ranges of 8-bit maps; the others correct the biases.
RANGING = 60


class ImageGraph(nn.Module):
    """What the image file computes: embedding, patches and, once its projections are known, the dense map."""

    def __init__(
        self, tower: ImageTower, common: Tensor, *, projections: list[NDArray[np.float32]] | None, share: float
    ) -> None:
        super().__init__()
        self.tower, self.common, self.mean_share = tower, common, share
        self.projections = nn.ModuleList()
        for weight in projections or []:
            conv = nn.Conv2d(weight.shape[1], DENSE, 1, bias=len(self.projections) == 0)
            conv.weight.data = torch.from_numpy(weight)[:, :, None, None]
            self.projections.append(conv)

    def centre(self, bias: NDArray[np.float32]) -> None:
        """Subtract the mean feature, through the bias of the first projection."""
        first = self.projections[0]
        assert isinstance(first, nn.Conv2d)
        assert first.bias is not None
        first.bias.data = torch.from_numpy(bias)

    def dense(self, maps: Maps) -> Tensor:
        """Project each map, enlarge, add: the same as projecting their concatenation."""
        total = self.projections[0](maps.s8)
        for factor, projection, single in zip((2, 4), self.projections[1:], maps[1:], strict=True):
            total = total + F.interpolate(projection(single), scale_factor=factor, mode="bilinear", align_corners=False)
        return total

    def strength(self, patches: Tensor, linear: Tensor) -> Tensor:
        """Patches `(n, gh * gw, d)` freed of what all texts share, and as long as what they show is of note.

        Normalising a patch by itself would make a bare wall as loud as a fish. So its length is its own times that of
        the whole-image head's linear part at its place, and the longest of an image has length one.
        """
        own = patches * length(rows(twice(linear)))
        own = own - (own * self.common).sum(-1, keepdim=True) * self.common
        return own / length(own).amax(1, keepdim=True)

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """(global `(n, d)`, patches `(n, gh, gw, d)`, dense `(n, dh, dw, c)` or the three maps)."""
        maps = self.tower.backbone(scale(pixels.permute(0, 3, 1, 2).float()))
        linear = self.tower.linear(maps.s32)
        patches = rows(self.tower.patches(maps, linear))
        inner = F.relu(self.tower.whole_inner(maps.s32.mean((2, 3))))
        # The mean of the linear head over places is the linear head of the mean: `tower.project`, computed once.
        whole = self.tower.embed(maps, linear.mean((2, 3)) + self.tower.whole_outer(inner))
        whole = unit(unit(whole) + self.mean_share * unit(unit(patches).mean(1)))
        grid = self.strength(patches, linear).reshape(-1, SIDE // 16, SIDE // 16, DIM)
        if not self.projections:
            return whole, grid, *maps
        return whole, grid, unit(rows(self.dense(maps))).reshape(-1, SIDE // 8, SIDE // 8, DENSE)


def rows(grid: Tensor) -> Tensor:
    """A map `(n, d, h, w)` as `(n, h * w, d)`: lengths are then sums of neighbours, several times faster."""
    return grid.permute(0, 2, 3, 1).flatten(1, 2)


def length(vectors: Tensor) -> Tensor:
    """`(…, 1)`: Euclidean lengths along the last axis."""
    return (vectors * vectors).sum(-1, keepdim=True).sqrt()


def unit(vectors: Tensor) -> Tensor:
    """Vectors of length one along the last axis."""
    return vectors / length(vectors)


class TextGraph(nn.Module):
    """What the text file computes."""

    def __init__(self, tower: TextTower) -> None:
        super().__init__()
        self.tower = tower

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Unit embeddings `(n, d)`."""
        return F.normalize(self.tower(input_ids, attention_mask), dim=1)


def common_direction(text: TextTower, tokens: Tensor) -> Tensor:
    """The unit mean `(d,)` of texts."""
    return F.normalize(F.normalize(text(tokens, tokens != 0), dim=1).mean(0), dim=0)


def load_towers(start: Path) -> tuple[ImageTower, TextTower]:
    """Towers as `train.save` wrote them, ready to run."""
    image, text = load_image_tower(load_file(f"{start}-image.safetensors")), TextTower()
    text.load_state_dict({key: value.float() for key, value in load_file(f"{start}-text.safetensors").items()})
    return image.eval(), text.eval()


def write_graph(
    graph: nn.Module, inputs: tuple[Tensor, ...], path: Path, *, names: list[str], outputs: list[str]
) -> None:
    """Trace a module to ONNX with a free batch size (and free text length)."""
    graph.eval()  # tracing puts back the mode it finds, and a tower in training would answer by chance from then on
    free = {name: {0: "n", 1: "t"} if inputs[0].ndim == 2 and name in names else {0: "n"} for name in names + outputs}
    torch.onnx.export(
        graph,
        inputs,
        str(path),
        input_names=names,
        output_names=outputs,
        dynamic_axes=free,
        opset_version=17,
        dynamo=False,
    )


def run_graph(path: Path, pictures: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    """All outputs for all pictures, one picture at a time."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    results = [session.run(None, {"pixels": picture[None]}) for picture in pictures]
    return [np.concatenate(parts) for parts in zip(*results, strict=True)]


def principal(rows: NDArray[np.float32], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The `count` strongest directions `(d, count)` of rows, largest first, and their variances."""
    values, vectors = np.linalg.eigh(rows.T.astype(np.float64) @ rows / len(rows))
    return vectors[:, ::-1][:, :count], values[::-1][:count]


def at_dense_grid(single: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """A map `(n, c, h, w)` enlarged to `side`, as rows `(n * side * side, c)`."""
    large = F.interpolate(torch.from_numpy(single), (side, side), mode="bilinear", align_corners=False)
    return large.permute(0, 2, 3, 1).flatten(0, 2).numpy()


def dense_projections(maps: list[NDArray[np.float32]]) -> tuple[list[NDArray[np.float32]], NDArray[np.float32]]:
    """Partly whitened principal components of the three maps side by side, one matrix per map, and the bias."""
    rng = np.random.default_rng(0)
    rows = [at_dense_grid(single, maps[0].shape[-1]) for single in maps]
    kept = rng.choice(len(rows[0]), min(len(rows[0]), 60_000), replace=False)
    rows = [part[kept] for part in rows]
    shares = [
        share / np.sqrt((part - part.mean(0)).var(0).sum()) for share, part in zip(DENSE_SHARES, rows, strict=True)
    ]
    joined = np.concatenate([share * part for share, part in zip(shares, rows, strict=True)], 1)
    mean = joined.mean(0)
    vectors, values = principal(joined - mean, DENSE)
    matrix = (vectors * values**-WHITENING).T
    splits = np.split(matrix, np.cumsum([CHANNELS_8, CHANNELS_16]), axis=1)
    projections = [(share * part).astype(np.float32) for share, part in zip(shares, splits, strict=True)]
    assert projections[2].shape == (DENSE, CHANNELS_32)
    return projections, (-matrix @ mean).astype(np.float32)


def shrink(path: Path) -> None:
    """Store float weights small: large ones in 8 bits with a scale for each output, others in half precision.

    They are widened by operators that the runtime folds away at start, so the graph computes in floats as before.
    """
    model = onnx.load(path)
    before: list[onnx.NodeProto] = []
    for initializer in list(model.graph.initializer):
        values, name = numpy_helper.to_array(initializer), initializer.name
        if values.dtype != np.float32 or values.ndim < 2 or values.size < 256:
            continue
        if values.size < LARGE:
            initializer.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}.half"))
            before.append(helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
            continue
        scales = (np.abs(values).max(tuple(range(1, values.ndim)), keepdims=True) / 127).astype(np.float32)
        initializer.CopyFrom(numpy_helper.from_array(np.round(values / scales).astype(np.int8), f"{name}.int8"))
        model.graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scale"))
        before.append(helper.make_node("Cast", [f"{name}.int8"], [f"{name}.wide"], to=TensorProto.FLOAT))
        before.append(helper.make_node("Mul", [f"{name}.wide", f"{name}.scale"], [name]))
    prepend(model, before)
    onnx.save(model, path)


def fold_pads(path: Path) -> None:
    """Move lopsided padding into the strided convolutions, which ONNX can say and PyTorch cannot."""
    model = onnx.load(path)
    pads = {node.output[0]: node for node in model.graph.node if node.op_type == "Pad"}
    for node in model.graph.node:
        if node.op_type != "Conv" or node.input[0] not in pads:
            continue
        pad = pads[node.input[0]]
        attributes = {attribute.name: attribute for attribute in node.attribute}
        extra = attributes["kernel_shape"].ints[0] - attributes["strides"].ints[0]
        before, after = extra // 2, extra - extra // 2
        attributes["pads"].ints[:] = [before, before, after, after]
        node.input[0] = pad.input[0]
        model.graph.node.remove(pad)
    onnx.save(drop_unused(model), path)


def drop_unused(model: onnx.ModelProto) -> onnx.ModelProto:
    """Remove nodes whose outputs nothing reads."""
    wanted = {output.name for output in model.graph.output}
    for node in reversed(list(model.graph.node)):
        if wanted.isdisjoint(node.output):
            model.graph.node.remove(node)
        else:
            wanted.update(node.input)
    return model


def prepend(model: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> None:
    """Put nodes before all others, as the order of the graph must be one of execution."""
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes + rest)


def quantise(path: Path) -> None:
    """Store matrices as 8-bit integers: scales per output of a product, per row of an embedding."""
    model = onnx.load(path)
    uses = {name: node for node in model.graph.node for name in node.input}
    before: list[onnx.NodeProto] = []
    for initializer in list(model.graph.initializer):
        values = numpy_helper.to_array(initializer)
        if values.dtype != np.float32 or values.ndim != 2:
            continue
        node = uses[initializer.name]
        axis = 0 if node.op_type == "MatMul" else 1
        scales = (np.abs(values).max(axis, keepdims=True) / 127 + 1e-12).astype(np.float32)
        small, name = np.round(values / scales).astype(np.int8), initializer.name
        initializer.CopyFrom(numpy_helper.from_array(small, f"{name}.int8"))
        stored = scales.ravel() if node.op_type == "MatMul" else scales
        model.graph.initializer.append(numpy_helper.from_array(stored, f"{name}.scale"))
        if node.op_type == "Gather":
            split_gather(model, node, name)
        elif node.op_type == "MatMul":
            # A standard operator, so that runtimes that can multiply integers see them; the last product stays exact.
            before.append(helper.make_node("DequantizeLinear", [f"{name}.int8", f"{name}.scale"], [name], axis=1))
        else:
            before.append(helper.make_node("Cast", [f"{name}.int8"], [f"{name}.wide"], to=TensorProto.FLOAT))
            before.append(helper.make_node("Mul", [f"{name}.wide", f"{name}.scale"], [name]))
    prepend(model, before)
    onnx.save(model, path)


def split_gather(model: onnx.ModelProto, node: onnx.NodeProto, name: str) -> None:
    """Look up rows of the small table and widen only those, so that the large one never exists."""
    place = list(model.graph.node).index(node)
    index, output = node.input[1], node.output[0]
    parts = [
        helper.make_node("Gather", [f"{name}.int8", index], [f"{name}.rows"]),
        helper.make_node("Cast", [f"{name}.rows"], [f"{name}.wide"], to=TensorProto.FLOAT),
        helper.make_node("Gather", [f"{name}.scale", index], [f"{name}.scales"]),
        helper.make_node("Mul", [f"{name}.wide", f"{name}.scales"], [output]),
    ]
    model.graph.node.remove(node)
    for offset, part in enumerate(parts):
        model.graph.node.insert(place + offset, part)


def export_image(tower: ImageTower, pictures: NDArray[np.uint8], out: Path, *, common: Tensor, share: float) -> None:
    """`image.onnx` and `patch_basis.npy`; the dense projection and the basis are fitted on training pictures."""
    path, example = out / "image.onnx", torch.zeros(1, SIDE, SIDE, 3, dtype=torch.uint8)
    plain = ImageGraph(tower, common, projections=None, share=share)
    write_graph(plain, (example,), path, names=["pixels"],
                outputs=["global", "patches", "s8", "s16", "s32"])  # fmt: skip
    _, patches, *maps = run_graph(path, pictures)
    projections, bias = dense_projections(maps)
    graph = ImageGraph(tower, common, projections=projections, share=share)
    graph.centre(bias)
    write_graph(graph, (example,), path, names=["pixels"], outputs=["global", "patches", "dense"])
    fold_pads(path)
    to_integers(path, pictures[:RANGING], pictures[RANGING:])
    shrink(path)
    basis, _ = principal(patches.reshape(-1, patches.shape[-1]), BASIS)
    np.save(out / "patch_basis.npy", basis.astype(np.float32))


def export_text(tower: TextTower, out: Path) -> None:
    """`text.onnx`."""
    example = torch.ones(2, 6, dtype=torch.int64)
    path = out / "text.onnx"
    write_graph(TextGraph(tower), (example, example), path, names=["input_ids", "attention_mask"], outputs=["global"])
    quantise(path)


def main() -> None:
    """Export towers into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--towers", type=Path, required=True, help="path of the saved towers, without -image.safetensors"
    )
    parser.add_argument("--data", type=Path, required=True, help="training archives, for the two bases")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--mean-share", type=float, default=0.3, help="weight of the mean patch in the embedding")
    parser.add_argument("--pictures", type=int, default=120, help="how many training pictures are measured")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    image, text = load_towers(args.towers)
    rows = [row for row in read_rows(args.data) if row["shard"] == "images-00.zip"]
    chosen = sorted(rows, key=lambda row: str(row["file"]))[:: max(1, len(rows) // args.pictures)][: args.pictures]
    export_text(text, args.out)
    with torch.no_grad():
        pictures = decode_all(args.data, chosen, workers=1)
        said = wording.encode([row["texts"][0] for row in chosen], wording.load_tokenizer(args.tokenizer, length=32))
        common = common_direction(text, torch.from_numpy(said).long())
        export_image(image, pictures, args.out, common=common, share=args.mean_share)
    shutil.copy(args.tokenizer, args.out / "tokenizer.json")


if __name__ == "__main__":
    main()
