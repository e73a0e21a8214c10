"""Show how much sparse-goal curricula train on goals like the target's, and how their agents do on them.

    python -m benchmarks.studies.corridor runs/sparse-goal/compare/runs/*/seed-1000 --at 700000 1490000
    python -m benchmarks.studies.corridor runs/sparse-goal/compare/runs/*/seed-1000 --agents

For the contexts that a run trains on at a step, it prints the fraction of strict ones, of those in the corridor, and of
both. With --agents it plays the agent of the latest checkpoint on goals of the evaluation and prints its success, with
the stochastic policy (which evaluations use) and the deterministic one: in total, for goals on the two sides of the
square near the start, for goals on the two sides beyond, and the smallest distance to the goals that were missed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from geodesic.contexts import FloatArray
from geodesic.envs.sparse_goal import HOLE, SparseGoal, in_corridor
from geodesic.records.reader import load_run
from geodesic.runs.run import load_policy

STRICT = 0.1  # tolerance: twice the target's
GOALS = 400


def print_contexts(folder: Path, steps: list[int]) -> None:
    """Print which contexts a run trains on at these steps."""
    run = load_run(folder)
    for step in steps:
        particles = [stage.particles for stage in run.curriculum if stage.step <= step][-1]
        strict, reachable = particles.points[:, 2] < STRICT, in_corridor(particles.points)
        fractions = [float(particles.weights @ mask) for mask in (strict, reachable, strict & reachable)]
        text = "strict {:4.0%}, in the corridor {:4.0%}, both {:4.0%}".format(*fractions)
        print(f"{run.label}, seed {run.seed}, step {step}: {text}")


def print_agent(folder: Path) -> None:
    """Print how the agent of a run does on the evaluation's goals."""
    env = gym.make("geodesic/SparseGoal-v0")
    goals = SparseGoal().evaluation(np.random.default_rng(0)).points[:GOALS]
    beyond = (goals[:, :2] > HOLE).any(axis=1)
    print(f"{folder}: {len(goals)} goals, {beyond.mean():.0%} of them beyond the square")
    for stochastic in (True, False):
        policy = load_policy(folder, stochastic=stochastic)
        missed = np.array([nearest(env, policy, goal, seed) for seed, goal in enumerate(goals)])
        good = missed == 0
        fractions = good.mean(), good[~beyond].mean(), good[beyond].mean()
        text = "success {:4.0%}, near sides {:4.0%}, far sides {:4.0%}".format(*fractions)
        if not good.all():
            low, middle, high = np.quantile(missed[~good], (0.25, 0.5, 0.75))
            text += f"; missed by {middle:.2f} at the median, quartiles {low:.2f} and {high:.2f}"
        print(f"  {'stochastic' if stochastic else 'deterministic'}: {text}")


def nearest(env: Any, policy: Any, goal: FloatArray, seed: int) -> float:
    """The smallest distance to the goal in an episode; 0 if it was reached."""
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
            print_agent(folder)
        else:
            print_contexts(folder, options.at)


if __name__ == "__main__":
    main()
