"""The compiled program: environment, context sampling and learning as one, mapped over runs.

A curriculum reaches the program only as arrays (points, cumulative weights, stage), padded to one shape. So any mix of
methods and seeds trains at once, and neither a new stage nor another method compiles again.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from geodesic.contexts import Particles
from geodesic.envs.cmdp import ContextualMDP, EnvState
from geodesic.learners.base import Key, Learner, LearnerState, Transitions
from geodesic.training.agents import legal

Leaf = Any  # an array on the device, on the host, or nothing: ()
T = TypeVar("T")

CAPACITY = 4096  # particles of a distribution in the program; larger ones are thinned
SHORT = 8  # rollouts up to here are unrolled


class Sampler(NamedTuple):
    """A distribution as the program sees it: points (CAPACITY, d), cumulative weights (CAPACITY,), and its stage."""

    points: Leaf
    cumulative: Leaf
    stage: Leaf


class EnvSlot(NamedTuple):
    """One environment under way, and the episode in it; the discounted return only where the task measures it."""

    env: EnvState
    obs: jax.Array
    context: jax.Array
    stage: jax.Array
    total: jax.Array
    length: jax.Array
    discounted: Leaf = ()


class RunState(NamedTuple):
    """All that decides the rest of a run, as arrays."""

    learner: LearnerState
    slots: EnvSlot
    key: Key
    finite: jax.Array  # whether all that was learned and earned in the last segment is


Carry = tuple[EnvSlot, jax.Array, jax.Array, Key]  # of an evaluation: slots, ended, success, key


class Log(NamedTuple):
    """What happened at each step of a segment; leading axes (iterations, rollout, n_envs)."""

    ended: Leaf
    context: Leaf
    total: Leaf
    length: Leaf
    stage: Leaf
    success: Leaf
    discounted: Leaf
    measures: Leaf = ()  # of the learner: means over the segment, without those axes


class Compiling(NamedTuple):
    """Programs for a number of runs; `result()` waits for them."""

    segment: Future[jax.stages.Compiled]
    evaluate: Future[jax.stages.Compiled]


class Program:
    """One environment and one learner, compiled: `init`, `segment` and `evaluate`, each with a leading axis (runs,).

    `score` is of one run, on contexts (n, d) that are given. `discount` is given where the task measures discounted
    returns.
    """

    def __init__(
        self,
        mdp: ContextualMDP,
        learner: Learner,
        iterations: int,
        eval_episodes: int,
        eval_policy: str,
        discount: float | None = None,
    ) -> None:
        self.mdp = mdp
        self.learner = learner
        self.iterations = iterations  # of the learner, in a segment
        self.eval_episodes = eval_episodes
        self.eval_policy = eval_policy  # "deterministic" or "stochastic"
        self.discount = discount
        self.init = jax.jit(jax.vmap(self._init))
        self.segment = jax.jit(jax.vmap(self._segment), donate_argnums=0)
        self.evaluate = jax.jit(jax.vmap(self._evaluate))
        self.score = jax.jit(self._score)
        self._ahead: dict[int, Compiling] = {}

    @property
    def segment_steps(self) -> int:
        """Environment steps of a run in one segment."""
        return self.iterations * self.learner.rollout * self.learner.n_envs

    def compiled(self, runs: int, dim: int) -> Compiling:
        """`segment` and `evaluate` for so many runs, being compiled side by side while the caller goes on."""
        if runs not in self._ahead:
            keys = np.zeros((runs, 2), np.uint32)
            samplers = stack([as_sampler(Particles(np.zeros((1, dim))), 0)] * runs)
            state = jax.eval_shape(self.init, keys, samplers)
            pool = ThreadPoolExecutor(2)
            segment = pool.submit(self.segment.lower(state, samplers).compile)
            evaluate = pool.submit(self.evaluate.lower(state, samplers, keys).compile)
            self._ahead[runs] = Compiling(segment, evaluate)
            pool.shutdown(wait=False)
        return self._ahead[runs]

    def _init(self, key: Key, sampler: Sampler) -> RunState:
        key, fresh, reset = jax.random.split(key, 3)
        keys = jax.random.split(reset, self.learner.n_envs)
        learner = self.learner.init(fresh, self.mdp.observation_space, self.mdp.action_space)
        return RunState(learner, jax.vmap(partial(self._reset, sampler))(keys), key, jnp.bool_(True))

    def _segment(self, state: RunState, sampler: Sampler) -> tuple[RunState, Log]:
        """`iterations` times: act for a rollout, then learn from it."""
        state, log = jax.lax.scan(lambda s, _: self._iteration(s, sampler), state, None, length=self.iterations)
        log = log._replace(measures=jax.tree.map(jnp.mean, log.measures))
        leaves = [*jax.tree.leaves(self.learner.params(state.learner)), log.total]
        return state._replace(finite=jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()), log

    def _iteration(self, state: RunState, sampler: Sampler) -> tuple[RunState, Log]:
        key, learn, act, slot = jax.random.split(state.key, 4)
        rollout, n = self.learner.rollout, self.learner.n_envs
        keys = jax.random.split(act, rollout), jax.random.split(slot, (rollout, n))

        def step(slots: EnvSlot, keys: tuple[Key, Key]) -> tuple[EnvSlot, tuple[Transitions, Log]]:
            action, stored = self.learner.act(state.learner, slots.obs, keys[0])
            chosen = legal(action, self.mdp.action_space)
            return jax.vmap(partial(self._interact, sampler))(slots, chosen, stored, keys[1])

        slots, (seen, log) = jax.lax.scan(step, state.slots, keys, unroll=rollout <= SHORT)
        learner, measures = self.learner.learn_measured(state.learner, seen, learn)
        return RunState(learner, slots, key, state.finite), log._replace(measures=measures)

    def _interact(
        self, sampler: Sampler, slot: EnvSlot, action: jax.Array, stored: jax.Array, key: Key
    ) -> tuple[EnvSlot, tuple[Transitions, Log]]:
        """One step of one environment, and a reset with a fresh context where the episode ends."""
        move, look, reset = jax.random.split(key, 3)
        env = self.mdp.transition(slot.env, action, move, slot.context)
        obs = self.mdp.observation(env, look, slot.context)
        reward = self.mdp.reward(slot.env, action, env, look, slot.context)
        terminated = self.mdp.terminal(env, look, slot.context)
        total, length = slot.total + reward, slot.length + 1
        discounted = () if self.discount is None else slot.discounted + self.discount**slot.length * reward
        truncated = (length >= self.mdp.max_steps) & ~terminated
        ended = terminated | truncated
        seen = Transitions(slot.obs, stored, reward, obs, terminated, truncated)
        success = self.mdp.success(env, slot.context)
        log = Log(ended, slot.context, total, length, slot.stage, success, discounted)
        going_on = slot._replace(env=env, obs=obs, total=total, length=length, discounted=discounted)
        next_slot = jax.tree.map(partial(jnp.where, ended), self._reset(sampler, reset), going_on)
        return next_slot, (seen, log)

    def _reset(self, sampler: Sampler, key: Key) -> EnvSlot:
        pick, start, look = jax.random.split(key, 3)
        return self._begin(sample(sampler, pick), sampler.stage, start, look)

    def _begin(self, context: jax.Array, stage: Leaf, start: Key, look: Key) -> EnvSlot:
        env = self.mdp.initial(start, context)
        obs = self.mdp.observation(env, look, context)
        nothing = () if self.discount is None else jnp.float32(0)
        return EnvSlot(env, obs, context, stage, jnp.float32(0), jnp.int32(0), nothing)

    def _evaluate(self, state: RunState, sampler: Sampler, key: Key) -> tuple[Leaf, Leaf, Leaf]:
        """Returns, successes and discounted returns (eval_episodes,) of the policy on contexts from the sampler."""
        reset, run = jax.random.split(key)
        slots = jax.vmap(partial(self._reset, sampler))(jax.random.split(reset, self.eval_episodes))
        return self._play(state.learner, slots, sampler, run)

    def _score(self, learner: LearnerState, contexts: jax.Array, key: Key) -> tuple[Leaf, Leaf, Leaf]:
        """The same (n,), of one episode in each of the contexts (n, d)."""
        reset, run = jax.random.split(key)
        keys = jax.random.split(reset, (len(contexts), 2))
        stage = jnp.int32(0)
        slots = jax.vmap(lambda context, key: self._begin(context, stage, *key))(contexts, keys)
        return self._play(learner, slots, Sampler(contexts[:1], jnp.full(1, 2.0), stage), run)

    def _play(self, learner: LearnerState, slots: EnvSlot, sampler: Sampler, key: Key) -> tuple[Leaf, Leaf, Leaf]:
        """Each episode to its end; what begins after it, on contexts from the sampler, is not looked at."""
        episodes, space = len(slots.length), self.mdp.action_space
        nothing = jnp.zeros(episodes, bool)
        flags = jax.eval_shape(jax.vmap(self.mdp.success), slots.env, slots.context)
        unknown = jnp.zeros(flags.shape, flags.dtype)

        def alive(carry: Carry) -> jax.Array:
            return jnp.logical_not(carry[1].all())

        def step(carry: Carry) -> Carry:
            slots, ended, success, key = carry
            key, now, act = jax.random.split(key, 3)
            if self.eval_policy == "stochastic":
                action = legal(self.learner.act(learner, slots.obs, act)[0], space)
            else:
                action = legal(self.learner.policy(learner, slots.obs), space)
            keys = jax.random.split(now, episodes)
            next_slots, (_, log) = jax.vmap(partial(self._interact, sampler))(slots, action, action, keys)
            totals = jax.tree.map(
                partial(jnp.where, ended), (slots.total, slots.discounted), (log.total, log.discounted)
            )
            stopped = next_slots._replace(total=totals[0], discounted=totals[1])
            return stopped, ended | log.ended, jnp.where(ended, success, log.success), key

        slots, _, success, _ = jax.lax.while_loop(alive, step, (slots, nothing, unknown, key))
        return slots.total, success, slots.discounted


def sample(sampler: Sampler, key: Key) -> jax.Array:
    """One context, by inverting the cumulative weights. Counting is faster than a search, step by step."""
    place = (sampler.cumulative <= jax.random.uniform(key)).sum()
    return jnp.asarray(sampler.points)[place]


def as_sampler(distribution: Particles, stage: int) -> Sampler:
    """A distribution padded to the program's shape; one with too many particles is thinned systematically."""
    some = np.flatnonzero(distribution.weights)
    weights = distribution.weights[some]
    if len(some) > CAPACITY:
        some = np.random.default_rng(0).permutation(some)  # equal strides would follow the order of the points
        quantiles = (np.arange(CAPACITY) + 0.5) / CAPACITY
        chosen = np.searchsorted(np.cumsum(distribution.weights[some]), quantiles)
        some, weights = some[np.minimum(chosen, len(some) - 1)], np.full(CAPACITY, 1 / CAPACITY)
    points = distribution.points[some]
    padding = CAPACITY - len(points)
    return Sampler(
        np.concatenate([points, np.repeat(points[-1:], padding, axis=0)]).astype(np.float32),
        np.concatenate([np.cumsum(weights)[:-1], np.full(padding + 1, 2.0)]).astype(np.float32),
        np.int32(stage),
    )


def stack(trees: list[T]) -> T:
    """Trees of one shape as one tree with a leading axis (runs,)."""
    stacked: T = jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
    return stacked
