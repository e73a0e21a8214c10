"""A finite support as CURROT sees it: a table of distances in place of straight lines."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray, Particles
from geodesic.coupling import cheapest
from geodesic.metrics.graph import Finite


@dataclass(frozen=True, eq=False)
class Table:
    """Distances between support points, in units of the longest way from source to target."""

    metric: Finite
    source: Particles
    target: Particles

    @cached_property
    def ends(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Where on the support the source has mass, and where the target."""
        index = self.metric.index
        return index(self.source.positive().points), index(self.target.positive().points)

    @cached_property
    def distances(self) -> FloatArray:
        """All of them (n, n)."""
        longest = self.metric.distances[np.ix_(*self.ends)].max()
        return self.metric.distances / (longest if longest > 0 else 1.0)

    def between(self, points: FloatArray, others: FloatArray) -> FloatArray:
        """Distances (n, m) of points (n, d) and others (m, d)."""
        return self.distances[np.ix_(self.metric.index(points), self.metric.index(others))]

    def matched(self, points: FloatArray, others: FloatArray) -> NDArray[np.intp]:
        """For each point its own one of the others, so that the squared distances sum to the least."""
        return cheapest(self.between(points, others) ** 2)

    def estimate(self, contexts: FloatArray, returns: FloatArray, width: float) -> FloatArray:
        """The return to expect (n,) at each support point: kernel regression under these distances."""
        log_kernel = -0.5 * (self.distances[:, self.metric.index(contexts)] / width) ** 2
        kernel = np.exp(log_kernel - log_kernel.max(axis=1, keepdims=True))
        return np.asarray(kernel @ returns / kernel.sum(axis=1))

    @cached_property
    def stride(self) -> float:
        """The longest step that the way from source to target cannot do without: shorter ones do not join them."""
        from scipy.sparse.csgraph import connected_components

        ends = np.concatenate(self.ends)
        lengths = np.unique(self.distances[np.isfinite(self.distances)])

        def joined(length: float) -> bool:
            return len(np.unique(connected_components(self.distances <= length, directed=False)[1][ends])) == 1

        return float(lengths[bisect.bisect_left(lengths[:-1], True, key=joined)])

    def onward(self, points: FloatArray, goals: FloatArray, good: NDArray[np.bool_], epsilon: float) -> FloatArray:
        """For each point the good support point (n, d) nearest to its goal, at most epsilon or a stride away.

        Itself, where none is nearer to the goal. Of equally near ones the nearest to the point is taken.
        """
        here, goal = self.metric.index(points), self.metric.index(goals)
        away = self.distances[here]
        allowed = good & (away <= max(epsilon, self.stride) * (1 + 1e-9))
        left = np.where(allowed, self.distances[:, goal].T, np.inf)
        nearest = np.where(left <= left.min(axis=1, keepdims=True), away, np.inf).argmin(axis=1)
        better = left[np.arange(len(here)), nearest] < self.distances[here, goal]
        return np.asarray(self.metric.support[np.where(better, nearest, here)])
