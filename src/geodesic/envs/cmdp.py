"""The contract of a contextual MDP, written once in JAX on Gymnasium's functional interface.

The context is the functional interface's `params`: it may set the initial state, the reward and the dynamics. The same
definition serves the compiled trainer, Gymnasium code (`geodesic.envs.gymnasium`) and the exact metrics.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.errors import InvalidInput
from geodesic.runtime import prepare

prepare()

EnvState = Any  # a pytree of arrays


class ContextualMDP(FuncEnv[EnvState, jax.Array, jax.Array, jax.Array, jax.Array, None, jax.Array]):
    """Base of environments in JAX. A context is a float32 vector (d,).

    A subclass states observation_space, action_space and max_steps, and implements, pure and for one environment at
    a time:

        initial(rng, context) -> state                          transition(state, action, rng, context) -> next state
        observation(state, rng, context) -> array               reward(state, action, next_state, rng, context)
        terminal(state, rng, context) -> whether this state, after a step, ends the episode

    `success` and `image` may be added. So may facts of the problem, which a `Task` takes from here where it is not
    told otherwise: context_space, worst_return, source(rng), target(rng), evaluation(rng),
    best_return(contexts), is_feasible(contexts), metric(name).
    """

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    max_steps: int

    def success(self, state: EnvState, context: jax.Array) -> jax.Array:
        """Whether the task is solved in this state, read when an episode ends; NaN: the environment does not say."""
        return jnp.full((), jnp.nan, jnp.float32)

    def image(self, state: EnvState, context: FloatArray) -> NDArray[np.uint8]:
        """A picture (height, width, 3) of the state."""
        raise InvalidInput(
            f"expected an environment that can be drawn; add image(state, context) -> uint8 (h, w, 3) to "
            f"{type(self).__name__}"
        )
