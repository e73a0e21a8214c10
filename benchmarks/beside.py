"""Whether a run's numbers depend on what trains beside it: digests of one run, alone and in programs of several.

    python -m benchmarks.beside [TASK ...]

The same run (seed 0) at every size of program, in different seats and beside different runs. On one machine: other
processors round differently.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from geodesic.runtime import ours_alone

ours_alone()

from geodesic.runs import run  # noqa: E402
from geodesic.runs.config import configure  # noqa: E402

TASKS = {"maze": (6000, -60.0), "point-mass": (12_000, 2.0), "u-maze": (19_840, -0.99)}
SEATS = ((0,), (0, 1), (1, 0), (0, 1, 2), (1, 0, 2), (1, 2, 0), (5, 6, 0), (1, 2, 3, 0))  # seeds, by seat
TABLES = ("episodes.csv", "evaluations.csv", "stages.csv")


def digest(task: str, seeds: tuple[int, ...]) -> str:
    """Of seed 0's tables, after training beside the others."""
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
        for seeds in SEATS:
            found.setdefault(len(seeds), set()).add(digest(task, seeds))
        for size, digests in found.items():
            print(f"{task:<11} {size} at once: {', '.join(sorted(digests))}", flush=True)
        alone = "the same" if len(set.union(*found.values())) == 1 else "other"
        seats = "no" if all(len(digests) == 1 for digests in found.values()) else "a"
        print(f"{task:<11} {alone} bytes in programs of other sizes; {seats} difference by seat or neighbours")


if __name__ == "__main__":
    main()
