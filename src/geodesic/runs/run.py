"""Running: training, evaluating and recording one run, or several of one task at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from geodesic import learners
from geodesic.contexts import FloatArray
from geodesic.errors import CheckpointError, InvalidInput, RunFailed
from geodesic.learners.base import Learner
from geodesic.records import RunConfig, RunFolder, checkpoint, checkpoint_path, finished, read_config
from geodesic.runs.config import task_of
from geodesic.runs.stopping import Stopping
from geodesic.runtime import keep_programs
from geodesic.tasks import Task
from geodesic.training.compiled import CompiledTrainer
from geodesic.training.host import HostTrainer
from geodesic.training.lesson import Lesson
from geodesic.training.program import Program
from geodesic.training.trainer import Evaluation, Policy, Trainer

SHARED = ("task", "measure", "discount", "learner", "learner_options", "steps", "segment")
EVALUATED = ("eval_every", "eval_episodes", "eval_policy")


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for a progress bar; scores are in the task's measure."""

    step: int
    steps: int
    stage: int
    alpha: float
    train_score: float
    target_score: float


Watch = Callable[[int, Progress], None]  # (index of the run, where it stands)


def _silent(index: int, progress: Progress) -> None:
    """Nobody is watching."""


@dataclass
class Batch:
    """Runs that train at once. They share the task, the learner and all counts.

    While the trainer is at work on a segment, what the one before it gave is written to the folders.
    """

    lessons: list[Lesson]
    trainer: Trainer
    segment: int = 0
    watch: Watch = _silent
    checkpoint_seconds: float = 20.0
    lost: dict[int, str] = field(default_factory=dict)  # runs that diverged, and where

    @property
    def step(self) -> int:
        return self.segment * self.trainer.segment_steps

    @property
    def config(self) -> RunConfig:
        return self.lessons[0].config

    @property
    def seeds(self) -> list[int]:
        return [lesson.config.seed for lesson in self.lessons]

    def train(self) -> None:
        """To the end: segments of training, with the curricula, evaluations and checkpoints in between.

        A run whose parameters or returns are not finite any more is lost: its last checkpoint and records stay as they
        are, the others go on, and at the end it is named.
        """
        started = saved = time.monotonic()
        if self.segment == 0:
            self._evaluate()
        with Stopping() as stop:
            self._start_segment()
            while self.step < self.config.steps and self.going:
                self._take()
                if self.segment % self.config.eval_every == 0 or self.step >= self.config.steps:
                    self._evaluate()
                if stop.asked or time.monotonic() - saved > self.checkpoint_seconds:
                    self.save()
                    saved = time.monotonic()
                if stop.asked:
                    raise KeyboardInterrupt
                self._start_segment()
                self._show()
        self.save()
        self._finish(time.monotonic() - started)
        if self.lost:
            raise RunFailed("; ".join(self.lost.values()))

    @property
    def going(self) -> list[tuple[int, Lesson]]:
        """The runs that go on, with their places in the batch."""
        return [(index, lesson) for index, lesson in enumerate(self.lessons) if index not in self.lost]

    def save(self) -> None:
        """A checkpoint of every run. Everything that decides the rest of a run is in it."""
        arrays = self.trainer.save()
        for index, lesson in self.going:
            lesson.save(arrays[index], segment=self.segment)

    def _start_segment(self) -> None:
        if self.step < self.config.steps:
            self.trainer.start_segment()

    def _take(self) -> None:
        """Wait for the segment; the curricula hear of it, and runs that enter a new stage go on there."""
        reports = self.trainer.finish_segment(self.step)
        self.segment += 1
        for index, lesson in self.going:
            if not reports[index].finite:
                self.lost[index] = _diverged(lesson.config, self.step)
            elif lesson.take(reports[index], self.step):
                self.trainer.enter(index, lesson.state.distribution, lesson.state.stage)

    def _evaluate(self) -> None:
        evaluations = self.trainer.evaluate(self.seeds, self.step)
        for index, lesson in self.going:
            lesson.evaluated(self.step, evaluations[index])

    def _show(self) -> None:
        """To the folders and to who is watching; the next segment is under way meanwhile."""
        for index, lesson in self.going:
            lesson.write()
            state = lesson.state
            step, steps = min(self.step, lesson.config.steps), lesson.config.steps
            scores = lesson.train_score, lesson.target_score
            self.watch(index, Progress(step, steps, state.stage, state.alpha, *scores))

    def _finish(self, seconds: float) -> None:
        for _, lesson in self.going:
            lesson.finish(self.step, seconds=seconds, runs_at_once=len(self.lessons))


def _diverged(config: RunConfig, step: int) -> str:
    return (
        f"{config.label} seed {config.seed} diverged by step {step}: parameters or returns are not finite; its last "
        "checkpoint is kept; try a smaller learning_rate"
    )


def start(
    configs: Sequence[RunConfig], folders: Sequence[Path], task: Task | None = None, watch: Watch = _silent
) -> Batch:
    """New runs, with everything checked and their folders made before any work starts."""
    lessons, trainer = _set_up(configs, folders, task)
    for lesson in lessons:
        lesson.begin()
    batch = Batch(lessons, trainer, watch=watch)
    trainer.begin(batch.seeds, [lesson.state.distribution for lesson in lessons])
    batch.save()
    return batch


def resume(
    configs: Sequence[RunConfig], folders: Sequence[Path], task: Task | None = None, watch: Watch = _silent
) -> Batch:
    """Runs taken up from their last checkpoints, which must be of one step."""
    lessons, trainer = _set_up(configs, folders, task)
    kept = [lesson.restore() for lesson in lessons]
    segments = {_segment(meta, path) for (_, meta), path in zip(kept, folders)}
    if len(segments) > 1:
        raise InvalidInput(f"expected runs at one step to go on together, got segments {sorted(segments)}")
    states = [lesson.state for lesson in lessons]
    trainer.restore([own for own, _ in kept], [s.distribution for s in states], [s.stage for s in states])
    return Batch(lessons, trainer, segment=segments.pop(), watch=watch)


def _set_up(configs: Sequence[RunConfig], folders: Sequence[Path], task: Task | None) -> tuple[list[Lesson], Trainer]:
    """What runs at once need; what cannot be had is refused before a folder is made."""
    task = task_of(configs[0], task)
    trainer = trainer_of(configs, task)
    lessons = [Lesson(config, task, RunFolder(path, config)) for config, path in zip(configs, folders)]
    trainer.prepare(len(lessons))
    return lessons, trainer


def extend(folder: Path, steps: int | None, task: Task | None = None) -> Batch:
    """A run taken up again; with more steps, one that was finished goes on too."""
    config = read_config(folder)
    if steps is not None and steps < config.steps:
        raise InvalidInput(f"expected at least the run's {config.steps} steps, got {steps}")
    longer = config if steps is None else config.replace(steps=steps)
    if finished(folder) and longer.steps == config.steps:
        raise InvalidInput(f"the run in {folder} is finished; nothing to resume (--steps N trains on to N steps)")
    if not RunFolder(folder, config).begun():
        return start([longer], [folder], task)
    batch = resume([longer], [folder], task)
    own = batch.lessons[0].folder
    if own is not None and longer != config:
        own.reopen()  # first: a run that says it is finished can only be extended
        own.describe()
    return batch


def load_policy(folder: Path, task: Task | None = None, stochastic: bool = False, seed: int = 0) -> Policy:
    """The trained agent of a run folder: observation -> action, as its Gymnasium environment has them."""
    config = read_config(folder)
    trainer = trainer_of([config], task_of(config, task))
    arrays, _ = checkpoint.load(checkpoint_path(folder))
    return trainer.policy(arrays, stochastic, seed)


def score_contexts(folder: Path, contexts: FloatArray, seed: int, task: Task | None = None) -> Evaluation:
    """The trained agent of a run folder, as the run evaluates it: an episode in each of the contexts (n, d)."""
    config = read_config(folder)
    trainer = trainer_of([config], task_of(config, task))
    arrays, _ = checkpoint.load(checkpoint_path(folder))
    return trainer.score(arrays, contexts, seed)


def trainer_of(configs: Sequence[RunConfig], task: Task) -> CompiledTrainer | HostTrainer:
    """The trainer that these runs share: compiled with an environment in JAX, beside one on the host."""
    first = configs[0]
    for name in (*SHARED, *EVALUATED):
        if any(getattr(config, name) != getattr(first, name) for config in configs):
            raise InvalidInput(f"expected runs at once to share task, learner and steps, got several of {name}")
    if first.learner is None:
        raise InvalidInput(f"expected a run of ours, got one of a loop of somebody's own ({first.label})")
    keep_programs()
    learner = learners.make(first.learner, first.learner_options)
    if not task.in_jax:
        return HostTrainer(task, learner, first.segment, first.eval_episodes, first.eval_policy)
    discount = first.discount if first.measure == "discounted" else None
    program = _program(task, cast(Hashable, learner), first.segment, first.eval_episodes, first.eval_policy, discount)
    return CompiledTrainer(program, task.target_particles, first.measure)


@cache
def _program(
    task: Task, learner: Hashable, segment: int, eval_episodes: int, eval_policy: str, discount: float | None
) -> Program:
    return Program(task.env, cast(Learner, learner), segment, eval_episodes, eval_policy, discount)


def segment_of(folder: Path) -> int | None:
    """The segment at which a run folder's last checkpoint was taken; none without one."""
    path = checkpoint_path(folder)
    return _segment(checkpoint.load(path)[1], folder) if path.exists() else None


def _segment(meta: dict[str, Any], folder: Path) -> int:
    try:
        return int(meta["segment"])
    except KeyError as error:
        raise CheckpointError(f"{checkpoint_path(folder)} is of another version: it has no {error}") from error
