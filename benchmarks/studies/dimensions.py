"""Measure how methods scale with the number of context dimensions: PointMass with contexts of 3 k values.

    python -m benchmarks.studies.dimensions                                            # costs only
    python -m benchmarks.studies.dimensions --steps 819200 --seeds 20 --first-seed 1000 --out runs/dimensions

For each k and method it prints the time of `init` (for gradient, with the optimal plan) and of an update that changes
the distribution, with a simulated agent that masters everything. With --steps it also trains, and prints the score and
success on the target over the last tenth of the evaluations and the curriculum's share of the time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

import geodesic as gd
from geodesic.analysis.statistics import of_seeds
from geodesic.curricula import Curriculum, Gradient
from geodesic.tasks.methods import build
from geodesic.training.configure import configure

UPDATES = 30


def cost(task: gd.Task, method: str) -> tuple[float, float]:
    """Seconds until the first distribution and the path are known, and of a change of the distribution (median)."""
    config = configure(task, method)
    rng, begin = np.random.default_rng(0), time.perf_counter()
    curriculum = build(task, config.method, config.options, config.metric, config.threshold)
    state = curriculum.init(rng)
    if isinstance(curriculum, Gradient):
        curriculum.path(0.5)
    first, spent = time.perf_counter() - begin, []
    for _ in range(UPDATES):
        begin, stage = time.perf_counter(), state.stage
        state = curriculum.update(state, mastered(curriculum, state, rng), rng)
        if state.stage > stage:
            spent.append(time.perf_counter() - begin)
    return first, statistics.median(spent) if spent else 0.0


def mastered(curriculum: Curriculum, state: gd.State, rng: np.random.Generator) -> gd.EpisodeBatch:
    """A hundred episodes with good scores, all different."""
    contexts = state.distribution.sample(rng, 100)
    returns = 8 + rng.random(100)
    return gd.EpisodeBatch(contexts, returns, np.full(100, 100), np.full(100, state.stage), discounted=returns)


def train(task: gd.Task, method: str, steps: int, seeds: range, out: Path) -> str:
    """Train, and describe the results."""
    begin = time.perf_counter()
    result = gd.train(task, method, steps=steps, seeds=seeds, out=out)
    wall = time.perf_counter() - begin
    ends = of_seeds(result.runs, task.solved_above)
    spent = [
        json.loads((folder / "summary.json").read_text())["curriculum_seconds"] for folder in result.folders.values()
    ]
    return (
        f"score {ends.finals.mean():5.2f} ± {ends.finals.std():4.2f}, success {ends.successes.mean():4.0%}, "
        f"curriculum {sum(spent):6.1f} s of {wall:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--methods", nargs="+", default=["gradient", "currot", "alp-gmm", "uniform", "target-only"])
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/dimensions"))
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for k in options.k:
        task = gd.tasks.load(f"point-mass-nd:k={k}")
        far = gd.wasserstein(task.source_particles, task.target_particles) / np.linalg.norm(task.space.sides)
        wide = np.median([right - left for left, right in map(task.env.gate, task.source_particles.points)])
        text = f"W2(source, target) is {far:.2f} diagonals, the source's gates are {wide:.1f} wide (median)"
        print(f"{task.space.dim} context values; {text}", flush=True)
        for method in options.methods:
            first, update = cost(task, method)
            line = f"  {method:12} first {1e3 * first:7.1f} ms, update {1e3 * update:6.2f} ms"
            if options.steps:
                line += "; " + train(task, method, options.steps, seeds, options.out / f"k-{k}")
            print(line, flush=True)


if __name__ == "__main__":
    main()
