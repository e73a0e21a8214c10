"""Checking a task: `geodesic.check_task(task)`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from geodesic.checks import explain_errors
from geodesic.contexts import FloatArray
from geodesic.envs.gymnasium import Env
from geodesic.errors import InvalidInput, short_repr
from geodesic.metrics.base import LearnedMetric, Metric
from geodesic.tasks.methods import build, resolve
from geodesic.tasks.task import Task

LONGEST = 200  # steps of an episode that are played


def check_task(task: Task) -> None:
    """Check that a task is valid.

    Source, target and threshold fit; every metric gives finite, symmetric distances on them; the default methods can
    be built; and in contexts of source and target the environment resets, steps and ends as Gymnasium expects, with the
    context set and the same episode for the same seed.

    Args:
        task: The task.

    Raises:
        InvalidInput: If something is wrong; the message says in one line what is missing and how to add it.
    """
    if not isinstance(task, Task):
        raise InvalidInput(f"expected a Task, got {type(task).__name__}")
    _guarded(task.reachable, "best_return(contexts)")
    _guarded(lambda: task.infeasible(task.target_particles), "is_feasible(contexts)")
    for name in task.metric_names:
        _metric(task, name)
    for method in task.training.compare:
        build(task, *resolve(task, method), threshold=task.threshold)
    contexts = np.stack([task.source_particles.points[0], task.target_particles.points[0]])
    if task.in_jax:
        _functional(task, contexts[0])
    env = _guarded(task.make, "making the environment")
    try:
        _spaces(env)
        limit = min(int(task.env.max_steps), LONGEST) if task.in_jax else LONGEST
        for context in contexts:
            if _play(env, context, limit) != _play(env, context, limit):
                raise InvalidInput("expected the same seed and context to give the same episode, got another")
    finally:
        env.close()


def _metric(task: Task, name: str) -> None:
    metric = _guarded(lambda: task.make_metric(name), f"making metric {name!r}")
    if isinstance(metric, LearnedMetric):
        return
    if not isinstance(metric, Metric):
        raise InvalidInput(f"expected metric {name!r} to be a Metric or a LearnedMetric, got {short_repr(metric)}")
    points = np.concatenate([task.source_particles.points[:5], task.target_particles.points[:5]])
    distances = np.asarray(_guarded(lambda: metric.pairwise(points, points), f"metric {name!r} on source and target"))
    if distances.shape != (len(points), len(points)) or not np.isfinite(distances).all():
        raise InvalidInput(f"expected metric {name!r} to give finite distances (n, n), got shape {distances.shape}")
    if (distances < 0).any() or not np.allclose(distances, distances.T, atol=1e-6 * max(1.0, distances.max())):
        raise InvalidInput(f"expected metric {name!r} to be symmetric and non-negative, got other distances")


def _functional(task: Task, context: FloatArray) -> None:
    """Check the shapes and types of a contextual MDP in JAX, without running it."""
    import jax

    mdp = task.env
    steps = getattr(mdp, "max_steps", None)
    if not isinstance(steps, int) or steps < 1:
        raise InvalidInput(f"expected the environment to state max_steps, the time limit of an episode, got {steps!r}")
    for name in ("observation_space", "action_space"):
        space = getattr(mdp, name, None)
        if not isinstance(space, gym.Space):
            raise InvalidInput(f"expected the environment to state {name}, a Gymnasium space; got {space!r}")
    key, c = jax.random.key(0), np.asarray(context, np.float32)
    action = np.asarray(mdp.action_space.sample())
    state = _guarded(lambda: jax.eval_shape(mdp.initial, key, c), "initial(rng, context)")
    after = _guarded(
        lambda: jax.eval_shape(mdp.transition, state, action, key, c), "transition(state, action, rng, context)"
    )
    if _shapes(after) != _shapes(state):
        raise InvalidInput(f"expected transition to keep the state's shapes {_shapes(state)}, got {_shapes(after)}")
    wanted: dict[str, tuple[Any, tuple[int, ...]]] = {
        "observation": ((state, key, c), mdp.observation_space.shape),
        "reward": ((state, action, after, key, c), ()),
        "terminal": ((state, key, c), ()),
        "success": ((state, c), ()),
    }
    for name, (arguments, shape) in wanted.items():
        got = _guarded(partial(jax.eval_shape, getattr(mdp, name), *arguments), name)
        if getattr(got, "dtype", np.dtype(object)).kind in "Oc":
            kind = getattr(got, "dtype", type(got).__name__)
            raise InvalidInput(f"expected {name} to be an array of real numbers, got {kind}")
        if got.shape != shape:
            raise InvalidInput(f"expected {name} of shape {shape}, got shape {got.shape}")
    if jax.eval_shape(mdp.terminal, state, key, c).dtype != bool:
        raise InvalidInput("expected terminal to be a boolean, got a number; try a comparison")


def _shapes(tree: Any) -> str:
    """A tree of arrays as a tree of their types and shapes."""
    import jax

    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{leaf.shape}", tree)).replace("'", "")


def _spaces(env: Env) -> None:
    if not isinstance(env.action_space, (gym.spaces.Box, gym.spaces.Discrete)):
        raise InvalidInput(f"expected a Box or Discrete action space, got {env.action_space}")
    if not isinstance(env.observation_space, (gym.spaces.Box, gym.spaces.Dict, gym.spaces.Discrete)):
        raise InvalidInput(f"expected a Box, Dict or Discrete observation space, got {env.observation_space}")


def _play(env: Env, context: FloatArray, limit: int) -> list[tuple[bytes, float]]:
    """Observations and rewards of a random episode."""
    env.action_space.seed(0)
    obs, info = _guarded(lambda: env.reset(seed=0, options={"context": context}), "reset")
    if not np.array_equal(info["context"], context):
        raise InvalidInput(f"expected the context {context} in force after reset, got {info['context']}")
    seen: list[tuple[bytes, float]] = []
    for _ in range(limit):
        if not env.observation_space.contains(obs):
            raise InvalidInput(f"expected observations in {env.observation_space}, got {short_repr(obs)}")
        flat = np.asarray(gym.spaces.flatten(env.observation_space, obs)).tobytes()
        obs, reward, terminated, truncated, _ = _guarded(lambda: env.step(env.action_space.sample()), "step")
        seen.append((flat, _reward(reward)))
        if terminated or truncated:
            return seen
    return seen


def _reward(value: object) -> float:
    """A reward, which may be a number of NumPy or JAX."""
    array = np.asarray(value, object if isinstance(value, (list, tuple)) else None)
    if array.shape != () or array.dtype.kind not in "biuf":
        raise InvalidInput(f"expected step to return a real number as the reward, got {short_repr(value)}")
    if not np.isfinite(array):
        raise InvalidInput(f"expected finite rewards, got {value}")
    return float(array)


def _guarded(work: Callable[[], Any], what: str) -> Any:
    """Turn any exception in a user's code into an error that says where it happened."""
    with explain_errors(f"expected {what} to work, got "):
        return work()
