"""The Wasserstein geodesic between two distributions, from one optimal plan."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from geodesic.checks import FloatArray, as_a, as_share, is_number
from geodesic.contexts import Particles
from geodesic.coupling import Plan, as_costs, as_table, exact_plan, partitioned_plan, shortest_hops, sorted_plan, unit
from geodesic.errors import InvalidInput, shown
from geodesic.metrics.base import Discrete, Flat, Metric, as_metric
from geodesic.metrics.euclidean import Euclidean

HIGHEST = 500  # power of a distance: those of numbers up to 2 are numbers
EXACT_SIZE = 2000  # points a side up to which the plan is exact


def wasserstein(a: Particles, b: Particles, metric: Metric | None = None, p: float = 2) -> float:
    """W_p(a, b) = (min_P sum_ij P_ij d(x_i, y_j)^p)^(1/p), exact."""
    check_ends(a, b, metric)
    if not is_number(p) or not 1 <= p <= HIGHEST:
        most = f" and up to {HIGHEST}" if is_number(p) and p > HIGHEST else ""
        raise InvalidInput(f"expected p >= 1{most}, got {shown(p)}")
    metric = Euclidean() if metric is None else metric
    if isinstance(metric, Euclidean) and a.dim == 1:
        x, y = metric.coordinates(a.points)[:, 0], metric.coordinates(b.points)[:, 0]
        plan = sorted_plan(x, y, a.weights, b.weights)
        distances = np.abs(x[plan.rows] - y[plan.cols])
        return _mean(distances, plan.mass, p)
    table = as_costs(as_table(metric.pairwise(a.points, b.points), len(a), len(b)))
    plan = exact_plan((table / unit(table)) ** p, a.weights, b.weights)
    return _mean(table[plan.rows, plan.cols], plan.mass, p)


def _mean(distances: FloatArray, mass: FloatArray, p: float) -> float:
    """(sum of mass * distance^p)^(1 / p), in a unit in which no power overflows."""
    size = unit(distances)
    return float(size * (mass @ (distances / size) ** p) ** (1 / p))


class Geodesic:
    """The constant-speed path between two distributions: W(path(a), path(b)) = |a - b| W(source, target).

    One optimal plan is solved, on first use; path(t) moves each of its atoms by t along the metric's own geodesic,
    (1 - t) x + t y in Euclidean coordinates, a shortest path on a graph. path(0) and path(1) are the given objects.

    Differs from the paper's Algorithm 2, which solves a barycenter for every alpha: its continuous branch averages the
    points, so that the support could not move; and projecting the plan on the source's points would miss the target
    where sizes or weights differ, so all its atoms (at most n + m - 1 when exact) are kept. On a graph or matrix the
    result lives on the metric's whole support, in order.
    """

    def __init__(self, source: Particles, target: Particles, metric: Metric | None = None) -> None:
        check_ends(source, target, metric)
        self.source, self.target = source, target
        self.metric: Metric = Euclidean() if metric is None else metric

    @cached_property
    def plan(self) -> Plan:
        return solve(self.source, self.target, self.metric)

    @cached_property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        return self.source.points[self.plan.rows], self.target.points[self.plan.cols]

    @cached_property
    def length(self) -> float:
        """W(source, target): W2 for Euclidean contexts, W1 on graphs and matrices."""
        return self.metric.length(pairs(self.metric, *self.ends), self.plan.mass)

    def __call__(self, t: float) -> Particles:
        t = as_share(t, "t")
        if t in (0.0, 1.0):
            return self.target if t else self.source
        points, shares = self.metric.interpolate(*self.ends, t)
        mass = (self.plan.mass[:, None] * shares).ravel()
        points = points.reshape(len(mass), -1)
        if isinstance(self.metric, Discrete):
            index = self.metric.index(points)
            return Particles(self.metric.support, np.bincount(index, mass, len(self.metric.support)))
        return Particles(points, mass)


def pairs(metric: Metric, x: FloatArray, y: FloatArray) -> FloatArray:
    """Distances (n,) between x[k] and y[k], in blocks so that memory stays linear."""
    blocks = range(0, len(x), 256)
    return np.concatenate([np.diagonal(metric.pairwise(x[i : i + 256], y[i : i + 256])) for i in blocks])


def solve(source: Particles, target: Particles, metric: Metric) -> Plan:
    """The plan that carries the metric's geodesic from source to target."""
    a, b = source.weights, target.weights
    if isinstance(metric, Flat):
        x, y = metric.coordinates(source.points), metric.coordinates(target.points)
        if x.shape[1] == 1:
            return sorted_plan(x[:, 0], y[:, 0], a, b)
        if np.count_nonzero(a) * np.count_nonzero(b) > EXACT_SIZE**2:
            return partitioned_plan(x, y, a, b)
    cost = as_table(metric.plan_cost(source.points, target.points), len(a), len(b))
    if isinstance(metric, Discrete):
        return shortest_hops(cost, a, b)
    return exact_plan(cost, a, b)


def check_ends(source: Particles, target: Particles, metric: Metric | None) -> None:
    as_a(Particles, source, "source"), as_a(Particles, target, "target")
    if metric is not None:
        as_metric(metric)
    if source.dim != target.dim:
        raise InvalidInput(f"expected source and target of one dimension, got {source.dim} and {target.dim}")
