"""The compiled program: environment, context sampling and learning as one, mapped over runs.

A curriculum reaches the program only as arrays (points, cumulative weights, stage), padded to one shape. Any mix of
methods and seeds can train at once, and neither a new stage nor another method triggers a compilation.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodesic.contexts import Particles
from geodesic.envs.cmdp import ContextualMDP, EnvState
from geodesic.learners.base import Key, Learner, LearnerState, Transitions
from geodesic.training.agents import clip_action

Leaf = Any  # an array on the device, on the host, or nothing: ()

CAPACITY = 4096  # particles of a distribution in the program; larger ones are thinned
SHORT = 8  # rollouts up to here are unrolled


class Sampler(NamedTuple):
    """A distribution as the program sees it: points (CAPACITY, d), cumulative weights (CAPACITY,), and its stage."""

    points: Leaf
    cumulative: Leaf
    stage: Leaf


class EnvSlot(NamedTuple):
    """One environment and its current episode; the discounted return only where the task's score is that."""

    env: EnvState
    obs: jax.Array
    context: jax.Array
    stage: jax.Array
    total: jax.Array
    length: jax.Array
    discounted: Leaf = ()


class RunState(NamedTuple):
    """Everything that decides the rest of a run, as arrays."""

    learner: LearnerState
    slots: EnvSlot
    key: Key
    finite: jax.Array  # whether all parameters and returns of the last segment are
    errors: Leaf = ()  # sums (n_envs, 2) over the running episodes, as in `Log`


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
    errors: Leaf = ()  # sums of |e| and max(e, 0) over the episode, e the learner's value errors, if they are needed
    metrics: Leaf = ()  # of the learner: means over the segment, without those axes


class Compiling(NamedTuple):
    """Programs for a number of runs; `result()` waits for them."""

    segment: Future[jax.stages.Compiled]
    evaluate: Future[jax.stages.Compiled]


@dataclass(eq=False)
class Program:
    """One environment and one learner, compiled: `init`, `segment` and `evaluate`, each with a leading axis (runs,).

    `play_contexts` plays one run's agent in given contexts (n, d). `discount` is set where the task's score is the
    discounted return, `value_errors` where a method needs the learner's.
    """

    mdp: ContextualMDP
    learner: Learner
    iterations: int  # of the learner, in a segment
    eval_episodes: int
    eval_policy: str  # "deterministic" or "stochastic"
    discount: float | None = None
    value_errors: bool = False

    def __post_init__(self) -> None:
        self.segment_steps = self.iterations * self.learner.rollout * self.learner.n_envs  # of a run
        self.init = jax.jit(jax.vmap(self._init))
        self.segment = jax.jit(jax.vmap(self._segment), donate_argnums=0)
        self.evaluate = jax.jit(jax.vmap(self._evaluate))
        self.play_contexts = jax.jit(self._play_contexts)
        self._ahead: dict[int, Compiling] = {}

    def like(self, sampler: Sampler) -> RunState:
        """The shapes and types of one run's state."""
        like: RunState = jax.eval_shape(self._init, np.zeros(2, np.uint32), sampler)
        return like

    def compiled(self, samplers: Sampler) -> Compiling:
        """Start compiling `segment` and `evaluate` for these runs, in two threads; the caller need not wait."""
        runs = len(samplers.stage)
        if runs not in self._ahead:
            keys = np.zeros((runs, 2), np.uint32)
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
        errors = jnp.zeros((self.learner.n_envs, 2)) if self.value_errors else ()
        return RunState(learner, jax.vmap(partial(self._reset, sampler))(keys), key, jnp.bool_(True), errors)

    def _segment(self, state: RunState, sampler: Sampler) -> tuple[RunState, Log]:
        """`iterations` times: act for a rollout, then learn from it."""
        state, log = jax.lax.scan(lambda s, _: self._iteration(s, sampler), state, None, length=self.iterations)
        log = log._replace(metrics=jax.tree.map(jnp.mean, log.metrics))
        leaves = [*jax.tree.leaves(self.learner.params(state.learner)), log.total]
        return state._replace(finite=jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()), log

    def _iteration(self, state: RunState, sampler: Sampler) -> tuple[RunState, Log]:
        key, learn, act, slot = jax.random.split(state.key, 4)
        rollout, n = self.learner.rollout, self.learner.n_envs
        keys = jax.random.split(act, rollout), jax.random.split(slot, (rollout, n))

        def step(slots: EnvSlot, keys: tuple[Key, Key]) -> tuple[EnvSlot, tuple[Transitions, Log]]:
            action, stored = self.learner.act(state.learner, slots.obs, keys[0])
            chosen = clip_action(action, self.mdp.action_space)
            return jax.vmap(partial(self._interact, sampler))(slots, chosen, stored, keys[1])

        slots, (seen, log) = jax.lax.scan(step, state.slots, keys, unroll=rollout <= SHORT)
        running, errors = self._errors(state, seen, log.ended, learn)
        learner, metrics = self.learner.update(state.learner, seen, learn)
        return RunState(learner, slots, key, state.finite, running), log._replace(errors=errors, metrics=metrics)

    def _errors(self, state: RunState, seen: Transitions, ended: jax.Array, learn: Key) -> tuple[Leaf, Leaf]:
        """The sums of value errors after a rollout, and at each of its steps (rollout, n_envs, 2)."""
        if not self.value_errors:
            return (), ()
        each = self.learner.value_errors(state.learner, seen, jax.random.fold_in(learn, 0))  # type: ignore[attr-defined]
        return sum_errors(state.errors, each, ended)

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
        continued = slot._replace(env=env, obs=obs, total=total, length=length, discounted=discounted)
        next_slot = jax.tree.map(partial(jnp.where, ended), self._reset(sampler, reset), continued)
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
        """Returns, successes and discounted returns (eval_episodes,) of the policy on contexts from the sampler.

        Without a discount, discounted returns are NaN.
        """
        reset, run = jax.random.split(key)
        slots = jax.vmap(partial(self._reset, sampler))(jax.random.split(reset, self.eval_episodes))
        return self._play(state.learner, slots, sampler, run)

    def _play_contexts(self, learner: LearnerState, contexts: jax.Array, key: Key) -> tuple[Leaf, Leaf, Leaf]:
        """The same (n,) for one episode in each of the contexts (n, d)."""
        reset, run = jax.random.split(key)
        keys = jax.random.split(reset, (len(contexts), 2))
        stage = jnp.int32(0)
        slots = jax.vmap(lambda context, key: self._begin(context, stage, *key))(contexts, keys)
        return self._play(learner, slots, Sampler(contexts[:1], jnp.full(1, 2.0), stage), run)

    def _play(self, learner: LearnerState, slots: EnvSlot, sampler: Sampler, key: Key) -> tuple[Leaf, Leaf, Leaf]:
        """Play each episode to its end; the episodes that follow it, on contexts from the sampler, are ignored."""
        episodes, space = len(slots.length), self.mdp.action_space
        nothing = jnp.zeros(episodes, bool)
        flags = jax.eval_shape(jax.vmap(self.mdp.success), slots.env, slots.context)
        failed = jnp.zeros(flags.shape, flags.dtype)

        def alive(carry: Carry) -> jax.Array:
            return jnp.logical_not(carry[1].all())

        def step(carry: Carry) -> Carry:
            slots, ended, success, key = carry
            key, now, act = jax.random.split(key, 3)
            if self.eval_policy == "stochastic":
                action = clip_action(self.learner.act(learner, slots.obs, act)[0], space)
            else:
                action = clip_action(self.learner.policy(learner, slots.obs), space)
            keys = jax.random.split(now, episodes)
            next_slots, (_, log) = jax.vmap(partial(self._interact, sampler))(slots, action, action, keys)
            totals = jax.tree.map(
                partial(jnp.where, ended), (slots.total, slots.discounted), (log.total, log.discounted)
            )
            stopped = next_slots._replace(total=totals[0], discounted=totals[1])
            return stopped, ended | log.ended, jnp.where(ended, success, log.success), key

        slots, _, success, _ = jax.lax.while_loop(alive, step, (slots, nothing, failed, key))
        unknown = jnp.full_like(slots.total, jnp.nan)
        return slots.total, success, unknown if self.discount is None else slots.discounted


def sum_errors(running: jax.Array, errors: jax.Array, ended: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sums of |e| and max(e, 0) along each episode: of those still running, (n, 2), and at each step, (t, n, 2).

    running: the sums (n, 2) before these steps. errors, ended: of each step, (t, n).
    """

    def add(sums: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        sums = sums + jnp.stack([jnp.abs(now[0]), jnp.maximum(now[0], 0.0)], axis=-1)
        return jnp.where(now[1][:, None], 0.0, sums), sums

    return jax.lax.scan(add, running, (errors, ended))


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
