"""The path of a run's stages through the context space."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from geodesic.checks import FloatArray, check_instance, optional
from geodesic.contexts import ContextSpace, Particles
from geodesic.records.reader import RunResult
from geodesic.records.schema import StageDistribution
from geodesic.transport import wasserstein


@dataclass(frozen=True, eq=False)
class StagePath:
    """Properties of each stage of a path.

    Args:
        alphas: The progress alpha (n,) of each stage.
        feasible: The fraction (n,) of its mass on feasible contexts.
        lengths: The Euclidean W2 length (n,) of the path up to it; categories are one-hot.
        speeds: W2 from the previous stage, per unit of alpha (n,); NaN for the first.
    """

    alphas: FloatArray
    feasible: FloatArray
    lengths: FloatArray
    speeds: FloatArray


def stage_path(run: RunResult, space: ContextSpace | None = None) -> StagePath:
    """Compute the feasible fraction, length and speed of a run's path, in context units whatever its metric.

    Args:
        run: The run.
        space: The context space (default: a box).

    Returns:
        One array per property.
    """
    optional(ContextSpace)(space, "space")
    stages = path_stages(run)
    alphas = np.array([stage.alpha for stage in stages])
    places = [stage.particles for stage in stages]
    if space is not None:
        places = [Particles(space.relax(each.points), each.weights) for each in places]
    hops = np.array([wasserstein(a, b) for a, b in pairwise(places)])
    gaps = np.diff(alphas)
    infeasible = dict(zip(run.stages.stages.tolist(), run.stages.infeasible.tolist()))
    speeds = np.divide(hops, gaps, out=np.full(len(hops), np.nan), where=gaps > 0)
    feasible = np.array([1.0 - infeasible.get(stage.stage, np.nan) for stage in stages])
    lengths, speeds = np.cumsum([0.0, *hops]), np.concatenate([[np.nan], speeds])
    return StagePath(alphas, feasible, lengths[: len(stages)], speeds[: len(stages)])


def path_stages(run: RunResult) -> list[StageDistribution]:
    """List a run's stages on the way to the target, without those that explored uniform contexts for a metric."""
    explored = check_instance(RunResult, run, "run").explored
    return [stage for stage in run.curriculum if stage.stage not in explored]
