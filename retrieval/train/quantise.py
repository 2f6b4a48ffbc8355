"""int8 quantisation of an ONNX graph with one activation scale per token.

Weights: symmetric, one scale per output channel, seven bits, since processors without VNNI add pairs of 8 x 8 bit
products in 16 bits and would saturate. Activations: symmetric, one scale per row, that is per token.

Why not the stock dynamic quantiser: it takes one activation scale per tensor, so a text's vector depends on its
neighbours in the batch. Measured on this encoder: cosine down to 0.96 between a text alone and the same text among 15
others. A scale per token takes that away and halves the distance to float32 besides.

Pure: a model in, a model out. Knows nothing of files or tokenizers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

WEIGHT_LIMIT = 63  # seven bits, symmetric
ACTIVATION_LIMIT = 127.0
ACTIVATION_ZERO = 128  # uint8: the kernels want an unsigned left side
SMALLEST_SCALE = 1e-9
CONTRIB = "com.microsoft"

Floats = npt.NDArray[np.float32]


def quantise(model: onnx.ModelProto, keep: Collection[str] = ()) -> onnx.ModelProto:
    """A new model whose constant right-hand `MatMul` weights and 2-d `Gather` tables are int8.

    Nodes named in `keep` and everything else stay as they are.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[NodeProto] = []
    tensors = _Tensors()
    replaced: set[str] = set()
    for node in graph.node:
        name = node.input[1] if node.op_type == "MatMul" else node.input[0] if node.op_type == "Gather" else ""
        constant = constants.get(name)
        if constant is None or node.name in keep or len(constant.dims) != 2 or constant.data_type != TensorProto.FLOAT:
            nodes.append(node)
            continue
        weight = numpy_helper.to_array(constant).astype(np.float32)
        nodes.extend(_matmul(node, weight, tensors) if node.op_type == "MatMul" else _gather(node, weight, tensors))
        replaced.add(name)
    kept = [tensor for tensor in graph.initializer if tensor.name not in replaced]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend([*kept, *tensors.values])
    result.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    return result


@dataclass(slots=True)
class _Tensors:
    """The constants added so far; equal scalars are stored once."""

    values: list[TensorProto] = field(default_factory=list)
    scalars: set[str] = field(default_factory=set)

    def add(self, name: str, value: npt.NDArray[np.generic]) -> str:
        self.values.append(numpy_helper.from_array(value, name))
        return name

    def shared(self, name: str, value: npt.NDArray[np.generic]) -> str:
        if name not in self.scalars:
            self.scalars.add(name)
            self.add(name, value)
        return name


def _rounded(weight: Floats, axis: int, limit: int) -> tuple[npt.NDArray[np.int8], Floats]:
    """(int8 values, scales): scales have one entry for each slice left after reducing `axis`."""
    scale = np.maximum(np.abs(weight).max(axis=axis, keepdims=True), SMALLEST_SCALE) / limit
    values = np.clip(np.rint(weight / scale), -limit, limit).astype(np.int8)
    return values, scale.astype(np.float32)


def _matmul(node: NodeProto, weight: Floats, tensors: _Tensors) -> list[NodeProto]:
    """`x @ W` as `((x / s) rounded @ W int8) * s`, where `s` is each row's own scale."""
    values, scale = _rounded(weight, 0, WEIGHT_LIMIT)
    name, (x, _), (y,) = node.name, node.input, node.output
    right = tensors.add(f"{name}.weight", values)
    right_scale = tensors.add(f"{name}.weight_scale", scale.reshape(-1))
    one = tensors.shared("quantise.one", np.array(1.0, np.float32))
    zero = tensors.shared("quantise.zero", np.array(ACTIVATION_ZERO, np.uint8))
    limit = tensors.shared("quantise.limit", np.array(1 / ACTIVATION_LIMIT, np.float32))
    least = tensors.shared("quantise.least", np.array(SMALLEST_SCALE, np.float32))
    last = tensors.shared("quantise.last", np.array([-1], np.int64))

    def step(kind: str, inputs: list[str], part: str, domain: str = "", **attributes: int) -> NodeProto:
        return helper.make_node(kind, inputs, [f"{name}.{part}"], f"{name}.{part}", domain=domain, **attributes)

    return [
        step("Abs", [x], "size"),
        step("ReduceMax", [f"{name}.size", last], "largest", keepdims=1),
        step("Mul", [f"{name}.largest", limit], "raw_scale"),
        step("Max", [f"{name}.raw_scale", least], "scale"),
        step("Div", [x, f"{name}.scale"], "scaled"),
        step("QuantizeLinear", [f"{name}.scaled", one, zero], "left"),
        step("MatMulIntegerToFloat", [f"{name}.left", right, one, right_scale, zero], "product", domain=CONTRIB),
        helper.make_node("Mul", [f"{name}.product", f"{name}.scale"], [y], f"{name}.result"),
    ]


def _gather(node: NodeProto, table: Floats, tensors: _Tensors) -> list[NodeProto]:
    """Rows of a table as int8, each row with its own scale."""
    values, scale = _rounded(table, 1, int(ACTIVATION_LIMIT))
    name, (_, indices), (y,) = node.name, node.input, node.output
    rows = tensors.add(f"{name}.rows", values)
    scales = tensors.add(f"{name}.scales", scale)
    return [
        helper.make_node("Gather", [rows, indices], [f"{name}.picked"], f"{name}.picked", axis=0),
        helper.make_node("Cast", [f"{name}.picked"], [f"{name}.cast"], f"{name}.cast", to=TensorProto.FLOAT),
        helper.make_node("Gather", [scales, indices], [f"{name}.factor"], f"{name}.factor", axis=0),
        helper.make_node("Mul", [f"{name}.cast", f"{name}.factor"], [y], f"{name}.result"),
    ]
