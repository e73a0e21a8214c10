"""The contract of a learner: a frozen set of hyperparameters with pure functions on an explicit state.

A training iteration is the same for every learner and for both loops (compiled and host):

    repeat `rollout` times:  action, stored = act(state, obs, key);  step the environments
    state = learn(state, transitions, key)

so a learner is three functions, each of which can be compiled and mapped over runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import jax

from geodesic.runtime import prepare

prepare()

Key = jax.Array
LearnerState = Any  # a pytree of arrays: parameters, optimiser, buffer, counters
Measures = dict[str, jax.Array]  # what an update was like, in numbers that people look for; NaN where there was none


class Transitions(NamedTuple):
    """What was seen; leading axes (rollout, n_envs).

    `action` is what `act` asked to be stored. `next_obs` is the observation after the step, before any reset.
    """

    obs: jax.Array
    action: jax.Array
    reward: jax.Array
    next_obs: jax.Array
    terminated: jax.Array
    truncated: jax.Array


class Learner(Protocol):
    """PPO and SAC. Observations and actions carry a leading axis (n_envs,)."""

    n_envs: int
    rollout: int  # environment steps per environment between two calls of learn

    def init(self, key: Key, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> LearnerState:
        """Fresh parameters, optimiser and, where the learner has one, an empty replay buffer."""

    def act(self, state: LearnerState, obs: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        """A training action in the environment's units, and the form of it that is stored."""

    def learn(self, state: LearnerState, transitions: Transitions, key: Key) -> LearnerState:
        """The state after one iteration's transitions."""

    def learn_measured(self, state: LearnerState, transitions: Transitions, key: Key) -> tuple[LearnerState, Measures]:
        """The same, and what the update was like."""

    def params(self, state: LearnerState) -> LearnerState:
        """What is learned, as a tree of arrays: NaN or infinite values in it mean that the run is lost."""

    def policy(self, state: LearnerState, obs: jax.Array) -> jax.Array:
        """The deterministic action, in the environment's units."""
