"""A learner's functions, each compiled separately and mapped over runs: for environments that JAX cannot compile.

Each step sends one array to the device, and buffers stay there. The random numbers of a run depend only on its seed and
the time, so that no generator has to be saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from geodesic.contexts import Array, Arrays
from geodesic.envs.gymnasium import has_image
from geodesic.errors import InvalidInput, short_repr
from geodesic.learners.base import Key, Learner, LearnerState, Metrics, Transitions
from geodesic.learners.ppo import PPO
from geodesic.learners.sac import SAC
from geodesic.records import checkpoint
from geodesic.training.trainer import Policy
from geodesic.training.validate_checkpoint import check_finite

Space = gym.Space[Any]
Errors = Any  # of the learner's value function in a rollout, (rollout, n_envs), or nothing: ()
T = TypeVar("T")


class AgentState(NamedTuple):
    """One run's agent; with a leading axis (runs,), several."""

    learner: LearnerState
    key: Key


class Agents:
    """Observations (runs, n_envs, d) in, actions out; time counts the steps of each environment."""

    def __init__(
        self, learner: Learner, observation_space: Space, action_space: Space, value_errors: bool = False
    ) -> None:
        self.learner = learner
        self.value_errors = value_errors  # whether `update` gives those of the learner
        self.spaces = observation_space, action_space
        self.n_obs = int(np.prod(observation_space.shape or ()))
        self.n_act = int(np.prod(action_space.shape or ()))  # a discrete action is one number
        # the length of a row: observation, next observation, stored action, reward, terminated, truncated
        self.width = 2 * self.n_obs + self.n_act + 3
        self.like: AgentState = jax.eval_shape(
            self._init, np.zeros(2, np.uint32)
        )  # refuses a learner that does not fit
        self.init = jax.jit(jax.vmap(self._init))
        self.act = jax.jit(jax.vmap(self._act, in_axes=(0, 0, None)))
        self.update = jax.jit(jax.vmap(self._update, in_axes=(0, 0, None)), donate_argnums=0)
        self.update_and_act = jax.jit(jax.vmap(self._update_and_act, in_axes=(0, 0, 0, None)), donate_argnums=0)
        self.best = jax.jit(jax.vmap(self._best))
        self.finite = jax.jit(jax.vmap(self._finite))

    def _init(self, key: Key) -> AgentState:
        key, fresh = jax.random.split(key)
        return AgentState(self.learner.init(fresh, *self.spaces), key)

    def _act(self, state: AgentState, obs: jax.Array, time: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Actions within bounds, and the form of them that is stored."""
        key = jax.random.fold_in(jax.random.fold_in(state.key, time), 0)
        action, stored = self.learner.act(state.learner, obs, key)
        return clip_action(action, self.spaces[1]), stored

    def _update(self, state: AgentState, rows: jax.Array, time: jax.Array) -> tuple[AgentState, Metrics, Errors]:
        """Learn from a rollout of rows (rollout, n_envs, width), the last of them at this time."""
        key = jax.random.fold_in(jax.random.fold_in(state.key, time), 1)
        transitions, errors = self._transitions(rows), ()
        if self.value_errors:
            errors = self.learner.value_errors(state.learner, transitions, jax.random.fold_in(key, 0))  # type: ignore[attr-defined]
        learner, metrics = self.learner.update(state.learner, transitions, key)
        return state._replace(learner=learner), metrics, errors

    def _update_and_act(
        self, state: AgentState, rows: jax.Array, obs: jax.Array, time: jax.Array
    ) -> tuple[AgentState, Metrics, Errors, tuple[jax.Array, jax.Array]]:
        state, metrics, errors = self._update(state, rows, time)
        return state, metrics, errors, self._act(state, obs, time + 1)

    def _transitions(self, rows: jax.Array) -> Transitions:
        ends = np.cumsum([self.n_obs, self.n_obs, self.n_act, 1, 1])
        obs, next_obs, action, reward, terminated, truncated = jnp.split(rows, ends, axis=-1)
        if isinstance(self.spaces[1], gym.spaces.Discrete):
            action = action[..., 0].astype(jnp.int32)
        flags = terminated[..., 0] > 0, truncated[..., 0] > 0
        return Transitions(obs, action, reward[..., 0], next_obs, *flags)

    def _best(self, state: AgentState, obs: jax.Array) -> jax.Array:
        return clip_action(self.learner.policy(state.learner, obs), self.spaces[1])

    def _finite(self, state: AgentState) -> jax.Array:
        leaves = jax.tree.leaves(self.learner.params(state.learner))
        return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()


def refuse_without_errors(learner: Learner) -> None:
    """Refuse a learner that does not say how far its value function is off."""
    if not hasattr(learner, "value_errors"):
        raise InvalidInput(
            f"expected a learner that reports value errors for this method, got {type(learner).__name__}; "
            "try PPO or SAC, or give it value_errors(state, transitions, key)"
        )


def refuse_images(learner: Learner, space: Space) -> None:
    """Refuse images for our PPO and SAC, whose networks take vectors."""
    if isinstance(learner, (PPO, SAC)) and has_image(space):
        raise InvalidInput(
            f"expected observations that are vectors for {type(learner).__name__}, got images: {short_repr(space)}; "
            "try backend='sb3', which has convolutions, or a wrapper that extracts features"
        )


def keys_of(seeds: Sequence[int]) -> Array:
    """The key (runs, 2) of each seed."""
    return np.stack([np.asarray(jax.random.PRNGKey(seed)) for seed in seeds])


def stack(trees: Sequence[T]) -> T:
    """Trees of one shape as one tree with a leading axis (runs,)."""
    stacked: T = jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
    return stacked


def split_states(states: T) -> list[T]:
    """The states of several runs, on the host."""
    host: T = jax.device_get(states)
    runs = len(jax.tree.leaves(host)[0])
    return [jax.tree.map(lambda leaf, run=run: leaf[run], host) for run in range(runs)]


def load_states(learner: Learner, prefix: str, like: T, saved: Sequence[Arrays]) -> T:
    """The states of several runs from their checkpoints, as one tree; parameters must be finite."""
    states: list[Any] = [checkpoint.unflatten(prefix, like, arrays) for arrays in saved]
    for state in states:
        check_finite(learner, state.learner)
    loaded: T = stack(states)
    return loaded


def clip_action(action: jax.Array, space: Space) -> jax.Array:
    """The action within the bounds of the environment's action space."""
    return jnp.asarray(jnp.clip(action, space.low, space.high)) if isinstance(space, gym.spaces.Box) else action


def as_policy(learner: Learner, state: LearnerState, space: Space, stochastic: bool, seed: int) -> Policy:
    """One agent as a function: observation -> action, as the Gymnasium environment has them."""
    if not stochastic:
        best = jax.jit(lambda obs: clip_action(learner.policy(state, obs[None]), space)[0])
        return lambda obs: np.asarray(best(obs))
    act = jax.jit(lambda obs, key: clip_action(learner.act(state, obs[None], key)[0], space)[0])
    keys = _keys(seed)
    return lambda obs: np.asarray(act(obs, next(keys)))


def _keys(seed: int) -> Iterator[jax.Array]:
    key = jax.random.key(seed)
    while True:
        key, now = jax.random.split(key)
        yield now
