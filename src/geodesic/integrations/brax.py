"""Environments of brax and MuJoCo Playground as contextual MDPs: `geodesic.envs.from_brax`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import jax
import numpy as np

from geodesic.checks import as_count, as_function
from geodesic.envs.gymnasium import Contexts
from geodesic.errors import InvalidInput, MissingExtra, short_repr
from geodesic.integrations.adapted import Adapted, Physics, SetContext, Step

DEFAULT_STEPS = 1000  # as in brax's own training
PHYSICS = ("sys", "_mjx_model")  # attribute of an environment of brax, of MuJoCo Playground
POLICY = "state"  # the part of a Dict observation that policies see in both libraries' own training


def from_brax(
    env: Any,
    contexts: Contexts | None = None,
    set_context: SetContext | None = None,
    observe_context: bool = True,
    max_steps: int | None = None,
) -> Brax:
    """Convert an environment of brax or MuJoCo Playground to a contextual MDP, for `gd.Task(...)`.

        def set_context(sys, gravity):
            return sys.replace(gravity=jnp.array([0.0, 0.0, -gravity]))

        gd.envs.from_brax("inverted_pendulum", contexts={"gravity": (5.0, 30.0, "m/s²")}, set_context=set_context)

    The environment is used without its wrappers, which start every episode from one cached state.

    Args:
        env: The environment, or the name of one of brax's.
        contexts: What each context value can be, as `ContextSpace.of` takes it.
        set_context: A function `set_context(sys, **context)` that returns the physics with the context: brax's
            `env.sys`, or Playground's `env.mjx_model`.
        observe_context: Append the context to the observation: numbers and integers scaled to [-1, 1], categories
            one-hot.
        max_steps: The time limit; by default that of its wrappers or its configuration, else 1000.

    Returns:
        The contextual MDP.

    Raises:
        InvalidInput: If an argument is invalid.
        MissingExtra: If brax is named but not installed.
    """
    if isinstance(env, str):
        env = _named(env)
    bare = getattr(env, "unwrapped", None)
    if not any(hasattr(bare, name) for name in PHYSICS):
        raise InvalidInput(
            f"expected an environment of brax or MuJoCo Playground, or the name of one of brax's, got {short_repr(env)}"
        )
    if contexts is None:
        raise InvalidInput('expected contexts=, such as {"gravity": (5.0, 20.0)}: name and bounds of each value')
    if set_context is None:
        raise InvalidInput(
            "expected set_context=, a function set_context(sys, **context) that returns a sys with the context"
        )
    limit = _limit(env) if max_steps is None else as_count(max_steps, "max_steps")
    return Brax(bare, contexts, as_function(set_context, "set_context"), observe_context, limit)


class Brax(Adapted):
    """An environment of brax or MuJoCo Playground with a context; `from_brax` creates it.

    Args:
        env: The environment without its wrappers.
        contexts: What each context value can be, as `ContextSpace.of` takes it.
        set_context: A function `set_context(sys, **context)`.
        observe_context: Append the context to the observation.
        max_steps: The time limit.
    """

    def __init__(
        self, env: Any, contexts: Contexts, set_context: SetContext, observe_context: bool, max_steps: int
    ) -> None:
        self.attribute = next(name for name in PHYSICS if hasattr(env, name))
        super().__init__(getattr(env, self.attribute), contexts, set_context, observe_context)
        self.env = env
        self.max_steps = max_steps
        self.action_space = gym.spaces.Box(-1.0, 1.0, (int(env.action_size),), np.float32)
        self.trace()

    def reset_env(self, rng: jax.Array, physics: Physics) -> Step:
        """Start an episode with this physics."""
        return _step(self._env_with(physics).reset(rng))

    def step_env(self, inner: Any, action: jax.Array, rng: jax.Array, physics: Physics) -> Step:
        """Take one step with this physics."""
        return _step(self._env_with(physics).step(inner, action))

    def _env_with(self, physics: Physics) -> Any:
        """A copy of the environment with this physics."""
        env = copy.copy(self.env)
        setattr(env, self.attribute, physics)
        return env


def _step(state: Any) -> Step:
    obs = state.obs
    if isinstance(obs, Mapping):
        if POLICY not in obs:
            raise InvalidInput(f"expected an observation with a part {POLICY!r}, got {', '.join(obs)}")
        obs = obs[POLICY]
    return Step(state, obs, state.reward, state.done)


def _limit(env: Any) -> int:
    """The time limit of a wrapper or configuration. It counts repeated actions, so these are refused."""
    stated = env if hasattr(env, "episode_length") else getattr(env.unwrapped, "_config", None)
    repeat = getattr(stated, "action_repeat", 1)
    if repeat != 1:
        raise InvalidInput(f"expected an environment without action_repeat, got {repeat}; try max_steps=")
    return as_count(int(getattr(stated, "episode_length", DEFAULT_STEPS)), "episode_length")


def _named(name: str) -> Any:
    try:
        from brax import envs
    except ImportError as error:
        raise MissingExtra("brax", "brax") from error
    try:
        return envs.get_environment(name)
    except KeyError:
        raise InvalidInput(f"expected the name of an environment of brax, got {short_repr(name)}") from None
