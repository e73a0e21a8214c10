"""The examples in docstrings are run, and the most used public names have one."""

import doctest
import importlib
import importlib.util
import pkgutil

import pytest

import geodesic as gd

NEEDS_EXTRA = ("geodesic.integrations", "geodesic.__main__", "geodesic.envs.fetch")
MOST_USED = [
    "ContextSpace",
    "ContextWrapper",
    "EpisodeBatch",
    "FixedStep",
    "AdaptivePace",
    "Pace",
    "Geodesic",
    "Gradient",
    "PPO",
    "SAC",
    "Particles",
    "Task",
    "Teacher",
    "barycenter",
    "train",
    "wasserstein",
    "metrics.Euclidean",
    "metrics.Graph",
    "metrics.Matrix",
    "metrics.contextual_distance",
]
MODULES = [
    module.name for module in pkgutil.walk_packages(gd.__path__, "geodesic.") if not module.name.startswith(NEEDS_EXTRA)
]


def examples(name):
    return [test for test in doctest.DocTestFinder(recurse=True).find(importlib.import_module(name)) if test.examples]


WITH_EXAMPLES = [name for name in MODULES if ">>> " in importlib.util.find_spec(name).loader.get_source(name)]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_give_what_they_show(name):
    for test in examples(name):
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test)
        assert result.failed == 0, f"{result.failed} of {result.attempted} examples of {test.name} fail"


@pytest.mark.parametrize("name", MOST_USED)
def test_the_most_used_names_have_an_example(name):
    found = gd
    for part in name.split("."):
        found = getattr(found, part)
    assert ">>> " in found.__doc__
