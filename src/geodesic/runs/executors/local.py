"""Jobs in worker processes on this machine.

A worker that falls silent or dies is ended, and its job is taken up again from the last checkpoints; after `TRIES`
attempts it counts as failed and the others go on.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.context import SpawnContext
from typing import Any

from geodesic.runs.executors.base import Job, Listen, Update, do, why

TRIES = 3
STALL_SECONDS = 600.0  # longer than any compilation

Orders = Any  # multiprocessing's queues have no type of their own


class LocalProcesses:
    """As many worker processes as there are cores, or jobs, or as asked."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers

    def run(self, jobs: Sequence[Job], listen: Listen) -> dict[str, str]:
        count = min(len(jobs), self.workers or os.cpu_count() or 1)
        return Pool(list(jobs), count, listen).run()


class Pool:
    """Worker processes that take jobs one after another."""

    def __init__(self, jobs: list[Job], workers: int, listen: Listen) -> None:
        self.jobs = jobs
        self.listen = listen
        self.failed: dict[str, str] = {}
        self.context = multiprocessing.get_context("spawn")
        self.updates: Orders = self.context.Queue()
        self.waiting = list(range(len(jobs)))
        self.tries = [0] * len(jobs)
        self.workers = [self._new_worker() for _ in range(workers)]

    def run(self) -> dict[str, str]:
        try:
            while self.waiting or any(worker.job is not None for worker in self.workers):
                self._hand_out()
                self._hear()
                self._look_after()
        finally:
            for worker in self.workers:
                worker.end()
        return self.failed

    def _hand_out(self) -> None:
        for worker in self.workers:
            if worker.job is None and self.waiting:
                job = self.waiting.pop(0)
                self.tries[job] += 1
                worker.give(job, self.jobs[job])

    def _hear(self) -> None:
        try:
            update = self.updates.get(timeout=0.5)
        except queue.Empty:
            return
        for worker in self.workers:
            if worker.job == update.job:
                worker.heard = time.monotonic()
                if update.ended:
                    worker.job = None
        if update.error:
            self.failed[self.jobs[update.job].name] = update.error
        self.listen(self.jobs[update.job], update)

    def _look_after(self) -> None:
        """Replace workers that died or fell silent; their jobs go on elsewhere."""
        for index, worker in enumerate(self.workers):
            silent = worker.job is not None and time.monotonic() - worker.heard > STALL_SECONDS
            if worker.process.is_alive() and not silent:
                continue
            job = worker.job
            worker.end()
            self.workers[index] = self._new_worker()
            if job is None:
                continue
            if self.tries[job] < TRIES:
                self.waiting.insert(0, job)
                continue
            reason = "fell silent" if silent else f"died with exit code {worker.process.exitcode}"
            self.failed[self.jobs[job].name] = f"its worker {reason}, {TRIES} times"
            self.listen(self.jobs[job], Update(job, ended=True, error=reason))

    def _new_worker(self) -> Worker:
        return Worker(self.context, self.updates)


class Worker:
    """One process, the job it has, and when it was last heard of."""

    def __init__(self, context: SpawnContext, updates: Orders) -> None:
        self.orders: Orders = context.Queue()
        self.process = context.Process(target=work, args=(self.orders, updates), daemon=True)
        self.process.start()
        self.job: int | None = None
        self.heard = time.monotonic()

    def give(self, index: int, job: Job) -> None:
        self.job, self.heard = index, time.monotonic()
        self.orders.put((index, job))

    def end(self) -> None:
        self.process.terminate()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()


def work(orders: Orders, updates: Orders) -> None:
    """A worker's life: take a job, do it, say how it went."""
    while True:
        try:
            index, job = orders.get(timeout=1.0)
        except queue.Empty:
            _leave_if_orphaned()
            continue
        try:
            do(job, partial(_say, updates, index))
            updates.put(Update(index, job.steps, ended=True))
        except KeyboardInterrupt:
            return
        except Exception as error:
            updates.put(Update(index, ended=True, error=why(error)))


def _say(updates: Orders, index: int, steps: int, note: str) -> None:
    _leave_if_orphaned()
    updates.put(Update(index, steps, note))


def _leave_if_orphaned() -> None:
    """A comparison that was killed takes its workers along; their checkpoints stay."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os._exit(1)
