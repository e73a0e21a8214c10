"""Test whether U-Maze's path from source to target goes around the wall, for each metric, with the true return.

    python -m benchmarks.studies.detour [--seeds 3]

The return is 1 - 0.01 steps along the shortest path to a feasible goal, and -1 for a goal inside the wall. It prints
the fraction of feasible goals at several alphas, and the speed deviation: the largest deviation of a quarter's length,
measured by the metric, from a quarter of the whole.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np

from geodesic.contexts import Particles
from geodesic.envs.u_maze import UMaze, nearest_free, path_length
from geodesic.metrics.base import Euclidean, Metric
from geodesic.metrics.embedding import Embedding, Latent
from geodesic.metrics.returns import LiftedGraph, ReturnModel, return_differences
from geodesic.transport.geodesic import Geodesic, wasserstein

ENV = UMaze()
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
BETA = 5.0 / 1.5  # as the curriculum sets it for a threshold of 0.5 and a worst return of -1


def oracle(goals: np.ndarray) -> np.ndarray:
    """The true returns (n,) of goals (n, 2)."""
    feasible = ENV.is_feasible(goals)
    lengths = path_length(np.zeros_like(goals), nearest_free(goals))
    return np.where(feasible, 1 - 0.01 * np.ceil(np.where(feasible, lengths, 0.0)), -1.0)


def metrics(source: Particles, target: Particles, rng: np.random.Generator) -> dict[str, Metric]:
    """Each metric on the true return, and on a Gaussian process fitted to it at 200 uniform goals."""
    space = ENV.context_space
    anchors = np.concatenate([source.points, target.points])
    contexts = space.uniform(500, rng).points
    seen = space.uniform(200, rng).points
    model = ReturnModel(seen, oracle(seen), space, ENV.worst_return)

    def embedded(returns: object, squared: bool = False) -> Latent:
        distances = return_differences(returns, contexts)
        return Embedding(space, ENV.worst_return, squared=squared).embed(contexts, distances, rng)

    return {
        "l2": Euclidean(),
        "return-lift": LiftedGraph(oracle, space, anchors, BETA),
        "return-lift (GP)": LiftedGraph(model, space, anchors, BETA),
        "embedding": embedded(oracle),
        "embedding (GP)": embedded(model),
        "embedding (GP, squared)": embedded(model, squared=True),
    }


def evaluate(source: Particles, target: Particles, metric: Metric) -> list[float]:
    """Feasible fractions at each alpha, and the speed deviation."""
    path = Geodesic(source, target, metric)
    stages = [path(alpha).merged() for alpha in ALPHAS]
    p = 1 if isinstance(metric, LiftedGraph) else 2
    hops = np.array([wasserstein(a, b, metric, p=p) for a, b in pairwise(stages)])
    speed = np.abs(hops / (path.length / 4) - 1).max()
    return [*(float(stage.weights @ ENV.is_feasible(stage.points)) for stage in stages), speed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    rows: dict[str, list[list[float]]] = {}
    for seed in range(parser.parse_args().seeds):
        rng = np.random.default_rng(seed)
        source, target = ENV.source(rng), ENV.target(rng)
        for name, metric in metrics(source, target, rng).items():
            rows.setdefault(name, []).append(evaluate(source, target, metric))
    heads = (*(f"alpha {alpha:g}" for alpha in ALPHAS), "speed dev.")
    print(f"{'feasible %, mean (lowest)':26s}" + "".join(f"{head:>14s}" for head in heads))
    for name, values in rows.items():
        table = 100 * np.array(values)
        cells = [f"{column.mean():.1f} ({column.min():.0f})" for column in table.T[:-1]]
        print(f"{name:26s}" + "".join(f"{cell:>14s}" for cell in [*cells, f"{table[:, -1].max():.1f} %"]))


if __name__ == "__main__":
    main()
