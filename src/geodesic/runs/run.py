"""Running: training, evaluating and recording one run, or several runs of one task at once.

Runs at once train in segments, with curriculum updates, evaluations and checkpoints in between.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

from geodesic.contexts import Arrays, FloatArray
from geodesic.errors import CheckpointError, InvalidInput, RunFailed
from geodesic.learners.base import Learner
from geodesic.records import (
    Checkpoint,
    RunConfig,
    RunFolder,
    check_origin,
    check_recorded_config,
    checkpoint,
    finished,
    read_config,
    run_exists,
)
from geodesic.runs.executors.base import SAVE_EVERY, Job, run_name
from geodesic.runs.policies import description_of, portable_policy
from geodesic.runs.stopping import Stopping
from geodesic.runtime import enable_compilation_cache
from geodesic.tasks import Task
from geodesic.training.agents import refuse_images, refuse_without_errors
from geodesic.training.best import with_policy
from geodesic.training.compiled import CompiledTrainer
from geodesic.training.configure import check_has_learner, make_learner, task_of
from geodesic.training.host import HostTrainer
from geodesic.training.objects import Objects, unpack
from geodesic.training.program import Program
from geodesic.training.session import CurriculumSession
from geodesic.training.trainer import Evaluation, Policy, Trainer

T = TypeVar("T")

MOST_AT_ONCE = 4096  # runs of one program
SHARED = (
    "task", "score", "discount", "backend", "learner", "learner_options", "steps", "segment",
    "eval_every", "eval_episodes", "eval_policy",
)  # fmt: skip


@dataclass
class Batch:
    """Runs that train at once. They share the task, the learner and all counts.

    While the trainer works on a segment, the results of the one before it are written to the folders.

    batch_members: the names of all runs of the program, by slot; slots: those of the sessions. Numbers depend on how
    many runs a program has (a processor adds in another order), so a resumed program keeps its size: slots of runs that
    are no longer there are filled with copies whose results are ignored.
    """

    sessions: list[CurriculumSession]
    trainer: Trainer
    batch_members: list[str]
    slots: list[int]
    segment: int = 0
    checkpoint_seconds: float = SAVE_EVERY
    diverged: dict[str, str] = field(default_factory=dict)  # by the name of a run: where it diverged

    @property
    def step(self) -> int:
        """Environment steps of each run so far."""
        return self.segment * self.trainer.segment_steps

    @property
    def config(self) -> RunConfig:
        """The configuration of the first run."""
        return self.sessions[0].config

    @property
    def seeds(self) -> list[int]:
        """The seed of each slot."""
        return self.by_slot([session.config.seed for session in self.sessions])

    def by_slot(self, values: Sequence[T]) -> list[T]:
        """Values of the sessions in the trainer's order, one per slot."""
        index = {slot: place for place, slot in enumerate(self.slots)}
        return [values[index.get(slot, 0)] for slot in range(len(self.batch_members))]

    def train(self) -> None:
        """Train to the end of the budget.

        A run whose parameters or returns are no longer finite has diverged: its last checkpoint and records stay as
        they are, the others continue, and an error at the end names it.
        """
        try:
            self._train()
        finally:
            self.close()
        if self.diverged:
            raise RunFailed("; ".join(self.diverged.values()))

    def _train(self) -> None:
        started = saved = time.monotonic()
        with Stopping() as stop:
            if stop.asked:  # during the set-up
                raise KeyboardInterrupt
            if self.segment == 0:
                self._evaluate()
            self._start_segment()
            while self.step < self.config.steps and self.running:
                self._finish_segment()
                if self.segment % self.config.eval_every == 0 or self.step >= self.config.steps:
                    self._evaluate()
                if stop.asked or time.monotonic() - saved > self.checkpoint_seconds:
                    self.save()
                    saved = time.monotonic()
                if stop.asked:
                    raise KeyboardInterrupt
                self._start_segment()
                for _, session in self.running:  # the next segment runs meanwhile
                    session.write()
        self.save()
        seconds = time.monotonic() - started
        for _, session in self.running:
            session.finish(self.step, seconds=seconds, runs_at_once=len(self.batch_members))

    @property
    def running(self) -> list[tuple[int, CurriculumSession]]:
        """The sessions that have not diverged, with their slots."""
        pairs = zip(self.slots, self.sessions)
        return [(slot, session) for slot, session in pairs if run_name(session.config) not in self.diverged]

    def extend(self, configs: Sequence[RunConfig]) -> None:
        """Continue the runs to as many steps as these configurations say, even those that are finished."""
        for session, config in zip(self.sessions, configs):
            session.extend(config, self.step)

    def save(self) -> None:
        """Write a checkpoint of every run, with everything that decides the rest of it."""
        arrays, policy = self.trainer.save(), self.trainer.description
        meta = {"step": self.step, "segment": self.segment, "batch_members": self.batch_members, "policy": policy}
        for slot, session in self.running:
            session.checkpoint(arrays[slot], **meta, slot=slot)

    def close(self) -> None:
        """Release the folders, whatever has been written to them."""
        for session in self.sessions:
            session.close()

    def _start_segment(self) -> None:
        if self.step < self.config.steps:
            self.trainer.start_segment()

    def _finish_segment(self) -> None:
        """Wait for the segment, update the curricula, and move runs that enter a new stage."""
        results = self.trainer.finish_segment(self.step)
        self.segment += 1
        for slot, session in self.running:
            result, name = results[slot], run_name(session.config)
            if result is None:
                self.diverged[name] = (
                    f"{name} diverged by step {self.step}: parameters or returns are not finite; "
                    "its last checkpoint is kept; try a smaller learning_rate"
                )
            elif session.observe(result.episodes, self.step, result.earliest_running, result.metrics):
                self.trainer.enter(slot, session.state.distribution, session.state.stage)

    def _evaluate(self) -> None:
        evaluations, policies = self.trainer.evaluate(self.seeds, self.step), self.trainer.save_policies()
        for slot, session in self.running:
            session.log_evaluation(self.step, evaluations[slot], policies[slot])


def start(
    configs: Sequence[RunConfig],
    folders: Sequence[Path],
    task: Task | None = None,
    objects: Sequence[Objects] | None = None,
    owner: str = "",
) -> Batch:
    """Start new runs; everything is checked and their folders are made before any work starts.

    objects: for each run, what was passed as objects. owner: see `FolderLock`.
    """
    return _open(configs, folders, task, objects, owner, new=True)


def resume(
    configs: Sequence[RunConfig],
    folders: Sequence[Path],
    task: Task | None = None,
    objects: Sequence[Objects] | None = None,
    owner: str = "",
) -> Batch:
    """Resume runs that were started together, from the newest segment of which all of them have a checkpoint.

    A kill between two first checkpoints leaves some runs with one and some without: then all start over.
    """
    return _open(configs, folders, task, objects, owner, new=False)


def _common_checkpoints(sessions: Sequence[CurriculumSession], trainer: Trainer) -> list[Checkpoint]:
    """Checkpoints of the newest segment of which all runs have one."""
    shapes = trainer.shapes()
    kept = [session.load_checkpoint(shapes, trainer.unchecked) for session in sessions]
    segments = [each.count("segment") for each in kept]
    first = min(segments)
    try:
        return [
            own if segment == first else session.load_checkpoint(shapes, trainer.unchecked, first)
            for session, own, segment in zip(sessions, kept, segments)
        ]
    except CheckpointError as error:
        found = sorted(set(segments))
        raise InvalidInput(f"expected runs at one step to resume together, got segments {found}") from error


def _open(
    configs: Sequence[RunConfig],
    folders: Sequence[Path],
    task: Task | None,
    objects: Sequence[Objects] | None,
    owner: str,
    new: bool,
) -> Batch:
    """Start or resume runs: what is missing is refused first, then existing folders are locked before any work starts.

    All folders are released if it does not start.
    """
    for config, folder in zip(configs, folders):
        check_recorded_config(folder, config)
    given = objects or [Objects()] * len(configs)
    task = task_of(configs[0], given[0].task if task is None else task)
    runs = [RunFolder(path, config, owner) for path, config in zip(folders, configs)]
    sessions = [CurriculumSession(config, task, run, own) for config, run, own in zip(configs, runs, given)]
    value_errors = any(session.curriculum.needs_value_losses for session in sessions)
    trainer = trainer_of(configs, task, given[0], value_errors)
    try:
        for run in runs:
            run.acquire(new)
        if new:
            return _begin(sessions, trainer)
        if all(run_exists(folder) for folder in folders):
            return _resume(sessions, trainer, _common_checkpoints(sessions, trainer))
        if any(segment_of(folder) for folder in folders):
            raise InvalidInput("expected runs at one step to resume together, got some that have not started")
        return _begin(sessions, trainer, overwrite=True)
    except BaseException:
        for session in sessions:
            session.close()
        raise


def _begin(sessions: list[CurriculumSession], trainer: Trainer, overwrite: bool = False) -> Batch:
    trainer.prepare(len(sessions))
    for session in sessions:
        session.start(overwrite)
    names = [run_name(session.config) for session in sessions]
    batch = Batch(sessions, trainer, names, list(range(len(sessions))))
    trainer.begin(batch.seeds, [session.state.distribution for session in sessions])
    batch.save()
    return batch


def _resume(sessions: list[CurriculumSession], trainer: Trainer, kept: Sequence[Checkpoint]) -> Batch:
    """Everything is checked before a file is changed."""
    members = kept[0].strings("batch_members")
    slots = [each.count("slot") for each in kept]
    together = all(each.strings("batch_members") == members for each in kept)
    if not together or len(set(slots)) < len(slots) or not max(slots) < len(members) <= MOST_AT_ONCE:
        raise InvalidInput("expected runs that were started together, got others; try them one by one")
    if any(members[slot] != run_name(own.config) for slot, own in zip(slots, sessions)):
        raise CheckpointError(f"damaged checkpoint {kept[0].path}: its runs have other names")
    batch = Batch(sessions, trainer, members, slots, kept[0].count("segment"))
    if batch.step >= batch.config.steps + trainer.segment_steps or not all(
        _fits(batch, own, each) for own, each in zip(sessions, kept)
    ):
        raise CheckpointError(f"damaged checkpoint {kept[0].path}: its counts are not those of a run of this budget")
    trainer.prepare(len(members))
    states = batch.by_slot([session.state for session in sessions])
    arrays = batch.by_slot([each.arrays for each in kept])
    distributions, stages = [state.distribution for state in states], [state.stage for state in states]
    trainer.restore(arrays, distributions, stages, batch.step)
    for session in sessions:
        session.resume()
    return batch


def _fits(batch: Batch, session: CurriculumSession, kept: Checkpoint) -> bool:
    """Whether a run's counts are those of its batch, and its last evaluation is recorded."""
    every = kept.count("config", "eval_every")
    evaluated = batch.segment // every * every * batch.trainer.segment_steps
    counts = session.updates, kept.count("segment"), kept.count("step")
    recorded = session.folder is not None and session.folder.recorded["evaluations.csv"].step >= evaluated
    return counts == (batch.segment, batch.segment, batch.step) and (recorded or not batch.segment)


def extend(folder: Path, steps: int | None, task: Task | None = None, trust: bool = False) -> Batch:
    """Resume a run; with more steps, a finished one continues too. trust: see `check_origin`."""
    config = read_config(folder)
    check_origin(folder / "config.json", config, trust, task)
    if steps is not None and steps < config.steps:
        raise InvalidInput(f"expected at least the run's {config.steps} steps, got {steps}")
    longer = config if steps is None else config.replace(steps=steps)
    if finished(folder) and longer.steps == config.steps:
        raise InvalidInput(f"the run in {folder} is finished; nothing to resume (--steps N trains on to N steps)")
    batch = resume([longer], [folder], task)
    batch.extend([longer])
    return batch


def is_done(config: RunConfig, folder: Path) -> bool:
    """Whether a folder holds a finished run of as many steps as its configuration states."""
    return finished(folder) and read_config(folder).steps >= config.steps


def run_job(job: Job, task: Task | None = None, objects: Sequence[Objects] | None = None) -> dict[str, Exception]:
    """Resume a job's interrupted runs, together where they stopped together, and start the others.

    task, objects: what only this process has; otherwise the job's own, unpickled. Returns the error of each run that
    failed, by name. Runs that do not train together fail separately.
    """
    given = unpack(job.objects) if objects is None else objects
    failed: dict[str, Exception] = {}
    for places, exists in groups(job):
        configs, folders = [job.configs[i] for i in places], [job.folders[i] for i in places]
        own = None if given is None else [given[i] for i in places]
        diverged: dict[str, str] = {}
        try:
            batch = (resume if exists else start)(configs, folders, task, own, job.owner)
            if any(read_config(folder).steps < config.steps for config, folder in zip(configs, folders)):
                batch.extend(configs)
            batch.checkpoint_seconds, diverged = job.save_every, batch.diverged
            batch.train()
        except Exception as error:
            names = [run_name(config) for config, folder in zip(configs, folders) if not is_done(config, folder)]
            failed |= {name: RunFailed(diverged[name]) if name in diverged else error for name in names}
    return failed


def groups(job: Job) -> list[tuple[list[int], bool]]:
    """Which unfinished runs of a job train together: [(their indices in the job, whether there is a checkpoint)].

    Runs that were started together and have a checkpoint of one segment in common form a group. Runs without a
    checkpoint form another, together with those that a kill left at their first checkpoint. Unreadable ones come last,
    each alone.
    """
    left = [place for place, folder in enumerate(job.folders) if not is_done(job.configs[place], folder)]
    points = {place: resume_points(job.configs[place], job.folders[place]) for place in left}
    unread = [place for place in left if run_exists(job.folders[place]) and not points[place].segments]
    fresh = [place for place in left if not run_exists(job.folders[place])]
    started = [place for place in left if points[place].segments]
    at_start = [place for place in started if fresh and points[place].segments == (0,)]
    found = [(sorted([*fresh, *at_start]), bool(at_start))] if fresh else []
    started = sorted(set(started) - set(at_start), key=lambda place: (points[place].segments, place), reverse=True)
    while started:
        first = points[started[0]]
        mates = [place for place in started if points[place].batch_members == first.batch_members]
        chosen = max(([place for place in mates if at in points[place].segments] for at in first.segments), key=len)
        found.append((sorted(chosen), True))
        started = [place for place in started if place not in chosen]
    return [*found, *(([place], True) for place in unread)]


def load_policy(
    folder: Path,
    task: Task | None = None,
    stochastic: bool = False,
    seed: int = 0,
    objects: Objects | None = None,
    trust: bool = False,
    which: str = "last",
) -> Policy:
    """The trained agent of a run folder: observation -> action, as its Gymnasium environment has them.

    A deterministic policy of fully connected layers needs no code but this package's. Otherwise its task and learner
    are loaded. trust: whether code that the folder names may then be run although this user did not write it; see
    `check_origin`. which: "best" or "last".
    """
    if not stochastic and isinstance(description_of(folder), dict):
        return portable_policy(folder, which)
    trainer, arrays = _agent(folder, task, objects, trust, which)
    return trainer.policy(arrays, stochastic, seed)


def evaluate_contexts(
    folder: Path,
    contexts: FloatArray,
    seed: int,
    task: Task | None = None,
    objects: Objects | None = None,
    trust: bool = False,
    which: str = "last",
) -> Evaluation:
    """Evaluate the trained agent of a run folder as the run does: an episode in each of the contexts (n, d)."""
    trainer, arrays = _agent(folder, task, objects, trust, which)
    return trainer.evaluate_contexts(arrays, contexts, seed)


def load_model(folder: Path, which: str, task: Task | None, objects: Objects | None, trust: bool) -> Any:
    """The trained model of a run of Stable-Baselines3 or SBX, as an object of that library."""
    trainer, arrays = _agent(folder, task, objects, trust, which)
    return cast(Any, trainer).model(arrays, read_config(folder).seed)


def _agent(folder: Path, task: Task | None, objects: Objects | None, trust: bool, which: str) -> tuple[Trainer, Arrays]:
    """The trainer of a run, and the arrays of its newest complete checkpoint with the best or the last policy."""
    config = read_config(folder)
    check_origin(folder / "config.json", config, trust, task)
    check_recorded_config(folder, config)
    check_has_learner(config)
    trainer = trainer_of([config], task_of(config, task), objects or Objects())
    return trainer, with_policy(checkpoint.load_newest(folder, partial(checkpoint.require, trainer.shapes())), which)


def trainer_of(
    configs: Sequence[RunConfig], task: Task, objects: Objects | None = None, value_errors: bool = False
) -> Trainer:
    """The trainer that runs share: compiled for environments in JAX, the host's for others, or another library's.

    value_errors: whether a method needs the learner's.
    """
    first = configs[0]
    for name in SHARED:
        if any(getattr(config, name) != getattr(first, name) for config in configs):
            raise InvalidInput(f"expected runs at once to share task, learner and steps, got several of {name}")
    enable_compilation_cache()
    learner = make_learner(first, task, objects or Objects())
    if first.backend != "jax":
        from geodesic.integrations.sb3.trainer import SB3Trainer

        return SB3Trainer(task, learner, first, value_errors)
    if value_errors:
        refuse_without_errors(learner)
    if not task.in_jax:
        return HostTrainer(task, learner, first, value_errors)
    refuse_images(learner, task.env.observation_space)
    discount = first.discount if first.score == "discounted_return" else None
    program = _program(
        task, cast(Hashable, learner), first.segment, first.eval_episodes, first.eval_policy, discount, value_errors
    )
    return CompiledTrainer(program, task.evaluation_particles)


@cache
def _program(
    task: Task,
    learner: Hashable,
    segment: int,
    eval_episodes: int,
    eval_policy: str,
    discount: float | None,
    value_errors: bool,
) -> Program:
    return Program(task.env, cast(Learner, learner), segment, eval_episodes, eval_policy, discount, value_errors)


def segment_of(folder: Path) -> int | None:
    """The segment at which a run folder's last checkpoint was written; None without one."""
    return checkpoint.load_newest(folder).count("segment") if run_exists(folder) else None


@dataclass(frozen=True)
class ResumePoints:
    """The segments from which a run can be resumed, the newest first, and the runs of its program."""

    segments: tuple[int, ...]
    batch_members: tuple[str, ...]


def resume_points(config: RunConfig, folder: Path) -> ResumePoints:
    """Where the run in a folder can be resumed; nowhere before its first checkpoint, or if none can be read."""
    kept = list(RunFolder(folder, config).complete_checkpoints())
    members = kept[0].strings("batch_members") if kept else [run_name(config)]
    return ResumePoints(tuple(each.count("segment") for each in kept), tuple(members))
