"""Nearly optimal plans between large point sets: a plan between cells of points, carried to the points, refined."""

from __future__ import annotations

import numpy as np

from geodesic.checks import FloatArray, as_points
from geodesic.coupling.cells import carried, cells, centres
from geodesic.coupling.duals import conjugate, gap
from geodesic.coupling.plans import Plan, as_masses
from geodesic.coupling.refined import Potentials, Sides, polished, refined, suggested
from geodesic.coupling.simplex import IndexArray, simplex, unit

TABLE = 600**2  # pairs up to which one table of costs is solved
KEPT = 300  # points of a side that is not gathered
REFINED = 25_000  # points of both sides up to which a linear program over near pairs is solved
COARSE = 4000  # cells of a side above that
TOLERANCE = 1e-3  # of W2, for the linear program


def partitioned_plan(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """A nearly optimal plan for the squared distance between x (n, d) and y (m, d) with weights a (n,) and b (m,).

    Points are gathered in cells of equal mass, the plan between cells is found in the same way, and carried to the
    points; its potentials tell which pairs of points may matter. Up to `REFINED` points a linear program over such
    pairs goes on until the plan is within `TOLERANCE`; beyond, small groups of neighbouring atoms are solved exactly.
    `excess` comes from potentials that hold for all pairs: it is never too small. The same input gives the same plan.
    """
    x = as_points(x, "x")
    y = as_points(y, "y", x.shape[1])
    a, b = as_masses(a, "a", len(x)), as_masses(b, "b", len(y))
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    x, y, a, b = x[rows] - x[rows[0]], y[cols] - x[rows[0]], a[rows] / a.sum(), b[cols] / b.sum()
    size = max(unit(x), unit(y))
    x, y = x / size, y / size
    left, right = aligned(x, y, a, b)
    offset = _fixed(x, y, a, b) - _fixed(left, right, a, b)
    plan, potentials = _solve((left, right, a, b), offset, TOLERANCE)
    cost = float(plan.mass @ ((x[plan.rows] - y[plan.cols]) ** 2).sum(axis=1))
    bound = cost - gap(left, right, plan, *potentials)
    excess = 0.0 if cost == 0 else float(np.sqrt(cost / bound) - 1) if bound > 0 else float("inf")
    return Plan(rows[plan.rows], cols[plan.cols], plan.mass, excess)


def _solve(sides: Sides, offset: float, tolerance: float) -> tuple[Plan, Potentials]:
    """A plan and potentials with f(x) + g(y) <= |x - y|^2 for all pairs. Costs that count are |x - y|^2 + offset."""
    x, y, a, b = sides
    if len(a) * len(b) <= TABLE:
        return _solved(sides)
    small = len(a) + len(b) <= REFINED
    ends = _gathered(x, a, small), _gathered(y, b, small)
    (few_x, few_a), (few_y, few_b) = centres(x, a, ends[0]), centres(y, b, ends[1])
    coarse, (_, g) = _solve((few_x, few_y, few_a, few_b), offset, 5 * tolerance)
    plan = carried(coarse, x, y, a, b, ends)
    f = conjugate(x, few_y, g)[0]
    g = conjugate(y, x, f)[0]
    if small:
        return refined(sides, plan, g, offset, tolerance)
    return polished(x, y, plan), (f, g)


def _solved(sides: Sides) -> tuple[Plan, Potentials]:
    from scipy.spatial.distance import cdist

    x, y, a, b = sides
    solution = simplex(cdist(x, y, "sqeuclidean"), a, b)
    rows, cols = np.nonzero(solution.coupling)
    plan = Plan(rows, cols, solution.coupling[rows, cols])
    return plan, suggested(x, y, solution.v)[1]


def _gathered(points: FloatArray, weights: FloatArray, small: bool) -> IndexArray:
    if len(points) <= KEPT:
        return np.arange(len(points))
    return cells(points, weights, max(len(points) // 4 if small else min(COARSE, len(points) // 4), 1))


def aligned(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both sides in coordinates in which the best linear map between them is the identity: neighbours are partners.

    With A that map between Gaussians of their moments, x becomes A^1/2 (x - mean), y becomes A^-1/2 (y - mean). No
    optimal plan changes: <x, y> does not, and |x|^2, |y|^2 cost every plan the same.
    """
    x, y = x - a @ x, y - b @ y
    first, second = (points.T @ (points * weights[:, None]) for points, weights in ((x, a), (y, b)))
    least = 1e-6 * max(np.trace(first), np.trace(second))
    if least == 0:
        return x, y
    half = _power(first, 0.5, least)
    map_ = _power(first, -0.5, least) @ _power(half @ second @ half, 0.5, least**2) @ _power(first, -0.5, least)
    return x @ _power(map_, 0.5, 0.0), y @ _power(map_, -0.5, 0.0)


def _power(matrix: FloatArray, exponent: float, least: float) -> FloatArray:
    """A power of a symmetric matrix whose eigenvalues count as `least` at least."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, least) ** exponent) @ vectors.T)


def _fixed(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> float:
    """The part of a plan's cost that every plan has: between the means, and the spread of either side."""
    means = a @ x, b @ y
    spread = (float(w @ ((p - mean) ** 2).sum(axis=1)) for p, w, mean in zip((x, y), (a, b), means))
    return float(((means[0] - means[1]) ** 2).sum()) + sum(spread)
