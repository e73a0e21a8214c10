"""Time the overhead of a sweep: the wall-clock of `geodesic compare` against the training time of its runs.

    python -m benchmarks.speed.sweep                   # geodesic compare maze: 18 runs of 100,000 steps, 2 processes
    python -m benchmarks.speed.sweep --executor ray

The training time of a run is the one in its summary, from its first segment to its last. A first call compiles the
programs and is not counted. Use a quiet machine: other load also slows start-up and figures, which use one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 1.15


def sweep(out: Path, words: list[str]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a comparison."""
    command = [sys.executable, "-m", "geodesic", "compare", "maze", *words, "--quiet", "--out", str(out)]
    began, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, used


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--executor", choices=["local", "ray"], default="local")
    options = parser.parse_args()
    words = ["--executor", "ray"] if options.executor == "ray" else ["--workers", str(options.cores)]
    with tempfile.TemporaryDirectory() as work:
        sweep(Path(work) / "warm", ["--methods", "uniform,gradient", "--seeds", "1", "--steps", "1000", *words])
        wall, used = sweep(Path(work) / "sweep", ["--seeds", str(options.seeds), *words])
        again, _ = sweep(Path(work) / "sweep", ["--seeds", str(options.seeds), *words])
        own = [json.loads(path.read_text())["seconds"] for path in Path(work, "sweep").rglob("summary.json")]
    fraction = sum(own) / options.cores
    print(f"{len(own)} Maze runs, {options.executor}, {options.cores} cores, load {os.getloadavg()[0]:.1f} at the end")
    print(
        f"  training: {sum(own):.1f} s, {min(own):.1f} to {max(own):.1f} s per run; spread over cores {fraction:.1f} s"
    )
    print(f"  wall-clock: {wall:.1f} s, {wall / fraction:.3f} x that (at most {LIMIT}); CPU time {used:.1f} s")
    print(f"  planning, tables and figures alone: {again:.1f} s")
    return int(wall / fraction > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
