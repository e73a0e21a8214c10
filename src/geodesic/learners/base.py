"""The contract of a learner: frozen hyperparameters with pure functions on an explicit state.

Both training loops (compiled and host) run the same iteration for every learner:

    repeat `rollout` times:  action, stored = act(state, obs, key);  step the environments
    state, metrics = update(state, transitions, key)

Each function can be compiled and mapped over runs.

A learner may also say how far its value function was off (`value_errors`), for methods that choose contexts by it, such
as plr. It is called only for those methods:

    errors = value_errors(state, transitions, key)    # before `update`, for every step: (rollout, n_envs)
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import gymnasium as gym
import jax

from geodesic.runtime import set_xla_flags

set_xla_flags()

Key = jax.Array
LearnerState = Any  # a pytree of arrays: parameters, optimiser, buffer, counters
Metrics = dict[str, jax.Array]  # scalars that describe one update; NaN where there is nothing to report


class Hyperparameters:
    """Base of learners that remember which of their fields the caller has set.

    Given to `train`, such a learner changes only these in the task's own learner of the same class.
    """

    given: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Note the names of the fields that are passed."""
        made = super().__new__(cls)
        order: list[str] = [item.name for item in fields(cls)] if is_dataclass(cls) else []
        vars(made)["given"] = (*order[: len(values)], *named)
        return made


class Transitions(NamedTuple):
    """The transitions of one rollout; every array has leading axes (rollout, n_envs).

    Args:
        obs: Observations before the step.
        action: The second value that `act` returned.
        reward: Rewards.
        next_obs: Observations after the step, before any reset.
        terminated: Whether the step ended the episode.
        truncated: Whether a time limit cut the episode off.
    """

    obs: jax.Array
    action: jax.Array
    reward: jax.Array
    next_obs: jax.Array
    terminated: jax.Array
    truncated: jax.Array


@runtime_checkable
class Learner(Protocol):
    """What training needs from a learner: PPO, SAC or your own.

    Write your own as a frozen dataclass that holds its hyperparameters; JAX traces its methods, so they must be pure.

    Args:
        n_envs: Number of environments that are stepped together.
        rollout: Steps of each environment between two calls of `update`.
    """

    n_envs: int
    rollout: int

    def init(self, key: Key, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> LearnerState:
        """Create the initial state.

        Args:
            key: A JAX random key.
            observation_space: The observation space of one environment.
            action_space: The action space of one environment.

        Returns:
            A pytree of arrays: parameters, optimiser and, if the learner has one, an empty replay buffer.
        """

    def act(self, state: LearnerState, obs: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        """Choose training actions.

        Args:
            state: The learner's state.
            obs: Observations (n_envs, ...).
            key: A JAX random key.

        Returns:
            Actions (n_envs, ...) in the environment's units, and the form of them to store in `Transitions`.
        """

    def update(self, state: LearnerState, transitions: Transitions, key: Key) -> tuple[LearnerState, Metrics]:
        """Learn from one rollout.

        Args:
            state: The learner's state.
            transitions: The rollout.
            key: A JAX random key.

        Returns:
            The new state, and scalars to log by name, which may be empty.
        """

    def params(self, state: LearnerState) -> LearnerState:
        """Return what is learned; a run whose parameters are not finite has diverged.

        Args:
            state: The learner's state.

        Returns:
            A pytree of arrays.
        """

    def policy(self, state: LearnerState, obs: jax.Array) -> jax.Array:
        """Choose deterministic actions.

        Args:
            state: The learner's state.
            obs: Observations (n, ...).

        Returns:
            Actions (n, ...) in the environment's units.
        """
