"""Draw the paths of E-Maze's four distances, next to the linear mixture.

    python -m benchmarks.studies.distances [--out docs/figures/e-maze-distances.png] [--moves 25]

Learned distances are fitted once, to episodes on uniform goals of an agent that earns the optimum up to some number of
moves and nothing beyond.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import geodesic as gd
from geodesic.curricula import Linear
from geodesic.metrics import LearnedMetric, Metric
from geodesic.report.contexts import interpolations
from geodesic.report.scene import Scene

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)


def known(task: gd.Task, name: str, moves: int) -> Metric:
    """The task's metric of this name; a learned one is fitted to an agent that reaches goals this many moves away."""
    metric = task.make_metric(name)
    if not isinstance(metric, LearnedMetric):
        return metric
    rng, best = np.random.default_rng(0), task.env.optimal_returns
    contexts = task.space.draw(200, rng)
    returns = best[task.space.index(contexts)]
    levels = np.unique(np.round(best[best > 0.01], 6))[::-1]  # the best return falls by one level with each move
    returns = np.where(returns >= levels[min(moves, len(levels) - 1)] - 1e-6, returns, 0.0)
    return metric.fit(gd.EpisodeBatch(contexts, returns, np.ones(200), np.zeros(200), discounted=returns), rng)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/e-maze-distances.png"))
    parser.add_argument("--moves", type=int, default=25)
    options = parser.parse_args()
    task = gd.tasks.load("e-maze")
    source, target = task.source_particles, task.target_particles
    paths = {"linear": [Linear(source, target).path(alpha) for alpha in ALPHAS]}
    for name in task.metric_names:
        path = gd.Geodesic(source, target, known(task, name, options.moves))
        row = paths[f"gradient\n{name}"] = [path(alpha) for alpha in ALPHAS]
        best = [float(step.weights @ task.env.optimal_returns[task.space.index(step.points)]) for step in row]
        away = max(task.infeasible(step) for step in row)
        print(f"{name:16} best return at each alpha {np.round(best, 2)}, at most {away:.0%} on walls")
    figure = interpolations(ALPHAS, paths, Scene.of_task(task, [source, target]), task.name)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out, dpi=80)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
