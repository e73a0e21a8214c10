"""The trainer of environments in JAX: one compiled program for all runs, on a CPU or an accelerator."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import Arrays, Episodes, FloatArray, IntArray, Particles
from geodesic.records import checkpoint
from geodesic.records.archive import Headers
from geodesic.training.agents import as_policy
from geodesic.training.expected import check_finite
from geodesic.training.program import Compiling, Leaf, Log, Program, RunState, Sampler, as_sampler, stack
from geodesic.training.trainer import Evaluation, Policy, Report

PREFIX = "device"
_EVALUATION = 0x6576616C  # sets the keys of evaluations apart from those of training


class CompiledTrainer:
    """Runs that share environment, learner and counts, as one program (see `Trainer`).

    State, samplers and targets have a leading axis (runs,) and stay on the device; a new stage replaces one run's part.
    """

    _programs: Compiling
    _state: RunState
    _samplers: Sampler
    _targets: Sampler
    _log: tuple[Log, Leaf, Leaf]

    def __init__(self, program: Program, target: Particles, measure: str) -> None:
        self.program = program
        self.measure = measure
        self._target = as_sampler(target, 0)

    @property
    def segment_steps(self) -> int:
        return self.program.segment_steps

    def prepare(self, runs: int) -> None:
        self._programs = self.program.compiled(runs, self._target.points.shape[1])

    def begin(self, seeds: Sequence[int], distributions: Sequence[Particles]) -> None:
        self._enter_all(distributions, [0] * len(seeds))
        keys = np.stack([np.asarray(jax.random.PRNGKey(seed)) for seed in seeds])
        self._state = self.program.init(keys, self._samplers)

    open = None

    def shapes(self) -> Headers:
        return checkpoint.shapes(PREFIX, self._like())

    def restore(self, arrays: Sequence[Arrays], distributions: Sequence[Particles], stages: Sequence[int]) -> None:
        like = self._like()
        states: list[RunState] = [checkpoint.unflatten(PREFIX, like, own) for own in arrays]
        for state in states:
            check_finite(jax.tree.leaves(self.program.learner.params(state.learner)))
        self._enter_all(distributions, stages)
        self._state = stack(states)

    def save(self) -> list[Arrays]:
        host = jax.device_get(self._state)
        runs = range(len(host.key))
        return [checkpoint.flatten(PREFIX, jax.tree.map(lambda leaf, i=i: leaf[i], host)) for i in runs]

    def enter(self, run: int, distribution: Particles, stage: int) -> None:
        self._samplers = _replaced(self._samplers, run, as_sampler(distribution, stage))

    def start_segment(self) -> None:
        state, log = self._programs.segment.result()(self._state, self._samplers)
        self._state, self._log = state, (log, state.slots.length, state.finite)

    def finish_segment(self, before: int) -> list[Report]:
        log, lengths, finite = jax.device_get(self._log)
        n_envs = self.program.learner.n_envs
        end = (before + self.segment_steps) // n_envs
        return [
            self._report(before, n_envs, end - int(own.max()), *columns, measures) if good else self._lost()
            for own, columns, good, measures in zip(lengths, columns_of(log), finite, measures_of(log, len(finite)))
        ]

    def _lost(self) -> Report:
        nothing = np.zeros(0, np.int64)
        episodes = Episodes.empty(self._target.points.shape[1])
        return Report(episodes, episodes.returns, nothing, nothing, 0, finite=False)

    def _report(
        self, before: int, n_envs: int, under_way: int, when: IntArray, log: Log, measures: dict[str, float]
    ) -> Report:
        ended = before + when
        returns = np.asarray(log.total, np.float64)
        scores = self._scores(returns, log.success, log.discounted)
        episodes = Episodes(log.context, scores, log.length, log.stage, log.success)
        began = (ended - 1) // n_envs + 1 - episodes.lengths
        return Report(episodes, returns, ended, began, under_way, measures=measures)

    def evaluate(self, seeds: Sequence[int], step: int) -> list[Evaluation]:
        keys = np.array([(_EVALUATION ^ seed, step) for seed in seeds], dtype=np.uint32)
        evaluate = self._programs.evaluate.result()
        returns, successes, discounted = jax.device_get(evaluate(self._state, self._targets, keys))
        return [
            Evaluation(
                returns[run],
                np.asarray(successes[run], np.float64),
                self._scores(returns[run], successes[run], discounted[run] if len(discounted) else ()),
            )
            for run in range(len(seeds))
        ]

    def score(self, arrays: Arrays, contexts: FloatArray, seed: int) -> Evaluation:
        """The agent in a checkpoint of one run: an episode in each of the contexts (n, d)."""
        learner = checkpoint.unflatten(PREFIX, self._like(), arrays).learner
        key = np.array((_EVALUATION, seed), dtype=np.uint32)
        played = self.program.score(learner, np.asarray(contexts, np.float32), key)
        returns, successes, discounted = jax.device_get(played)
        scores = self._scores(returns, successes, discounted)
        return Evaluation(returns, np.asarray(successes, np.float64), scores)

    def policy(self, arrays: Arrays, stochastic: bool = False, seed: int = 0) -> Policy:
        """The agent in a checkpoint of one run."""
        state: RunState = checkpoint.unflatten(PREFIX, self._like(), arrays)
        return as_policy(self.program.learner, state.learner, self.program.mdp.action_space, stochastic, seed)

    def _like(self) -> RunState:
        """The shapes and types of one run's state."""
        samplers = stack([self._target])
        like = jax.eval_shape(self.program.init, np.zeros((1, 2), np.uint32), samplers)
        shapes: RunState = jax.tree.map(lambda leaf: np.empty(leaf.shape[1:], leaf.dtype), like)
        return shapes

    def _enter_all(self, distributions: Sequence[Particles], stages: Sequence[int]) -> None:
        self._samplers = jax.device_put(stack([as_sampler(*each) for each in zip(distributions, stages)]))
        self._targets = jax.device_put(stack([self._target] * len(stages)))

    def _scores(self, returns: FloatArray, successes: Leaf, discounted: Leaf) -> FloatArray:
        """Episodes in the task's measure."""
        chosen = {"return": returns, "success": successes, "discounted": discounted}[self.measure]
        return np.asarray(chosen)


@jax.jit
def _replaced(samplers: Sampler, run: int, new: Sampler) -> Sampler:
    return Sampler(*(whole.at[run].set(part) for whole, part in zip(samplers, new)))


def columns_of(log: Log) -> list[tuple[NDArray[np.int64], Log]]:
    """For each run, the step of the segment at which each of its episodes ended, and their columns of the log."""
    log, runs = log._replace(measures=()), log.ended.shape[0]
    ended = np.asarray(log.ended).reshape(runs, -1)
    run, when = np.nonzero(ended)
    cuts = np.searchsorted(run, np.arange(1, runs))
    flat = [np.asarray(c).reshape(runs, ended.shape[1], *c.shape[4:])[run, when] if len(c) else () for c in log]
    parts = [np.split(column, cuts) if len(log[k]) else [()] * runs for k, column in enumerate(flat)]
    return [(steps + 1, Log(*own)) for steps, own in zip(np.split(when, cuts), zip(*parts))]


def measures_of(log: Log, runs: int) -> list[dict[str, float]]:
    """For each run, what its learner said."""
    return [{name: float(values[run]) for name, values in dict(log.measures).items()} for run in range(runs)]
