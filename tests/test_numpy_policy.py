"""The loader of exported policies: what it computes, what it refuses, and that it needs NumPy alone."""

import ast
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from geodesic import numpy_policy
from geodesic.numpy_policy import FORMAT, Policy, load_policy

IDENTITY = {"kernel_0": np.eye(2, dtype=np.float32), "bias_0": np.zeros(2, np.float32)}


def arrays(**changes):
    """A policy of one layer, which is the identity: continuous actions in [-1, 1] x [0, 4], clipped."""
    known = {
        "format": np.array(FORMAT),
        "about": np.array(json.dumps({"task": "mine"})),
        "activation": np.array("tanh"),
        "observation_shape": np.array([2]),
        "low": np.array([-1.0, 0.0], np.float32),
        "high": np.array([1.0, 4.0], np.float32),
        "squash": np.array(False),
        **IDENTITY,
        **changes,
    }
    return {name: value for name, value in known.items() if value is not None}


def test_it_imports_nothing_but_numpy_and_the_standard_library():
    tree = ast.parse(Path(numpy_policy.__file__).read_text())
    imported = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {alias.name for node in imported if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in imported if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} - sys.stdlib_module_names == {"numpy"}


def test_continuous_actions_are_clipped_or_squashed_into_their_bounds():
    clipped, squashed = Policy(arrays()), Policy(arrays(squash=np.array(True)))
    assert clipped([0.5, 9.0]).tolist() == [0.5, 4.0]
    assert clipped([0.5, 9.0]).dtype == np.float32
    expected = [np.tanh(0.5), 2 * (np.tanh(-1.0) + 1)]
    np.testing.assert_allclose(squashed([0.5, -1.0]), expected, rtol=1e-6)
    assert clipped.about == {"task": "mine"}


def test_discrete_actions_are_the_largest_output_counted_from_the_first_action():
    policy = Policy(arrays(low=None, high=None, squash=None, start=np.array(5)))
    assert policy([1.0, 3.0]) == 6
    assert policy([[1.0, 3.0], [3.0, 1.0]]).tolist() == [6, 5]


@pytest.mark.parametrize(("name", "function"), [
    ("tanh", np.tanh), ("relu", lambda x: max(x, 0.0)), ("elu", lambda x: x if x > 0 else np.exp(x) - 1)
])  # fmt: skip
def test_activations_are_between_layers(name, function):
    second = {"kernel_1": IDENTITY["kernel_0"], "bias_1": np.array([0.0, 1.0], np.float32)}
    policy = Policy(arrays(activation=np.array(name), **second))
    expected = [function(-0.7), function(1.5) + 1]
    np.testing.assert_allclose(policy([-0.7, 1.5]), np.clip(expected, [-1, 0], [1, 4]), rtol=1e-6)


def test_observations_are_normalised_and_clipped():
    moments = {"mean": np.array([1.0, 2.0]), "scale": np.array([2.0, 0.1]), "clip": np.array(3.0)}
    assert Policy(arrays(**moments))([1.5, 9.0]).tolist() == [0.25, 3.0]


def test_several_observations_give_as_many_actions_of_the_same_values():
    rng = np.random.default_rng(0)
    policy = Policy(arrays(observation_shape=np.array([1, 2])))
    batch = rng.normal(size=(5, 1, 2))
    assert policy(batch).tolist() == [policy(each).tolist() for each in batch]
    for wrong in (np.zeros(2), np.zeros((5, 2)), np.zeros((5, 1, 3)), 1.0):
        with pytest.raises(ValueError, match=r"expected an observation of shape \(1, 2\), got shape"):
            policy(wrong)


INVALID = {
    "format": {"format": np.array("geodesic-policy-0")},
    "no format": {"format": None},
    "no layer": {"kernel_0": None, "bias_0": None},
    "no bias": {"bias_0": None},
    "sizes": {"bias_0": np.zeros(3, np.float32)},
    "input": {"observation_shape": np.array([3])},
    "outputs": {"low": np.zeros(3, np.float32), "high": np.ones(3, np.float32)},
    "NaN": {"kernel_0": np.full((2, 2), np.nan, np.float32)},
    "infinite": {"bias_0": np.full(2, np.inf, np.float32)},
    "strings": {"bias_0": np.array(["a", "b"])},
    "activation": {"activation": np.array("step")},
    "about": {"about": np.array("{")},
    "moments": {"mean": np.zeros(3), "scale": np.ones(3), "clip": np.array(1.0)},
    "half of the moments": {"mean": np.zeros(2)},
    "bounds": {"low": None},
}


@pytest.mark.parametrize("changes", INVALID.values(), ids=INVALID)
def test_arrays_that_are_no_policy_are_refused(changes):
    with pytest.raises(ValueError, match=r"expected|Expecting"):
        Policy(arrays(**changes))


def test_files_are_loaded_without_executing_anything(tmp_path):
    np.savez(tmp_path / "policy.npz", **arrays())
    assert load_policy(tmp_path / "policy.npz")([0.5, 2.0]).tolist() == [0.5, 2.0]
    np.savez(tmp_path / "objects.npz", **arrays(about=np.array([{}], dtype=object)))
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(arrays()))
    for name in ("objects.npz", "pickle.npz"):
        with pytest.raises(ValueError, match=r"pickled|allow_pickle=False"):
            load_policy(tmp_path / name)
