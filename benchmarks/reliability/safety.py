"""Time what a Maze run pays for its safety: locks, digests, syncs to disk and the check for divergence.

    python -m benchmarks.reliability.safety

One run of the task's length, with the default interval between checkpoints and a timer around every call of these
parts. Calls that may wait for a disk are timed by wall-clock, the others by the thread's CPU time: they run while the
next segment trains, and on a busy core wall-clock would include its time. The check for divergence is part of the
compiled segment, where its cost is below the noise; here it is a separate program, which adds the cost of a call.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from geodesic.runtime import configure_process

configure_process()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from geodesic.records import archive, files, schema, tables, trackers, writer  # noqa: E402
from geodesic.records.lock import FolderLock  # noqa: E402
from geodesic.runs import run  # noqa: E402
from geodesic.tasks import load  # noqa: E402
from geodesic.training.agents import stack  # noqa: E402
from geodesic.training.configure import configure  # noqa: E402
from geodesic.training.program import as_sampler  # noqa: E402

PARTS = {  # part -> its calls
    "locks": ((FolderLock, "acquire"), (FolderLock, "check"), (FolderLock, "release")),
    "digests": ((archive, "_checksum"), (schema, "add_stage")),
    "rows on disk": ((tables.Tables, "sync"),),
    "folders on disk": ((files, "sync_folder"),),
    "signature": ((writer, "sign"),),
    "links": ((writer, "inside"), (tables, "check_single"), (trackers, "check_single")),
}
COMPUTES = ("check", "_checksum")  # calls that never wait for a disk
ROUNDS = 100
LIMIT = 0.01


class TimedDigest:
    """A digest over rows that adds up the time it takes."""

    def __init__(self, seconds: dict[str, float], real: Any) -> None:
        self.seconds, self.real = seconds, real

    def update(self, content: bytes) -> None:
        began = time.thread_time()
        self.real.update(content)
        self.seconds["digests"] += time.thread_time() - began

    def hexdigest(self) -> str:
        return str(self.real.hexdigest())


@contextmanager
def timed(seconds: dict[str, float]) -> Any:
    """Time every call of the parts in this context."""
    before = [(home, name, getattr(home, name)) for parts in PARTS.values() for home, name in parts]
    for part, places in PARTS.items():
        for home, name in places:
            clock = time.thread_time if name in COMPUTES else time.perf_counter
            setattr(home, name, _timed(getattr(home, name), part, seconds, clock))
    hashlib = tables.hashlib

    class Hashes:
        @staticmethod
        def blake2b(**options: Any) -> TimedDigest:
            return TimedDigest(seconds, hashlib.blake2b(**options))

    tables.hashlib = Hashes  # type: ignore[assignment]
    try:
        yield
    finally:
        tables.hashlib = hashlib
        for home, name, real in before:
            setattr(home, name, real)


def _timed(
    real: Callable[..., Any], part: str, seconds: dict[str, float], clock: Callable[[], float]
) -> Callable[..., Any]:
    @wraps(real)
    def call(*arguments: Any, **options: Any) -> Any:
        began = clock()
        try:
            return real(*arguments, **options)
        finally:
            seconds[part] += clock() - began

    return call


def whole_run() -> tuple[float, dict[str, float], int]:
    """Wall-clock seconds of a run without compilation, seconds of each part, and the number of segments."""
    config, seconds = configure("maze"), defaultdict(float)
    with tempfile.TemporaryDirectory() as work:
        run.start([config.replace(steps=1)], [Path(work) / "warm"]).train()
        with timed(seconds):
            began = time.perf_counter()
            batch = run.start([config], [Path(work) / "run"])
            batch.train()
            return time.perf_counter() - began, seconds, batch.segment


def divergence_check() -> float:
    """Seconds to check that all parameters and returns of a segment are finite."""
    task = load("maze")
    program = run.trainer_of([configure(task)], task).program
    samplers = stack([as_sampler(task.source_particles, 0)])
    state, log = program.segment(program.init(np.zeros((1, 2), np.uint32), samplers), samplers)
    leaves = [*jax.tree.leaves(program.learner.params(state.learner)), log.total]
    finite = jax.jit(lambda leaves: jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all())
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        finite(leaves).block_until_ready()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> int:
    wall, seconds, segments = whole_run()
    seconds["divergence"] = segments * divergence_check()
    print(f"a Maze run of {configure('maze').steps} steps: {wall:.1f} s")
    for part in (*PARTS, "divergence"):
        print(f"  {part:<16} {1000 * seconds[part]:7.1f} ms  {seconds[part] / wall:7.3%}")
    fraction = sum(seconds.values()) / wall
    print(f"  {'total':<16} {1000 * sum(seconds.values()):7.1f} ms  {fraction:7.3%}, limit {LIMIT:.0%}")
    return int(fraction > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
