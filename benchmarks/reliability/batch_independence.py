"""Check whether a run's numbers depend on the other runs of its program, by digests of one run.

    python -m benchmarks.reliability.batch_independence [TASK ...]

The same run (seed 0) is trained in programs of several sizes, in different slots and together with different runs.
Compare digests of one machine only: other processors round differently.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from geodesic.runtime import configure_process

configure_process()

from geodesic.runs import run  # noqa: E402
from geodesic.training.configure import configure  # noqa: E402

TASKS = {"maze": (6000, -60.0), "point-mass": (12_000, 2.0), "u-maze": (19_840, -0.99)}
BATCHES = ((0,), (0, 1), (1, 0), (0, 1, 2), (1, 0, 2), (1, 2, 0), (5, 6, 0), (1, 2, 3, 0))  # seeds, by slot
TABLES = ("episodes.csv", "evaluations.csv", "stages.csv")


def digest(task: str, seeds: tuple[int, ...]) -> str:
    """A digest of seed 0's tables, after training these seeds together."""
    steps, threshold = TASKS[task]
    configs = [configure(task, "gradient:window=5", seed, steps, threshold=threshold) for seed in seeds]
    with tempfile.TemporaryDirectory() as work:
        folders = [Path(work) / str(seed) for seed in seeds]
        run.start(configs, folders).train()
        tables = b"".join((Path(work) / "0" / name).read_bytes() for name in TABLES)
    return hashlib.sha256(tables).hexdigest()[:12]


def main() -> None:
    for task in sys.argv[1:] or TASKS:
        found: dict[int, set[str]] = {}
        for seeds in BATCHES:
            found.setdefault(len(seeds), set()).add(digest(task, seeds))
        for size, digests in found.items():
            print(f"{task:<11} {size} at once: {', '.join(sorted(digests))}", flush=True)
        sizes = "equal" if len(set.union(*found.values())) == 1 else "different"
        slots = "equal" if all(len(digests) == 1 for digests in found.values()) else "different"
        print(f"{task:<11} {sizes} bytes for other sizes of program, {slots} bytes for other slots or batch members")


if __name__ == "__main__":
    main()
