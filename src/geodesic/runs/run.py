"""Running: training, evaluating and recording one run, or several of one task at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import cast

from geodesic import learners
from geodesic.contexts import FloatArray
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.learners.base import Learner
from geodesic.records import (
    Checkpoint,
    RunConfig,
    RunFolder,
    begun,
    checkpoint,
    finished,
    generations,
    read_config,
)
from geodesic.records.checkpoint import Check
from geodesic.runs.batch import Batch as Batch
from geodesic.runs.batch import Progress as Progress
from geodesic.runs.batch import Watch as Watch
from geodesic.runs.batch import name_of, silent
from geodesic.runs.config import task_of
from geodesic.runtime import keep_programs
from geodesic.tasks import Task
from geodesic.training.compiled import CompiledTrainer
from geodesic.training.host import HostTrainer
from geodesic.training.lesson import Lesson
from geodesic.training.program import Program
from geodesic.training.trainer import Evaluation, Policy, Trainer

MOST_AT_ONCE = 100_000
SHARED = ("task", "measure", "discount", "backend", "learner", "learner_options", "steps", "segment")
EVALUATED = ("eval_every", "eval_episodes", "eval_policy")


def start(
    configs: Sequence[RunConfig],
    folders: Sequence[Path],
    task: Task | None = None,
    watch: Watch = silent,
    owner: str = "",
) -> Batch:
    """New runs, with everything checked and their folders made before any work starts. owner: see `FolderLock`."""
    lessons, trainer = _set_up(configs, folders, task, owner)
    with _held(lessons, new=True):
        return _begin(lessons, trainer, watch)


def resume(
    configs: Sequence[RunConfig],
    folders: Sequence[Path],
    task: Task | None = None,
    watch: Watch = silent,
    owner: str = "",
) -> Batch:
    """Runs that were started together, taken up from the newest segment that all of them have a checkpoint of.

    A kill between two first checkpoints leaves runs that have one and runs that have none: then all begin again.
    """
    lessons, trainer = _set_up(configs, folders, task, owner)
    with _held(lessons):
        if all(begun(folder) for folder in folders):
            return _go_on(lessons, trainer, _common(lessons, trainer), watch)
        if any(segment_of(folder) for folder in folders):
            raise InvalidInput("expected runs at one step to go on together, got some that have not begun")
        return _begin(lessons, trainer, watch, again=True)


def _common(lessons: Sequence[Lesson], trainer: Trainer) -> list[Checkpoint]:
    """Checkpoints of the newest segment that all runs have one of."""
    shapes = trainer.shapes()
    kept = [lesson.restore(shapes, trainer.open) for lesson in lessons]
    segments = [each.count("segment") for each in kept]
    first = min(segments)
    try:
        pairs = zip(lessons, kept, segments)
        return [own if at == first else lesson.restore(shapes, trainer.open, first) for lesson, own, at in pairs]
    except CheckpointError as error:
        seen = sorted(set(segments))
        raise InvalidInput(f"expected runs at one step to go on together, got segments {seen}") from error


def _set_up(
    configs: Sequence[RunConfig], folders: Sequence[Path], task: Task | None, owner: str
) -> tuple[list[Lesson], Trainer]:
    """What runs at once need; what cannot be had is refused before a folder is made."""
    task = task_of(configs[0], task)
    trainer = trainer_of(configs, task)
    return [Lesson(config, task, RunFolder(path, config, owner)) for config, path in zip(configs, folders)], trainer


@contextmanager
def _held(lessons: Sequence[Lesson], new: bool = False) -> Iterator[None]:
    """The folders that are there are held before any work starts; all are let go of where it does not."""
    try:
        for lesson in lessons:
            lesson.claim(new)
        yield
    except BaseException:
        for lesson in lessons:
            lesson.release()
        raise


def _begin(lessons: list[Lesson], trainer: Trainer, watch: Watch, again: bool = False) -> Batch:
    trainer.prepare(len(lessons))
    for lesson in lessons:
        lesson.begin(again)
    names = [name_of(lesson.config) for lesson in lessons]
    batch = Batch(lessons, trainer, names, list(range(len(lessons))), watch=watch)
    trainer.begin(batch.seeds, [lesson.state.distribution for lesson in lessons])
    batch.save()
    return batch


def _go_on(lessons: list[Lesson], trainer: Trainer, kept: Sequence[Checkpoint], watch: Watch) -> Batch:
    """Everything is looked at before a file is changed."""
    beside = kept[0].texts("beside")
    seats = [each.count("seat") for each in kept]
    together = all(each.texts("beside") == beside for each in kept)
    if not together or len(set(seats)) < len(seats) or not max(seats) < len(beside) <= MOST_AT_ONCE:
        raise InvalidInput("expected runs that were started together, got others; try them one by one")
    trainer.prepare(len(beside))
    batch = Batch(lessons, trainer, beside, seats, kept[0].count("segment"), watch)
    states = batch.by_seat([lesson.state for lesson in lessons])
    arrays = batch.by_seat([each.arrays for each in kept])
    trainer.restore(arrays, [state.distribution for state in states], [state.stage for state in states])
    for lesson in lessons:
        lesson.take_up()
    return batch


def extend(folder: Path, steps: int | None, task: Task | None = None) -> Batch:
    """A run taken up again; with more steps, one that was finished goes on too."""
    config = read_config(folder)
    if steps is not None and steps < config.steps:
        raise InvalidInput(f"expected at least the run's {config.steps} steps, got {steps}")
    longer = config if steps is None else config.replace(steps=steps)
    if finished(folder) and longer.steps == config.steps:
        raise InvalidInput(f"the run in {folder} is finished; nothing to resume (--steps N trains on to N steps)")
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
    kept = _newest(folder, partial(checkpoint.require, trainer.shapes()))
    return trainer.policy(kept.arrays, stochastic, seed)


def score_contexts(folder: Path, contexts: FloatArray, seed: int, task: Task | None = None) -> Evaluation:
    """The trained agent of a run folder, as the run evaluates it: an episode in each of the contexts (n, d)."""
    config = read_config(folder)
    trainer = trainer_of([config], task_of(config, task))
    kept = _newest(folder, partial(checkpoint.require, trainer.shapes()))
    return trainer.score(kept.arrays, contexts, seed)


def trainer_of(configs: Sequence[RunConfig], task: Task) -> Trainer:
    """The trainer that these runs share: compiled with an environment in JAX, beside one on the host, or another's."""
    first = configs[0]
    for name in (*SHARED, *EVALUATED):
        if any(getattr(config, name) != getattr(first, name) for config in configs):
            raise InvalidInput(f"expected runs at once to share task, learner and steps, got several of {name}")
    if first.learner is None:
        raise InvalidInput(f"expected a run of ours, got one of a loop of somebody's own ({first.label})")
    keep_programs()
    learner = learners.make(first.learner, first.learner_options)
    if first.backend != "jax":
        from geodesic.integrations.sb3.trainer import SB3Trainer

        return SB3Trainer(task, learner, first.segment, first.eval_episodes, first.eval_policy, first.backend)
    if not task.in_jax:
        return HostTrainer(task, learner, first.segment, first.eval_episodes, first.eval_policy)
    discount = first.discount if first.measure == "discounted" else None
    program = _program(task, cast(Hashable, learner), first.segment, first.eval_episodes, first.eval_policy, discount)
    return CompiledTrainer(program, task.evaluation_particles, first.measure)


@cache
def _program(
    task: Task, learner: Hashable, segment: int, eval_episodes: int, eval_policy: str, discount: float | None
) -> Program:
    return Program(task.env, cast(Learner, learner), segment, eval_episodes, eval_policy, discount)


def segment_of(folder: Path) -> int | None:
    """The segment at which a run folder's last checkpoint was taken; none without one."""
    return _newest(folder).count("segment") if begun(folder) else None


def _newest(folder: Path, check: Check = lambda headers: None) -> Checkpoint:
    """The newest whole checkpoint of a folder that somebody may be writing."""
    latest, previous = generations(folder)
    try:
        return checkpoint.load(latest, check)
    except CheckpointError:
        if not previous.exists():
            raise
        return checkpoint.load(previous, check)


@dataclass(frozen=True)
class Standing:
    """Where a run can be taken up: at these segments, the newest first, together with those beside it."""

    segments: tuple[int, ...]
    beside: tuple[str, ...]


def standing(config: RunConfig, folder: Path) -> Standing:
    """Where the run in a folder stands; nowhere before its first checkpoint, or where none can be read."""
    kept = list(RunFolder(folder, config).kept())
    beside = kept[0].texts("beside") if kept else [name_of(config)]
    return Standing(tuple(each.count("segment") for each in kept), tuple(beside))
