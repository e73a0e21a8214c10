"""What environments of other libraries in JAX have in common once they are contextual MDPs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from geodesic.checks import as_flag
from geodesic.contexts import ContextSpace, Side
from geodesic.envs.cmdp import ContextualMDP
from geodesic.errors import GeodesicError, InvalidInput, told

Physics = Any  # what a context goes into: gymnax's params, brax's sys, a MuJoCo model
PutContext = Callable[..., Physics]  # apply(physics, **context) -> physics with the context in it
Tree = Any


class Step(NamedTuple):
    """The library's own state, and what it said of it. It says all at once, where the contract asks one by one."""

    inner: Tree
    obs: jax.Array
    reward: jax.Array
    terminated: jax.Array


class Adapted(ContextualMDP):
    """A contextual MDP whose functions are another library's. A subclass gives `begin` and `go`, with a physics that
    has the context in it, and states action_space and max_steps before it calls `ready`.

    Observations are flat and float32, their space without bounds: contexts may move them. With observe=True the
    context, scaled to [-1, 1], is appended.
    """

    def __init__(
        self,
        physics: Physics,
        contexts: ContextSpace | Mapping[str, Side],
        apply: PutContext,
        observe: bool,
    ) -> None:
        super().__init__()
        self.context_space = contexts if isinstance(contexts, ContextSpace) else ContextSpace.named(contexts)
        self.physics = physics
        self.apply = apply
        self.observe = as_flag(observe, "observe")
        self._low = np.asarray(self.context_space.low, np.float32)
        self._sides = np.asarray(self.context_space.sides if observe else self._low, np.float32)

    def begin(self, rng: jax.Array, physics: Physics) -> Step:
        """The beginning of an episode."""
        raise NotImplementedError

    def go(self, inner: Tree, action: jax.Array, rng: jax.Array, physics: Physics) -> Step:
        """One step on."""
        raise NotImplementedError

    def ready(self) -> None:
        """Look once, without computing anything, whether contexts go in; observations have the size found."""
        names, context = ", ".join(self.context_space.names), np.asarray(self.context_space.low, np.float32)
        try:
            state = jax.eval_shape(self.initial, jax.random.key(0), context)
            shape = jax.eval_shape(self.observation, state, jax.random.key(0), context).shape
        except GeodesicError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"expected a reset with {names} as numbers that are not known before it runs, got {told(error)}"
            ) from error
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, shape, np.float32)

    def initial(self, rng: jax.Array, context: jax.Array) -> Step:  # type: ignore[override]
        state: Step = _strong(self.begin(_raw(rng), self._with(context)))
        return state

    def transition(self, state: Step, action: jax.Array, rng: jax.Array, context: jax.Array) -> Step:  # type: ignore[override]
        after: Step = _like(_strong(self.go(state.inner, action, _raw(rng), self._with(context))), state)
        return after

    def observation(self, state: Step, rng: jax.Array, context: jax.Array) -> jax.Array:  # type: ignore[override]
        seen = jnp.ravel(state.obs).astype(jnp.float32)
        if not self.observe:
            return seen
        return jnp.concatenate([seen, 2 * (context - self._low) / self._sides - 1])

    def reward(  # type: ignore[override]
        self, state: Step, action: jax.Array, next_state: Step, rng: jax.Array, context: jax.Array
    ) -> jax.Array:
        return jnp.reshape(next_state.reward, ()).astype(jnp.float32)

    def terminal(self, state: Step, rng: jax.Array, context: jax.Array) -> jax.Array:  # type: ignore[override]
        return jnp.reshape(state.terminated, ()) > 0

    def _with(self, context: jax.Array) -> Physics:
        names = self.context_space.names
        if context.shape != (len(names),):
            raise InvalidInput(f"expected contexts of {', '.join(names)}, shape ({len(names)},), got {context.shape}")
        values = {name: context[place] for place, name in enumerate(names)}
        try:
            return self.apply(self.physics, **values)
        except GeodesicError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"expected apply({type(self.physics).__name__}, {', '.join(names)}) to put a context into the physics, "
                f"got {told(error)}"
            ) from error


def _raw(key: jax.Array) -> jax.Array:
    """A key as plain numbers: libraries keep keys in their states, which are saved as arrays."""
    return jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key


def _strong(tree: Tree) -> Tree:
    """Numbers of Python's among the leaves as arrays of a fixed type, or a second segment would compile again."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype), tree)


def _like(tree: Tree, other: Tree) -> Tree:
    """In the other's types: libraries begin with integers where they go on with floats, and the reverse."""
    return jax.tree.map(lambda new, old: new.astype(old.dtype), tree, other)
