"""Test whether PointMass seeds fail because of the pace or because of the source: the same paces from an easy source.

    python -m benchmarks.studies.paces benchmarks/studies/easy_source.py:task --steps 800000 --goal 80 --seeds 20 \\
      --first-seed 1000 --methods gradient:pace=adaptive,gradient:pace=particles,gradient,currot

The paper's source has narrow and off-centre gates among its wide ones. In `task` every gate is at least 6 wide and at
most 1.5 off the centre, so a mass that falls straight down passes all of them. Everything else is PointMass.

A mass pressed against the lower edge of the arena, one unit below the goal, earns about 49 and never reaches the goal.
How many seeds rest there, if they train on the source alone or on its easiest context alone, over the steps:

    geodesic compare benchmarks/studies/easy_source.py:source_alone --methods target-only --seeds 20 --out runs/alone
    python -m benchmarks.studies.easy_source runs/alone

A seed is at rest if its last ten evaluations, on the contexts it trains on, are above PointMass's threshold of 40 on
average and contain no success.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

import geodesic as gd
from geodesic.records.reader import RunResult, by_label, load_comparison

EVALUATIONS = 10
EASIEST = [[0.0, 8.0]]  # gate position, width

point_mass = gd.tasks.load("point-mass")
task = replace(
    point_mass,
    source={"gate_position": (-1.5, 1.5), "gate_width": (6.0, 8.0)},
    source_moments=None,
    name="point-mass-easy-source",
    reference=None,
)
source_alone = replace(
    point_mass, target=point_mass.env.source, target_moments=None, name="point-mass-source", reference=None
)
easiest_alone = replace(
    point_mass, target=gd.Particles(EASIEST), target_moments=None, name="point-mass-easiest", reference=None
)


def rests(run: RunResult, step: int) -> bool:
    """Whether the run is at rest at the edge by this step."""
    known = np.flatnonzero(run.evaluations.steps <= step)[-EVALUATIONS:]
    scores, successes = run.evaluations.scores[known], run.evaluations.successes[known]
    return bool(scores.mean() > run.threshold and not successes.any())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=50_000)
    options = parser.parse_args()
    for label, runs in by_label(load_comparison(options.folder)).items():
        reached = min(int(run.evaluations.steps[-1]) for run in runs)
        print(f"{options.folder}, {label}: seeds at rest at the edge, of {len(runs)}")
        for step in range(options.every, reached + 1, options.every):
            print(f"  {step:7d} steps: {sum(rests(run, step) for run in runs)}")


if __name__ == "__main__":
    main()
