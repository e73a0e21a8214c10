"""Jobs as tasks of a Ray cluster: one task a job, on machines that all see the comparison's folder.

Ray finds the place and says what died; checkpoints, retries and locks are ours, and so are the same as on one machine.
"""

from __future__ import annotations

import contextlib
import math
import platform
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from geodesic.checks import as_nonnegative, as_text
from geodesic.errors import InvalidInput, MissingExtra
from geodesic.runs.executors.base import Job, Listen, Update, answer, unfinished, why
from geodesic.runs.executors.ledger import STOP_SECONDS, Ledger
from geodesic.runs.stopping import Stopping
from geodesic.runtime import ours_alone

LOOK_SECONDS = 0.5  # between two looks at the board
BOARD_SECONDS = 10.0  # without an answer, after which progress is not shown any more
MESSAGES = 500  # a second, of all jobs together; a board takes a few times as many

Ref = Any  # Ray has no types of its own that could be named here
Board = Any


class RayTasks:
    """Jobs on the cluster at `address`; without one, on the cluster that Ray finds, or on one of its own here.

    cpus, gpus: what each job claims. On GPUs, the runs are spread evenly: as many programs as fit, each with its share.
    """

    def __init__(self, address: str | None = None, cpus: float = 1.0, gpus: float = 0.0) -> None:
        self.claims = {
            "num_cpus": as_nonnegative(cpus, "cpus of a job"),
            "num_gpus": as_nonnegative(gpus, "gpus of a job"),
        }
        if address is not None:
            as_text(address, "address")
        try:
            import ray
        except ImportError:
            raise MissingExtra("Ray", "ray") from None
        self.ray = ray
        self.address = address

    def at_once(self, runs: int) -> int:
        if not self.claims["num_gpus"]:
            return 1
        with self._connected() as ray:
            places = int(ray.cluster_resources().get("GPU", 0) // self.claims["num_gpus"])
        return math.ceil(runs / max(1, places))

    def run(self, jobs: Sequence[Job], listen: Listen) -> dict[str, str]:
        with self._connected() as ray, Stopping() as stop:  # in this order: Ray puts a handler of its own in place
            self._check(ray)
            return Sweep(ray, jobs, listen, self.claims).run(stop)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        ray = self.ray
        ours = not ray.is_initialized()
        if ours:
            settings = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
            try:
                with warnings.catch_warnings(action="ignore"):  # JAX warns of forks, which are followed by an exec here
                    ray.init(self.address, **settings)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InvalidInput(f"expected a Ray cluster at {self.address or 'hand'}, got {why(error)}") from error
        try:
            yield ray
        finally:
            if ours:
                ray.shutdown()

    def _check(self, ray: Any) -> None:
        """A job that no machine can ever take would wait for ever."""
        for claim, resource in (("num_cpus", "CPU"), ("num_gpus", "GPU")):
            most = max((node["Resources"].get(resource, 0) for node in ray.nodes() if node["Alive"]), default=0)
            if most < self.claims[claim]:
                raise InvalidInput(
                    f"expected a machine with {self.claims[claim]:g} {resource} a job, got at most {most:g}"
                )


class Sweep:
    """The jobs of one comparison under way."""

    def __init__(self, ray: Any, jobs: Sequence[Job], listen: Listen, claims: dict[str, float]) -> None:
        self.ray = ray
        self.ledger = Ledger(jobs, listen)
        self.task = ray.remote(work).options(max_retries=0, **claims)
        self.board: Board = _board(ray)
        places = ray.cluster_resources().get("CPU", 1) / max(claims["num_cpus"], 0.01)
        self.say_every = min(len(jobs), places) / MESSAGES
        self.under_way: dict[Ref, int] = {}
        self.looked = 0.0

    def run(self, stop: Stopping) -> dict[str, str]:
        try:
            while not stop.asked and (self.ledger or self.under_way):
                self._hand_out()
                self._hear()
            if stop.asked:
                self._stop()
                raise KeyboardInterrupt
        finally:
            self._end()
        return self.ledger.failed

    def _hand_out(self) -> None:
        """All that waits: Ray keeps what has no place yet."""
        while self.ledger:
            index = self.ledger.next()
            self.under_way[self.task.remote(index, self.ledger.jobs[index], self.board, self.say_every)] = index

    def _hear(self, stopping: bool = False) -> None:
        """Wait for ends for a while. An error of Ray's is the loss of a worker; one of the job's is its outcome."""
        ready, _ = self.ray.wait(list(self.under_way), num_returns=1, timeout=LOOK_SECONDS)
        if time.monotonic() - self.looked > LOOK_SECONDS:
            self._look()
        for ref in ready:
            index = self.under_way.pop(ref)
            try:
                update: Update | None = self.ray.get(ref)
                reason = "was stopped"
            except self.ray.exceptions.RayError as error:
                update, reason = None, f"was lost ({type(error).__name__})"
            if update is not None:
                self.ledger.hear(update)
            elif not stopping:
                self.ledger.lose(index, reason)

    def _look(self) -> None:
        """Progress, from the board. A board that is lost costs the bars, not the sweep."""
        self.looked = time.monotonic()
        if self.board is None:
            return
        try:
            said: list[Update] = self.ray.get(self.board.take.remote(), timeout=BOARD_SECONDS)
        except self.ray.exceptions.RayError:
            self.board = None
            return
        for update in said:
            if update.job in self.under_way.values():  # and not the last words before an end that was heard
                self.ledger.hear(update)

    def _stop(self) -> None:
        """Ray's way to cancel a task is the signal that `Stopping` waits for."""
        for ref in self.under_way:
            self.ray.cancel(ref)
        deadline = time.monotonic() + STOP_SECONDS
        while self.under_way and time.monotonic() < deadline:
            self._hear(stopping=True)

    def _end(self) -> None:
        """At once, whatever is still under way; checkpoints stay."""
        for ref in self.under_way:
            self.ray.cancel(ref, force=True)
        if self.board is not None:
            self.ray.kill(self.board)


class Notes:
    """The board's side: the latest word of each job, until it is taken."""

    def __init__(self) -> None:
        self.latest: dict[int, Update] = {}

    def say(self, update: Update) -> None:
        self.latest[update.job] = update

    def take(self) -> list[Update]:
        taken, self.latest = list(self.latest.values()), {}
        return taken


def _board(ray: Any) -> Board:
    """On the driver's machine, which the sweep ends with in any case."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(Notes).options(num_cpus=0, scheduling_strategy=here).remote()


def work(index: int, job: Job, board: Board, say_every: float) -> Update | None:
    """A task: do the job, say how it went; nothing if it was asked to stop."""
    ours_alone()
    said = 0.0

    def say(update: Update) -> None:
        nonlocal said
        if time.monotonic() - said < say_every:
            return
        said = time.monotonic()
        with contextlib.suppress(Exception):  # nobody has to listen
            board.say.remote(update)

    out = job.folders[0].parents[2]
    if not out.exists():
        unseen = f"expected {out} on storage that all machines see, got none on {platform.node()}"
        return Update(index, ended=True, failed=dict.fromkeys(unfinished(job), unseen))
    try:
        with Stopping():
            return answer(index, job, say)
    except KeyboardInterrupt:
        return None
