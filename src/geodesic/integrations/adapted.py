"""Base class of contextual MDPs around environments of other JAX libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from geodesic.checks import as_boolean, explain_errors
from geodesic.contexts import ContextSpace
from geodesic.envs.cmdp import ContextualMDP
from geodesic.envs.gymnasium import Contexts
from geodesic.errors import InvalidInput

Physics = Any  # what a context changes: gymnax's params, brax's sys, a MuJoCo model
SetContext = Callable[..., Physics]  # set_context(physics, **context) -> physics with the context


class Step(NamedTuple):
    """The result of a library's reset or step, kept as the MDP's state, whose functions return its parts.

    Args:
        inner: The library's state.
        obs: The observation.
        reward: The reward.
        terminated: Whether the episode terminated.
    """

    inner: Any
    obs: jax.Array
    reward: jax.Array
    terminated: jax.Array


class Adapted(ContextualMDP):
    """A contextual MDP whose functions are another library's.

    A subclass implements `reset_env` and `step_env`, sets `action_space` and `max_steps`, and then calls `trace`.
    Observations are flat and float32. Their space has no bounds, because contexts may change them.

    Args:
        physics: What a context changes.
        contexts: What each context value can be, as `ContextSpace.of` takes it.
        set_context: A function `set_context(physics, **context)` that returns the physics with the context. Integers
            and categories are int32, a category by its place in the list.
        observe_context: Append the context to the observation: numbers and integers scaled to [-1, 1], categories
            one-hot.

    Raises:
        InvalidInput: If an argument is invalid.
    """

    def __init__(self, physics: Physics, contexts: Contexts, set_context: SetContext, observe_context: bool) -> None:
        super().__init__()
        self.context_space = ContextSpace.of(contexts)
        self.physics = physics
        self.set_context = set_context
        self.observe_context = as_boolean(observe_context, "observe_context")
        relaxed = self.context_space.relaxed
        self._low = np.asarray(relaxed.low, np.float32)
        self._sides = np.asarray(relaxed.sides if observe_context else relaxed.low, np.float32)

    def reset_env(self, rng: jax.Array, physics: Physics) -> Step:
        """Start an episode with this physics."""
        raise NotImplementedError

    def step_env(self, inner: Any, action: jax.Array, rng: jax.Array, physics: Physics) -> Step:
        """Take one step with this physics."""
        raise NotImplementedError

    def trace(self) -> None:
        """Trace a reset without running it: check that contexts can be set, and find the size of observations."""
        names, context = ", ".join(self.context_space.names), np.asarray(self.context_space.low, np.float32)
        with explain_errors(f"expected a reset that JAX can trace with {names} as arguments, got "):
            state = jax.eval_shape(self.initial, jax.random.key(0), context)
            shape = jax.eval_shape(self.observation, state, jax.random.key(0), context).shape
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, shape, np.float32)

    def initial(self, rng: jax.Array, context: jax.Array) -> Step:  # type: ignore[override]
        """Start an episode."""
        return _strong(self.reset_env(_raw(rng), self._physics_with(context)))

    def transition(self, state: Step, action: jax.Array, rng: jax.Array, context: jax.Array) -> Step:  # type: ignore[override]
        """Take one step."""
        inner = self.step_env(state.inner, action, _raw(rng), self._physics_with(context))
        return _like(_strong(inner), state)

    def observation(self, state: Step, rng: jax.Array, context: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return the flat observation, with the context if it is observed."""
        obs = jnp.ravel(state.obs).astype(jnp.float32)
        if not self.observe_context:
            return obs
        return jnp.concatenate([obs, self._observed(context)])

    def reward(  # type: ignore[override]
        self, state: Step, action: jax.Array, next_state: Step, rng: jax.Array, context: jax.Array
    ) -> jax.Array:
        """Return the step's reward."""
        return jnp.reshape(next_state.reward, ()).astype(jnp.float32)

    def terminal(self, state: Step, rng: jax.Array, context: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return whether the episode terminated."""
        return jnp.reshape(state.terminated, ()) > 0

    def _physics_with(self, context: jax.Array) -> Physics:
        names = self.context_space.names
        if context.shape != (len(names),):
            raise InvalidInput(f"expected contexts of {', '.join(names)}, shape ({len(names)},), got {context.shape}")
        values = {
            name: context[index] if each is None else jnp.round(context[index]).astype(jnp.int32)
            for index, (name, each) in enumerate(zip(names, self.context_space.values))
        }
        call = f"set_context({type(self.physics).__name__}, {', '.join(names)})"
        with explain_errors(f"expected {call} to return the physics with the context, got "):
            return self.set_context(self.physics, **values)

    def _observed(self, context: jax.Array) -> jax.Array:
        """The context as the agent observes it, as `ContextSpace.observe` does."""
        if self.context_space.one_hot is None:
            return 2 * (context - self._low) / self._sides - 1
        columns, places = self.context_space.one_hot
        scaled = 2 * (context[columns] - self._low) / self._sides - 1
        return jnp.where(places < 0, scaled, jnp.round(context[columns]) == places)


def _raw(key: jax.Array) -> jax.Array:
    """A key as plain integers: libraries keep keys in their states, which are saved as arrays."""
    return jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key


def _strong(step: Step) -> Step:
    """Python numbers among the leaves as arrays of a fixed type; weak types would make a second segment compile."""
    return cast(Step, jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype), step))


def _like(step: Step, other: Step) -> Step:
    """A step in the types of another: some libraries reset to integers and step to floats, or vice versa."""
    return cast(Step, jax.tree.map(lambda new, old: new.astype(old.dtype), step, other))
