"""GRADIENT: the curriculum along the Wasserstein geodesic (Huang et al., NeurIPS 2022, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from geodesic.curricula.staged import Staged
from geodesic.distributions import Particles
from geodesic.metrics.base import Metric
from geodesic.transport.geodesic import Geodesic


@dataclass(frozen=True)
class Gradient(Staged):
    """Stages path(0), path(step), ..., path(1) of the geodesic from source to target under a metric.

    The paper solves a barycenter anew at every stage. Here one optimal plan is solved once, and each stage reads its
    alpha off it. Without a metric, contexts are compared by their Euclidean distance.
    """

    metric: Metric | None = None

    @cached_property
    def path(self) -> Geodesic:
        return Geodesic(self.source, self.target, self.metric)

    def distribution(self, alpha: float) -> Particles:
        return self.path(alpha)
