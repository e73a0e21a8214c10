"""The path that a run's stages took through the context space, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from geodesic.checks import FloatArray, as_a
from geodesic.records.reader import RunResult
from geodesic.records.stages import StageDistribution
from geodesic.transport import wasserstein


@dataclass(frozen=True, eq=False)
class StagePath:
    """Arrays (n,), one value per stage of the path.

    feasible: share of the stage's mass on contexts that can be solved; lengths: Euclidean W2 travelled since the first
    stage; speeds: W2 from the stage before, per unit of alpha, NaN for the first.
    """

    alphas: FloatArray
    feasible: FloatArray
    lengths: FloatArray
    speeds: FloatArray


def stage_path(run: RunResult) -> StagePath:
    """Feasible share, length and speed of a run's path. All metrics are measured alike, in context units."""
    stages = path_stages(run)
    alphas = np.array([stage.alpha for stage in stages])
    hops = np.array([wasserstein(a.particles, b.particles) for a, b in pairwise(stages)])
    gaps = np.diff(alphas)
    speeds = np.divide(hops, gaps, out=np.full(len(hops), np.nan), where=gaps > 0)
    return StagePath(
        alphas=alphas,
        feasible=_feasible(run, stages),
        lengths=np.concatenate([np.zeros(min(1, len(stages))), np.cumsum(hops)]),
        speeds=np.concatenate([np.full(min(1, len(stages)), np.nan), speeds]),
    )


def path_stages(run: RunResult) -> list[StageDistribution]:
    """The stages on the way to the target, without those that explored uniform contexts for a metric."""
    explored = as_a(RunResult, run, "run").explored
    return [stage for stage in run.curriculum if stage.stage not in explored]


def _feasible(run: RunResult, stages: Sequence[StageDistribution]) -> FloatArray:
    infeasible = dict(zip(run.stages.stages.tolist(), run.stages.infeasible.tolist()))
    return np.array([1.0 - infeasible.get(stage.stage, np.nan) for stage in stages])
