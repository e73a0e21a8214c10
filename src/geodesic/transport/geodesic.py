"""The Wasserstein geodesic between two distributions, from one optimal plan, and the trajectories of its particles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import FloatArray, as_count, as_fraction, check_instance, is_number
from geodesic.contexts import Particles
from geodesic.coupling.multiscale import partitioned_plan
from geodesic.coupling.plans import Plan, as_costs, exact_plan, shortest_hops, sorted_plan, unit
from geodesic.errors import InvalidInput, short_repr
from geodesic.metrics.base import Euclidean, Metric
from geodesic.metrics.graph import Finite

HIGHEST = 500  # power of a distance: 2^500 is still a finite number
EXACT_SIZE = 2000  # points a side up to which the plan is exact

Knots = NDArray[np.intp]
Values = Callable[[FloatArray], FloatArray]  # contexts (n, d) -> a value each (n,)


def wasserstein(a: Particles, b: Particles, metric: Metric | None = None, p: float = 2) -> float:
    """The Wasserstein distance W_p(a, b) = (min_P sum_ij P_ij d(x_i, y_j)^p)^(1/p), exact.

    Args:
        a: A distribution.
        b: Another one, of the same dimension.
        metric: The distance d between contexts; None: Euclidean.
        p: The power, from 1 to 500.

    Returns:
        The distance.

    Raises:
        InvalidInput: If an argument is invalid.

    Example:
        >>> import geodesic as gd
        >>> round(gd.wasserstein(gd.Particles([[0.0], [1.0]]), gd.Particles([[4.0], [5.0]])), 9)
        4.0
    """
    metric = check_ends(a, b, metric)
    if not is_number(p) or not 1 <= p <= HIGHEST:
        most = f" and up to {HIGHEST}" if is_number(p) and p > HIGHEST else ""
        raise InvalidInput(f"expected p >= 1{most}, got {short_repr(p)}")
    if isinstance(metric, Euclidean) and a.dim == 1:
        x, y = metric.coordinates(a.points)[:, 0], metric.coordinates(b.points)[:, 0]
        plan = sorted_plan(x, y, a.weights, b.weights)
        distances = np.abs(x[plan.rows] - y[plan.cols])
    else:
        table = as_costs(metric.pairwise(a.points, b.points), len(a), len(b))
        plan = exact_plan((table / unit(table)) ** p, a.weights, b.weights)
        distances = table[plan.rows, plan.cols]
    size = unit(distances)  # in which no power overflows
    return float(size * (plan.mass @ (distances / size) ** p) ** (1 / p))


class Geodesic:
    """The path of constant speed between two distributions: W(path(a), path(b)) = |a - b| W(source, target).

    One optimal plan is solved, on first use; path(t) moves each of its atoms by t along the metric's own geodesic,
    (1 - t) x + t y in Euclidean coordinates, a shortest path on a graph. path(0) and path(1) are the given objects.

    Differs from the paper's Algorithm 2, which solves a barycenter for every alpha: its continuous branch averages the
    points, so that the support could not move; and projecting the plan on the source's points would miss the target
    where sizes or weights differ, so all its atoms (at most n + m - 1 when exact) are kept. On a graph or matrix the
    result lives on the metric's whole support, in order.

    Args:
        source: The distribution at t = 0.
        target: The distribution at t = 1.
        metric: The distance between contexts; None: Euclidean.

    Raises:
        InvalidInput: If an argument has the wrong type, or the dimensions differ.

    Example:
        >>> import geodesic as gd
        >>> path = gd.Geodesic(gd.Particles([[0.0], [1.0]]), gd.Particles([[4.0], [5.0]]))
        >>> path(0.25).points.ravel(), round(path.length, 9)
        (array([1., 2.]), 4.0)
    """

    def __init__(self, source: Particles, target: Particles, metric: Metric | None = None) -> None:
        self.source, self.target = source, target
        self.metric = check_ends(source, target, metric)

    @cached_property
    def plan(self) -> Plan:
        """The optimal plan: how much mass goes from which source point to which target point."""
        return solve(self.source, self.target, self.metric)

    @cached_property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Where each atom of the plan starts (n, d), and where it goes (n, d)."""
        return self.source.points[self.plan.rows], self.target.points[self.plan.cols]

    @cached_property
    def length(self) -> float:
        """W(source, target): W2 for Euclidean contexts, W1 on graphs and matrices."""
        (x, y), blocks = self.ends, [slice(i, i + 256) for i in range(0, len(self.plan.mass), 256)]  # to save memory
        distances = np.concatenate([np.diagonal(self.metric.pairwise(x[i], y[i])) for i in blocks])
        return self.metric.length(distances, self.plan.mass)

    def __call__(self, t: float) -> Particles:
        """The distribution at t in [0, 1]."""
        t = as_fraction(t, "t")
        if t in (0.0, 1.0):
            return self.target if t else self.source
        points, fractions = self.metric.interpolate(*self.ends, t)
        mass = self.plan.mass[:, None] * fractions
        if isinstance(self.metric, Finite):
            index = self.metric.index(points.reshape(mass.size, -1))
            return Particles(self.metric.support, np.bincount(index, mass.ravel(), len(self.metric.support)))
        return _particles(points, mass)


@dataclass(eq=False)
class Trajectories:
    """The trajectories of n particles, which move independently: their positions at t = 0, 1 / k, ..., 1, the knots.

    `Geodesic` moves the atoms of its plan to the same t. Here each has its own knot 0, ..., k. Between two nodes of a
    graph, two integers or two categories, a particle is split into parts; its value is then the lowest one of theirs.

    Args:
        points: The positions at each knot, (k + 1, n, parts, d).
        fractions: How much of a particle is at each of its parts, (k + 1, n, parts).
        mass: The mass (n,) of the particles.
        ends: The distributions at the first and at the last knot.
        graph: The metric, if it has a finite support.
    """

    points: FloatArray
    fractions: FloatArray
    mass: FloatArray
    ends: tuple[Particles, Particles]
    graph: Finite | None = None

    def __post_init__(self) -> None:
        self.knots = len(self.points) - 1
        if self.graph is not None:
            rows = self.graph.index(self.points.reshape(-1, self.points.shape[-1]))
            self.index = rows.reshape(self.fractions.shape)

    @classmethod
    def of(cls, geodesic: Geodesic, knots: int) -> Trajectories:
        """The trajectories of the atoms of a geodesic's plan.

        Args:
            geodesic: The path.
            knots: The number of the last knot, k.

        Returns:
            The trajectories.
        """
        metric, (start, end) = geodesic.metric, geodesic.ends
        places = [metric.interpolate(start, end, t / knots) for t in range(as_count(knots, "knots") + 1)]
        points, fractions = (np.stack(part) for part in zip(*places))
        graph = metric if isinstance(metric, Finite) else None
        if graph is None:  # a learned path need not start exactly at its first point
            points[0], points[-1] = start[:, None], end[:, None]
        return cls(points, fractions, geodesic.plan.mass, (geodesic.source, geodesic.target), graph)

    def __len__(self) -> int:
        return len(self.mass)

    def at(self, knots: Knots) -> Particles:
        """The distribution of the particles at their knots (n,); the given ones themselves at both ends."""
        if (knots == 0).all() or (knots == self.knots).all():
            return self.ends[1] if knots.any() else self.ends[0]
        particles = np.arange(len(self))
        mass = self.mass[:, None] * self.fractions[knots, particles]
        if self.graph is None:
            return _particles(self.points[knots, particles], mass)
        index = self.index[knots, particles].ravel()
        return Particles(self.graph.support, np.bincount(index, mass.ravel(), len(self.graph.support)))

    def values(self, value: Values, knots: Knots, particles: Knots) -> FloatArray:
        """The value (m, r) of each of the particles (m,) at each of its knots (m, r): the lowest of its parts."""
        particles = np.broadcast_to(particles[:, None], knots.shape)
        if self.graph is None:
            points = self.points[knots, particles]
            found = value(points.reshape(-1, points.shape[-1])).reshape(points.shape[:-1])
        else:
            found = value(self.graph.support)[self.index[knots, particles]]
        return np.asarray(np.where(self.fractions[knots, particles] > 0, found, np.inf).min(axis=-1))


def _particles(points: FloatArray, mass: FloatArray) -> Particles:
    """The parts (n, k, d) of atoms with their mass (n, k), the first parts of all atoms first."""
    if mass.shape[1] == 1:
        return Particles(points[:, 0], mass[:, 0])
    return Particles(points.swapaxes(0, 1).reshape(mass.size, -1), mass.T.ravel()).positive()


def solve(source: Particles, target: Particles, metric: Metric) -> Plan:
    """The optimal plan whose atoms move along the metric's geodesics."""
    a, b = source.weights, target.weights
    if isinstance(metric, Euclidean):
        x, y = metric.coordinates(source.points), metric.coordinates(target.points)
        if x.shape[1] == 1:
            return sorted_plan(x[:, 0], y[:, 0], a, b)
        if np.count_nonzero(a) * np.count_nonzero(b) > EXACT_SIZE**2:
            return partitioned_plan(x, y, a, b)
    solver = shortest_hops if isinstance(metric, Finite) else exact_plan
    return solver(metric.plan_cost(source.points, target.points), a, b)


def check_ends(source: Particles, target: Particles, metric: Metric | None) -> Metric:
    """Validate two distributions of one dimension and a metric; None: Euclidean."""
    check_instance(Particles, source, "source"), check_instance(Particles, target, "target")
    known = Euclidean() if metric is None else metric
    check_instance(Metric, known, "metric")  # type: ignore[type-abstract]
    if source.dim != target.dim:
        raise InvalidInput(f"expected source and target of one dimension, got {source.dim} and {target.dim}")
    return known
