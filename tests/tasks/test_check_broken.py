"""Broken tasks, each of which check_task names in one line; and the part of it that training does by itself."""

# ruff: noqa: NPY002  the global generator is what some environments use

import random
import time
import warnings

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
from problems import Walk, walk

import geodesic as gd
from geodesic.errors import InvalidInput, RunWarning
from geodesic.tasks.check import quick_check


class Slope(gym.Env):
    """A ball on a slope: the steeper, the faster it rolls, to its end after 30 steps or at 10."""

    observation_space = gym.spaces.Box(-50.0, 50.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)
    steep, friction, at, speed = 1.0, 0.0, 0.0, 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.speed, self.count = self.np_random.uniform(-0.1, 0.1), 0.0, 0
        return self.observation(), {}

    def observation(self):
        return np.array([self.at, self.speed], np.float32)

    def step(self, action):
        self.speed = (1 - self.friction) * self.speed + 0.01 * (action - 1.0 + self.steep)
        self.at += self.speed
        self.count += 1
        done = self.at > 10
        return self.observation(), -1.0, done, self.count >= 30, {"is_success": done}


def set_context(env, steep, friction):
    env.steep, env.friction = steep, friction


def slope(env=Slope, setter=set_context, **options):
    return gd.Task(
        **{
            "env": env,
            "contexts": {"steep": (0.0, 4.0), "friction": (0.0, 0.5)},
            "source": {"steep": (3.0, 4.0), "friction": 0.0},
            "target": {"steep": (0.0, 1.0), "friction": (0.2, 0.5)},
            "threshold": -25.0,
            "set_context": setter,
            **options,
        }
    )


class Own(gym.Wrapper):
    """A user's wrapper, which `set_context` receives."""


class OldReset(Slope):
    def reset(self, **options):
        return super().reset(**options)[0]


class OldStep(Slope):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


class ResetsContext(Slope):
    def reset(self, **options):
        self.steep, self.friction = 1.0, 0.0
        return super().reset(**options)


class Endless(Slope):
    def step(self, action):
        self.at = self.speed = 0.0
        return *super().step(action)[:2], False, False, {}


class Unsure(Slope):
    def step(self, action):
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, None, truncated, info


class Silent(Slope):
    def step(self, action):
        return *super().step(action)[:4], {}


class Words(Slope):
    def step(self, action):
        return *super().step(action)[:4], {"success": "no"}


class Unseeded(Slope):
    noise = np.random.default_rng(0)

    def observation(self):
        return (super().observation() + self.noise.normal(0, 0.1, 2)).astype(np.float32)


class Flat(Slope):
    """Speeds are not a number where it is flat, as on the target only."""

    def observation(self):
        return super().observation() / np.float32(self.steep > 1.0 or np.nan)


class Wide(Slope):
    observation_space = gym.spaces.Box(-0.5, 0.5, (2,), np.float32)


class Double(Slope):
    def observation(self):
        return super().observation().astype(np.float64)


class Longer(Slope):
    def observation(self):
        return np.zeros(3, np.float32)


def misspelt(env, steep, friction):
    env.stepe, env.frictoin = steep, friction


def half_misspelt(env, steep, friction):
    env.steep, env.frictoin = steep, friction


def forgets(env, steep, friction):
    pass


def one_value(env, steep, friction):
    env.steep = steep


def fails_on_the_target(env, steep, friction):
    env.steep, env.friction = steep, 1 / (0.0 if steep < 0.9 else 9.0)


def fails_on_the_way(env, steep, friction):
    set_context(env, steep, friction)
    if 1.5 < steep < 2.7:
        raise ValueError("no model of this slope")


def adds(env, steep, friction):
    env.steep, env.friction = env.steep + steep, friction


def more_actions(env, steep, friction):
    set_context(env, steep, friction)
    env.action_space = gym.spaces.Discrete(2 if steep > 2 else 3)


def more_numbers(env, steep, friction):
    set_context(env, steep, friction)
    env.observation_space = gym.spaces.Box(-50.0, 50.0, (2 if steep > 2 else 3,), np.float32)


def ones(value):
    return lambda contexts: np.full(len(contexts), value)


SAME = "expected contexts to change an observation, a reward or the end of an episode, got the same in all; "
HOST = {
    "misspelt attributes": (
        lambda: slope(setter=misspelt),
        SAME + "set_context makes a new attribute frictoin of Slope; did you mean friction?",
    ),
    "the wrong layer": (
        lambda: slope(env=lambda: Own(Slope())),
        SAME + "set_context sets friction of Own, which does not use it; try env.unwrapped.friction, that of Slope",
    ),
    "one of two misspelt": (
        lambda: slope(setter=half_misspelt),
        "context value friction changes nothing by itself; set_context makes a new attribute frictoin of Slope; did",
    ),
    "set_context that does nothing": (lambda: slope(setter=forgets), SAME + "let set_context change what reset"),
    "reset sets it back": (lambda: slope(env=ResetsContext), SAME + "let set_context change what reset and step use"),
    "fails on the target": (
        lambda: slope(setter=fails_on_the_target),
        r"got ZeroDivisionError: (float )?division by zero \(context steep=0\..*, friction=.* of the target\)",
    ),
    "fails on the way": (
        lambda: slope(setter=fails_on_the_way),
        r"got ValueError: no model of this slope \(context steep=.*, friction=.* at alpha 0\.\d+\)",
    ),
    "adds up": (lambda: slope(setter=adds), "expected the same seed and context to give the same episode, got another"),
    "other actions": (
        lambda: slope(setter=more_actions),
        r"expected the same action space in all contexts, got Discrete\(3\) and then Discrete\(2\); try the largest",
    ),
    "other observations": (
        lambda: slope(setter=more_numbers, observe_context=False),
        "expected the same observation space in all contexts, got ",
    ),
    "no success": (
        lambda: slope(env=Silent, score="success", threshold=0.5),
        r"expected info\['is_success'\] or info\['success'\] in the last step of an episode, since .*; got neither",
    ),
    "success in words": (
        lambda: slope(env=Words, score="success", threshold=0.5),
        r"expected info\['success'\] to be a boolean, got 'no' \(context",
    ),
    "never ends": (
        lambda: slope(env=Endless),
        r"expected episodes to end, got one of 10000 steps .*; try an environment in gymnasium.wrappers.TimeLimit",
    ),
    "ends without saying": (
        lambda: slope(env=Unsure),
        "expected step to return a boolean as terminated, got None",
    ),
    "unseeded": (lambda: slope(env=Unseeded), "expected the same seed and context to give the same episode, got anoth"),
    "nan on the target": (
        lambda: slope(env=Flat),
        r"expected observations without NaN, got NaN in entry \[0\] \(context .* of the target\)",
    ),
    "out of its space": (
        lambda: slope(env=Wide, observe_context=False),
        r"expected observations in Box\(-0.5, 0.5, \(2,\), float32\), got .* in entry .*; try wider bounds",
    ),
    "another type": (
        lambda: slope(env=Double, observe_context=False),
        r"expected observations of type float32, got float64; try .astype\(np.float32\)",
    ),
    "another shape": (
        lambda: slope(env=Longer, observe_context=False),
        r"expected observations of shape \(2,\), got shape \(3,\)",
    ),
    "reset of old Gym": (
        lambda: slope(env=OldReset),
        r"expected reset to return \(observation, info\), got array",
    ),
    "step of old Gym": (
        lambda: slope(env=OldStep),
        r"expected step to return \(observation, reward, terminated, truncated, info\), got ",
    ),
    "too high a worst return": (
        lambda: slope(worst_return=-27.0),
        "expected scores of at least worst_return=-27, got -30; try a lower worst_return",
    ),
    "too low a best return": (
        lambda: slope(best_return=ones(-35.0), threshold="auto"),
        "expected returns of at most best_return=-35, got .*; try a higher bound",
    ),
    "feasibility of another shape": (
        lambda: slope(is_feasible=lambda contexts: contexts > 0),
        r"expected is_feasible\(contexts\) of shape \(200,\), got shape \(200, 2\)",
    ),
    "a threshold out of reach": (
        lambda: slope(best_return=ones(-20.0), threshold=-10.0),
        r"expected a threshold that the target can reach \(below -20\), got -10",
    ),
}


def mdp(**parts):
    """The walk with other functions."""
    score = parts.pop("score", "return")
    threshold = 0.5 if score == "success" else -40.0
    return walk(type("Mine", (Walk,), parts)(), score=score, threshold=threshold)


JAX = {
    "a plain False": (
        lambda: mdp(terminal=lambda self, state, rng, context: False),
        "expected terminal to return a JAX boolean, got Python's False; try jnp.bool_",
    ),
    "an integer reward": (
        lambda: mdp(reward=lambda self, state, action, after, rng, context: 1),
        "expected reward to be a float, got int; try jnp.float32",
    ),
    "a reward of integers": (
        lambda: mdp(reward=lambda self, state, action, after, rng, context: jnp.int32(1)),
        "expected reward to be a float, got int32; try jnp.float32",
    ),
    "a reward of shape (1,)": (
        lambda: mdp(reward=lambda self, state, action, after, rng, context: state - context),
        r"expected reward of shape \(\), got shape \(1,\); a context is a vector: try context\[0\]",
    ),
    "no success": (
        lambda: mdp(score="success"),
        r"expected Mine to define success\(state, context\), since the task's score is 'success'; got none",
    ),
    "a success without a value": (
        lambda: mdp(score="success", success=lambda self, state, context: jnp.nan),
        r"expected info\['is_success'\] .* \(context place=",
    ),
    "a context that nothing uses": (
        lambda: mdp(
            reward=lambda self, state, action, after, rng, context: -jnp.abs(after - 3.0),
            terminal=lambda self, state, rng, context: jnp.abs(state - 3.0) < 1.0,
        ),
        SAME + "initial, transition, reward, terminal and success do not use it",
    ),
    "a context without effect": (
        lambda: mdp(
            reward=lambda self, state, action, after, rng, context: -jnp.abs(after - 3.0) + 0 * context[0],
            terminal=lambda self, state, rng, context: jnp.abs(state - 3.0) < 1.0,
        ),
        SAME + "let initial, transition, reward or terminal use the context",
    ),
}


@pytest.mark.parametrize("name", [*HOST, *JAX])
def test_a_broken_task_is_named_in_one_line(name):
    make, message = {**HOST, **JAX}[name]
    task = make()
    with pytest.raises(InvalidInput, match=message) as caught:
        gd.check_task(task)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_the_same_task_without_a_fault_passes_and_says_what_was_tried():
    tried = gd.check_task(slope())
    assert tried[0] == "metrics l2; methods auto, gradient, uniform, target-only"
    assert tried[1].endswith("in contexts of source, alpha 0.25, alpha 0.5, alpha 0.75, target")
    assert tried[2] == "context values that change an episode: steep, friction"
    assert tried[3].startswith("return of random actions: ")
    assert tried[3].endswith(" on the source, -30 on the target; threshold -25")


WARNINGS = {
    "a value without effect": (
        lambda: slope(setter=one_value),
        "context value friction changes nothing by itself; let set_context change .*, unless friction only matters",
    ),
    "a threshold that is met": (
        lambda: slope(threshold=-31.0),
        "random actions earn -30 on the target, which is above the threshold -31",
    ),
    "a threshold out of reach": (
        lambda: gd.Task(
            "CartPole-v1",
            contexts={"gravity": (2.0, 60.0)},
            source={"gravity": 5.0},
            target={"gravity": 50.0},
            threshold=600.0,
            set_context=lambda env, gravity: setattr(env, "gravity", gravity),
        ),
        "every step earned 1, and 500 steps earn 500, which is not above the threshold 600; try a lower one",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_what_may_be_intended_is_a_warning(name):
    make, message = WARNINGS[name]
    with pytest.warns(RunWarning, match=message) as caught:
        gd.check_task(make())
    assert len(caught) == 1


# --- the quick part ---------------------------------------------------------------------------------------------------

FATAL = ["fails on the target", "no success", "success in words", "ends without saying", "nan on the target"]
FATAL += ["another shape", "reset of old Gym", "step of old Gym"]
FATAL_IN_JAX = ["a plain False", "an integer reward", "a reward of shape (1,)", "no success"]


@pytest.mark.parametrize("name", [*FATAL, *(f"JAX {name}" for name in FATAL_IN_JAX)])
def test_training_refuses_what_would_break_it(name, tmp_path):
    make, message = JAX[name.removeprefix("JAX ")] if name.startswith("JAX") else HOST[name]
    with pytest.raises(InvalidInput, match=message):
        gd.train(make(), "uniform", steps=100, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["misspelt attributes", "the wrong layer", "reset sets it back"])
def test_training_warns_of_contexts_without_effect(name):
    make, message = HOST[name]
    with pytest.warns(RunWarning, match=message):
        quick_check(make())


def test_training_warns_of_a_context_that_no_function_in_jax_uses():
    make, message = JAX["a context that nothing uses"]
    with pytest.warns(RunWarning, match=message):
        quick_check(make())


@pytest.mark.parametrize("name", ["adds up", "out of its space", "another type", "unseeded", "never ends"])
def test_training_does_not_mind_what_it_can_train_with(name):
    make, _ = HOST[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick_check(make())


def test_the_quick_part_takes_no_time_and_changes_no_random_stream():
    class Careless(Slope):
        def reset(self, **options):
            np.random.seed(3)
            random.seed(3)
            return super().reset(**options)

    np.random.seed(1)
    random.seed(1)
    expected = np.random.random(), random.random()
    np.random.seed(1)
    random.seed(1)
    started = time.perf_counter()
    quick_check(slope(env=Careless))
    assert time.perf_counter() - started < 1.0
    assert (np.random.random(), random.random()) == expected


def test_a_task_is_tried_once():
    made = []

    def make():
        made.append(Slope())
        return made[-1]

    task = slope(env=make)
    quick_check(task)
    quick_check(task)
    assert len(made) == 1
