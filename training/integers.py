"""The image tower's convolutions in 8-bit integers: little more than half the time of float ones under AVX2.

Weights take 7 bits and a scale for each channel, because AVX2 adds two products of 8 bits in 16; depthwise ones, which
are added in 32, take 8. The ranges of the maps are those that some training pictures span. Rounding does not
cancel out on average, so what it adds to each channel is measured on other pictures and taken off the biases again.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from quiet import onnxruntime, quantization

Pictures = NDArray[np.uint8]
Floats = NDArray[np.float32]
# The first layers see few channels, gain little time and lose most: they stay in floating point.
FLOAT_BLOCKS = 5
FLOAT_NODES = ("/backbone/conv_stem/", *(f"/backbone/blocks.{number}/" for number in range(FLOAT_BLOCKS)))


class Feed(quantization.CalibrationDataReader):
    """Pictures one at a time, as the quantiser asks for them."""

    def __init__(self, pictures: Pictures) -> None:
        self.rest = list(pictures)

    def get_next(self) -> dict[str, Pictures] | None:
        """The next input, or None."""
        return {"pixels": self.rest.pop()[None]} if self.rest else None


def to_integers(path: Path, ranging: Pictures, correcting: Pictures) -> None:
    """Rewrite a float image graph in place."""
    plain = path.with_name("float.onnx")
    simplify(path, plain)
    model = onnx.load(plain)
    depthwise = [node.input[1] for node in model.graph.node if "depthwise_conv" in node.name]
    wide = {"quant_type": quantization.QuantType.QInt8, "reduce_range": False, "axis": 0}
    logging.disable(logging.WARNING)
    quantization.quantize_static(
        plain,
        path,
        Feed(ranging),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        reduce_range=True,
        # Signed ones would be left in float: AVX2 multiplies unsigned by signed.
        activation_type=quantization.QuantType.QUInt8,
        op_types_to_quantize=["Conv", "Clip", "Add"],
        nodes_to_exclude=[node.name for node in model.graph.node if not is_quantised(node.name)],
        extra_options={"TensorQuantOverrides": {name: [wide] for name in depthwise}},
    )
    quantised = onnx.load(path)
    correct_biases(quantised, model, correcting)
    onnx.save(quantised, path)
    plain.unlink()


def is_quantised(name: str) -> bool:
    """Whether a node of the graph becomes an integer one."""
    return name.startswith(("/backbone/", "/second/")) and not name.startswith(FLOAT_NODES) and name != "/backbone/Clip"


def simplify(source: Path, target: Path) -> None:
    """The same graph with its constants folded."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def correct_biases(quantised: onnx.ModelProto, plain: onnx.ModelProto, pictures: Pictures) -> None:
    """Shift what each block writes, in order, until its mean is that of the float graph."""
    weights = {tensor.name: tensor for tensor in quantised.graph.initializer}
    makers = {name: node for node in quantised.graph.node for name in node.output}
    named = [node for node in quantised.graph.node if node.op_type == "Conv" and "project_conv" in node.name]
    writers = [node for node in named if is_quantised(node.name)]
    wanted = channel_means(plain, [node.output[0] for node in writers], pictures)
    for node, mean in zip(writers, wanted, strict=True):
        (found,) = channel_means(quantised, [node.output[0]], pictures)
        widened = makers[node.input[2]]
        bias, scale = (weights[name] for name in widened.input[:2])
        shifted = numpy_helper.to_array(bias) + np.round((mean - found) / numpy_helper.to_array(scale))
        bias.CopyFrom(numpy_helper.from_array(shifted.astype(np.int32), bias.name))


def channel_means(model: onnx.ModelProto, names: list[str], pictures: Pictures) -> list[Floats]:
    """The mean `(c,)` of each named map over places and pictures."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    for name in names:
        watched.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    totals = [np.zeros(1, np.float32)] * len(names)
    for picture in pictures:
        maps = session.run(names, {"pixels": picture[None]})
        totals = [total + single.mean((0, 2, 3)) / len(pictures) for total, single in zip(totals, maps, strict=True)]
    return totals
