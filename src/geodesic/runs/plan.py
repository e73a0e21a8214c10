"""A curriculum without training: the geodesic beside the linear mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from geodesic.checks import FloatArray, as_fraction, check_instances
from geodesic.contexts import Particles
from geodesic.curricula import Gradient, Linear
from geodesic.errors import InvalidInput, some
from geodesic.metrics.base import LearnedMetric
from geodesic.metrics.graph import Matrix
from geodesic.metrics.standard import Maker
from geodesic.tasks import Task
from geodesic.tasks.methods import resolve
from geodesic.transport.displacement import displacement, is_jump
from geodesic.transport.geodesic import Geodesic

EXAMPLES = 3  # atoms that stand for a geodesic


@dataclass(frozen=True, eq=False)
class CurriculumPlan:
    """A curriculum that needs no training: the distributions on the way from source to target.

    Args:
        task: The task.
        metric: The name of the metric.
        alphas: The fractions of the way.
        paths: The distributions at each of them, by the name of their path.
        length: The length of the geodesic.
        excess: A bound on how far the length is above the least, as a fraction of it.
        distances: Those between the support points (n, n) of discrete contexts.
        hops: How far contexts move to each alpha from the one before, in diagonals of the context space.
        left: How far they are from the target there, likewise.
        jump: The alpha that the path jumps to over contexts that are not trained on; None: it does not jump.
        examples: The contexts (k, alphas, d) of a few atoms of the geodesic, to different points of the target.
    """

    task: Task
    metric: str
    alphas: tuple[float, ...]
    paths: dict[str, list[Particles]]
    length: float
    excess: float
    distances: FloatArray | None
    hops: tuple[float, ...]
    left: tuple[float, ...]
    jump: float | None
    examples: FloatArray

    def lines(self) -> list[str]:
        """The plan in words."""
        precision = "exact"
        if self.excess:
            bounded = np.isfinite(self.excess)
            precision = f"at most {self.excess:.2%} above the optimum" if bounded else "with no bound on its excess"
        rows = [f"{self.task.name}: W(source, target) = {self.length:.4g} under {self.metric}, {precision}"]
        for alpha, there, hop, left in zip(self.alphas, self.paths[self.geodesic], self.hops, self.left):
            mean = np.array2string(there.mean(), precision=2)
            if (space := self.task.space).mixed:
                means = zip(space.relaxed.names, there.weights @ space.relax(there.points))
                mean = some([f"{name} {value:.3g}" for name, value in means])
            moved = f"moved {hop:.2f}, {left:.2f} from the target"
            rows.append(
                f"  alpha {alpha:<5g} mean context {mean}, infeasible {self.task.infeasible(there):.0%}, {moved}"
            )
        rows.append(f"  the largest move is {max(self.hops):.2f}; distances are in diagonals of the context space")
        if self.jump is not None:
            rows.append(f"  warning: the path jumps to alpha {self.jump:g}; try another metric")
        return rows

    @property
    def geodesic(self) -> str:
        """The name of the geodesic's path."""
        return f"gradient ({self.metric})"


def plan(task: Task, alphas: Sequence[float], metric: str | Maker | None = None) -> CurriculumPlan:
    """What gradient and linear would train on at each alpha."""
    alphas = [as_fraction(alpha, "alphas") for alpha in check_instances(object, alphas, "alphas")]
    name = resolve(task, "gradient", metric)[2]
    chosen = task.make_metric(name if metric is None else metric)
    if isinstance(chosen, LearnedMetric):
        raise InvalidInput(f"{name} is learned while training, so it cannot be planned with; try geodesic run")
    gradient = Gradient(task.source_particles, task.target_particles, metric=chosen, space=task.space)
    linear = Linear(task.source_particles, task.target_particles)
    curricula = {"linear": linear, f"gradient ({name})": gradient}
    paths = {label: [curriculum.path(alpha) for alpha in alphas] for label, curriculum in curricula.items()}
    distances = chosen.distances if isinstance(chosen, Matrix) else None
    geodesic, there = gradient.geodesic, paths[f"gradient ({name})"]
    places = [gradient.source, *there]
    hops = [displacement(a, b, gradient.box) for a, b in pairwise(places)]
    left = [displacement(each, gradient.target, gradient.box) for each in there]
    steps = np.abs(np.diff([0.0, *alphas])).tolist()
    jumps = [alpha for alpha, hop, step in zip(alphas, hops, steps) if is_jump(hop, step, gradient.length)]
    return CurriculumPlan(
        task,
        str(name),
        tuple(alphas),
        paths,
        geodesic.length,
        geodesic.plan.excess,
        distances,
        tuple(hops),
        tuple(left),
        jumps[0] if jumps else None,
        _examples(geodesic, alphas),
    )


def _examples(geodesic: Geodesic, alphas: Sequence[float]) -> FloatArray:
    """The contexts (k, alphas, d) of a few atoms: of each, the part with most of its mass."""
    atoms = np.unique(geodesic.plan.cols, return_index=True)[1][:EXAMPLES]
    x, y = (end[atoms] for end in geodesic.ends)
    places = []
    for alpha in alphas:
        points, fractions = geodesic.metric.interpolate(x, y, alpha)
        places.append(points[np.arange(len(atoms)), fractions.argmax(axis=1)])
    return np.stack(places, axis=1)
