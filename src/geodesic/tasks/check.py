"""The contract of a task, as a check that anyone can run on their own: `geodesic.check_task(task)`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from geodesic.contexts import FloatArray
from geodesic.envs.gymnasium import Env
from geodesic.errors import GeodesicError, InvalidInput, shown, told
from geodesic.metrics.base import Metric, Recipe
from geodesic.tasks.methods import build, resolve
from geodesic.tasks.task import Task


def check_task(task: Task) -> None:
    """Raise an error that says in one line what is missing in a task and how to add it; nothing if all is well.

    Source, target and threshold fit; every metric gives finite, symmetric distances on them; the default methods can
    be built; and in contexts of source and target the environment resets, steps and ends as Gymnasium expects, with
    the context in place and the same for the same seed.
    """
    if not isinstance(task, Task):
        raise InvalidInput(f"expected a Task, got {type(task).__name__}")
    _ours(task.reachable, "best_return(contexts)")
    _ours(lambda: task.infeasible(task.target_particles), "is_feasible(contexts)")
    for name in task.metric_names:
        _metric(task, name)
    for method in task.compare:
        build(task, *resolve(task, method), threshold=task.threshold)
    contexts = np.stack([task.source_particles.points[0], task.target_particles.points[0]])
    if task.in_jax:
        _functional(task, contexts[0])
    env = _ours(task.make, "making the environment")
    try:
        _spaces(env)
        for context in contexts:
            _episodes(env, context, _limit(task))
    finally:
        env.close()


def _metric(task: Task, name: str) -> None:
    metric = _ours(lambda: task.make_metric(name), f"making metric {name!r}")
    if isinstance(metric, Recipe):
        return
    if not isinstance(metric, Metric):
        raise InvalidInput(f"expected metric {name!r} to be a Metric or a Recipe, got {shown(metric)}")
    points = np.concatenate([task.source_particles.points[:5], task.target_particles.points[:5]])
    distances = np.asarray(_ours(lambda: metric.pairwise(points, points), f"metric {name!r} on source and target"))
    if distances.shape != (len(points), len(points)) or not np.isfinite(distances).all():
        raise InvalidInput(f"expected metric {name!r} to give finite distances (n, n), got shape {distances.shape}")
    if (distances < 0).any() or not np.allclose(distances, distances.T, atol=1e-6 * max(1.0, distances.max())):
        raise InvalidInput(f"expected metric {name!r} to be symmetric and non-negative, got other distances")


def _functional(task: Task, context: FloatArray) -> None:
    """The shapes and types of a contextual MDP in JAX, without running it."""
    import jax

    mdp = task.env
    steps = getattr(mdp, "max_steps", None)
    if not isinstance(steps, int) or steps < 1:
        raise InvalidInput(f"expected the environment to state max_steps, the time limit of an episode, got {steps!r}")
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(mdp, name, None), gym.Space):
            raise InvalidInput(
                f"expected the environment to state {name}, a Gymnasium space; got {getattr(mdp, name, None)!r}"
            )
    key, c = jax.random.key(0), np.asarray(context, np.float32)
    action = np.asarray(mdp.action_space.sample())
    state = _ours(lambda: jax.eval_shape(mdp.initial, key, c), "initial(rng, context)")
    after = _ours(
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
        got = _ours(partial(jax.eval_shape, getattr(mdp, name), *arguments), name)
        if got.shape != shape:
            raise InvalidInput(f"expected {name} of shape {shape}, got shape {got.shape}")
    if jax.eval_shape(mdp.terminal, state, key, c).dtype != bool:
        raise InvalidInput("expected terminal to be a truth value, got a number; compare, do not subtract")


def _shapes(tree: Any) -> str:
    """A tree of arrays as a tree of their types and shapes."""
    import jax

    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{leaf.shape}", tree)).replace("'", "")


def _spaces(env: Env) -> None:
    if not isinstance(env.action_space, (gym.spaces.Box, gym.spaces.Discrete)):
        raise InvalidInput(f"expected a Box or Discrete action space, got {env.action_space}")
    if not isinstance(env.observation_space, (gym.spaces.Box, gym.spaces.Dict, gym.spaces.Discrete)):
        raise InvalidInput(f"expected a Box, Dict or Discrete observation space, got {env.observation_space}")


def _episodes(env: Env, context: FloatArray, limit: int) -> None:
    """Random episodes in one context; the same twice."""
    first, again = (_play(env, context, limit) for _ in range(2))
    if first != again:
        raise InvalidInput("expected the same seed and context to give the same episode, got another")


def _play(env: Env, context: FloatArray, limit: int) -> list[tuple[bytes, float]]:
    """Observations and rewards of a random episode."""
    env.action_space.seed(0)
    obs, info = _ours(lambda: env.reset(seed=0, options={"context": context}), "reset")
    if not np.array_equal(info["context"], context):
        raise InvalidInput(f"expected the context {context} in force after reset, got {info['context']}")
    seen: list[tuple[bytes, float]] = []
    for _ in range(limit):
        if not env.observation_space.contains(obs):
            raise InvalidInput(f"expected observations in {env.observation_space}, got {shown(obs)}")
        flat = np.asarray(gym.spaces.flatten(env.observation_space, obs)).tobytes()
        obs, reward, terminated, truncated, _ = _ours(lambda: env.step(env.action_space.sample()), "step")
        if not np.isfinite(float(reward)):
            raise InvalidInput(f"expected finite rewards, got {reward}")
        seen.append((flat, float(reward)))
        if terminated or truncated:
            return seen
    return seen


def _limit(task: Task) -> int:
    return min(int(task.env.max_steps), 200) if task.in_jax else 200


def _ours(work: Callable[[], Any], what: str) -> Any:
    """Whatever goes wrong in a user's code, as an error that says where."""
    try:
        return work()
    except GeodesicError:
        raise
    except Exception as error:
        raise InvalidInput(f"expected {what} to work, got {told(error)}") from error
