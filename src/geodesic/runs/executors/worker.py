"""A worker process, from both sides. The two talk through a pipe of their own.

A worker that is killed in the middle of a message ends its own pipe and no other. A driver that is killed ends all of
them, and that is how workers learn of it, whatever they are at; their checkpoints stay.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from importlib import import_module
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext

from geodesic.runs.executors.base import Job, Update, answer
from geodesic.runs.stopping import SIGNALS, Stopping
from geodesic.runtime import ours_alone

STOP = "stop"

Order = tuple[int, Job] | str
Orders = queue.SimpleQueue[tuple[int, Job] | None]  # nothing: there will be no more


class Worker:
    """The driver's side: one process, the job it has, and when it was last heard of."""

    def __init__(self, context: SpawnContext) -> None:
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        _start_shielded(self.process)
        theirs.close()
        self.job: int | None = None
        self.gone = False
        self.heard = time.monotonic()

    def give(self, index: int, job: Job) -> None:
        self.job, self.heard = index, time.monotonic()
        self._tell((index, job))

    def ask_to_stop(self) -> None:
        self._tell(STOP)

    def hear(self) -> Update | None:
        """What it says; nothing if it is gone."""
        try:
            update: Update = self.line.recv()
        except Exception:  # whatever half a message reads as
            return None
        self.heard = time.monotonic()
        return update

    def end(self, patience: float = 0.0) -> None:
        """It leaves when its pipe closes, or is killed; its checkpoints stay."""
        self.line.close()
        self.process.join(patience)
        self.process.kill()
        self.process.join()

    def _tell(self, order: Order) -> None:
        with contextlib.suppress(OSError):  # dead: its sentinel says so
            self.line.send(order)


def _start_shielded(process: object) -> None:
    """A process that Ctrl-C in a terminal, which reaches it too, does not end before it can answer."""
    resource_tracker.ensure_running()  # or starting the process would start it, and lift the shield
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        process.start()  # type: ignore[attr-defined]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work(line: Connection) -> None:
    """The worker's side: take a job, do it, say how it went; asked to stop, stop between two segments and leave."""
    ours_alone()
    orders: Orders = queue.SimpleQueue()
    with Stopping() as stop:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=_listen, args=(line, orders, stop), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            import_module("geodesic.runs.run")  # what every job needs, while the driver may still be planning
            while not stop.asked and (order := orders.get()) is not None:
                line.send(answer(*order, line.send))
    os._exit(0)  # programs that are still being compiled would be waited for


def _listen(line: Connection, orders: Orders, stop: Stopping) -> None:
    """A worker's second thread: the first may be compiling, or waiting for a segment."""
    while True:
        try:
            order: Order = line.recv()
        except (EOFError, OSError):
            os._exit(1)
        if order == STOP:
            stop.ask()
            orders.put(None)
        else:
            orders.put(order)  # type: ignore[arg-type]
