"""What a sweep costs beside its runs: the wall-clock of `geodesic compare`, from start to last figure, against the
runs' own time spread over the cores.

    python -m benchmarks.sweep                   # geodesic compare maze: 18 runs of 100,000 steps in 2 processes
    python -m benchmarks.sweep --executor ray

A run's own time is what it says itself: from its first segment to its last, in the sweep. The first call compiles the
programs and is not counted. Other work on the machine falls on start-up and figures, where one core is at work, as on
training: measure on a quiet machine.
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

MOST = 1.15


def sweep(out: Path, words: list[str]) -> tuple[float, float]:
    """Seconds by the clock, and of processors."""
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
    share = sum(own) / options.cores
    print(f"{len(own)} Maze runs, {options.executor}, {options.cores} cores, load {os.getloadavg()[0]:.1f} at the end")
    print(f"  the runs' own time: {sum(own):.1f} s, {min(own):.1f} to {max(own):.1f} s each; over cores {share:.1f} s")
    print(
        f"  the sweep's wall-clock: {wall:.1f} s, {wall / share:.3f} x that (at most {MOST}); processors {used:.1f} s"
    )
    print(f"  of that, planning, tables and figures alone: {again:.1f} s")
    return int(wall / share > MOST)


if __name__ == "__main__":
    sys.exit(main())
