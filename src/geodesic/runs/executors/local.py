"""Jobs in worker processes on this machine.

A worker that dies or stalls is ended, and its job resumes from the last checkpoints in another one. Each worker has its
own pipe, so a worker that is killed in the middle of a message damages no other. A driver that is killed closes
all pipes: that is how workers notice, whatever they are doing, and exit. Checkpoints remain.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import ModuleType
from typing import Any

from geodesic.checks import as_count
from geodesic.errors import RunWarning
from geodesic.runs.executors.base import Attempt, Dispatcher, Job, JobResult, last_change, run_in_worker
from geodesic.runs.stopping import SIGNALS, Stopping
from geodesic.runtime import configure_process

CONTEXT = multiprocessing.get_context("spawn")
STALL_SECONDS = 600.0  # longer than any compilation
POLL_SECONDS = 0.5  # between two checks for stalled workers
EXIT_SECONDS = 5.0  # for a worker to exit by itself when its pipe is closed


class ThisProcess:
    """Runs jobs in this process, one after the other: no second process reserves the memory of an accelerator."""

    def at_once(self, runs: int) -> int:
        """Return `runs`: all of them share one program.

        Args:
            runs: The number of runs.
        """
        return runs

    def run(self, jobs: Sequence[Job]) -> Iterator[JobResult | None]:
        """Run all jobs and yield each job's result as it ends; see `Executor.run`.

        Args:
            jobs: The jobs, in the order in which they should start.
        """
        for job in jobs:
            yield JobResult(job, run_in_worker(job))


class LocalProcesses:
    """Worker processes on this machine.

    Args:
        workers: The number of processes; by default one per core, or a single one if there is an accelerator.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = None if workers is None else as_count(workers, "workers")
        self._warm: list[Worker] = []

    def at_once(self, runs: int) -> int:
        """Return `runs` with an accelerator, which trains them best in one program, and otherwise 1.

        Args:
            runs: The number of runs.
        """
        return runs if has_accelerator() else 1

    def run(self, jobs: Sequence[Job]) -> Iterator[JobResult | None]:
        """Run all jobs and yield each job's result as it ends; see `Executor.run`.

        Args:
            jobs: The jobs, in the order in which they should start.
        """
        workers, self._warm = self._warm, []
        with Stopping() as stop:
            yield from Pool(jobs, self._size(len(jobs)), workers).run(stop)

    @contextlib.contextmanager
    def warm_up(self, jobs: int) -> Iterator[None]:
        """Start workers early: they import while the caller plans, and `run` uses them.

        Args:
            jobs: The number of jobs to expect.
        """
        try:
            for _ in range(self._size(jobs)):
                self._warm.append(Worker())
            yield
        finally:  # unused workers: the exit of this process would send them SIGTERM, which only asks, and wait forever
            for worker in self._warm:
                worker.end()
            self._warm = []

    def _size(self, jobs: int) -> int:
        return min(jobs, self.workers or (1 if has_accelerator() else os.cpu_count() or 1))


class Pool(Dispatcher):
    """Worker processes that take one job after another.

    Args:
        jobs: The jobs.
        size: The largest number of workers.
        workers: Workers that have been started already.
    """

    def __init__(self, jobs: Sequence[Job], size: int, workers: list[Worker]) -> None:
        super().__init__(jobs)
        self.size = size
        self.workers = workers

    @property
    def busy(self) -> bool:
        """Whether a worker has a job."""
        return any(worker.attempt is not None for worker in self.workers)

    def assign(self) -> None:
        """Give waiting jobs to idle workers, and start more workers up to the size of the pool."""
        for worker in self.workers:
            if self.waiting and worker.attempt is None:
                worker.assign(self.next())
        while self.waiting and len(self.workers) < self.size:
            self.workers.append(Worker())
            self.workers[-1].assign(self.next())

    def receive(self) -> Iterator[JobResult]:
        """Wait a moment for results, and end workers that died, or whose runs have written nothing for too long."""
        pipes = {worker.pipe: worker for worker in self.workers}
        for pipe in wait(list(pipes), POLL_SECONDS):  # the pipe of a process that dies becomes readable too
            result = pipes[pipe].receive()  # type: ignore[index]
            if result is not None:
                yield result
        for worker in list(self.workers):
            if worker.gone or worker.is_stalled(STALL_SECONDS):
                self.workers.remove(worker)
                worker.end(EXIT_SECONDS if worker.gone else 0.0)
                reason = f"died with exit code {worker.process.exitcode}" if worker.gone else "stopped responding"
                yield from self.retry(worker.attempt, reason) if worker.attempt is not None else ()

    def ask_to_stop(self) -> None:
        """Ask every worker to stop between two segments."""
        for worker in self.workers:
            worker.send(None)

    def end(self) -> None:
        """End the workers: those that have a job at once, the others when they notice that their pipe is closed."""
        for worker in self.workers:
            worker.end(0.0 if worker.attempt is not None else EXIT_SECONDS)


class Worker:
    """The driver's side of a worker: its process and the job it has."""

    def __init__(self) -> None:
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=work, args=(theirs,), daemon=True)
        _start_shielded(self.process)
        theirs.close()
        self.attempt: Attempt | None = None
        self.gone = False
        self._active = 0.0

    def assign(self, attempt: Attempt) -> None:
        """Give it a job.

        Args:
            attempt: The attempt at the job.
        """
        self.attempt, self._active = attempt, attempt.started
        self.send(attempt.job)

    def send(self, order: Job | None) -> None:
        """Send it a job, or None to ask it to stop between two segments.

        Args:
            order: The job, or None.
        """
        with contextlib.suppress(OSError):  # it is dead, which `receive` notices
            self.pipe.send(order)

    def receive(self) -> JobResult | None:
        """Return the result of its job; None if the process is gone, or only warns of something."""
        try:
            answer: str | dict[str, str] = self.pipe.recv()
        except Exception:  # whatever half a message is read as
            self.gone = True
            return None
        if isinstance(answer, str):
            warnings.warn(answer, RunWarning, stacklevel=2)
            return None
        attempt, self.attempt = self.attempt, None
        return None if attempt is None else JobResult(attempt.job, answer)

    def is_stalled(self, seconds: float) -> bool:
        """Whether no file of its job has changed for this long since the job began.

        Args:
            seconds: The longest silence of a healthy worker.
        """
        if self.attempt is None or time.monotonic() - self._active <= seconds:
            return False  # the folders are read only when the last known change is that old
        silence = max(0.0, time.time() - last_change(self.attempt.job))
        self._active = max(self._active, time.monotonic() - silence)
        return time.monotonic() - self._active > seconds

    def end(self, patience: float = 0.0) -> None:
        """Close its pipe, at which it exits, and kill it if it does not; its checkpoints remain.

        Args:
            patience: Seconds before it is killed.
        """
        self.pipe.close()
        self.process.join(patience)
        self.process.kill()
        self.process.join()


def _start_shielded(process: SpawnProcess) -> None:
    """Start a process in which signals are blocked until it handles them: a Ctrl-C in a terminal reaches it too.

    It does not import the script that this process runs, which may lack the guard `if __name__ == "__main__"`: workers
    need nothing from it, since cloudpickle sends what it defines by value.
    """
    resource_tracker.ensure_running()  # otherwise starting the process would start it, and unblock the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")  # whose file and name the process would import
    try:
        process.start()
    finally:
        sys.modules["__main__"] = script
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work(pipe: Connection) -> None:
    """The worker's side: run one job after another until it is asked to stop.

    Args:
        pipe: Its end of the pipe.
    """
    configure_process()
    orders: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    with Stopping() as stop:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=_listen, args=(pipe, orders, stop), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            import_module("geodesic.runs.run")  # every job needs it; the driver may still be planning
            warnings.showwarning = partial(_show_warning, pipe, warnings.showwarning)
            while not stop.asked and (job := orders.get()) is not None:
                pipe.send(run_in_worker(job))
    os._exit(0)  # a normal exit would wait for programs that are still being compiled


def _show_warning(
    pipe: Connection,
    show: Callable[..., None],
    message: Warning | str,
    category: type[Warning],
    *place: Any,
    **options: Any,
) -> None:
    """Send a warning about a run to the driver, whose progress bars it must not break; show any other one."""
    if issubclass(category, RunWarning) and threading.current_thread() is threading.main_thread():
        pipe.send(str(message))
    else:
        show(message, category, *place, **options)


def _listen(pipe: Connection, orders: queue.SimpleQueue[Job | None], stop: Stopping) -> None:
    """Receive orders in a second thread, because the first may be compiling or waiting for a segment."""
    while True:
        try:
            order: Job | None = pipe.recv()
        except (EOFError, OSError):
            os._exit(1)
        if order is None:
            stop.ask()
        orders.put(order)


@cache
def has_accelerator() -> bool:
    """Whether JAX has a device other than the CPU; asked in another process, since asking reserves a GPU's memory."""
    if not entry_points(group="jax_plugins"):
        return False
    ask = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    return subprocess.run(ask, capture_output=True, text=True).stdout.strip() not in ("", "cpu")
