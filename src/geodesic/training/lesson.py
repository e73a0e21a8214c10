"""One run's curriculum under way: episodes in, in beginning order to the curriculum, recorded, checkpointed.

It needs no JAX. Trainers, callbacks of other libraries and loops of one's own all stand in front of the same one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from geodesic.contexts import Arrays, FloatArray, IntArray
from geodesic.curricula import Curriculum, State
from geodesic.errors import CheckpointError, GeodesicError, InvalidInput
from geodesic.records import Checkpoint, RunConfig, RunFolder, StageDistribution
from geodesic.records.archive import Headers, first_line
from geodesic.tasks import Task
from geodesic.tasks.methods import build
from geodesic.training.expected import CURRICULUM, check_members, check_state
from geodesic.training.ordering import Waiting
from geodesic.training.trainer import Evaluation, Report

RECENT = 20  # training episodes that a progress bar's return is the mean of


@dataclass
class Tally:
    """What was heard since an evaluation, for trackers: episodes, and what the learner said last."""

    step: int
    since: float = field(default_factory=time.perf_counter)
    lengths: list[IntArray] = field(default_factory=list)
    successes: list[FloatArray] = field(default_factory=list)
    measures: dict[str, float] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        self.lengths.append(report.episodes.lengths)
        self.successes.append(report.episodes.successes)
        self.measures = report.measures or self.measures


class Lesson:
    """What trainers and loops share; `Teacher` is its public side.

    The curriculum's generator is made from the seed and the number of updates so far, so that nothing but the
    curriculum's state has to be kept.
    """

    def __init__(self, config: RunConfig, task: Task, folder: RunFolder | None) -> None:
        self.config = config
        self.task = task
        self.folder = folder
        self.curriculum: Curriculum[Any] = build(task, config.method, config.options, config.metric, config.threshold)
        self.state: State = self.curriculum.init(self._rng(0))
        self.waiting = Waiting.nothing(task.space.dim)
        self.updates = 0
        self.train_score = math.nan
        self.target_score = math.nan
        self.curriculum_seconds = 0.0
        self._unwritten: list[Callable[[], None]] = []
        self._tally = Tally(0)

    def claim(self, new: bool = False) -> None:
        """Hold the folder, where there is one; new: it must not hold a run."""
        if self.folder is not None:
            self.folder.claim(new)

    def begin(self, again: bool = False) -> None:
        """The first stage on record, in a folder of its own; again: in place of a beginning that is there."""
        if self.folder is not None:
            self.folder.create(again)
        self._record_stage(0, self.state)

    def take(self, report: Report, step: int) -> bool:
        """Episodes to the record and, in the order they began, to the curriculum; whether a new stage began."""
        if len(report.episodes):
            self.train_score = float(report.episodes.returns[-RECENT:].mean())
        self._unwritten.append(partial(self._record_episodes, report))
        self._tally.add(report)
        ready, self.waiting = self.waiting.release(report.episodes, report.began, report.under_way)
        self.updates += 1
        began, stage = time.perf_counter(), self.state.stage
        self.state = self.curriculum.update(self.state, ready, self._rng(self.updates))
        self.curriculum_seconds += time.perf_counter() - began
        if self.state.stage == stage:
            return False
        self._unwritten.append(partial(self._record_stage, step, self.state))
        return True

    def evaluated(self, step: int, evaluation: Evaluation) -> None:
        """An evaluation on the target, to the record."""
        self.target_score = float(evaluation.scores.mean())
        seen = self._tallied(step)
        self._unwritten.append(partial(self._record_evaluation, step, evaluation, self.state, seen))

    def write(self) -> None:
        """What was heard, to the folder. Apart from hearing it, so that a trainer can be at work meanwhile."""
        for record in self._unwritten:
            record()
        self._unwritten.clear()
        if self.folder is not None:
            self.folder.flush()

    def _record_evaluation(self, step: int, evaluation: Evaluation, state: State, seen: dict[str, float]) -> None:
        if self.folder is None:
            return
        self.folder.evaluation(
            step, state.stage, state.alpha, evaluation.returns, evaluation.successes, evaluation.scores
        )
        target = {
            "target/return": float(evaluation.returns.mean()),
            "target/success": float(evaluation.successes.mean()),
            "target/score": float(evaluation.scores.mean()),
            "curriculum/alpha": state.alpha,
            "curriculum/stage": float(state.stage),
        }
        self.folder.scalars(step, {**target, **seen})

    def _tallied(self, step: int) -> dict[str, float]:
        """What trackers get of the training since the last evaluation."""
        now, tally, self._tally = time.perf_counter(), self._tally, Tally(step)
        lengths, successes = (
            np.concatenate(parts) if parts else np.zeros(0) for parts in (tally.lengths, tally.successes)
        )
        known = successes[np.isfinite(successes)]
        return {
            "train/score": self.train_score,
            "train/episode_length": float(lengths.mean()) if len(lengths) else math.nan,
            "train/success": float(known.mean()) if len(known) else math.nan,
            "time/steps_per_second": (step - tally.step) / (now - tally.since) if step > tally.step else math.nan,
            **{f"learner/{name}": value for name, value in tally.measures.items()},
        }

    def save(self, agent: Arrays, **meta: Any) -> None:
        """A checkpoint: with the agent's arrays, everything that decides the rest of the run."""
        if self.folder is None:
            return
        self.write()
        own = self.curriculum.save(self.state).items()
        arrays = {**agent, **{CURRICULUM + name: value for name, value in own}, **self.waiting.save()}
        seen = {"updates": self.updates, "train_score": self.train_score, "target_score": self.target_score}
        self.folder.save(arrays, {**seen, **meta})

    def restore(self, agent: Headers, free: str | None = None, segment: int | None = None) -> Checkpoint:
        """Stand where the last checkpoint says (the one of this segment, if one is named); no file is changed.

        agent: the arrays that the trainer expects in it. Names that begin with `free` may be anything.
        """
        if self.folder is None:
            raise InvalidInput("expected a run folder to go on from, got none")
        own = self.curriculum.save(self.state)
        found = self.folder.load(
            lambda headers: check_members(headers, agent, own, self.curriculum.state_type, free), segment
        )
        names = [name for name in found.arrays if name.startswith(CURRICULUM)]
        kept = {name.removeprefix(CURRICULUM): found.arrays[name] for name in names}
        try:
            state, waiting = self.curriculum.load(kept), Waiting.load(found.arrays)
            check_state(state, waiting, self.task.space.dim)
        except KeyError as error:
            raise CheckpointError(f"{found.path} is of another version: it has no {error}") from error
        except (ValueError, TypeError, IndexError, OverflowError, GeodesicError) as error:
            raise CheckpointError(f"damaged checkpoint {found.path}: {first_line(error)}") from error
        self.state, self.waiting, self.updates = state, waiting, found.count("updates")
        self.train_score, self.target_score = found.number("train_score"), found.number("target_score")
        return found

    def take_up(self) -> None:
        """Go on from there: the files are cut back to what they were then."""
        if self.folder is not None:
            self.folder.take_up()

    def release(self) -> None:
        """Nothing more is written, whatever has been."""
        if self.folder is not None:
            self.folder.release()

    def finish(self, steps: int, **more: Any) -> None:
        """The end: a folder with a summary holds a finished run."""
        if self.folder is None:
            return
        self.write()
        self.folder.close()
        self.folder.summary(
            {
                "steps": steps,
                "stage": self.state.stage,
                "alpha": self.state.alpha,
                "target_score": self.target_score,
                "failures": int(getattr(self.state, "failures", 0)),
                "curriculum_seconds": self.curriculum_seconds,
                **more,
            }
        )

    def _rng(self, count: int) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, count])

    def _record_episodes(self, report: Report) -> None:
        if self.folder is None:
            return
        own = report.episodes
        rest = (own.successes, own.returns, *own.contexts.T)
        self.folder.episodes(report.ended, own.stages, report.returns, own.lengths, rest)

    def _record_stage(self, step: int, state: State) -> None:
        if self.folder is None:
            return
        snapshot = self.curriculum.snapshot(state)
        new = StageDistribution(state.stage, step, state.alpha, state.distribution, snapshot)
        infeasible = self.task.infeasible(state.distribution)
        self.folder.stage(new, state.kind, state.event, infeasible, self._distance(state))
        means, spreads = state.distribution.mean(), np.sqrt(np.diag(state.distribution.cov()))
        named = {"mean": means, "spread": spreads}
        self.folder.scalars(
            step,
            {
                f"context/{name} {what}": float(value)
                for what, values in named.items()
                for name, value in zip(self.task.space.names, values)
            },
        )

    @property
    def distance(self) -> float:
        """From the mean context of the stage to that of the target."""
        return self._distance(self.state)

    def _distance(self, state: State) -> float:
        return float(np.linalg.norm(state.distribution.mean() - self.task.target_particles.mean()))
