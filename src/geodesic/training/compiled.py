"""The trainer of environments in JAX: one compiled program for all runs, on a CPU or an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import jax
import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import Arrays, EpisodeBatch, FloatArray, Particles
from geodesic.records import checkpoint
from geodesic.records.archive import Headers
from geodesic.records.checkpoint import Json
from geodesic.training.agents import as_policy, keys_of, load_states, split_states, stack
from geodesic.training.policy_part import PolicyPart
from geodesic.training.program import Compiling, Leaf, Log, Program, RunState, Sampler, as_sampler
from geodesic.training.trainer import Evaluation, Policy, SegmentResult, Trainer
from geodesic.training.validate_checkpoint import check_episode

PREFIX = "device"
_EVALUATION = 0x6576616C  # sets the keys of evaluations apart from those of training


class CompiledTrainer(Trainer):
    """Runs that share environment, learner and counts, as one program (see `Trainer`).

    State, samplers and targets have a leading axis (runs,) and stay on the device; a new stage replaces one run's part.
    """

    _programs: Compiling
    _state: RunState
    _samplers: Sampler
    _targets: Sampler
    _log: tuple[Log, Leaf, Leaf]

    def __init__(self, program: Program, target: Particles) -> None:
        self.program = program
        self.segment_steps = program.segment_steps
        self._target = as_sampler(target, 0)

    def prepare(self, runs: int) -> None:
        """Start slow preparations for this many runs in the background."""
        self._programs = self.program.compiled(stack([self._target] * runs))

    def begin(self, seeds: Sequence[int], distributions: Sequence[Particles]) -> None:
        """Create fresh agents, on the first stages."""
        self._enter_all(distributions, [0] * len(seeds))
        self._state = self.program.init(keys_of(seeds), self._samplers)

    def shapes(self) -> Headers:
        """Names, types and shapes of what `save` gives for one run."""
        return checkpoint.shapes(PREFIX, self._like)

    def restore(
        self, arrays: Sequence[Arrays], distributions: Sequence[Particles], stages: Sequence[int], step: int
    ) -> None:
        """Restore agents and environments from what `save` gave."""
        state = load_states(self.program.learner, PREFIX, self._like, arrays)
        slots, most = state.slots, min(self.program.mdp.max_steps, step // self.program.learner.n_envs)
        numbers = slots.obs, slots.context, slots.total, slots.discounted
        check_episode(np.asarray(stages)[:, None], most, slots.length, slots.stage, *numbers, state.errors)
        self._enter_all(distributions, stages)
        self._state = state

    def save(self) -> list[Arrays]:
        """Everything that decides the rest of each run, as named arrays."""
        return [checkpoint.flatten(PREFIX, state) for state in split_states(self._state)]

    def save_policies(self) -> list[Arrays]:
        """Those of the arrays of `save` that the actions of each run depend on."""
        return self._policy.save(self._state.learner)

    @property
    def description(self) -> Json | str:  # type: ignore[override]
        """How the arrays of a policy act."""
        return self._policy.description

    def enter(self, run: int, distribution: Particles, stage: int) -> None:
        """Draw the contexts of this run's next episodes from here."""
        self._samplers = _replaced(self._samplers, run, as_sampler(distribution, stage))

    def start_segment(self) -> None:
        """Start a segment of training."""
        state, log = self._programs.segment.result()(self._state, self._samplers)
        self._state, self._log = state, (log, state.slots.length, state.finite)

    def finish_segment(self, before: int) -> list[SegmentResult | None]:
        """Wait for the segment; None for a run that diverged."""
        log, lengths, finite = jax.device_get(self._log)
        n_envs = self.program.learner.n_envs
        end = (before + self.segment_steps) // n_envs
        return [
            SegmentResult(_episodes(columns, before + when, n_envs), end - int(own.max()), metrics) if good else None
            for own, (when, columns), good, metrics in zip(
                lengths, columns_of(log), finite, metrics_of(log, len(finite))
            )
        ]

    def evaluate(self, seeds: Sequence[int], step: int) -> list[Evaluation]:
        """Evaluate each run's policy on the target."""
        keys = np.array([(_EVALUATION ^ seed, step) for seed in seeds], dtype=np.uint32)
        evaluate = self._programs.evaluate.result()
        played = jax.device_get(evaluate(self._state, self._targets, keys))
        return [_evaluation(*columns) for columns in zip(*played)]

    def evaluate_contexts(self, arrays: Arrays, contexts: FloatArray, seed: int) -> Evaluation:
        """Play the agent in a checkpoint of one run for an episode in each of the contexts (n, d)."""
        learner = checkpoint.unflatten(PREFIX, self._like, arrays).learner
        key = np.array((_EVALUATION, seed), dtype=np.uint32)
        played = self.program.play_contexts(learner, np.asarray(contexts, np.float32), key)
        return _evaluation(*jax.device_get(played))

    def policy(self, arrays: Arrays, stochastic: bool = False, seed: int = 0) -> Policy:
        """The agent in a checkpoint of one run."""
        state: RunState = checkpoint.unflatten(PREFIX, self._like, arrays)
        return as_policy(self.program.learner, state.learner, self.program.mdp.action_space, stochastic, seed)

    @cached_property
    def _like(self) -> RunState:
        """The shapes and types of one run's state."""
        return self.program.like(self._target)

    @cached_property
    def _policy(self) -> PolicyPart:
        """The part of one run's state that its actions depend on."""
        mdp, learner = self.program.mdp, self.program.learner
        return PolicyPart(f"{PREFIX}.learner", learner, self._like.learner, mdp.observation_space, mdp.action_space)

    def _enter_all(self, distributions: Sequence[Particles], stages: Sequence[int]) -> None:
        self._samplers = jax.device_put(stack([as_sampler(*each) for each in zip(distributions, stages)]))
        self._targets = jax.device_put(stack([self._target] * len(stages)))


def _episodes(log: Log, ended: NDArray[np.int64], n_envs: int) -> EpisodeBatch:
    """A run's episodes in a segment, from their rows of the log and the steps (n,) at which they ended."""
    started = (ended - 1) // n_envs + 1 - log.length
    discounted = log.discounted if len(log.discounted) else None
    episodes = EpisodeBatch(log.context, log.total, log.length, log.stage, discounted, log.success, started, ended)
    return episodes.with_value_errors(log.errors) if len(log.errors) else episodes


def _evaluation(returns: Leaf, successes: Leaf, discounted: Leaf) -> Evaluation:
    return Evaluation(returns, np.asarray(successes, np.float64), discounted)


@jax.jit
def _replaced(samplers: Sampler, run: int, new: Sampler) -> Sampler:
    return Sampler(*(whole.at[run].set(part) for whole, part in zip(samplers, new)))


def columns_of(log: Log) -> list[tuple[NDArray[np.int64], Log]]:
    """For each run, the step of the segment at which each of its episodes ended, and their columns of the log."""
    log, runs = log._replace(metrics=()), log.ended.shape[0]
    ended = np.asarray(log.ended).reshape(runs, -1)
    run, when = np.nonzero(ended)
    cuts = np.searchsorted(run, np.arange(1, runs))
    flat = [np.asarray(c).reshape(runs, ended.shape[1], *c.shape[4:])[run, when] if len(c) else () for c in log]
    parts = [np.split(column, cuts) if len(log[k]) else [()] * runs for k, column in enumerate(flat)]
    return [(steps + 1, Log(*own)) for steps, own in zip(np.split(when, cuts), zip(*parts))]


def metrics_of(log: Log, runs: int) -> list[dict[str, float]]:
    """For each run, the metrics of its learner."""
    return [{name: float(values[run]) for name, values in dict(log.metrics).items()} for run in range(runs)]
