"""A file of ONNX that torch can train: the same graph, run by torch, and written again with other numbers.

Weights keep the form that they are stored in. What is stored in integers is rounded in every forward pass as it will be
in the file, and what the file rounds between operators is rounded here too; slopes pass through the rounding. So what
is trained is what runs afterwards, but for products that the runtime rounds by itself (those of texts, by less than a
thousandth of their length), and it runs as fast as before. Only the operators of `mini` are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wherein.encoders.hf.runtime import library
from wherein.errors import SpecError

_WHAT: Final = "training of the kind full"
_FLOAT: Final = 1
"""The number of float32 among ONNX's types."""
_LARGEST_INT32: Final = float(2**31 - 2**7)
"""The largest integer that int32 and float32 can both hold exactly."""
_LEARNT_BY: Final = ("Conv", "Gemm", "MatMul", "LayerNormalization", "Add")
"""The operators whose stored inputs are weights; tables of words and constants stay as they are."""


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """How a weight is stored: where, and in which steps where it is stored in integers."""

    stored: str
    steps: Any = None
    """A tensor that spreads over the weight."""
    largest: float = 0.0
    """The largest integer there is: a larger one might overflow where this one did not."""

    def rounded(self, weight: Any) -> Any:
        """The weight as it will be stored; slopes pass through."""
        return weight if self.steps is None else weight + (self.integers(weight) * self.steps - weight).detach()

    def integers(self, weight: Any) -> Any:
        """The integers that stand for a weight."""
        return (weight / self.steps).round().clamp(-self.largest, self.largest)


class TrainableGraph:
    """The graph of a file; `weights` are what can be trained, by the name under which operators read them."""

    def __init__(self, path: Path, *, device: str, fixed: Sequence[str] = ()) -> None:
        """`fixed`: how the names of operators begin whose weights stay as they are."""
        self._torch, self._onnx, self._device = library("torch", _WHAT), library("onnx", _WHAT), device
        self._model = self._onnx.load(path)
        self._arrays = {one.name: self._onnx.numpy_helper.to_array(one) for one in self._model.graph.initializer}
        self._nodes = list(self._model.graph.node)
        unknown = {node.op_type for node in self._nodes} - _OPERATORS.keys()
        if unknown:
            raise SpecError(f"{path}: has operators that cannot be trained here: {', '.join(sorted(unknown))}.")
        self._forms = self._found_forms()
        read = {name: node for node in self._nodes if node.op_type in _LEARNT_BY for name in node.input}
        self.weights = {
            name: self._weight(name).requires_grad_(not read[name].name.startswith(tuple(fixed)))
            for name in self._forms
            if name in read
        }
        taken = {self._forms[name].stored for name in self.weights}
        self._constants = {name: self._tensor(array) for name, array in self._arrays.items() if name not in taken}

    def run(self, inputs: Mapping[str, Any], output: str) -> Any:
        """One output of the graph, with slopes."""
        values = {**self._constants, **inputs}
        values |= {name: self._forms[name].rounded(weight) for name, weight in self.weights.items()}
        for node, attributes in self._needed(output):
            found = (values[name] if name else None for name in node.input)
            values[node.output[0]] = _OPERATORS[node.op_type](self._torch, attributes, *found)
        return values[output]

    def write(self, path: Path) -> None:
        """Write the file again, with the weights as they are now."""
        places = {one.name: one for one in self._model.graph.initializer}
        for name, weight in self.weights.items():
            form = self._forms[name]
            values = weight.detach() if form.steps is None else form.integers(weight.detach())
            array = values.cpu().numpy().astype(self._arrays[form.stored].dtype)
            places[form.stored].CopyFrom(self._onnx.numpy_helper.from_array(array, form.stored))
        self._onnx.save(self._model, path)

    def _needed(self, output: str) -> list[tuple[Any, dict[str, Any]]]:
        """The operators that an output needs, with their attributes, in order; known after the first time."""
        known = self.__dict__.setdefault("_orders", dict[str, Any]())
        if output not in known:
            wanted, kept = {output}, list[tuple[Any, dict[str, Any]]]()
            for node in reversed(self._nodes):
                if wanted.isdisjoint(node.output) or node.output[0] in self.weights:
                    continue
                wanted.update(node.input)
                kept.append((node, self._attributes(node)))
            known[output] = kept[::-1]
        order: list[tuple[Any, dict[str, Any]]] = known[output]
        return order

    def _attributes(self, node: Any) -> dict[str, Any]:
        found = {one.name: self._onnx.helper.get_attribute_value(one) for one in node.attribute}
        if "value" in found:
            found["value"] = self._tensor(self._onnx.numpy_helper.to_array(found["value"]))
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            found["scale"], found["zero"] = self._arrays[node.input[1]], self._arrays[node.input[2]]
        return found

    def _tensor(self, array: npt.NDArray[Any]) -> Any:
        return self._torch.from_numpy(np.array(array)).to(self._device)

    def _found_forms(self) -> dict[str, _Form]:
        """How each weight is stored, by the name under which it is read."""
        forms, wide = {name: _Form(name) for name, array in self._arrays.items() if array.dtype == np.float32}, {}
        for node in self._nodes:
            first, output = (node.input[0] if node.input else ""), node.output[0]
            if node.op_type == "Cast" and first in self._arrays:
                wide[output] = first
                forms[output] = _Form(first)
            elif node.op_type == "Mul" and first in wide and node.input[1] in self._arrays:
                forms[output] = self._in_integers(wide[first], self._arrays[node.input[1]])
                del forms[first]
            elif node.op_type == "DequantizeLinear" and first in self._arrays:
                forms[output] = self._in_integers(first, self._spread_steps(node))
        return forms

    def _spread_steps(self, node: Any) -> Any:
        """The steps of stored integers, shaped to spread over them: one for all, or one for each place of an axis."""
        steps, shape = self._arrays[node.input[1]], [1] * self._arrays[node.input[0]].ndim
        if steps.size > 1:
            shape[next((one.i for one in node.attribute if one.name == "axis"), 1)] = -1
        return steps.reshape(shape)

    def _in_integers(self, stored: str, steps: npt.NDArray[Any]) -> _Form:
        array = self._arrays[stored]
        largest = _LARGEST_INT32 if array.dtype == np.int32 else float(np.abs(array.astype(np.int64)).max())
        return _Form(stored, self._tensor(steps.astype(np.float32)), largest)

    def _weight(self, name: str) -> Any:
        form = self._forms[name]
        found = self._tensor(self._arrays[form.stored].astype(np.float32))
        return found if form.steps is None else found * form.steps


Operator = Callable[..., Any]


def _conv(torch: Any, its: dict[str, Any], x: Any, weight: Any, bias: Any = None) -> Any:
    top, left, bottom, right = its.get("pads", (0, 0, 0, 0))
    even = top == bottom and left == right
    if not even:
        x = torch.nn.functional.pad(x, (left, right, top, bottom))
    return torch.nn.functional.conv2d(
        x, weight, bias, stride=tuple(its["strides"]), padding=(top, left) if even else 0, groups=its.get("group", 1)
    )


def _quantise(torch: Any, its: dict[str, Any], x: Any, _scale: Any, _zero: Any) -> Any:
    return torch.fake_quantize_per_tensor_affine(x, float(its["scale"]), int(its["zero"]), 0, 255)


def _clip(torch: Any, _its: dict[str, Any], x: Any, least: Any = None, most: Any = None) -> Any:
    return torch.clamp(x, min=least, max=most)


def _gemm(torch: Any, its: dict[str, Any], x: Any, weight: Any, bias: Any) -> Any:
    return torch.nn.functional.linear(x, weight if its.get("transB") else weight.T, bias)


def _layer_norm(torch: Any, its: dict[str, Any], x: Any, weight: Any, bias: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, its["epsilon"])


def _resize(torch: Any, _its: dict[str, Any], x: Any, _region: Any, scales: Any) -> Any:
    factors = tuple(scales.tolist()[2:])
    return torch.nn.functional.interpolate(x, scale_factor=factors, mode="bilinear", align_corners=False)


def _gather(torch: Any, its: dict[str, Any], table: Any, numbers: Any) -> Any:
    axis = its.get("axis", 0)
    if numbers.ndim == 0:
        return table.select(axis, int(numbers))
    found = torch.index_select(table, axis, numbers.reshape(-1))
    return found.reshape(*table.shape[:axis], *numbers.shape, *table.shape[axis + 1 :])


def _divide(torch: Any, _its: dict[str, Any], a: Any, b: Any) -> Any:
    whole = not a.is_floating_point() and not b.is_floating_point()
    return torch.div(a, b, rounding_mode="trunc" if whole else None)


def _slice(_torch: Any, _its: dict[str, Any], x: Any, starts: Any, ends: Any, axes: Any) -> Any:
    for start, end, axis in zip(starts.tolist(), ends.tolist(), axes.tolist(), strict=True):
        x = x.narrow(axis, start, min(end, x.shape[axis]) - start)
    return x


def _cast(torch: Any, its: dict[str, Any], x: Any) -> Any:
    return x.to(torch.float32 if its["to"] == _FLOAT else torch.int64)


def _unsqueeze(_torch: Any, _its: dict[str, Any], x: Any, axes: Any) -> Any:
    for axis in axes.reshape(-1).tolist():
        x = x.unsqueeze(axis)
    return x


def _axes(its: dict[str, Any], axes: Any) -> Iterable[int]:
    return tuple(its["axes"] if axes is None else axes.tolist())


_OPERATORS: Final[dict[str, Operator]] = {
    "Add": lambda _t, _its, a, b: a + b,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": lambda t, its, *parts: t.cat(parts, dim=its["axis"]),
    "Constant": lambda _t, its: its["value"],
    "Conv": _conv,
    "DequantizeLinear": lambda _t, _its, x, _scale, _zero: x,
    "Div": _divide,
    "Erf": lambda t, _its, x: t.erf(x),
    "Expand": lambda _t, _its, x, shape: x.expand(shape.tolist()),
    "Gather": _gather,
    "Gemm": _gemm,
    "LayerNormalization": _layer_norm,
    "MatMul": lambda _t, _its, a, b: a @ b,
    "Mul": lambda _t, _its, a, b: a * b,
    "Pow": lambda _t, _its, a, b: a**b,
    "QuantizeLinear": _quantise,
    "Range": lambda t, _its, start, end, step: t.arange(int(start), int(end), int(step), device=start.device),
    "ReduceL2": lambda t, its, x, axes=None: t.linalg.vector_norm(
        x, dim=_axes(its, axes), keepdim=bool(its.get("keepdims", 1))
    ),
    "ReduceMax": lambda _t, its, x: x.amax(tuple(its["axes"]), keepdim=bool(its.get("keepdims", 1))),
    "ReduceMean": lambda _t, its, x: x.mean(tuple(its["axes"]), keepdim=bool(its.get("keepdims", 1))),
    "ReduceSum": lambda _t, its, x, axes: x.sum(_axes(its, axes), keepdim=bool(its.get("keepdims", 1))),
    "Relu": lambda t, _its, x: t.relu(x),
    "Reshape": lambda _t, _its, x, shape: x.reshape(
        [x.shape[place] if side == 0 else side for place, side in enumerate(shape.tolist())]
    ),
    "Resize": _resize,
    "Shape": lambda t, _its, x: t.tensor(x.shape, device=x.device),
    "Slice": _slice,
    "Softmax": lambda _t, its, x: x.softmax(its.get("axis", -1)),
    "Sqrt": lambda _t, _its, x: x.sqrt(),
    "Sub": lambda _t, _its, a, b: a - b,
    "Transpose": lambda _t, its, x: x.permute(*its["perm"]),
    "Unsqueeze": _unsqueeze,
}
"""How torch runs each operator: from torch, the operator's attributes and its inputs."""
