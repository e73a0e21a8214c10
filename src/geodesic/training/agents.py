"""A learner's functions, each compiled on its own and mapped over runs: for environments that JAX cannot compile.

What goes to the device for each step is one array, and buffers stay there. The random numbers of a run depend on its
seed and on the time alone, so that no generator has to be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from geodesic.learners.base import Key, Learner, LearnerState, Transitions
from geodesic.training.trainer import Policy

Space = gym.Space[Any]


class AgentState(NamedTuple):
    """One run's agent; with a leading axis (runs,), several."""

    learner: LearnerState
    key: Key


class Agents:
    """Observations (runs, n_envs, d) in, actions out; time counts the steps of each environment."""

    def __init__(self, learner: Learner, observation_space: Space, action_space: Space) -> None:
        self.learner = learner
        self.spaces = observation_space, action_space
        self.n_obs = int(np.prod(observation_space.shape or ()))
        self.n_act = int(np.prod(action_space.shape or ()))  # a discrete action is one number
        self.init = jax.jit(jax.vmap(self._init))
        self.act = jax.jit(jax.vmap(self._act, in_axes=(0, 0, None)))
        self.learn = jax.jit(jax.vmap(self._learn, in_axes=(0, 0, None)), donate_argnums=0)
        self.learn_and_act = jax.jit(jax.vmap(self._learn_and_act, in_axes=(0, 0, 0, None)), donate_argnums=0)
        self.best = jax.jit(jax.vmap(self._best))
        self.finite = jax.jit(jax.vmap(self._finite))

    @property
    def width(self) -> int:
        """Of a row: an observation, the next one, the action as it is stored, reward, terminated, truncated."""
        return 2 * self.n_obs + self.n_act + 3

    def states(self, seeds: Sequence[int]) -> AgentState:
        """Fresh agents."""
        state: AgentState = self.init(np.stack([np.asarray(jax.random.PRNGKey(seed)) for seed in seeds]))
        return state

    def like(self) -> AgentState:
        """The shapes and types of one run's agent; a learner that does not fit the spaces says so here."""
        shapes = jax.eval_shape(self._init, np.zeros(2, np.uint32))
        like: AgentState = jax.tree.map(lambda leaf: np.empty(leaf.shape, leaf.dtype), shapes)
        return like

    def _init(self, key: Key) -> AgentState:
        key, fresh = jax.random.split(key)
        return AgentState(self.learner.init(fresh, *self.spaces), key)

    def _act(self, state: AgentState, obs: jax.Array, time: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Legal actions, and what is stored of them."""
        key = jax.random.fold_in(jax.random.fold_in(state.key, time), 0)
        action, stored = self.learner.act(state.learner, obs, key)
        return legal(action, self.spaces[1]), stored

    def _learn(self, state: AgentState, rows: jax.Array, time: jax.Array) -> AgentState:
        """From a rollout of rows (rollout, n_envs, width), the last of them at this time."""
        key = jax.random.fold_in(jax.random.fold_in(state.key, time), 1)
        return state._replace(learner=self.learner.learn(state.learner, self._transitions(rows), key))

    def _learn_and_act(
        self, state: AgentState, rows: jax.Array, obs: jax.Array, time: jax.Array
    ) -> tuple[AgentState, tuple[jax.Array, jax.Array]]:
        state = self._learn(state, rows, time)
        return state, self._act(state, obs, time + 1)

    def _transitions(self, rows: jax.Array) -> Transitions:
        ends = np.cumsum([self.n_obs, self.n_obs, self.n_act, 1, 1])
        obs, next_obs, action, reward, terminated, truncated = jnp.split(rows, ends, axis=-1)
        if isinstance(self.spaces[1], gym.spaces.Discrete):
            action = action[..., 0].astype(jnp.int32)
        flags = terminated[..., 0] > 0, truncated[..., 0] > 0
        return Transitions(obs, action, reward[..., 0], next_obs, *flags)

    def _best(self, state: AgentState, obs: jax.Array) -> jax.Array:
        return legal(self.learner.policy(state.learner, obs), self.spaces[1])

    def _finite(self, state: AgentState) -> jax.Array:
        leaves = jax.tree.leaves(self.learner.params(state.learner))
        return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()


def legal(action: jax.Array, space: Space) -> jax.Array:
    """The action within the bounds of the environment's action space."""
    return jnp.asarray(jnp.clip(action, space.low, space.high)) if isinstance(space, gym.spaces.Box) else action


def as_policy(learner: Learner, state: LearnerState, space: Space, stochastic: bool, seed: int) -> Policy:
    """One agent as a function: observation -> action, as the Gymnasium environment has them."""
    if not stochastic:
        best = jax.jit(lambda obs: legal(learner.policy(state, obs[None]), space)[0])
        return lambda obs: np.asarray(best(obs))
    act = jax.jit(lambda obs, key: legal(learner.act(state, obs[None], key)[0], space)[0])
    keys = _keys(seed)
    return lambda obs: np.asarray(act(obs, next(keys)))


def _keys(seed: int) -> Iterator[jax.Array]:
    key = jax.random.key(seed)
    while True:
        key, now = jax.random.split(key)
        yield now
