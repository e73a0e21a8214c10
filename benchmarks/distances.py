"""E-Maze's four distances side by side: where gradient would train under each, beside the linear mixture.

The policy's returns are those of an agent that earns the optimum up to some number of moves and nothing beyond, in
episodes on uniform goals: a path under them is one refit's, of the many that a run makes.

    python -m benchmarks.distances [--out docs/figures/e-maze-distances.png] [--moves 25]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import geodesic as gd
from geodesic.curricula import Linear
from geodesic.metrics import Metric, Recipe
from geodesic.report.contexts import interpolations
from geodesic.report.scene import Scene

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)


def known(task: gd.Task, name: str, moves: int) -> Metric:
    """The task's metric of this name; a recipe's, fitted to an agent that knows goals up to so many moves away."""
    metric = task.make_metric(name)
    if not isinstance(metric, Recipe):
        return metric
    rng, best = np.random.default_rng(0), task.env.optimal_returns
    contexts = task.space.draw(200, rng)
    returns = best[task.space.index(contexts)]
    levels = np.unique(np.round(best[best > 0.01], 6))[::-1]  # the best return falls by one level with each move
    returns = np.where(returns >= levels[min(moves, len(levels) - 1)] - 1e-6, returns, 0.0)
    return metric.fit(gd.Episodes(contexts, returns, np.ones(200), np.zeros(200)), rng)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/e-maze-distances.png"))
    parser.add_argument("--moves", type=int, default=25)
    asked = parser.parse_args()
    task = gd.tasks.load("e-maze")
    source, target = task.source_particles, task.target_particles
    paths = {"linear": [Linear(source, target).path(alpha) for alpha in ALPHAS]}
    for name in task.metric_names:
        path = gd.Geodesic(source, target, known(task, name, asked.moves))
        row = paths[f"gradient\n{name}"] = [path(alpha) for alpha in ALPHAS]
        best = [float(there.weights @ task.env.optimal_returns[task.space.index(there.points)]) for there in row]
        away = max(task.infeasible(there) for there in row)
        print(f"{name:16} best return at each alpha {np.round(best, 2)}, at most {away:.0%} on walls")
    figure = interpolations(ALPHAS, paths, Scene.of_task(task, [source, target]), task.name)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(asked.out, dpi=80)
    print(f"wrote {asked.out}")


if __name__ == "__main__":
    main()
