"""The compiled loop: environment, context sampling and learning as one program, mapped over runs.

A curriculum reaches the program only as arrays (points, cumulative weights, stage), padded to one shape. So any mix of
methods and seeds trains at once, and neither a new stage nor another method compiles again. Curricula themselves stay
on the host; they are called between segments with the episodes that ended.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from geodesic.curricula.base import Episodes
from geodesic.distributions import Particles
from geodesic.envs.cmdp import ContextualMDP
from geodesic.learners.base import Key, Learner, Transitions

CAPACITY = 4096  # particles of a distribution in the program; larger ones are thinned
SHORT = 8  # rollouts up to here are unrolled


class Draw(NamedTuple):
    """A distribution as the program sees it: points (CAPACITY, d), cumulative weights (CAPACITY,), and its stage."""

    points: Any
    cumulative: Any
    stage: Any


class Lane(NamedTuple):
    """One environment under way, and the episode in it."""

    env: Any
    obs: jax.Array
    context: jax.Array
    stage: jax.Array
    total: jax.Array
    length: jax.Array


class RunState(NamedTuple):
    """All that decides the rest of a run, as arrays."""

    learner: Any
    lanes: Lane
    key: Key


class Log(NamedTuple):
    """What happened at each step of a segment; leading axes (iterations, rollout, n_envs)."""

    ended: Any
    context: Any
    total: Any
    length: Any
    stage: Any
    success: Any


class Program:
    """One environment and one learner, compiled: `init`, `segment` and `evaluate`, each with a leading axis (runs,)."""

    def __init__(
        self, mdp: ContextualMDP, learner: Learner, iterations: int, eval_episodes: int, eval_policy: str
    ) -> None:
        self.mdp = mdp
        self.learner = learner
        self.iterations = iterations  # of the learner, in a segment
        self.eval_episodes = eval_episodes
        self.eval_policy = eval_policy  # "deterministic" or "stochastic"
        self.init = jax.jit(jax.vmap(self._init))
        self.segment = jax.jit(jax.vmap(self._segment), donate_argnums=0)
        self.evaluate = jax.jit(jax.vmap(self._evaluate))

    @property
    def segment_steps(self) -> int:
        """Environment steps of a run in one segment."""
        return self.iterations * self.learner.rollout * self.learner.n_envs

    def _init(self, key: Key, draw: Draw) -> RunState:
        key, fresh, reset = jax.random.split(key, 3)
        keys = jax.random.split(reset, self.learner.n_envs)
        learner = self.learner.init(fresh, self.mdp.observation_space, self.mdp.action_space)
        return RunState(learner, jax.vmap(partial(self._reset, draw))(keys), key)

    def _segment(self, state: RunState, draw: Draw) -> tuple[RunState, Log]:
        """`iterations` times: explore for a rollout, then learn from it."""
        return jax.lax.scan(lambda s, _: self._iteration(s, draw), state, None, length=self.iterations)

    def _iteration(self, state: RunState, draw: Draw) -> tuple[RunState, Log]:
        key, learn, explore, lane = jax.random.split(state.key, 4)
        rollout, n = self.learner.rollout, self.learner.n_envs
        keys = jax.random.split(explore, rollout), jax.random.split(lane, (rollout, n))

        def step(lanes: Lane, keys: tuple[Key, Key]) -> tuple[Lane, tuple[Transitions, Log]]:
            action, stored = self.learner.explore(state.learner, lanes.obs, keys[0])
            return jax.vmap(partial(self._interact, draw))(lanes, self.legal(action), stored, keys[1])

        lanes, (seen, log) = jax.lax.scan(step, state.lanes, keys, unroll=rollout <= SHORT)
        return RunState(self.learner.learn(state.learner, seen, learn), lanes, key), log

    def _interact(
        self, draw: Draw, lane: Lane, action: jax.Array, stored: jax.Array, key: Key
    ) -> tuple[Lane, tuple[Transitions, Log]]:
        """One step of one environment, and a reset with a fresh context where the episode ends."""
        move, look, reset = jax.random.split(key, 3)
        env = self.mdp.transition(lane.env, action, move, lane.context)
        obs = self.mdp.observation(env, look, lane.context)
        reward = self.mdp.reward(lane.env, action, env, look, lane.context)
        terminated = self.mdp.terminal(env, look, lane.context)
        total, length = lane.total + reward, lane.length + 1
        truncated = (length >= self.mdp.max_steps) & ~terminated
        ended = terminated | truncated
        seen = Transitions(lane.obs, stored, reward, obs, terminated, truncated)
        log = Log(ended, lane.context, total, length, lane.stage, self.mdp.success(env, lane.context))
        going_on = lane._replace(env=env, obs=obs, total=total, length=length)
        following = jax.tree.map(partial(jnp.where, ended), self._reset(draw, reset), going_on)
        return following, (seen, log)

    def _reset(self, draw: Draw, key: Key) -> Lane:
        pick, start, look = jax.random.split(key, 3)
        context = sample(draw, pick)
        env = self.mdp.initial(start, context)
        obs = self.mdp.observation(env, look, context)
        return Lane(env, obs, context, draw.stage, jnp.float32(0), jnp.int32(0))

    def legal(self, action: jax.Array) -> jax.Array:
        """The action within the bounds of the environment's action space."""
        space = self.mdp.action_space
        return jnp.asarray(jnp.clip(action, space.low, space.high)) if isinstance(space, gym.spaces.Box) else action

    def _evaluate(self, state: RunState, draw: Draw, key: Key) -> tuple[jax.Array, jax.Array]:
        """Returns and successes (eval_episodes,) of the policy on contexts from `draw`."""
        reset, run = jax.random.split(key)
        lanes = jax.vmap(partial(self._reset, draw))(jax.random.split(reset, self.eval_episodes))
        nothing = jnp.zeros(self.eval_episodes, bool)

        def alive(carry: Any) -> jax.Array:
            return jnp.logical_not(carry[1].all())

        def step(carry: Any) -> Any:
            lanes, ended, success, key = carry
            key, now, act = jax.random.split(key, 3)
            if self.eval_policy == "stochastic":
                action = self.legal(self.learner.explore(state.learner, lanes.obs, act)[0])
            else:
                action = self.legal(self.learner.policy(state.learner, lanes.obs))
            keys = jax.random.split(now, self.eval_episodes)
            following, (_, log) = jax.vmap(partial(self._interact, draw))(lanes, action, action, keys)
            stopped = following._replace(total=jnp.where(ended, lanes.total, log.total))
            return stopped, ended | log.ended, jnp.where(ended, success, log.success & log.ended), key

        lanes, _, success, _ = jax.lax.while_loop(alive, step, (lanes, nothing, nothing, run))
        return lanes.total, success


def sample(draw: Draw, key: Key) -> jax.Array:
    """One context, by inverting the cumulative weights. Counting is faster than a search, step by step."""
    place = (draw.cumulative <= jax.random.uniform(key)).sum()
    return jnp.asarray(draw.points)[place]


def as_draw(distribution: Particles, stage: int) -> Draw:
    """A distribution padded to the program's shape; one with too many particles is thinned systematically."""
    held = np.flatnonzero(distribution.weights)
    points, weights = distribution.points[held], distribution.weights[held]
    if len(points) > CAPACITY:
        quantiles = (np.arange(CAPACITY) + 0.5) / CAPACITY
        points = points[np.minimum(np.searchsorted(np.cumsum(weights), quantiles), len(points) - 1)]
        weights = np.full(CAPACITY, 1 / CAPACITY)
    padding = CAPACITY - len(points)
    return Draw(
        np.concatenate([points, np.repeat(points[-1:], padding, axis=0)]).astype(np.float32),
        np.concatenate([np.cumsum(weights)[:-1], np.full(padding + 1, 2.0)]).astype(np.float32),
        np.int32(stage),
    )


def stack(trees: list[Any]) -> Any:
    """Trees of one shape as one tree with a leading axis (runs,)."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def episodes_of(log: Log, run: int) -> tuple[Episodes, NDArray[np.int64]]:
    """The episodes of one run that ended in a segment, and the environment step of the segment at which each did."""
    ended = np.asarray(log.ended[run]).reshape(-1)
    when = np.flatnonzero(ended)
    columns = [np.asarray(column[run]).reshape(len(ended), *column.shape[4:])[when] for column in log[1:]]
    context, total, length, stage, success = columns
    return Episodes(context, total, length, stage, success), when + 1
