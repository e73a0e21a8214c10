"""Policies as ONNX graphs, compared with NumPy by ONNX's own reference."""

import json

import numpy as np
import pytest

from geodesic.numpy_policy import FORMAT, Policy

pytest.importorskip("onnx", reason="needs the extra onnx")

from onnx import load_from_string
from onnx.reference import ReferenceEvaluator

from geodesic.integrations.onnx import to_onnx

RNG = np.random.default_rng(0)


def policy_of(outputs, activation="tanh", **more):
    sizes = [(6, 8), (8, 7), (7, outputs)]
    layers = {f"kernel_{k}": RNG.normal(size=size).astype(np.float32) for k, size in enumerate(sizes)}
    layers |= {f"bias_{k}": RNG.normal(size=size[1]).astype(np.float32) for k, size in enumerate(sizes)}
    known = {"format": np.array(FORMAT), "about": np.array(json.dumps({"task": "mine", "step": 3}))}
    shape = np.array([2, 3])
    return Policy({**known, **layers, "activation": np.array(activation), "observation_shape": shape, **more})


def bounds(dtype, *shape):
    low = RNG.uniform(-2, 0, shape).astype(dtype)
    return {"low": low, "high": low + np.ones(shape, dtype)}


MOMENTS = {"mean": RNG.normal(size=6), "scale": RNG.uniform(0.5, 2, 6), "clip": np.array(1.5)}
POLICIES = {
    "discrete": {"outputs": 4, "start": np.array(2)},
    "clipped": {"outputs": 3, "squash": np.array(False), **bounds(np.float32, 3)},
    "squashed": {"outputs": 6, "squash": np.array(True), "activation": "relu", **bounds(np.float32, 2, 3)},
    "double": {"outputs": 2, "squash": np.array(True), "activation": "elu", **bounds(np.float64, 2)},
    "unbounded": {
        "outputs": 1, "squash": np.array(False), "low": np.array([-np.inf]), "high": np.array([np.inf]),
    },
    "normalised": {"outputs": 4, "start": np.array(0), **MOMENTS},
    "normalised in float32": {
        "outputs": 2, "squash": np.array(False), **bounds(np.float32, 2),
        **{name: moment.astype(np.float32) for name, moment in MOMENTS.items()},
    },
}  # fmt: skip


@pytest.mark.parametrize("parts", POLICIES.values(), ids=POLICIES)
def test_graphs_act_as_the_policy(parts):
    policy = policy_of(**parts)
    model = load_from_string(to_onnx(policy))
    assert {entry.key: entry.value for entry in model.metadata_props} == {"task": "mine", "step": "3"}
    for n in (1, 50):
        obs = RNG.normal(0, 3, (n, 2, 3)).astype(np.float32)
        (actions,) = ReferenceEvaluator(model).run(None, {"observation": obs})
        expected = policy(obs)
        assert actions.dtype == expected.dtype
        assert actions.shape == expected.shape
        np.testing.assert_allclose(actions, expected, atol=1e-5)
