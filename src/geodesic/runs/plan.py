"""A curriculum without training: the geodesic beside the linear mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geodesic.checks import FloatArray, as_all, as_share
from geodesic.contexts import Particles
from geodesic.curricula import Gradient, Linear
from geodesic.errors import InvalidInput
from geodesic.metrics.base import Recipe
from geodesic.metrics.graph import Matrix
from geodesic.tasks import Task
from geodesic.tasks.methods import resolve


@dataclass(frozen=True, eq=False)
class CurriculumPlan:
    """Distributions at each alpha by the name of their path, the length of the geodesic, and the metric it is under.

    excess: at most what the length is above the least, as a share of it.
    distances (n, n): between the support points of discrete contexts.
    """

    task: Task
    metric: str
    alphas: tuple[float, ...]
    paths: dict[str, list[Particles]]
    length: float
    excess: float
    distances: FloatArray | None

    def lines(self) -> list[str]:
        """The plan in words."""
        rows = [f"{self.task.name}: W(source, target) = {self.length:.4g} under {self.metric}, {self.precision}"]
        for alpha, there in zip(self.alphas, self.paths[self.geodesic]):
            mean = np.array2string(there.mean(), precision=2)
            rows.append(f"  alpha {alpha:<5g} mean context {mean}, infeasible {self.task.infeasible(there):.0%}")
        return rows

    @property
    def precision(self) -> str:
        if self.excess == 0:
            return "exact"
        return (
            f"at most {self.excess:.2%} above the optimum"
            if np.isfinite(self.excess)
            else "with no bound on its excess"
        )

    @property
    def geodesic(self) -> str:
        return f"gradient ({self.metric})"


def plan(task: Task, alphas: Sequence[float], metric: str | None = None) -> CurriculumPlan:
    """What gradient and linear would train on at each alpha."""
    alphas = [as_share(alpha, "alphas") for alpha in as_all(object, alphas, "alphas")]
    name = resolve(task, "gradient", metric)[2]
    chosen = task.make_metric(name)
    if isinstance(chosen, Recipe):
        raise InvalidInput(f"{name} is learned while training: there is no plan before it; try geodesic run")
    gradient = Gradient(task.source_particles, task.target_particles, metric=chosen, space=task.space)
    linear = Linear(task.source_particles, task.target_particles)
    return CurriculumPlan(
        task=task,
        metric=str(name),
        alphas=tuple(alphas),
        paths={
            "linear": [linear.path(alpha) for alpha in alphas],
            f"gradient ({name})": [gradient.path(alpha) for alpha in alphas],
        },
        length=gradient.geodesic.length,
        excess=gradient.geodesic.plan.excess,
        distances=chosen.distances if isinstance(chosen, Matrix) else None,
    )
