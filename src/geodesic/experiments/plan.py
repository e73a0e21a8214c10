"""Drawing a curriculum without training: the geodesic beside the linear mixture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from geodesic import envs
from geodesic.curricula import Gradient, Linear
from geodesic.errors import InvalidInput
from geodesic.experiments.config import LEARNED_METRICS, configure, problem_of
from geodesic.metrics.graph import Matrix


def draw_plan(env: str, alphas: Sequence[float], metric: str | None, out: Path | None) -> list[str]:
    """Write the plan's figures; the lines that tell of it."""
    from geodesic.report.figures import write_plan_figures

    config = configure(env, metric=metric)
    if config.metric in LEARNED_METRICS:
        raise InvalidInput(f"{config.metric} is learned while training: there is no plan before it; try geodesic run")
    mdp = envs.make(env)
    problem = problem_of(config, mdp)
    gradient = Gradient(problem.source, problem.target, metric=problem.metric)
    linear = Linear(problem.source, problem.target)
    geodesic = [gradient.distribution(alpha) for alpha in alphas]
    drawn = {"linear": [linear.distribution(alpha) for alpha in alphas], f"gradient ({config.metric})": geodesic}
    distances = problem.metric.distances if isinstance(problem.metric, Matrix) else None
    written = write_plan_figures(out or Path("runs") / env / "plan", env, alphas, drawn, distances, config.metric)
    lines = [f"{env}: W(source, target) = {gradient.path.length:.4g} under {config.metric}"]
    for alpha, held in zip(alphas, geodesic):
        infeasible = float(held.weights @ ~mdp.is_feasible(held.points))
        mean = np.array2string(held.mean(), precision=2)
        lines.append(f"  alpha {alpha:<5g} mean context {mean}, infeasible {infeasible:.0%}")
    return lines + [f"  wrote {path}" for path in written]
