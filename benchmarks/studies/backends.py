"""Compare two backends with the same curriculum on the same seeds: does our learner learn like the paper's?

    python -m benchmarks.studies.backends                                # point-mass, gradient, jax and sb3, 5 seeds
    python -m benchmarks.studies.backends --task maze --steps 20000

Each backend has a separate comparison under --out, which is trained if it is missing. For the smoothed evaluations on
the target it prints the medians over seeds with their 95 % intervals (for five seeds: the range), at how many
evaluations the intervals overlap, and at how many the probability that one backend is better does not differ
significantly from 1/2.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np

from geodesic.analysis.curves import aligned
from geodesic.analysis.intervals import MEDIAN_SEEDS, median_interval, probability_of_improvement
from geodesic.analysis.statistics import WINDOW
from geodesic.checks import FloatArray, IntArray
from geodesic.records import RunResult, load_comparison
from geodesic.report.curves import learning_curves
from geodesic.report.style import save

ROWS = 10  # of the table


def trained(options: argparse.Namespace, backend: str) -> list[RunResult]:
    """Train the runs of one backend that are not finished, and load all of them."""
    out = options.out / backend
    words = ["--methods", options.method, "--seeds", str(options.seeds), "--first-seed", str(options.first_seed)]
    words += ["--workers", str(options.workers), "--backend", backend, "--quiet", "--out", str(out)]
    words += ["--steps", str(options.steps)] if options.steps else []
    command = [sys.executable, "-m", "geodesic", "compare", options.task, *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [
        dataclasses.replace(run, config=run.config.replace(label=f"{run.label}, {backend}"))
        for run in load_comparison(out)
    ]


def align(runs: list[list[RunResult]]) -> tuple[IntArray, FloatArray, FloatArray]:
    """Steps (n,) at which both backends have evaluations, and their smoothed evaluations (seeds, n)."""
    (steps, first), (others, second) = (aligned(group, "scores", WINDOW) for group in runs)
    steps, ours = steps[steps <= others[-1]], first[:, steps <= others[-1]]
    return steps, ours, np.stack([np.interp(steps, others, row) for row in second])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="point-mass")
    parser.add_argument("--method", default="gradient")
    parser.add_argument("--backends", nargs=2, default=["jax", "sb3"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/backends"))
    options = parser.parse_args()
    if options.seeds < MEDIAN_SEEDS:
        parser.error(f"expected at least {MEDIAN_SEEDS} seeds, for intervals, got {options.seeds}")
    runs = [trained(options, backend) for backend in options.backends]
    steps, ours, theirs = align(runs)
    (low, high), (their_low, their_high) = median_interval(ours), median_interval(theirs)
    overlap = (low <= their_high) & (their_low <= high)
    chances = [probability_of_improvement(a, b) for a, b in zip(ours.T, theirs.T)]
    similar = np.array([chance.low <= 0.5 <= chance.high for chance in chances])
    print(f"{options.task}, {options.method}, {options.seeds} seeds: median and interval of the smoothed target score")
    for k in np.linspace(0, len(steps) - 1, min(ROWS, len(steps))).astype(int):
        first, second = np.median(ours[:, k]), np.median(theirs[:, k])
        print(
            f"  {steps[k]:>8}  {options.backends[0]} {first:7.1f} [{low[k]:6.1f}, {high[k]:6.1f}]   "
            f"{options.backends[1]} {second:7.1f} [{their_low[k]:6.1f}, {their_high[k]:6.1f}]"
        )
    print(f"intervals overlap at {overlap.sum()} of {len(steps)} evaluations")
    print(f"P({options.backends[0]} better) does not differ significantly from 0.5 at {similar.sum()} of {len(steps)}")
    print(save(learning_curves([run for group in runs for run in group]), options.out / "backends.png"))
    return int(not overlap.all())


if __name__ == "__main__":
    raise SystemExit(main())
