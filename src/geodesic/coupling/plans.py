"""Exact optimal plans between weighted point sets, as sparse atoms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geodesic.checks import FloatArray, as_array, as_points, as_vector
from geodesic.coupling.simplex import IndexArray, simplex, unit
from geodesic.errors import InvalidInput, shown


@dataclass(frozen=True, eq=False)
class Plan:
    """Atoms of a transport plan: `mass[k]` goes from source point `rows[k]` to target point `cols[k]`.

    `excess` is 0 for an exact plan; for a multiscale one it is an upper bound on W2(plan) / W2 - 1.
    """

    rows: IndexArray
    cols: IndexArray
    mass: FloatArray
    excess: float = 0.0


def exact_plan(cost: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """argmin <cost, P> over plans with marginals a (n,) and b (m,), by network simplex."""
    cost, a, b = as_problem(cost, a, b)
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    return _lift(simplex(as_costs(cost[np.ix_(rows, cols)]), a[rows], b[cols]).coupling, rows, cols)


def shortest_hops(cost: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """Among the plans that are optimal for cost (n, m), the one with the least mean of cost^2.

    W1 has many optimal plans, and most have needless long hops. One cost d + 1e-4 d^2 finds the same plan when
    distances are whole numbers, but leaves W1 by up to 1e-4 when they are not. So the second problem is confined to
    the pairs that an optimal plan can use: those without slack against the first problem's dual.
    """
    cost, a, b = as_problem(cost, a, b)
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    cost, a, b = as_costs(cost[np.ix_(rows, cols)]), a[rows], b[cols]
    first = simplex(cost, a, b)
    usable = (cost - first.u[:, None] - first.v <= 1e-12 * first.largest) | (first.coupling > 0)
    square = np.where(usable, (cost / unit(cost[usable])) ** 2, np.inf)
    largest = square[usable].max()
    if largest == 0:
        return _lift(first.coupling, rows, cols)
    square[~usable] = largest * (len(a) + len(b))
    return _lift(simplex(square / largest, a, b).coupling, rows, cols)


def sorted_plan(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """The monotone plan between x (n,) and y (m,) on the line: optimal for every convex cost of x - y."""
    x, y = as_vector(x, "x"), as_vector(y, "y")
    a, b = as_masses(a, "a", x.size), as_masses(b, "b", y.size)
    rows, cols = (np.argsort(points, kind="stable") for points in (x, y))
    rows, cols = rows[a[rows] > 0], cols[b[cols] > 0]
    left, right = np.cumsum(a[rows]), np.cumsum(b[cols])
    left[-1] = right[-1] = max(left[-1], right[-1])
    cuts = np.union1d(left, right)
    i, j = (np.searchsorted(edges, cuts) for edges in (left, right))
    return Plan(rows[i], cols[j], np.diff(cuts, prepend=0.0))


def _lift(coupling: FloatArray, rows: IndexArray, cols: IndexArray) -> Plan:
    i, j = np.nonzero(coupling)
    return Plan(rows[i], cols[j], coupling[i, j])


def assignment(rows: FloatArray, columns: FloatArray) -> IndexArray:
    """For each row point (n, d) its own column point (m, d), m >= n, so that the squared distances sum to the least."""
    rows = as_points(rows, "rows")
    columns = as_points(columns, "columns", rows.shape[1])
    if len(columns) < len(rows):
        raise InvalidInput(f"expected at least as many columns as rows, got {len(columns)} and {len(rows)}")
    size, origin = max(unit(rows), unit(columns)), _origin(columns)
    rows, columns = (rows - origin) / size, (columns - origin) / size
    cost = (rows**2).sum(axis=1)[:, None] + (columns**2).sum(axis=1) - 2.0 * rows @ columns.T
    return cheapest(cost)


def cheapest(cost: FloatArray) -> IndexArray:
    """For each row its own column, so that the costs (n, m), m >= n, sum to the least."""
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(cost)[1])


def _origin(points: FloatArray) -> FloatArray:
    """The mean in steps of many times the spread: zero unless squares of coordinates would drown their differences."""
    step = 4096 * unit(np.ptp(points, axis=0))
    return np.asarray(step * np.round(points.mean(axis=0) / step))


def as_problem(cost: FloatArray, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A table of costs (n, m) and masses (n,) and (m,) that a plan can be found for; nothing is copied."""
    n, m = as_array(a, "a").size, as_array(b, "b").size
    return as_table(cost, n, m), as_masses(a, "a", n), as_masses(b, "b", m)


def as_table(cost: FloatArray, n: int, m: int) -> FloatArray:
    """Costs (n, m) from whatever metric."""
    table = as_array(cost, "distances")
    if table.shape != (n, m):
        raise InvalidInput(f"expected distances of shape ({n}, {m}), got shape {table.shape}")
    return table


def as_costs(table: FloatArray) -> FloatArray:
    """The table, if all of it is finite; what weightless points cost is not looked at."""
    if not np.isfinite(table).all():
        raise InvalidInput(f"expected finite distances, got {int((~np.isfinite(table)).sum())} NaN or infinite ones")
    return table


def as_masses(values: FloatArray, name: str, n: int) -> FloatArray:
    masses = as_vector(values, name, n)
    if not n or masses.min() < 0 or not 0 < masses.sum() < np.inf:
        raise InvalidInput(f"expected {name} to be masses: non-negative, with a positive sum; got {shown(masses)}")
    return masses
