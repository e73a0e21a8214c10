"""Environments of brax and MuJoCo Playground as contextual MDPs: `geodesic.envs.from_brax`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import jax
import numpy as np

from geodesic.checks import as_count, as_function
from geodesic.contexts import ContextSpace, Side
from geodesic.errors import InvalidInput, MissingExtra, shown
from geodesic.integrations.adapted import Adapted, Physics, PutContext, Step

MOST_STEPS = 1000  # what brax's own training takes
PHYSICS = ("sys", "_mjx_model")  # where brax and MuJoCo Playground keep it
POLICY = "state"  # of an observation in parts, the one that policies see, as both libraries' own training has it


def from_brax(
    env: Any,
    contexts: ContextSpace | Mapping[str, Side] | None = None,
    apply: PutContext | None = None,
    observe: bool = True,
    max_steps: int | None = None,
) -> Brax:
    """An environment of brax or MuJoCo Playground with a context, or brax's of this name, for `gd.Task(env=...)`.

        def put(sys, gravity):
            return sys.replace(gravity=jnp.array([0.0, 0.0, -gravity]))

        gd.envs.from_brax("inverted_pendulum", contexts={"gravity": (5.0, 30.0, "m/s²")}, apply=put)

    `apply(sys, **context)` gives the physics with the context in it: brax's `env.sys`, or Playground's
    `env.mjx_model`. The environment is used without its wrappers, which begin every episode from one cached state.
    max_steps: the time limit (default: the one in its wrappers or its configuration, else 1000).
    """
    if isinstance(env, str):
        env = _named(env)
    bare = getattr(env, "unwrapped", None)
    place = next((name for name in PHYSICS if hasattr(bare, name)), None)
    if bare is None or place is None:
        raise InvalidInput(
            f"expected an environment of brax or MuJoCo Playground, or the name of one of brax's, got {shown(env)}"
        )
    if contexts is None:
        raise InvalidInput('expected contexts=, such as {"gravity": (5.0, 20.0)}: name and bounds of each value')
    if apply is None:
        raise InvalidInput("expected apply=, a function apply(sys, **context) that gives a sys with the context in it")
    limit = _limit(env) if max_steps is None else as_count(max_steps, "max_steps")
    return Brax(bare, place, contexts, as_function(apply, "apply"), observe, limit)


class Brax(Adapted):
    """An environment of brax or MuJoCo Playground with a context; see `from_brax`."""

    def __init__(
        self,
        env: Any,
        place: str,
        contexts: ContextSpace | Mapping[str, Side],
        apply: PutContext,
        observe: bool,
        max_steps: int,
    ) -> None:
        super().__init__(getattr(env, place), contexts, apply, observe)
        self.env = env
        self.place = place
        self.max_steps = max_steps
        self.action_space = gym.spaces.Box(-1.0, 1.0, (int(env.action_size),), np.float32)
        self.ready()

    def begin(self, rng: jax.Array, physics: Physics) -> Step:
        return _step(self._in(physics).reset(rng))

    def go(self, inner: Any, action: jax.Array, rng: jax.Array, physics: Physics) -> Step:
        return _step(self._in(physics).step(inner, action))

    def _in(self, physics: Physics) -> Any:
        """The environment with this physics."""
        env = copy.copy(self.env)
        setattr(env, self.place, physics)
        return env


def _step(state: Any) -> Step:
    obs = state.obs
    if isinstance(obs, Mapping):
        if POLICY not in obs:
            raise InvalidInput(f"expected an observation with a part {POLICY!r}, got {', '.join(obs)}")
        obs = obs[POLICY]
    return Step(state, obs, state.reward, state.done)


def _limit(env: Any) -> int:
    """The time limit that a wrapper or a configuration states; an action that is repeated is one of ours."""
    stated = env if hasattr(env, "episode_length") else getattr(env.unwrapped, "_config", None)
    repeat = getattr(stated, "action_repeat", 1)
    if repeat != 1:
        raise InvalidInput(f"expected an environment without action_repeat, got {repeat}; try max_steps=")
    return as_count(int(getattr(stated, "episode_length", MOST_STEPS)), "episode_length")


def _named(name: str) -> Any:
    try:
        from brax import envs
    except ImportError as error:
        raise MissingExtra("brax", "brax") from error
    try:
        return envs.get_environment(name)
    except KeyError:
        raise InvalidInput(f"expected the name of an environment of brax, got {shown(name)}") from None
