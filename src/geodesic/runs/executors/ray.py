"""Jobs as tasks of a Ray cluster, one task per job, on machines that all see the comparison's folder.

Ray places the tasks and reports the ones that were lost. Checkpoints, retries and locks are the same as on one machine.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from geodesic.checks import as_nonnegative, as_string
from geodesic.errors import InvalidInput, MissingExtra, format_error
from geodesic.runs.executors.base import Attempt, Dispatcher, Job, JobResult, run_in_worker, unfinished
from geodesic.runs.helper import Helper
from geodesic.runs.stopping import Stopping
from geodesic.runtime import configure_process

CONNECT_SECONDS = 20.0  # for a cluster to answer
POLL_SECONDS = 0.5  # between two checks for a signal


class RayTasks:
    """Jobs on a Ray cluster.

    On GPUs the runs are spread evenly over as many programs as fit.

    Args:
        address: The address of the cluster; by default the one that Ray finds, or else a new one on this machine.
        cpus: The CPUs that each job claims.
        gpus: The GPUs that each job claims.

    Raises:
        MissingExtra: If Ray is not installed.
    """

    def __init__(self, address: str | None = None, cpus: float = 1.0, gpus: float = 0.0) -> None:
        self.claims = {
            "num_cpus": as_nonnegative(cpus, "cpus of a job"),
            "num_gpus": as_nonnegative(gpus, "gpus of a job"),
        }
        self.address = None if address is None else as_string(address, "address")
        try:
            import ray
        except ImportError:
            raise MissingExtra("Ray", "ray") from None
        self.ray = ray

    def at_once(self, runs: int) -> int:
        """Return the size of a program when the runs are spread over all GPUs, and 1 without GPUs.

        Args:
            runs: The number of runs.
        """
        if not self.claims["num_gpus"]:
            return 1
        with self._connected() as ray:
            places = int(ray.cluster_resources().get("GPU", 0) // self.claims["num_gpus"])
        return math.ceil(runs / max(1, places))

    def run(self, jobs: Sequence[Job]) -> Iterator[JobResult | None]:
        """Run all jobs and yield each job's result as it ends; see `Executor.run`.

        Args:
            jobs: The jobs, in the order in which they should start.

        Raises:
            InvalidInput: If no machine of the cluster can take a job.
        """
        with self._connected() as ray, Stopping() as stop:  # in this order: Ray installs a signal handler too
            self._check(ray)
            yield from Sweep(ray, jobs, self.claims).run(stop)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        """Ray, connected to the cluster; disconnected at the end unless it was connected before."""
        ray = self.ray
        ours = not ray.is_initialized()
        if ours:
            address = self.address or os.environ.get("RAY_ADDRESS")
            try:
                if address not in (None, "local"):  # a cluster that does not answer blocks Ray for minutes
                    with Helper("connecting to Ray", _connect, address, quiet=True) as connected:
                        connected.result(CONNECT_SECONDS)
                _connect(address)
            except (ConnectionError, ValueError, RuntimeError) as error:
                place = f"at {address}" if address else "on this machine"
                raise InvalidInput(f"expected a Ray cluster {place}, got {format_error(error)}") from error
        try:
            yield ray
        finally:
            if ours:
                ray.shutdown()

    def _check(self, ray: Any) -> None:
        """Refuse jobs that no machine can ever take; they would wait forever."""
        for claim, resource in (("num_cpus", "CPU"), ("num_gpus", "GPU")):
            most = max((node["Resources"].get(resource, 0) for node in ray.nodes() if node["Alive"]), default=0)
            if most < self.claims[claim]:
                raise InvalidInput(
                    f"expected a machine with {self.claims[claim]:g} {resource} a job, got at most {most:g}"
                )


class Sweep(Dispatcher):
    """The jobs of one comparison as Ray tasks.

    Args:
        ray: The module, connected.
        jobs: The jobs.
        claims: What each task claims, in Ray's words.
    """

    def __init__(self, ray: Any, jobs: Sequence[Job], claims: dict[str, float]) -> None:
        self.ray = ray
        super().__init__(jobs)
        self.task = ray.remote(work).options(max_retries=0, **claims)
        self.running: dict[Any, Attempt] = {}  # by Ray's reference, which has no specific type

    @property
    def busy(self) -> bool:
        """Whether a task has not ended."""
        return bool(self.running)

    def assign(self) -> None:
        """Submit every job that waits; Ray keeps those that no machine has room for yet."""
        while self.waiting:
            attempt = self.next()
            self.running[self.task.remote(attempt.job)] = attempt

    def receive(self) -> Iterator[JobResult]:
        """Wait a moment for tasks to end. Errors of Ray mean that the worker was lost; those of runs are results."""
        ended, _ = self.ray.wait(list(self.running), num_returns=1, timeout=POLL_SECONDS)
        for reference in ended:
            attempt = self.running.pop(reference)
            try:
                failed: dict[str, str] | None = self.ray.get(reference)
                reason = "was stopped"
            except self.ray.exceptions.RayError as error:
                failed, reason = None, f"was lost ({type(error).__name__})"
            if failed is not None:
                yield JobResult(attempt.job, failed)
            else:
                yield from self.retry(attempt, reason)

    def ask_to_stop(self, force: bool = False) -> None:
        """Cancel every task: Ray sends the signal for which `Stopping` waits in `work`, or ends the worker at once."""
        for reference in self.running:
            self.ray.cancel(reference, force=force)

    def end(self) -> None:
        """Cancel every task at once."""
        self.ask_to_stop(force=True)


def _connect(address: str | None) -> None:
    """Connect this process. Ray's handler of SIGTERM, which exits without a word, is replaced by the one before."""
    import ray

    before = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings(action="ignore"):  # JAX warns of forks; Ray's are followed by an exec
            ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except SystemExit:
        raise KeyboardInterrupt from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def work(job: Job) -> dict[str, str] | None:
    """Run a job as a Ray task.

    Args:
        job: The job.

    Returns:
        Why runs failed, by their names (see `JobResult`); None if the task was asked to stop.
    """
    configure_process()
    out = job.folders[0].parents[2]
    if not out.exists():
        reason = f"expected {out} on storage that all machines see, got none on {platform.node()}"
        return dict.fromkeys(unfinished(job), reason)
    try:
        with Stopping():
            return run_in_worker(job)
    except KeyboardInterrupt:
        return None
