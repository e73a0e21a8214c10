"""How much of a sparse-goal curriculum teaches what the evaluation asks for: strict goals where the point can stand.

    python -m benchmarks.corridor runs/sparse-goal/compare/runs/*/seed-1000 --at 700000 1490000

Of the contexts that a run trains on at a step: the share of strict ones, of those in the corridor, and of both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from geodesic.envs.sparse_goal import stands
from geodesic.records.reader import load_run

STRICT = 0.1  # twice the target's tolerance: as good as there


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--at", nargs="+", type=int, default=[300_000, 700_000])
    options = parser.parse_args()
    for folder in options.folders:
        run = load_run(folder)
        for step in options.at:
            here = [stage.particles for stage in run.curriculum if stage.step <= step][-1]
            strict, there = here.points[:, 2] < STRICT, stands(here.points)
            shares = [float(here.weights @ held) for held in (strict, there, strict & there)]
            told = "strict {:4.0%}, in the corridor {:4.0%}, both {:4.0%}".format(*shares)
            print(f"{run.label}, seed {run.seed}, step {step}: {told}")


if __name__ == "__main__":
    main()
