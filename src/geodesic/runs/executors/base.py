"""The contract of an executor, and what doing a job means wherever it is done.

A job is one or more runs that train at once. It can be done again from wherever it was broken off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from geodesic.errors import RunFailed
from geodesic.records import RunConfig, begun, finished
from geodesic.tasks import Task

SAY_EVERY = 0.3  # seconds between two messages of a job
SAVE_EVERY = 20.0  # seconds between two checkpoints of a job


@dataclass(frozen=True)
class Job:
    """Runs that train at once, and their folders.

    task: packed, for tasks that have no name (see `pack`). owner: the token of the comparison's locks, with which the
    job, done again elsewhere, takes its folders over. save_every: seconds between checkpoints.
    """

    configs: tuple[RunConfig, ...]
    folders: tuple[Path, ...]
    task: bytes | None = None
    owner: str = ""
    save_every: float = SAVE_EVERY

    @property
    def name(self) -> str:
        first = run_name(self.configs[0])
        return first if len(self.configs) == 1 else f"{first} and {len(self.configs) - 1} more"

    @property
    def steps(self) -> int:
        return sum(config.steps for config in self.configs)


def run_name(config: RunConfig) -> str:
    return f"{config.label} seed {config.seed}"


def unfinished(job: Job) -> list[str]:
    """The names of its runs that are not done."""
    return [run_name(config) for config, folder in zip(job.configs, job.folders) if not finished(folder)]


@dataclass(frozen=True)
class Update:
    """What is heard of a job: steps done in all its runs, and a note for the progress bar; at its end, what failed."""

    job: int
    steps: int = 0
    note: str = ""
    ended: bool = False
    failed: dict[str, str] = field(default_factory=dict)  # name of the run -> why, in one line

    @property
    def error(self) -> str:
        return "; ".join(dict.fromkeys(self.failed.values()))


Listen = Callable[[Job, Update], None]
Say = Callable[[int, str], None]  # (steps done, note)


class Executor(Protocol):
    """Asked to stop (Ctrl-C, SIGTERM), it asks its workers to stop between segments and raises KeyboardInterrupt once
    they have; asked again, it ends them at once."""

    def at_once(self, runs: int) -> int:
        """How many of so many runs train best in one program here."""

    def run(self, jobs: Sequence[Job], listen: Listen) -> dict[str, str]:
        """Do all jobs; what failed: name of the run -> why, in one line."""


def pack(task: Task) -> bytes | None:
    """A task that only this process knows, for others; nothing for one that can be found by its reference."""
    if task.reference is not None:
        return None
    import cloudpickle

    packed: bytes = cloudpickle.dumps(task)
    return packed


def unpack(packed: bytes | None) -> Task | None:
    if packed is None:
        return None
    import cloudpickle

    task: Task = cloudpickle.loads(packed)
    return task


def do(job: Job, say: Say, task: Task | None = None) -> dict[str, Exception]:
    """Take up the runs that were broken off, together where they stopped together, and start the others.

    What failed: name of the run -> error. Runs that do not train together fail apart.
    """
    from geodesic.runs import run

    known = task if task is not None else unpack(job.task)
    steps = [config.steps if finished(folder) else 0 for config, folder in zip(job.configs, job.folders)]
    last = [0.0]
    failed: dict[str, Exception] = {}

    def watch(places: Sequence[int]) -> run.Watch:
        def tell(index: int, now: run.Progress) -> None:
            steps[places[index]] = now.step
            if time.monotonic() - last[0] > SAY_EVERY:
                last[0] = time.monotonic()
                say(sum(steps), f"stage {now.stage} α {now.alpha:.2f} target {now.target_score:.1f}")

        return tell

    for places, going_on in groups(job):
        configs, folders = [job.configs[i] for i in places], [job.folders[i] for i in places]
        begin = run.resume if going_on else run.start
        lost: dict[int, str] = {}
        try:
            batch = begin(configs, folders, known, watch(places), job.owner)
            batch.checkpoint_seconds, lost = job.save_every, batch.lost
            batch.train()
        except Exception as error:
            for index, (config, folder) in enumerate(zip(configs, folders)):
                if not finished(folder):
                    failed[run_name(config)] = RunFailed(lost[index]) if index in lost else error
    return failed


def answer(index: int, job: Job, say: Callable[[Update], None]) -> Update:
    """Do a job of a list; what is to be said at its end."""
    try:
        failed = {name: why(error) for name, error in do(job, lambda *now: say(Update(index, *now))).items()}
    except Exception as error:
        failed = dict.fromkeys(unfinished(job), why(error))
    return Update(index, job.steps, ended=True, failed=failed)


def groups(job: Job) -> list[tuple[list[int], bool]]:
    """Which unfinished runs of a job go on together: [(places in the job, whether there is a checkpoint)].

    Those that were started together and have a checkpoint of one segment in common, and, from the start, those that
    have none; with them those that a kill left at their first checkpoint. What cannot be read comes last, alone.
    """
    from geodesic.runs.run import standing

    left = [place for place, folder in enumerate(job.folders) if not finished(folder)]
    stands = {place: standing(job.configs[place], job.folders[place]) for place in left}
    unread = [place for place in left if begun(job.folders[place]) and not stands[place].segments]
    fresh = [place for place in left if not begun(job.folders[place])]
    going = [place for place in left if stands[place].segments]
    at_start = [place for place in going if fresh and stands[place].segments == (0,)]
    found = [(sorted([*fresh, *at_start]), bool(at_start))] if fresh else []
    going = sorted(set(going) - set(at_start), key=lambda place: (stands[place].segments, place), reverse=True)
    while going:
        first = stands[going[0]]
        mates = [place for place in going if stands[place].beside == first.beside]
        chosen = max(([place for place in mates if at in stands[place].segments] for at in first.segments), key=len)
        found.append((sorted(chosen), True))
        going = [place for place in going if place not in chosen]
    return [*found, *(([place], True) for place in unread)]


def why(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
