"""What the functions of a contextual MDP in JAX return, found by tracing them: nothing is compiled or run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from geodesic.contexts import FloatArray
from geodesic.errors import InvalidInput
from geodesic.tasks.probe import guarded
from geodesic.tasks.task import Task

NUMBERS = "biuf"  # kinds of dtypes


def check_functions(task: Task, context: FloatArray) -> bool:
    """Check names, shapes and types; return whether anything but the observation depends on the context.

    Raises InvalidInput with the name of the function, and what to change.
    """
    import jax

    from geodesic.envs.cmdp import ContextualMDP

    mdp = task.env
    _check_facts(mdp)
    key, c = jax.random.key(0), np.asarray(context, np.float32)
    action = np.asarray(mdp.action_space.sample())
    state, _, starts = _trace("initial(rng, context)", mdp.initial, key, c)
    after, _, moves = _trace("transition(state, action, rng, context)", mdp.transition, state, action, key, c)
    if _shapes(after) != _shapes(state):
        raise InvalidInput(f"expected transition to keep the state's shapes {_shapes(state)}, got {_shapes(after)}")
    scalar = partial(_check_array, shape=(), dim=len(c))
    seen, _, _ = _trace("observation", mdp.observation, state, key, c)
    _check_array("observation", seen, mdp.observation_space.shape, len(c))
    reward, plain_reward, pays = _trace("reward", mdp.reward, state, action, after, key, c)
    scalar("reward", reward)
    terminal, plain_terminal, ends = _trace("terminal", mdp.terminal, after, key, c)
    scalar("terminal", terminal)
    success, _, succeeds = _trace("success", mdp.success, after, c)
    scalar("success", success)
    if isinstance(plain_terminal, bool):
        raise InvalidInput(f"expected terminal to return a JAX boolean, got Python's {plain_terminal}; try jnp.bool_")
    if terminal.dtype != bool:
        raise InvalidInput(f"expected terminal to be a boolean, got {terminal.dtype}; try a comparison")
    if reward.dtype.kind != "f":
        kind = type(plain_reward).__name__ if isinstance(plain_reward, int) else reward.dtype
        raise InvalidInput(f"expected reward to be a float, got {kind}; try jnp.float32")
    if task.score == "success" and getattr(type(mdp), "success", None) is ContextualMDP.success:
        raise InvalidInput(
            f"expected {type(mdp).__name__} to define success(state, context), since the task's score is 'success'; "
            "got none"
        )
    return starts or moves or pays or ends or succeeds


def _check_facts(mdp: Any) -> None:
    steps = getattr(mdp, "max_steps", None)
    if not isinstance(steps, int) or steps < 1:
        raise InvalidInput(f"expected the environment to state max_steps, the time limit of an episode, got {steps!r}")
    for name in ("observation_space", "action_space"):
        space = getattr(mdp, name, None)
        if not isinstance(space, gym.Space):
            raise InvalidInput(f"expected the environment to state {name}, a Gymnasium space; got {space!r}")


def _trace(what: str, function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any, bool]:
    """Types and shapes of what a function returns, what it returned, and whether it uses its last argument.

    What it returned tells Python's numbers from arrays.
    """
    import jax

    returned: list[Any] = []

    def kept(*given: Any) -> Any:
        returned.append(function(*given))
        return returned[-1]

    traced, shapes = guarded(lambda: jax.make_jaxpr(kept, return_shape=True)(*arguments), what)
    context = traced.jaxpr.invars[-1]
    used = [*traced.jaxpr.outvars, *(variable for equation in traced.jaxpr.eqns for variable in equation.invars)]
    return shapes, returned[-1], any(variable is context for variable in used)


def _check_array(name: str, got: Any, shape: tuple[int, ...], dim: int) -> None:
    """Check that a traced result is one array of real numbers of this shape; dim: that of a context."""
    dtype = getattr(got, "dtype", np.dtype(object))
    if dtype.kind not in NUMBERS:
        kind = getattr(got, "dtype", type(got).__name__)
        raise InvalidInput(f"expected {name} to be an array of real numbers, got {kind}")
    if got.shape != shape:
        hint = "; a context is a vector: try context[0]" if got.shape == (dim,) and not shape else ""
        raise InvalidInput(f"expected {name} of shape {shape}, got shape {got.shape}{hint}")


def _shapes(tree: Any) -> str:
    """A tree of arrays as a tree of their types and shapes."""
    import jax

    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{leaf.shape}", tree)).replace("'", "")
