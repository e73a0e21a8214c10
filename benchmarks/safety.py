"""What a Maze run pays for its safety: locks, digests, syncs to the disk and the flag that tells divergence.

    python -m benchmarks.safety

One run of the task's own length at the usual interval between checkpoints, with every call of these parts timed where
it happens: by the clock where it may wait for a disk, and by the thread's processor time where it does not, since such
calls run while the next segment is under way, and the clock would count its turns on a busy core too. The flag is part
of the compiled segment, where it is too small to be told from noise; here it is a program of its own, with a call's
cost on top.
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

from geodesic.runtime import ours_alone

ours_alone()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from geodesic.records import archive, files, stages, tables  # noqa: E402
from geodesic.records.lock import FolderLock  # noqa: E402
from geodesic.runs import run  # noqa: E402
from geodesic.runs.config import configure  # noqa: E402
from geodesic.tasks import load  # noqa: E402
from geodesic.training.program import as_sampler, stack  # noqa: E402

PARTS = {  # part -> where its calls are
    "locks": ((FolderLock, "take"), (FolderLock, "check"), (FolderLock, "release")),
    "digests": ((archive, "_seal"), (stages, "add_stage")),
    "rows on disk": ((tables.Tables, "sync"),),
    "names on disk": ((files, "sync_folder"),),
}
COMPUTES = ("check", "_seal")  # calls that never wait for a disk
ROUNDS = 100
ALLOWED = 0.01


class Counted:
    """A digest over rows that counts the time it takes; `hashlib` for the tables."""

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
    """While this is open, every call of the parts is timed."""
    before = [(home, name, getattr(home, name)) for parts in PARTS.values() for home, name in parts]
    for part, places in PARTS.items():
        for home, name in places:
            clock = time.thread_time if name in COMPUTES else time.perf_counter
            setattr(home, name, _timed(getattr(home, name), part, seconds, clock))
    hashlib = tables.hashlib

    class Hashes:
        @staticmethod
        def blake2b(**options: Any) -> Counted:
            return Counted(seconds, hashlib.blake2b(**options))

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
    """Wall-clock of a run without compilation, what the parts took of it, and its segments."""
    config, seconds = configure("maze"), defaultdict(float)
    with tempfile.TemporaryDirectory() as work:
        run.start([config.replace(steps=1)], [Path(work) / "warm"]).train()
        with timed(seconds):
            began = time.perf_counter()
            batch = run.start([config], [Path(work) / "run"])
            batch.train()
            return time.perf_counter() - began, seconds, batch.segment


def flag() -> float:
    """Seconds that looking at all parameters and returns of a segment takes."""
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
    seconds["flags"] = segments * flag()
    print(f"a Maze run of {configure('maze').steps} steps: {wall:.1f} s")
    for part in (*PARTS, "flags"):
        print(f"  {part:<14} {1000 * seconds[part]:7.1f} ms  {seconds[part] / wall:7.3%}")
    share = sum(seconds.values()) / wall
    print(f"  {'all':<14} {1000 * sum(seconds.values()):7.1f} ms  {share:7.3%}, at most {ALLOWED:.0%} allowed")
    return int(share > ALLOWED)


if __name__ == "__main__":
    raise SystemExit(main())
