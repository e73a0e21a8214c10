"""Optimal plans between weighted point sets, as sparse atoms: exact, sorted on the line, partitioned above a size."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodesic.distributions import FloatArray, Particles
from geodesic.errors import InvalidInput, SolverFailed
from geodesic.metrics.base import Discrete, Flat, Metric

IntArray = NDArray[np.intp]
ITERATIONS = 10_000_000
EXACT_SIZE = 2000  # points a side up to which the plan is exact


@dataclass(frozen=True, eq=False)
class Plan:
    """Atoms of a transport plan: `mass[k]` goes from source point `rows[k]` to target point `cols[k]`.

    `excess` is 0 for an exact plan; for a partitioned one it estimates an upper bound on W2(plan) / W2 - 1.
    """

    rows: IntArray
    cols: IntArray
    mass: FloatArray
    excess: float = 0.0


def check_ends(source: Particles, target: Particles, metric: Metric | None) -> None:
    for name, ends in (("source", source), ("target", target)):
        if not isinstance(ends, Particles):
            raise InvalidInput(f"expected {name} to be Particles, got {type(ends).__name__}")
    if not (metric is None or isinstance(metric, Metric)):
        raise InvalidInput(f"expected metric to be a Metric or None, got {metric!r}")
    if source.dim != target.dim:
        raise InvalidInput(f"expected source and target of one dimension, got {source.dim} and {target.dim}")


def solve(source: Particles, target: Particles, metric: Metric) -> Plan:
    """The plan that carries the metric's geodesic from source to target."""
    a, b = source.weights, target.weights
    if isinstance(metric, Flat):
        x, y = metric.coordinates(source.points), metric.coordinates(target.points)
        if x.shape[1] == 1:
            return sorted_plan(x[:, 0], y[:, 0], a, b)
        if np.count_nonzero(a) * np.count_nonzero(b) > EXACT_SIZE**2:
            return partitioned_plan(x, y, a, b)
    cost = metric.plan_cost(source.points, target.points)
    if isinstance(metric, Discrete):
        return shortest_hops(cost, a, b)
    return exact_plan(cost, a, b)


def exact_plan(cost: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """argmin <cost, P> over plans with marginals a (n,) and b (m,), by network simplex."""
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    return _lift(_simplex(cost[np.ix_(rows, cols)], a[rows], b[cols])[0], rows, cols)


def shortest_hops(cost: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """Among the plans that are optimal for cost (n, m), the one with the least mean of cost^2.

    W1 has many optimal plans, and most have needless long hops. One cost d + 1e-4 d^2 finds the same plan when
    distances are whole numbers, but leaves W1 by up to 1e-4 when they are not. So the second problem is confined to
    the pairs that an optimal plan can use: those without slack against the first problem's dual.
    """
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    cost, a, b = cost[np.ix_(rows, cols)], a[rows], b[cols]
    coupling, log = _simplex(cost, a, b)
    usable = (cost - log["u"][:, None] - log["v"] <= 1e-12 * cost.max()) | (coupling > 0)
    square = np.where(usable, cost**2, np.inf)
    largest = square[usable].max()
    if largest > 0:
        square[~usable] = largest * (len(a) + len(b))
        coupling = _simplex(square / largest, a, b)[0]
    return _lift(coupling, rows, cols)


def sorted_plan(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """The monotone plan between x (n,) and y (m,) on the line: optimal for every convex cost of x - y."""
    rows, cols = (np.argsort(points, kind="stable") for points in (x, y))
    rows, cols = rows[a[rows] > 0], cols[b[cols] > 0]
    left, right = np.cumsum(a[rows]), np.cumsum(b[cols])
    left[-1] = right[-1] = max(left[-1], right[-1])
    cuts = np.union1d(left, right)
    i, j = (np.searchsorted(edges, cuts) for edges in (left, right))
    return Plan(rows[i], cols[j], np.diff(cuts, prepend=0.0))


def partitioned_plan(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """A nearly optimal plan for the squared distance in O(n log n): merged binary space partitions (BSP-OT).

    BSP-OT matches equal numbers of points of one weight. Other weights are first drawn as equal copies by systematic
    resampling; what the copies leave over or overdraw is matched again, each round a small part of the one before, and
    the last bit by sorting. Marginals are exact.

    POT 0.9.7 does not start its random numbers anew for each call, whatever the seed: two calls in one process give two
    plans, both within the excess. A process that solves the same plans in the same order gets the same ones.
    """
    size = int(max(np.count_nonzero(a), np.count_nonzero(b)))
    left, right, atoms = a.copy(), b.copy(), []
    while left.sum() > 1e-3:
        atoms.append(_matched(x, y, left, right, size))
        left, right = _residual(left, atoms[-1][0], atoms[-1][2]), _residual(right, atoms[-1][1], atoms[-1][2])
    if left.sum() > 1e-12:
        axis = np.linalg.svd(np.cov(np.vstack([x, y]).T))[0][:, 0]
        rest = sorted_plan(x @ axis, y @ axis, left / left.sum(), right / right.sum())
        atoms.append((rest.rows, rest.cols, rest.mass * left.sum()))
    rows, cols, mass = (np.concatenate(part) for part in zip(*atoms))
    return Plan(rows, cols, mass, _excess(x, y, Plan(rows, cols, mass)))


def _matched(
    x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray, size: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Atoms between `size` equal copies of each side, cut down so that no point gives or gets more than it has."""
    from ot.bsp import compute_bspot_bijection

    places = (np.arange(size) + 0.5) / size
    i, j = (np.searchsorted(np.cumsum(weights) / weights.sum(), places) for weights in (a, b))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        partner = compute_bspot_bijection(x[i], y[j], n_plans=64, p=2)[1]
    rows, cols, mass = i, j[partner], np.full(size, a.sum() / size)
    for side, weights in ((rows, a), (cols, b)):
        drawn = np.bincount(side, mass, len(weights))
        mass = mass * np.minimum(1.0, weights[side] / drawn[side])
    return rows, cols, mass


def _residual(weights: FloatArray, side: IntArray, mass: FloatArray) -> FloatArray:
    rest = weights - np.bincount(side, mass, len(weights))
    return np.where(rest > 1e-15, rest, 0.0)


def _excess(x: FloatArray, y: FloatArray, plan: Plan, sample: int = 1000) -> float:
    """An estimated upper bound on W2(plan) / W2 - 1, from the dual problem.

    Potentials f, g with f(x) + g(y) <= |x - y|^2 bound W2^2 from below, so the plan's squared cost exceeds it by at
    most the mean slack |x - y|^2 - f(x) - g(y) of its atoms. f comes from an exact plan between `sample` atoms, g is
    its conjugate, and the slack is averaged over as many others. The bound is loose, and may be infinite, where source
    and target nearly coincide: W2 itself is then small.
    """
    rng = np.random.default_rng(0)
    shares = plan.mass / plan.mass.sum()
    cost = float(shares @ ((x[plan.rows] - y[plan.cols]) ** 2).sum(axis=1))
    first, second = (rng.choice(len(shares), sample, p=shares) for _ in range(2))
    even = np.full(sample, 1 / sample)
    anchors = y[plan.cols[first]]
    g = _simplex(_squared(x[plan.rows[first]], anchors), even, even)[1]["v"]
    f = _conjugate(x, anchors, g)
    ends = x[plan.rows[second]], y[plan.cols[second]]
    slack = ((ends[0] - ends[1]) ** 2).sum(axis=1) - f[plan.rows[second]] - _conjugate(ends[1], x, f)
    bound = cost - float(slack.mean())
    return float(np.sqrt(cost / bound) - 1) if bound > 0 else float("inf")


def _conjugate(x: FloatArray, y: FloatArray, g: FloatArray) -> FloatArray:
    """f(x) = min_y |x - y|^2 - g(y), in blocks so that memory stays linear."""
    block = max(1, 4_000_000 // len(y))
    return np.concatenate([(_squared(x[i : i + block], y) - g).min(axis=1) for i in range(0, len(x), block)])


def _squared(x: FloatArray, y: FloatArray) -> FloatArray:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(x, y, "sqeuclidean"))


def _simplex(cost: FloatArray, a: FloatArray, b: FloatArray) -> tuple[FloatArray, dict[str, Any]]:
    """POT's network simplex: the coupling (n, m), and its log with the dual potentials u (n,) and v (m,)."""
    import ot

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coupling, log = ot.emd(a, b, cost, numItermax=ITERATIONS, log=True)
    if log["warning"]:
        raise SolverFailed(f"expected an optimal plan between {len(a)} and {len(b)} points, got: {log['warning']}")
    return coupling, log


def _lift(coupling: FloatArray, rows: IntArray, cols: IntArray) -> Plan:
    i, j = np.nonzero(coupling)
    return Plan(rows[i], cols[j], coupling[i, j])
