"""What a sweep costs beside its runs: the wall-clock of `geodesic compare`, from start to last figure, against the
runs' own time spread over the cores.

    python -m benchmarks.sweep                   # 12 Maze runs of 100,000 steps in 2 processes
    python -m benchmarks.sweep --executor ray

A run's own time is what it says itself: from its first segment to its last, in the sweep. The first call compiles the
programs and is not counted. Other work on the machine falls on both sides of the ratio, start-up and figures more than
training: measure on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST = 1.15


def sweep(out: Path, steps: int, seeds: int, words: list[str]) -> float:
    budget = ["--methods", "gradient,uniform,target-only", "--seeds", str(seeds), "--steps", str(steps), "--quiet"]
    command = [sys.executable, "-m", "geodesic.cli", "compare", "maze", *budget, *words, "--out", str(out)]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--executor", choices=["local", "ray"], default="local")
    options = parser.parse_args()
    words = ["--executor", "ray"] if options.executor == "ray" else ["--workers", str(options.cores)]
    with tempfile.TemporaryDirectory() as work:
        sweep(Path(work) / "warm", 1000, 1, words)
        wall = sweep(Path(work) / "sweep", options.steps, options.seeds, words)
        own = [json.loads(path.read_text())["seconds"] for path in Path(work, "sweep").rglob("summary.json")]
    share = sum(own) / options.cores
    print(f"{len(own)} Maze runs of {options.steps} steps, {options.executor}, {options.cores} cores")
    print(f"  the runs' own time: {sum(own):.1f} s, {min(own):.1f} to {max(own):.1f} s each; over cores {share:.1f} s")
    print(f"  the sweep's wall-clock: {wall:.1f} s, {wall / share:.3f} x that (at most {MOST})")
    return int(wall / share > MOST)


if __name__ == "__main__":
    sys.exit(main())
