"""The contract of an executor, and what doing a job means wherever it is done.

A job is one or more runs that train at once. It can be done again from wherever it was broken off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from geodesic.records import RunConfig, begun, finished
from geodesic.tasks import Task

SAY_EVERY = 0.3  # seconds between two messages of a job


@dataclass(frozen=True)
class Job:
    """Runs that train at once, and their folders. `task` is packed for tasks that have no name (see `pack`)."""

    configs: tuple[RunConfig, ...]
    folders: tuple[Path, ...]
    task: bytes | None = None

    @property
    def name(self) -> str:
        first = f"{self.configs[0].label} seed {self.configs[0].seed}"
        return first if len(self.configs) == 1 else f"{len(self.configs)} runs at once"

    @property
    def steps(self) -> int:
        return sum(config.steps for config in self.configs)


@dataclass(frozen=True)
class Update:
    """What is heard of a job: steps done in all its runs, and a note for the progress bar."""

    job: int
    steps: int = 0
    note: str = ""
    ended: bool = False
    error: str = ""


Listen = Callable[[Job, Update], None]
Say = Callable[[int, str], None]  # (steps done, note)


class Executor(Protocol):
    def run(self, jobs: Sequence[Job], listen: Listen) -> dict[str, str]:
        """Do all jobs; what failed: name of the job -> why, in one line."""


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


def do(job: Job, say: Say, task: Task | None = None) -> None:
    """Take up the runs that were broken off, together where they stopped together, and start the others."""
    from geodesic.runs import run

    known = task if task is not None else unpack(job.task)
    steps = [config.steps if finished(folder) else 0 for config, folder in zip(job.configs, job.folders)]
    last = [0.0]

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
        begin(configs, folders, known, watch(places)).train()


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
