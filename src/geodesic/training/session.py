"""One run's curriculum, records and checkpoint: the part that every trainer, callback and loop shares.

It needs no JAX. The compiled trainer, the host trainer, Stable-Baselines3's callback, RLlib and `Teacher` are thin
adapters around it.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from geodesic.contexts import Arrays, EpisodeBatch, FloatArray, IntArray, Particles
from geodesic.contexts.episodes import COLUMNS, LOSS_COLUMNS
from geodesic.curricula import State
from geodesic.curricula.gradient.staged import DISTANCE, HOP, JUMP
from geodesic.errors import CheckpointError, GeodesicError, InvalidInput, RunWarning, format_error
from geodesic.records import Checkpoint, RunConfig, RunFolder, StageDistribution, finished, read_config, run_exists
from geodesic.records.archive import Headers
from geodesic.records.reader import read_tables
from geodesic.records.schema import format_details
from geodesic.tasks.task import Task
from geodesic.training.best import BestPolicy
from geodesic.training.configure import curriculum_of
from geodesic.training.monitor import Monitor, replay
from geodesic.training.objects import Objects
from geodesic.training.reorder import release
from geodesic.training.trainer import Evaluation
from geodesic.training.validate_checkpoint import (
    CURRICULUM,
    WAITING,
    check_contexts,
    check_counts,
    check_members,
    check_numbers,
    check_state,
)

RECENT = 20  # training episodes that the training score is the mean of


@dataclass
class TrainingStats:
    """Training since the last evaluation, for trackers: episodes, and the last metrics of the learner."""

    step: int
    since: float = field(default_factory=time.perf_counter)
    lengths: list[IntArray] = field(default_factory=list)
    successes: list[FloatArray] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)

    def scalars(self, step: int) -> dict[str, float]:
        """Named numbers for trackers at this step; NaN where nothing is known."""
        lengths, successes = (
            np.concatenate(parts) if parts else np.zeros(0) for parts in (self.lengths, self.successes)
        )
        known = successes[np.isfinite(successes)]
        seconds = time.perf_counter() - self.since
        return {
            "train/episode_length": float(lengths.mean()) if len(lengths) else math.nan,
            "train/success": float(known.mean()) if len(known) else math.nan,
            "time/steps_per_second": (step - self.step) / seconds if step > self.step else math.nan,
            **{f"learner/{name}": value for name, value in self.metrics.items()},
        }


class CurriculumView:
    """What every adapter shows of the curriculum that it runs; a subclass opens its session."""

    _session: CurriculumSession | None = None

    @property
    def session(self) -> CurriculumSession:
        """The run's curriculum and records."""
        if self._session is None:
            raise InvalidInput("expected training to have started before reading the curriculum's state")
        return self._session

    @property
    def state(self) -> State:
        """The curriculum's state."""
        return self.session.state

    @property
    def distribution(self) -> Particles:
        """The distribution that contexts are sampled from."""
        return self.state.distribution

    @property
    def stage(self) -> int:
        """The number of the stage."""
        return self.state.stage

    @property
    def alpha(self) -> float:
        """The progress from source (0) to target (1)."""
        return self.state.alpha

    @property
    def done(self) -> bool:
        """Whether the distribution will not change any more; training on it may continue."""
        return self.state.done


def check_same_run(config: RunConfig, path: Path, extend: bool = False) -> None:
    """Refuse a folder that holds another run; one that is extended may have another number of steps."""
    if not run_exists(path):
        return
    earlier = read_config(path)
    different = config.differences(earlier.replace(steps=config.steps) if extend else earlier)
    if different:
        raise InvalidInput(
            f"{path} holds another run (it differs in {', '.join(different)}); try another out= or --out"
        )


def keep_schedule(config: RunConfig, path: Path, task: Task) -> RunConfig:
    """The configuration with the evaluations of the run in a folder, where the task states none.

    They depend on the budget that the run was started with.
    """
    if not run_exists(path):
        return config
    earlier = read_config(path)
    every = config.eval_every if task.evaluation.every else earlier.eval_every
    return config.replace(eval_every=every, eval_episodes=task.evaluation.episodes or earlier.eval_episodes)


def continue_run(config: RunConfig, path: Path, task: Task) -> RunConfig:
    """The configuration with which a call starts, resumes or reloads the run in a folder, or extends it."""
    config = keep_schedule(config, path, task)
    check_same_run(config, path, extend=True)
    if run_exists(path) and read_config(path).steps > config.steps:
        steps = read_config(path).steps
        raise InvalidInput(
            f"{path} holds a run of {steps} steps, more than {config.steps}; try steps={steps}, or another out="
        )
    return config


class CurriculumSession:
    """A run's curriculum, its records and its checkpoint.

    Everything random in the curriculum comes from the run's seed and the number of updates so far, so that a checkpoint
    needs the curriculum's state only.
    """

    def __init__(self, config: RunConfig, task: Task, folder: RunFolder | None, objects: Objects | None = None) -> None:
        self.config = config
        self.task = task
        self.folder = folder
        self.curriculum = curriculum_of(task, config, objects)
        self.state: State = self.curriculum.init(self._rng(0))
        self.waiting = EpisodeBatch.empty(task.space.dim)  # that began before one that is running
        self.updates = 0
        self.train_score = math.nan
        self.target_score = math.nan
        self.best = BestPolicy()
        self.curriculum_seconds = 0.0
        self.restored: Checkpoint | None = None  # what a resumed run continues from
        self._unwritten: list[Callable[[RunFolder], None]] = []
        self._stats = TrainingStats(0)
        self._monitor = Monitor(config)
        self._jumped = False

    @classmethod
    def open(
        cls,
        config: RunConfig,
        task: Task,
        out: Path | None,
        *,
        objects: Objects | None = None,
        owner: str = "",
        unchecked: str | None = None,
        restore: Callable[[Checkpoint], None] = lambda checkpoint: None,
        extend: bool = False,
    ) -> CurriculumSession:
        """Start a run in this folder, or resume the one that is there; without a folder nothing is recorded.

        owner: see `FolderLock`. unchecked: prefix of the agent's arrays in a checkpoint, which are exempt from checks.
        restore: is called with the checkpoint before any file is changed. extend: whether a run may be resumed with
        another number of steps, and a finished one be continued.
        """
        folder = None if out is None else RunFolder(out, config, owner)
        session = cls(config, task, folder, objects)
        try:
            if folder is not None:
                folder.acquire()
            if folder is None or not run_exists(folder.path):
                session.start()
            else:
                check_same_run(config, folder.path, extend)
                if finished(folder.path) and not extend:
                    raise InvalidInput(f"the run in {folder.path} is finished; try another out=")
                session.restored = session.load_checkpoint({}, unchecked)
                restore(session.restored)
                session.resume()
        except BaseException:
            session.close()
            raise
        return session

    def extend(self, config: RunConfig, step: int) -> None:
        """Continue a run, even a finished one, that is at this step, to the number of steps of a configuration."""
        self.config = self._monitor.config = config
        if self.folder is None:
            return
        self.folder.config = config
        self.folder.acquire()
        recorded = read_config(self.folder.path).steps
        if min(step, recorded) < config.steps:
            self.folder.reopen()  # first: only a run that says it is finished can be extended
            if recorded != config.steps:
                self.folder.describe()

    def start(self, overwrite: bool = False) -> None:
        """Create the folder and record the first stage; overwrite: replace a run without a checkpoint."""
        if self.folder is not None:
            self.folder.create(overwrite)
        self._enter(0)

    def observe(
        self,
        episodes: EpisodeBatch,
        step: int,
        earliest_running: int,
        metrics: dict[str, float] | None = None,
    ) -> bool:
        """Record episodes and give them to the curriculum in the order in which they began.

        step: the run's environment steps so far. earliest_running: the earliest start among the running episodes, for
        which later ones have to wait. metrics: the learner's, for trackers.

        Returns whether a new stage began.
        """
        if len(episodes):
            scores, of_stage = episodes.scores(self.task.score), episodes.stages
            self.train_score = float(scores[-RECENT:].mean())
            self._monitor.observe(of_stage, scores, episodes.returns, episodes.successes, episodes.contexts)
        self._record(lambda folder: folder.episodes(episodes, self.task.score))
        self._stats.lengths.append(episodes.lengths)
        self._stats.successes.append(episodes.successes)
        self._stats.metrics = metrics or self._stats.metrics
        ready, self.waiting = release(self.waiting, episodes, earliest_running)
        self.updates += 1
        started, stage = time.perf_counter(), self.state.stage
        self.state = self.curriculum.update(self.state, ready, self._rng(self.updates))
        self.curriculum_seconds += time.perf_counter() - started
        if self.state.stage == stage:
            return False
        self._warn_of_jump()
        self._enter(step)
        return True

    def _warn_of_jump(self) -> None:
        """Say once that the path does not lead to the target but jumps there."""
        numbers = self.curriculum.scalars(self.state)
        if JUMP in numbers and not self._jumped:
            self._jumped = True
            text = (
                f"{self.config.label}, seed {self.config.seed}: the path jumped; stage {self.state.stage} is "
                f"{numbers[HOP]:.2f} diagonals of the context space from the one before and {numbers[DISTANCE]:.2f} "
                "from the target; try another metric"
            )
            warnings.warn(text, RunWarning, stacklevel=3)

    def log_evaluation(self, step: int, evaluation: Evaluation, policy: Arrays | None = None) -> None:
        """Record an evaluation on the target.

        policy: the arrays of a checkpoint that the evaluated actions depend on, which are kept if it is the best one.
        """
        scores = evaluation.scores(self.task.score)
        self.target_score = float(scores.mean())
        self.best.update(step, self.target_score, policy or {})
        state = self.state
        scalars = {
            "target/return": float(evaluation.returns.mean()),
            "target/success": float(evaluation.successes.mean()),
            "target/score": self.target_score,
            "curriculum/alpha": state.alpha,
            "curriculum/stage": float(state.stage),
            **{f"curriculum/{name}": value for name, value in self.curriculum.scalars(state).items()},
            "train/score": self.train_score,
            **self._stats.scalars(step),
        }
        self._stats = TrainingStats(step)

        def write(folder: RunFolder) -> None:
            folder.evaluation(step, state.stage, state.alpha, evaluation.returns, evaluation.successes, scores)
            folder.scalars(step, scalars)

        self._record(write)
        for notice in self._monitor.evaluate(step, self.target_score, scalars["target/return"]):
            text = f"{self.config.label} seed {self.config.seed}, step {step}: {notice.text}"
            warnings.warn_explicit(text, RunWarning, "geodesic", 1)  # in one line, without a line of our code

    def write(self) -> None:
        """Write what was recorded to the folder; separate from recording, so that a trainer can work meanwhile."""
        if self.folder is None:
            return
        for write in self._unwritten:
            write(self.folder)
        self._unwritten.clear()
        self.folder.flush()

    def checkpoint(self, agent: Arrays, **meta: Any) -> None:
        """Save the agent's arrays together with everything else that decides the rest of the run."""
        if self.folder is None:
            return
        self.write()
        own = {CURRICULUM + name: value for name, value in self.curriculum.save(self.state).items()}
        columns = zip(COLUMNS, self.waiting.columns())
        waiting = {WAITING + name: column for name, column in columns if column is not None}
        seen = {"updates": self.updates, "train_score": self.train_score, "target_score": self.target_score}
        best, kept = self.best.save()
        self.folder.save({**agent, **best, **own, **waiting}, {**seen, **kept, **meta})

    def load_checkpoint(self, agent: Headers, unchecked: str | None = None, segment: int | None = None) -> Checkpoint:
        """Restore the curriculum from the last checkpoint (or that of a segment); no file is changed.

        agent: the arrays that the trainer expects in it. unchecked: prefix of keys exempt from checks.
        """
        if self.folder is None:
            raise InvalidInput("expected a run folder to resume from, got none")
        own = self.curriculum.save(self.state)
        found = self.folder.load(
            lambda headers: check_members(headers, agent, own, self.curriculum.state_type, unchecked), segment
        )
        names = [name for name in found.arrays if name.startswith(CURRICULUM)]
        kept = {name.removeprefix(CURRICULUM): found.arrays[name] for name in names}
        try:
            state = self.curriculum.load(kept)
            waiting = _waiting(found.arrays)
            check_state(state, waiting, self.task.space.dim)
            if type(self.curriculum).__module__.startswith("geodesic."):
                check_numbers(kept, own)
                check_contexts(state, waiting, self.task.space)
            best = BestPolicy.load(found)
            last = self.folder.last_stage
            if state.stage != last.stage:
                raise CheckpointError(f"expected stage {last.stage}, the last one recorded, got {state.stage}")
            check_counts(found, self.config, self.folder.recorded, last.step)
        except KeyError as error:
            raise CheckpointError(f"{found.path} is of another version: it has no {error}") from error
        except (ValueError, TypeError, IndexError, OverflowError, GeodesicError) as error:
            raise CheckpointError(f"damaged checkpoint {found.path}: {format_error(error)}") from error
        self.state, self.waiting, self.best, self.updates = state, waiting, best, found.count("updates")
        self.train_score, self.target_score = found.number("train_score"), found.number("target_score")
        return found

    def resume(self) -> None:
        """Cut the files back to the loaded checkpoint; the run continues from there."""
        if self.folder is not None:
            self.folder.resume()
            with contextlib.suppress(GeodesicError):  # warnings only; damage is reported by those who need the file
                self._monitor = replay(self.config, *read_tables(self.folder.path))

    def close(self) -> None:
        """Release the folder, whatever has been written."""
        if self.folder is not None:
            self.folder.release()

    def finish(self, steps: int, **more: Any) -> None:
        """Write the summary: a folder that has one holds a finished run."""
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

    @property
    def distance(self) -> float:
        """From the mean context of the stage to that of the target."""
        return self._distance(self.state)

    def _rng(self, count: int) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, count])

    def _record(self, write: Callable[[RunFolder], None]) -> None:
        """Keep something to be written to the folder, if there is one."""
        if self.folder is not None:
            self._unwritten.append(write)

    def _enter(self, step: int) -> None:
        """Record a new stage."""
        state = self.state
        self._record(partial(self._write_stage, step, state))
        self._monitor.enter(state.stage, step, state.alpha, state.threshold)

    def _write_stage(self, step: int, state: State, folder: RunFolder) -> None:
        snapshot = self.curriculum.snapshot(state)
        new = StageDistribution(state.stage, step, state.alpha, state.distribution, snapshot)
        infeasible = self.task.infeasible(state.distribution)
        details = format_details(self.curriculum.scalars(state))
        folder.stage(new, state.kind, state.event, infeasible, self._distance(state), details)
        summary = self.task.space.summary(state.distribution)
        folder.scalars(step, {f"context/{name}": value for name, value in summary.items()})

    def _distance(self, state: State) -> float:
        here, there = (
            each.weights @ self.task.space.relax(each.points)
            for each in (state.distribution, self.task.target_particles)
        )
        return float(np.linalg.norm(here - there))


def _waiting(arrays: Arrays) -> EpisodeBatch:
    """The waiting episodes of a checkpoint, which has value losses only where a method needs them."""
    columns: list[Any] = [arrays[WAITING + name] for name in COLUMNS if name not in LOSS_COLUMNS.values()]
    losses = (arrays.get(WAITING + name) for name in COLUMNS if name in LOSS_COLUMNS.values())
    return EpisodeBatch(*columns, *losses)
