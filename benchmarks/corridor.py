"""What sparse-goal curricula teach of what is asked for, strict goals within reach, and how their agents fare there.

    python -m benchmarks.corridor runs/sparse-goal/compare/runs/*/seed-1000 --at 700000 1490000
    python -m benchmarks.corridor runs/sparse-goal/compare/runs/*/seed-1000 --agents

Of the contexts that a run trains on at a step: the share of strict ones, of those in the corridor, and of both. With
--agents, of the agent in its latest checkpoint, on goals of the evaluation: its success as it explores, which is what
the evaluations are of, and as it acts at its best; the same goals on the two sides of the square at the start, and on
the two beyond; and how near it came where it failed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from geodesic.contexts import FloatArray
from geodesic.envs.sparse_goal import HOLE, SparseGoal, stands
from geodesic.records.reader import load_run
from geodesic.runs.run import load_policy

STRICT = 0.1  # twice the target's tolerance: as good as there
GOALS = 400


def taught(folder: Path, steps: list[int]) -> None:
    run = load_run(folder)
    for step in steps:
        here = [stage.particles for stage in run.curriculum if stage.step <= step][-1]
        strict, there = here.points[:, 2] < STRICT, stands(here.points)
        shares = [float(here.weights @ held) for held in (strict, there, strict & there)]
        told = "strict {:4.0%}, in the corridor {:4.0%}, both {:4.0%}".format(*shares)
        print(f"{run.label}, seed {run.seed}, step {step}: {told}")


def played(folder: Path) -> None:
    env = gym.make("geodesic/SparseGoal-v0")
    goals = SparseGoal().evaluation(np.random.default_rng(0)).points[:GOALS]
    beyond = (goals[:, :2] > HOLE).any(axis=1)
    print(f"{folder}: {len(goals)} goals, {beyond.mean():.0%} of them beyond the square")
    for stochastic in (True, False):
        policy = load_policy(folder, stochastic=stochastic)
        missed = np.array([nearest(env, policy, goal, seed) for seed, goal in enumerate(goals)])
        good = missed == 0
        shares = good.mean(), good[~beyond].mean(), good[beyond].mean()
        told = "success {:4.0%}, on this side {:4.0%}, beyond {:4.0%}".format(*shares)
        if not good.all():
            low, middle, high = np.quantile(missed[~good], (0.25, 0.5, 0.75))
            told += f"; missed by {middle:.2f} at the median, quartiles {low:.2f} and {high:.2f}"
        print(f"  {'exploring' if stochastic else 'at its best'}: {told}")


def nearest(env: Any, policy: Any, goal: FloatArray, seed: int) -> float:
    """How near an episode came to its goal; 0 where it got there."""
    obs, _ = env.reset(seed=seed, options={"context": goal})
    distance, ended = np.inf, False
    while not ended:
        obs, _, terminated, truncated, info = env.step(policy(obs))
        distance, ended = min(distance, float(np.linalg.norm(obs[:2] - goal[:2]))), terminated or truncated
    return 0.0 if info["is_success"] else distance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--at", nargs="+", type=int, default=[300_000, 700_000])
    parser.add_argument("--agents", action="store_true")
    options = parser.parse_args()
    for folder in options.folders:
        if options.agents:
            played(folder)
        else:
            taught(folder, options.at)


if __name__ == "__main__":
    main()
