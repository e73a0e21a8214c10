"""Runs that train at once: segments of training, with the curricula, evaluations and checkpoints in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from geodesic.errors import RunFailed
from geodesic.records import RunConfig
from geodesic.runs.stopping import Stopping
from geodesic.training.lesson import Lesson
from geodesic.training.trainer import Trainer

T = TypeVar("T")


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


def silent(index: int, progress: Progress) -> None:
    """Nobody is watching."""


@dataclass
class Batch:
    """Runs that train at once. They share the task, the learner and all counts.

    While the trainer is at work on a segment, what the one before it gave is written to the folders.

    beside: the names of all runs of the program, by seat; seats: those of the lessons. Numbers depend on how many runs
    a program has (a processor adds in another order), so one that is taken up again keeps its size: seats of runs that
    are not there any more are filled with copies that nobody looks at.
    """

    lessons: list[Lesson]
    trainer: Trainer
    beside: list[str]
    seats: list[int]
    segment: int = 0
    watch: Watch = silent
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
        return self.by_seat([lesson.config.seed for lesson in self.lessons])

    def by_seat(self, values: Sequence[T]) -> list[T]:
        """What belongs to the lessons as the trainer has it, one a seat."""
        index = {seat: place for place, seat in enumerate(self.seats)}
        return [values[index.get(seat, 0)] for seat in range(len(self.beside))]

    def train(self) -> None:
        """To the end: segments of training, with the curricula, evaluations and checkpoints in between.

        A run whose parameters or returns are not finite any more is lost: its last checkpoint and records stay as they
        are, the others go on, and at the end it is named.
        """
        try:
            self._train()
        finally:
            self.release()
        if self.lost:
            raise RunFailed("; ".join(self.lost.values()))

    def _train(self) -> None:
        started = saved = time.monotonic()
        with Stopping() as stop:
            if stop.asked:  # while it was set up
                raise KeyboardInterrupt
            if self.segment == 0:
                self._evaluate()
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

    @property
    def going(self) -> list[tuple[int, Lesson]]:
        """The runs that go on, with their places in the batch."""
        return [(index, lesson) for index, lesson in enumerate(self.lessons) if index not in self.lost]

    def save(self) -> None:
        """A checkpoint of every run. Everything that decides the rest of a run is in it."""
        arrays = self.trainer.save()
        for index, lesson in self.going:
            seat = self.seats[index]
            lesson.save(arrays[seat], segment=self.segment, beside=self.beside, seat=seat)

    def release(self) -> None:
        """Let go of the folders, whatever has been written to them."""
        for lesson in self.lessons:
            lesson.release()

    def _start_segment(self) -> None:
        if self.step < self.config.steps:
            self.trainer.start_segment()

    def _take(self) -> None:
        """Wait for the segment; the curricula hear of it, and runs that enter a new stage go on there."""
        reports = self.trainer.finish_segment(self.step)
        self.segment += 1
        for index, lesson in self.going:
            report = reports[self.seats[index]]
            if not report.finite:
                self.lost[index] = _diverged(lesson.config, self.step)
            elif lesson.take(report, self.step):
                self.trainer.enter(self.seats[index], lesson.state.distribution, lesson.state.stage)

    def _evaluate(self) -> None:
        evaluations = self.trainer.evaluate(self.seeds, self.step)
        for index, lesson in self.going:
            lesson.evaluated(self.step, evaluations[self.seats[index]])

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
            lesson.finish(self.step, seconds=seconds, runs_at_once=len(self.beside))


def _diverged(config: RunConfig, step: int) -> str:
    return (
        f"{name_of(config)} diverged by step {step}: parameters or returns are not finite; its last "
        "checkpoint is kept; try a smaller learning_rate"
    )


def name_of(config: RunConfig) -> str:
    """What a run is called among those beside it."""
    return f"{config.label} seed {config.seed}"
