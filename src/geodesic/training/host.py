"""The trainer of environments on the host: our learners on anyone's Gymnasium environment, MuJoCo's among them.

Runs train in lock-step, in groups: while the device learns for one, the others' environments are stepped, in threads.
The runs of a group share one mapped update. A run's numbers do not depend on the threads.
"""

from __future__ import annotations

import os
import time as clock
import warnings
from collections.abc import Sequence

import jax
import numpy as np

from geodesic.contexts import Arrays, FloatArray, Particles
from geodesic.errors import CheckpointError, RunWarning
from geodesic.learners.base import Learner
from geodesic.records import checkpoint
from geodesic.records.archive import Header, Headers
from geodesic.tasks import Task
from geodesic.training.agents import Agents, AgentState, as_policy
from geodesic.training.lockstep import AGENT, EVALUATION, SLOT, Group, as_given, evaluation_of
from geodesic.training.slots import COUNTS, Slot, Threads, make_env
from geodesic.training.trainer import Evaluation, Policy, Report


class HostTrainer:
    """Runs that share environment, learner and counts (see `Trainer`). `seconds` says where the time went."""

    def __init__(
        self, task: Task, learner: Learner, iterations: int, eval_episodes: int, eval_policy: str, threads: int = 0
    ) -> None:
        self.task = task
        self.learner = learner
        self.iterations = iterations  # of the learner, in a segment
        self.eval_episodes = eval_episodes
        self.eval_policy = eval_policy
        self.seconds = {"physics": 0.0, "update": 0.0, "evaluation": 0.0}
        self.threads = Threads(1)
        self._at_most = threads or len(os.sched_getaffinity(0))
        env = make_env(task)
        self.agents = Agents(learner, env.observation_space, env.action_space)
        self.agents.like()  # a learner that does not fit is refused here
        self._name = str(env.unwrapped)
        env.close()  # type: ignore[no-untyped-call]

    @property
    def segment_steps(self) -> int:
        return self.iterations * self.learner.rollout * self.learner.n_envs

    def prepare(self, runs: int) -> None:
        """Threads for the environments, and groups of runs.

        An accelerator learns for many runs at once, in about the same time for one as for all. Where environments have
        to wait for a core there are two groups, so that it and they can be at work at the same time. On a processor
        that gains nothing, and each run is a group of its own: its numbers are then the same to the last bit whatever
        runs beside it.
        """
        slots = runs * self.learner.n_envs
        self.threads = Threads(min(self._at_most, slots))
        together = runs if slots <= self._at_most else (runs + 1) // 2
        size = 1 if jax.default_backend() == "cpu" else together
        self._parts = [slice(first, min(first + size, runs)) for first in range(0, runs, size)]

    def begin(self, seeds: Sequence[int], distributions: Sequence[Particles]) -> None:
        self._groups = [Group(self, seeds[own], distributions[own], [0] * len(seeds[own])) for own in self._parts]

    open = SLOT

    def shapes(self) -> Headers:
        n, dim = self.learner.n_envs, self.task.space.dim
        counts, context = Header(np.dtype(np.float64), (len(COUNTS),)), Header(np.dtype(np.float64), (dim,))
        return {
            **checkpoint.shapes(AGENT, self.agents.like()),
            "seed": Header(np.dtype(np.int64), ()),
            "obs": Header(np.dtype(np.float32), (n, self.agents.n_obs)),
            **{f"{SLOT}{env}/counts": counts for env in range(n)},
            **{f"{SLOT}{env}/context": context for env in range(n)},
        }

    def restore(self, arrays: Sequence[Arrays], distributions: Sequence[Particles], stages: Sequence[int]) -> None:
        seeds = [_seed(own) for own in arrays]
        self._groups = [Group(self, seeds[own], distributions[own], stages[own], arrays[own]) for own in self._parts]
        if not all(group.unbroken for group in self._groups):
            warnings.warn(
                f"the state of {self._name} cannot be saved: its episodes under way are begun anew, so this run will "
                "differ from an unbroken one (give it save_state() and restore_state(arrays) to change that)",
                RunWarning,
                stacklevel=2,
            )

    def save(self) -> list[Arrays]:
        return [arrays for group in self._groups for arrays in group.save()]

    def enter(self, run: int, distribution: Particles, stage: int) -> None:
        for part, group in zip(self._parts, self._groups):
            if part.start <= run < part.stop:
                group.distributions[run - part.start], group.stages[run - part.start] = distribution, stage

    def start_segment(self) -> None:
        """Nothing: the segment runs in `finish_segment`, since its steps need the host."""

    def finish_segment(self, before: int) -> list[Report]:
        first = before // self.learner.n_envs
        end = first + self.iterations * self.learner.rollout
        for group in self._groups:
            group.look(first)
        for time in range(first, end):
            for group in self._groups:
                group.move(time)
            for group in self._groups:
                group.hear(time, last=time + 1 == end)
        return [report for group in self._groups for report in group.reports(end)]

    def evaluate(self, seeds: Sequence[int], step: int) -> list[Evaluation]:
        began = clock.perf_counter()
        found = [evaluation for group in self._groups for evaluation in group.evaluate(step)]
        self.seconds["evaluation"] += clock.perf_counter() - began
        return found

    def score(self, arrays: Arrays, contexts: FloatArray, seed: int) -> Evaluation:
        """The agent in a checkpoint of one run: an episode in each of the contexts (n, d), one after another."""
        act = self.policy(arrays, self.eval_policy == "stochastic", seed)
        slot = Slot(make_env(self.task), [EVALUATION, seed], self.task.discount)
        for context in np.asarray(contexts):
            obs, ended = slot.begin(Particles(context[None]), 0), len(slot.ended)
            while len(slot.ended) == ended:
                action = as_given(act(obs)[None, None], self.agents.spaces[1])[0]
                obs = slot.step(action, ended).obs
        slot.env.close()  # type: ignore[no-untyped-call]
        return evaluation_of(slot.ended, self.task.measure)

    def policy(self, arrays: Arrays, stochastic: bool = False, seed: int = 0) -> Policy:
        """The agent in a checkpoint of one run."""
        state: AgentState = checkpoint.unflatten(AGENT, self.agents.like(), arrays)
        return as_policy(self.learner, state.learner, self.agents.spaces[1], stochastic, seed)


def _seed(arrays: Arrays) -> int:
    """A run's seed: its episodes are told by it."""
    if "seed" not in arrays or arrays["seed"].shape != ():
        raise CheckpointError("the checkpoint is of another trainer: it has no seed")
    return int(arrays["seed"])
