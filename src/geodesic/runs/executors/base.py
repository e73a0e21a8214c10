"""The contract of an executor, and what all executors share.

A job is one or more runs that train in one program. It can be repeated at any time: its runs resume from their
checkpoints. Executors do not report progress; read it from the run folders (`geodesic.records.status`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from geodesic.errors import format_error, printable
from geodesic.records import RunConfig, finished
from geodesic.runs.stopping import Stopping

MAX_ATTEMPTS = 3
SAVE_EVERY = 20.0  # seconds between two checkpoints of a job
STOP_SECONDS = 60.0  # for jobs to reach the end of their segment after they are asked to stop


@dataclass(frozen=True)
class Job:
    """Runs that train in one program.

    Args:
        configs: The configuration of each run.
        folders: The folder of each run.
        objects: Objects that have no name to import them by, such as a user's own task, packed by cloudpickle.
        owner: The token of the folders' locks. A repeated job has the same token, so it takes over the folders of an
            attempt whose worker was lost.
        save_every: Seconds between checkpoints.
    """

    configs: tuple[RunConfig, ...]
    folders: tuple[Path, ...]
    objects: bytes | None = None
    owner: str = ""
    save_every: float = SAVE_EVERY


@dataclass(frozen=True)
class JobResult:
    """The end of a job.

    Args:
        job: The job.
        failed: The reason in one line for each run that failed, by the name of the run.
    """

    job: Job
    failed: dict[str, str] = field(default_factory=dict)


class Executor(Protocol):
    """Runs jobs, here or elsewhere."""

    def at_once(self, runs: int) -> int:
        """Return how many of this many runs should share one program.

        Args:
            runs: The number of runs.
        """

    def run(self, jobs: Sequence[Job]) -> Iterator[JobResult | None]:
        """Run all jobs and yield each job's result as it ends.

        A job whose worker is lost is repeated, up to `MAX_ATTEMPTS` attempts. Closing the iterator ends all workers.
        While no job ends, None is yielded now and then, so that the caller can renew its locks.

        Args:
            jobs: The jobs, in the order in which they should start.

        Yields:
            The result of each job, and None between them.

        Raises:
            KeyboardInterrupt: After a first Ctrl-C or SIGTERM, once every worker has saved its runs at the end of its
                segment; after a second one, at once.
        """


def run_name(config: RunConfig) -> str:
    """Return the name of a run within its comparison.

    Args:
        config: The configuration of the run.
    """
    return printable(f"{config.label} seed {config.seed}")


def unfinished(job: Job) -> list[str]:
    """Return the names of the runs of a job that are not finished.

    Args:
        job: The job.
    """
    return [run_name(config) for config, folder in zip(job.configs, job.folders) if not finished(folder)]


def run_in_worker(job: Job) -> dict[str, str]:
    """Run a job in this process, a worker, and return why runs failed; see `JobResult`.

    Args:
        job: The job.
    """
    from geodesic.runs.run import run_job  # imports JAX, which the driver does not need

    try:
        return {name: format_error(error) for name, error in run_job(job).items()}
    except Exception as error:
        return dict.fromkeys(unfinished(job), format_error(error))


def last_change(job: Job) -> float:
    """Return when a file of the job's runs last changed, in seconds since the epoch; 0 without files.

    The lock of a folder is touched every few seconds while its run writes, so a worker whose job has no recent change
    is dead or blocked.

    Args:
        job: The job.
    """
    return max((_modified(path) for folder in job.folders for path in [folder, *folder.rglob("*")]), default=0.0)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # replaced or removed meanwhile
        return 0.0


@dataclass(frozen=True)
class Attempt:
    """A job, how often it has been tried, and when this attempt began."""

    job: Job
    number: int = 0
    started: float = 0.0


class Dispatcher:
    """Gives the jobs of a comparison to workers and repeats those that are lost: the loop that all executors share.

    Args:
        jobs: The jobs, in the order in which they should start.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = deque(Attempt(job) for job in jobs)
        self.stopping = False

    @property
    def busy(self) -> bool:
        """Whether a worker has a job."""
        raise NotImplementedError

    def assign(self) -> None:
        """Give waiting jobs to workers that have none."""
        raise NotImplementedError

    def receive(self) -> Iterator[JobResult]:
        """Wait a moment, and yield the results of jobs that ended; jobs whose workers are lost wait again."""
        raise NotImplementedError

    def ask_to_stop(self) -> None:
        """Ask every worker to stop at the end of its segment."""
        raise NotImplementedError

    def end(self) -> None:
        """End all workers at once."""
        raise NotImplementedError

    def run(self, stop: Stopping) -> Iterator[JobResult | None]:
        """Run all jobs and yield each job's result as it ends, and None between them.

        Args:
            stop: Whether a signal has asked this process to stop.
        """
        try:
            while not stop.asked and (self.waiting or self.busy):
                self.assign()
                yield from self.receive()
                yield None
            if stop.asked:
                self.stopping = True
                self.ask_to_stop()
                deadline = time.monotonic() + STOP_SECONDS
                while self.busy and time.monotonic() < deadline:
                    yield from self.receive()
                raise KeyboardInterrupt
        finally:
            self.end()

    def next(self) -> Attempt:
        """Remove the first job that waits, for its next attempt."""
        attempt = self.waiting.popleft()
        return replace(attempt, number=attempt.number + 1, started=time.monotonic())

    def retry(self, attempt: Attempt, reason: str) -> list[JobResult]:
        """Let a job whose worker was lost wait again, before all others; its result if that was the last attempt."""
        if self.stopping or attempt.number < MAX_ATTEMPTS:
            self.waiting.appendleft(attempt)
            return []
        failed = dict.fromkeys(unfinished(attempt.job), f"its worker {reason}, {MAX_ATTEMPTS} times")
        return [JobResult(attempt.job, failed)]
