"""Time the contextual distance of random chains by the number of states, and check it against a plain reference.

A state leads to `--successors` others, so n states have n (n - 1) / 2 transport problems per round. The reference
solves every pair from scratch in every round and evaluates by plain sweeps; it is timed up to `--reference` states. CPU
seconds are those of the process; on a busy machine they vary less than wall-clock.

    python -m benchmarks.speed.contextual [--states 200,500,1000,2000] [--gamma 0.9] [--successors 4] [--reference 200]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

from geodesic.coupling.pairwise import pairwise_plans
from geodesic.metrics.bisimulation import state_distance


def chain(n: int, successors: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw a random chain: rewards (n,) and probabilities (n, n)."""
    steps = np.zeros((n, n))
    for x in range(n):
        steps[x, rng.choice(n, successors, replace=False)] = rng.dirichlet(np.ones(successors))
    return rng.normal(size=n), steps


def reference(rewards: np.ndarray, steps: np.ndarray, gamma: float) -> np.ndarray:
    """Compute the distance by policy iteration on couplings, solving all of them from scratch in every round."""
    n = len(rewards)
    values = np.linalg.solve(np.eye(n) - gamma * steps, rewards)
    distances, gap = (squareform(np.abs(v[:, None] - v), checks=False) for v in (values, rewards))
    column = squareform(np.arange(len(gap))).astype(int)
    while True:
        plans = pairwise_plans(steps, squareform(distances))
        low, high, mass = (np.concatenate(part) for part in zip(*plans))
        ends = np.cumsum([0, *(len(plan[2]) for plan in plans)])
        means = csr_array((np.where(low == high, 0, mass), column[low, high], ends), shape=(len(gap), len(gap)))
        if np.abs(gap + gamma * (means @ distances) - distances).max() <= 1e-10 * (1 - gamma) * gap.max():
            return squareform(distances)
        for _ in range(int(np.log(1e-14) / np.log(gamma))):
            distances = gap + gamma * (means @ distances)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", default="200,500,1000,2000")
    parser.add_argument("--gamma", type=float, default=0.9)
    parser.add_argument("--successors", type=int, default=4)
    parser.add_argument("--reference", type=int, default=200)
    options = parser.parse_args()
    for n in (int(part) for part in options.states.split(",")):
        rewards, steps = chain(n, options.successors, np.random.default_rng(0))
        wall, cpu = time.perf_counter(), time.process_time()
        ours = state_distance(rewards, steps, options.gamma)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        line = f"{n:5d} states: {wall:7.2f} s, {cpu:7.2f} s of CPU"
        if n <= options.reference:
            start = time.process_time()
            other = reference(rewards, steps, options.gamma)
            line += f"; reference {time.process_time() - start:.2f} s of CPU"
            line += f", largest difference {np.abs(ours - other).max():.1e}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
