"""Jobs in worker processes on this machine.

A worker that falls silent or dies is ended, and its job is taken up again from the last checkpoints.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from multiprocessing.connection import wait

from geodesic.checks import as_count
from geodesic.runs.executors.base import Job, Listen
from geodesic.runs.executors.ledger import STOP_SECONDS, Ledger
from geodesic.runs.executors.worker import Worker
from geodesic.runs.stopping import Stopping

CONTEXT = multiprocessing.get_context("spawn")
STALL_SECONDS = 600.0  # longer than any compilation
LOOK_SECONDS = 0.5  # between two looks at who fell silent
LEAVE_SECONDS = 5.0  # that a worker has to leave by itself, when it has nothing to do or nobody to tell


class LocalProcesses:
    """As many worker processes as there are cores, or jobs, or as asked; one where there is an accelerator."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = None if workers is None else as_count(workers, "workers")
        self._ahead: list[Worker] = []

    def at_once(self, runs: int) -> int:
        return runs if has_accelerator() else 1

    def run(self, jobs: Sequence[Job], listen: Listen) -> dict[str, str]:
        started, self._ahead = self._ahead, []
        return Pool(jobs, self._size(len(jobs)), listen, started).run()

    @contextmanager
    def ahead(self, jobs: int) -> Iterator[None]:
        """Workers for so many jobs start now and import while the caller plans; `run` takes them.

        They are ended here where it comes to nothing: SIGTERM, by which an exit ends processes, only asks them.
        """
        try:
            for _ in range(self._size(jobs)):
                self._ahead.append(Worker(CONTEXT))
            yield
        finally:
            for worker in self._ahead:
                worker.end()
            self._ahead = []

    def _size(self, jobs: int) -> int:
        return min(jobs, self.workers or (1 if has_accelerator() else os.cpu_count() or 1))


class Pool:
    """Worker processes that take jobs one after another."""

    def __init__(self, jobs: Sequence[Job], size: int, listen: Listen, workers: list[Worker]) -> None:
        self.ledger = Ledger(jobs, listen)
        self.size = size
        self.workers = workers

    @property
    def busy(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.job is not None]

    def run(self) -> dict[str, str]:
        with Stopping() as stop:
            try:
                while not stop.asked and (self.ledger or self.busy):
                    self._hand_out()
                    self._hear()
                    self._look_after()
                if stop.asked:
                    self._stop()
                    raise KeyboardInterrupt
            finally:
                for worker in self.workers:
                    worker.end(0.0 if worker.job is not None else LEAVE_SECONDS)
        return self.ledger.failed

    def _hand_out(self) -> None:
        while self.ledger and len(self.busy) < self.size:
            idle = next((worker for worker in self.workers if worker.job is None), None)
            if idle is None:
                idle = Worker(CONTEXT)
                self.workers.append(idle)
            index = self.ledger.next()
            idle.give(index, self.ledger.jobs[index])

    def _hear(self) -> None:
        """Wait for messages for a while. A process that dies ends its pipe, which then has its end to say."""
        lines = {worker.line: worker for worker in self.workers}
        for line in wait(list(lines), LOOK_SECONDS):
            worker = lines[line]  # type: ignore[index]
            update = worker.hear()
            if update is None:
                worker.gone = True
                continue
            if update.ended:
                worker.job = None
            self.ledger.hear(update)

    def _look_after(self) -> None:
        """Workers that died or fell silent are ended; their jobs go on elsewhere."""
        for worker in self._leaving():
            job, code = worker.job, worker.process.exitcode
            if job is not None:
                self.ledger.lose(job, f"died with exit code {code}")
        for worker in self.busy:
            if time.monotonic() - worker.heard > STALL_SECONDS:
                self._let_go(worker)
                self.ledger.lose(worker.job, "fell silent")  # type: ignore[arg-type]

    def _leaving(self) -> list[Worker]:
        """Workers that are gone, not among the others any more."""
        gone = [worker for worker in self.workers if worker.gone]
        for worker in gone:
            self._let_go(worker, LEAVE_SECONDS)
        return gone

    def _let_go(self, worker: Worker, patience: float = 0.0) -> None:
        self.workers.remove(worker)
        worker.end(patience)

    def _stop(self) -> None:
        """Ask every worker at work to stop, and wait until they have left, but not for ever."""
        for worker in self.busy:
            worker.ask_to_stop()
        deadline = time.monotonic() + STOP_SECONDS
        while self.busy and time.monotonic() < deadline:
            self._hear()
            self._leaving()


@cache
def has_accelerator() -> bool:
    """Asked in a process of its own: one that looks at a GPU takes its memory from the workers."""
    if not entry_points(group="jax_plugins"):
        return False
    ask = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    return subprocess.run(ask, capture_output=True, text=True).stdout.strip() not in ("", "cpu")
