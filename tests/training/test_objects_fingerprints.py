"""Fingerprints: the same for equal objects, different for others."""

import os
import subprocess
import sys
import textwrap
from collections import deque
from functools import cached_property, lru_cache, partial

import numpy as np
import pytest

import geodesic as gd
from geodesic.training.objects import fingerprint


class Settings:
    """Attributes without a dataclass, a cached result, and a reference to itself."""

    def __init__(self, values):
        self.values = values
        self.own = self

    @cached_property
    def mean(self):
        return np.mean(self.values)

    def method(self, problem):
        return problem


class Undeclared(gd.Curriculum):
    """A curriculum whose parameters are no fields of a dataclass."""

    def __init__(self, size):
        self.size = size

    def init(self, rng):
        raise NotImplementedError

    def update(self, state, episodes, rng):
        raise NotImplementedError


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("size",)

    def __init__(self, size):
        self.size = size


class Remembering:
    """A class that leaves its cache out of its state."""

    def __init__(self, scale):
        self.scale, self.memo = scale, {}

    def __call__(self, x):
        return self.memo.setdefault(x, self.scale * x)

    def __getstate__(self):
        return {**vars(self), "memo": None}


def defined(text):
    """What a user's file defines as `Mine`."""
    names = {"__name__": "mine", "gd": gd, "cached_property": cached_property, "lru_cache": lru_cache}
    exec(textwrap.dedent(text), names)
    return names["Mine"]


CLASS = """
class Base:
    def update(self, state):
        return state + 1
class Mine(Base):
    rate = 0.5
    @property
    def half(self):
        return 2
    @cached_property
    def third(self):
        return 3
    @staticmethod
    def fourth():
        return 4
    @lru_cache
    def fifth(self):
        return super().__init__() or 5
"""


def gradient(step):
    source, target = gd.Particles([[0.0]]), gd.Particles([[1.0]])
    return gd.Gradient(source, target, pace=gd.FixedStep(step))


def function(step):
    return lambda problem: gradient(step)


PAIRS = {
    "dataclass": (lambda: gradient(0.1), lambda: gradient(0.2)),
    "plain class": (lambda: Settings([1]), lambda: Settings([2])),
    "subclass of a dataclass": (lambda: Undeclared(1), lambda: Undeclared(2)),
    "array": (lambda: Settings(np.arange(3)), lambda: Settings(np.arange(3.0))),
    "array of objects": (lambda: Settings(np.array([None, "a"])), lambda: Settings(np.array([None, "b"]))),
    "set": (lambda: Settings({1, 2}), lambda: Settings({1, 3})),
    "mapping": (lambda: Settings({"a": 1}), lambda: Settings({"a": 2})),
    "constant": (lambda: lambda problem: 1, lambda: lambda problem: 2),
    "default": (lambda: lambda problem, step=1: step, lambda: lambda problem, step=2: step),
    "closure": (lambda: function(0.1), lambda: function(0.2)),
    "nested function": (lambda: lambda p: (lambda: 1)(), lambda: lambda p: (lambda: 2)()),
    "partial": (lambda: partial(gradient, step=0.1), lambda: partial(gradient, step=0.2)),
    "method": (lambda: Settings(1).method, lambda: Settings(2).method),
    "class": (lambda: Settings, lambda: Undeclared),
    "slots": (lambda: Slotted(1), lambda: Slotted(2)),
    "generator": (lambda: Settings(np.random.default_rng(0)), lambda: Settings(np.random.default_rng(1))),
    "object of another library": (lambda: Settings(deque([1, 2])), lambda: Settings(deque([1, 3]))),
    "keys": (lambda: Settings({(1, 2): 1}), lambda: Settings({(1, 3): 1})),
}


@pytest.mark.parametrize(("make", "other"), PAIRS.values(), ids=PAIRS)
def test_equal_objects_have_one_fingerprint_and_others_another(make, other):
    assert fingerprint(make()) == fingerprint(make()) != fingerprint(other())


def test_a_fingerprint_names_the_class_and_ignores_cached_results():
    settings = Settings([1, 2])
    before = fingerprint(settings)
    assert before.startswith(f"{__name__}.Settings ")
    assert settings.mean == 1.5
    assert fingerprint(settings) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [("state + 1", "state + 2"), ("0.5", "0.25"), *((f"return {n}", "return 9") for n in (2, 3, 4)), ("or 5", "or 9")],
)
def test_an_edited_class_has_another_fingerprint(old, new):
    mine, same, edited = (defined(text) for text in (CLASS, CLASS, CLASS.replace(old, new)))
    assert fingerprint(mine) == fingerprint(same) != fingerprint(edited)
    assert fingerprint(mine()) == fingerprint(same()) != fingerprint(edited())


def test_a_class_can_leave_its_cache_out():
    metric = Remembering(2.0)
    before = fingerprint(metric)
    assert metric(3) == 6.0
    assert fingerprint(metric) == before != fingerprint(Remembering(3.0))


def test_environments_and_spaces_are_the_same_after_they_were_used():
    import gymnasium as gym

    env, space = gym.make("CartPole-v1"), gym.spaces.Box(-1.0, 1.0)
    before = fingerprint(Settings([env, space]))
    env.reset()
    space.sample()
    assert fingerprint(Settings([env, space])) == before


def test_a_fingerprint_is_the_same_in_every_process():
    script = """
    import geodesic as gd
    from geodesic.training.objects import fingerprint
    def make(problem):
        return gd.Gradient(problem.source if problem.score in {"return", "success", "a", "b"} else None)
    class Mine:
        names = {"return", "success", "a", "b"}
        def has(self, name):
            return name in {"return", "success", "a", "b"}
    task = gd.Task("CartPole-v1", {"size": (0.0, 1.0)}, {"size": (0.0, 0.5)}, {"size": 1.0}, 10.0, set_context=make)
    print(fingerprint(make), fingerprint(Mine()), fingerprint(task), fingerprint(gd.PPO()))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    seeds = ({**os.environ, "PYTHONHASHSEED": seed} for seed in ("0", "1"))
    assert len({subprocess.run(command, env=env, capture_output=True, check=True).stdout for env in seeds}) == 1


FACTS = {
    "env": ("CartPole-v1", "CartPole-v0"),
    "contexts": ({"size": (0.0, 1.0)}, {"size": (0.0, 9.0)}),
    "source": ({"size": (0.0, 0.5)}, {"size": (0.0, 0.4)}),
    "target": ({"size": 1.0}, {"size": 0.9}),
    "set_context": (lambda env, size: 1, lambda env, size: 2),
    "observe_context": (True, False),
    "metrics": ({}, {"mine": gd.metrics.Euclidean([2.0])}),
    "evaluation": (gd.EvaluationSettings(), gd.EvaluationSettings({"size": 0.5})),
    "worst_return": (None, -1.0),
}


@pytest.mark.parametrize("name", FACTS)
def test_a_task_is_told_from_one_with_another_value(name):
    given = {key: pair[0] for key, pair in FACTS.items()}
    one, same, other = (gd.Task(**values, threshold=10.0) for values in (given, given, given | {name: FACTS[name][1]}))
    assert fingerprint(one) == fingerprint(same) != fingerprint(other)
