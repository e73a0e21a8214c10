"""The configuration of a run: one schema for callers, files and checkpoints."""

import json

import numpy as np
import pytest

from geodesic.errors import InvalidInput, UnknownName
from geodesic.records import RunConfig, config_in, read_config, versions, write_json

VALUES = {
    "task": "mine", "name": "mine", "contexts": ["length"], "method": "gradient", "label": "gradient", "seed": 0,
    "steps": 100, "threshold": 1.0, "solved": 2.0, "score": "return", "discount": 0.99, "metric": "l2",
    "backend": "jax", "learner": "ppo", "segment": 1, "eval_every": 2, "eval_episodes": 3,
    "eval_policy": "deterministic", "categories": {}, "options": {"step": 0.5}, "learner_options": {}, "objects": {},
}  # fmt: skip
CONFIG = RunConfig(**VALUES)

INVALID = [
    ("task", 3, "expected task to be a string, got 3"),
    ("contexts", "length", "expected contexts to be a list of names, got 'length'"),
    ("categories", ["a"], "expected categories to be Mapping, got list"),
    ("categories", {"length": "ab"}, "expected categories of 'length' to be a list of names, got 'ab'"),
    ("seed", -1, "expected seed to be an integer in [0, 2^31), got -1"),
    ("steps", 0, "expected steps to be a positive integer, got 0"),
    ("steps", 1.5, "expected steps to be a positive integer, got 1.5"),
    ("segment", 10**6 + 1, "expected segment to be an integer in [1, 1000000], got 1000001"),
    ("eval_episodes", 10**4 + 1, "expected eval_episodes to be an integer in [1, 10000], got 10001"),
    ("threshold", float("nan"), "expected threshold to be a finite number, got nan"),
    ("discount", 0.0, "expected discount in (0, 1], got 0.0"),
    ("discount", 1.5, "expected discount in (0, 1], got 1.5"),
    ("metric", 2, "expected metric to be a string, got 2"),
    ("options", [1], "expected options to be Mapping, got list"),
    ("options", {1: 2}, "expected the keys of options to be a list of names, got [1]"),
    ("objects", {"method": 3}, "expected the values of objects to be a list of names, got [3]"),
    ("objects", None, "expected objects to be Mapping, got NoneType"),
]


@pytest.mark.parametrize(("field", "value", "message"), INVALID)
def test_a_field_is_checked_whether_it_comes_from_a_caller_or_a_file(field, value, message):
    with pytest.raises(InvalidInput) as caught:
        RunConfig(**{**VALUES, field: value})
    assert str(caught.value) == message
    with pytest.raises(InvalidInput) as caught:
        RunConfig.from_json({**VALUES, field: value})
    assert str(caught.value) == f"invalid configuration of a run: {message}"


@pytest.mark.parametrize(
    ("field", "value", "known"),
    [
        ("score", "regret", "return, discounted_return, success"),
        ("backend", "tpu", "jax, sb3, sbx, own, rllib"),
        ("eval_policy", "greedy", "deterministic, stochastic"),
    ],
)
def test_a_choice_is_one_of_the_known_names(field, value, known):
    for make in (lambda values: RunConfig(**values), RunConfig.from_json):
        with pytest.raises(UnknownName) as caught:
            make({**VALUES, field: value})
        assert str(caught.value) == f"expected {field} to be one of {known}; got {value!r}"


def test_a_configuration_is_read_back_from_its_json_and_its_folder(tmp_path):
    config = RunConfig(**{**VALUES, "seed": np.int64(3), "options": {"scale": np.array([1.0, 2.0]), "n": np.int32(4)}})
    stored = json.loads(json.dumps(config.to_json()))
    assert stored["options"] == {"scale": [1.0, 2.0], "n": 4}
    back = RunConfig.from_json({**stored, "versions": versions(), "more": 1})
    assert back.to_json() == config.to_json()
    assert back.differences(config) == []
    write_json(tmp_path / "config.json", stored)
    assert read_config(tmp_path) == config_in(tmp_path / "config.json") == back


def test_options_that_json_cannot_hold_are_refused():
    with pytest.raises(InvalidInput, match="expected options that can be written to a run's config.json, got <object"):
        RunConfig(**{**VALUES, "options": {"thing": object()}}).to_json()


def test_missing_fields_are_listed():
    with pytest.raises(InvalidInput) as caught:
        RunConfig.from_json({name: value for name, value in VALUES.items() if name not in ("method", "objects")})
    assert str(caught.value) == "expected a run's config.json, got one without method, objects"


def test_differences_are_the_names_of_the_fields():
    other = CONFIG.replace(steps=200, options={"step": 0.25}, objects={"method": "a.b 0"})
    assert other.differences(CONFIG) == ["steps", "options", "method"]
    assert CONFIG.differences(CONFIG.replace()) == []
    with pytest.raises(InvalidInput, match="expected steps to be a positive integer"):
        CONFIG.replace(steps=-1)


def test_a_folder_without_a_configuration_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="to be a run folder with a config.json, found none"):
        read_config(tmp_path)


def test_versions_name_the_packages_that_decide_the_numbers():
    assert {"python", "numpy", "jax", "geodesic-rl"} <= set(versions())
