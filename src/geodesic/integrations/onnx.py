"""Policies as ONNX graphs: observations (n, ...) in, actions (n, ...) out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from geodesic.errors import MissingExtra
from geodesic.numpy_policy import Policy

OPSET = 17  # of 2022, which every runtime in use reads
IR_VERSION = 8  # of the same year
NODES = {"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}


def to_onnx(policy: Policy) -> bytes:
    """The graph of a policy; it computes what the policy does in NumPy.

    Raises:
        MissingExtra: If onnx is not installed.
    """
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise MissingExtra("onnx", "onnx") from error
    graph = _Graph()
    x = graph.add("Reshape", "observation", np.array([-1, int(np.prod(policy.shape))]))
    arrays = policy.arrays
    if "mean" in arrays:
        x = graph.add("Cast", x, to=helper.np_dtype_to_tensor_dtype(arrays["mean"].dtype))
        x = graph.add("Div", graph.add("Sub", x, arrays["mean"]), arrays["scale"])
        x = graph.add("Cast", graph.add("Clip", x, -arrays["clip"], arrays["clip"]), to=TensorProto.FLOAT)
    for place, (kernel, bias) in enumerate(policy.layers, start=1):
        x = graph.add("Gemm", x, kernel, bias)
        x = x if place == len(policy.layers) else graph.add(NODES[str(arrays["activation"])], x)
    if "start" in arrays:
        shape, kind = (), np.dtype(np.int64)
        x = graph.add("Add", graph.add("ArgMax", x, axis=1, keepdims=0), arrays["start"])
    else:
        shape, kind = arrays["low"].shape, arrays["low"].dtype
        x = graph.add("Reshape", x, np.array([-1, *shape]))
        low, high = (arrays[name].astype(np.float32) for name in ("low", "high"))
        if arrays["squash"]:
            unit = graph.add("Mul", graph.add("Add", graph.add("Tanh", x), np.float32(1)), np.float32(0.5))
            x = graph.add("Add", graph.add("Mul", unit, high - low), low)
        x = graph.add("Min", graph.add("Max", x, low), high)
        x = graph.add("Cast", x, to=helper.np_dtype_to_tensor_dtype(kind))
    graph.nodes.append(("Identity", [x], "action", {}))
    inputs = [helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["n", *policy.shape])]
    outputs = [helper.make_tensor_value_info("action", helper.np_dtype_to_tensor_dtype(kind), ["n", *shape])]
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in graph.constants.items()]
    nodes = [helper.make_node(kind, given, [name], **more) for kind, given, name, more in graph.nodes]
    made = helper.make_graph(nodes, "policy", inputs, outputs, constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="geodesic")
    model.ir_version = IR_VERSION
    helper.set_model_props(model, {name: str(value) for name, value in policy.about.items()})
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


class _Graph:
    """Operations in order: each is added with its inputs, names of earlier results or constants."""

    def __init__(self) -> None:
        self.nodes: list[tuple[str, Sequence[str], str, dict[str, Any]]] = []
        self.constants: dict[str, Any] = {}

    def add(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add an operation and return the name of its result."""
        given = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append((kind, given, name, attributes))
        return name

    def _constant(self, value: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = value
        return name
