"""Exact optimal plans between weighted point sets, by POT's network simplex, and assignments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import FloatArray, as_array, as_points, as_vector
from geodesic.errors import InvalidInput, SolverFailed, short_repr

IndexArray = NDArray[np.intp]
Atoms = tuple[IndexArray, IndexArray, FloatArray]  # rows, columns, and a mass or cost each
Problem = tuple[FloatArray, FloatArray, FloatArray]  # costs (n, m), masses (n,) and (m,)
Duals = tuple[FloatArray, FloatArray]  # potentials of rows and columns
ITERATIONS = 10_000_000
OPTIMAL = 1  # POT's codes
FAILURES = {0: "infeasible", 2: "unbounded", 3: "no end within the limit of iterations"}
FINE = 1e-4  # a plan whose largest cost is below this fraction of the largest of all is solved again in its own unit


def unit(values: FloatArray) -> float:
    """Find the power of two below the largest magnitude, by which division is exact; 1 if all values are zero."""
    largest = float(np.abs(values).max(initial=0.0))
    return float(2.0 ** (np.frexp(largest)[1] - 1)) if largest > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of a transport problem.

    Args:
        coupling: The masses (n, m).
        u: Dual potentials (n,) of the rows.
        v: Dual potentials (m,) of the columns.
        largest: The largest cost; larger ones were cut to it.
    """

    coupling: FloatArray
    u: FloatArray
    v: FloatArray
    largest: float


def simplex(cost: FloatArray, a: FloatArray, b: FloatArray) -> Solution:
    """Solve argmin <cost, P> over couplings P (n, m) with marginals a (n,) and b (m,), all positive.

    POT's simplex gives its artificial arcs the cost (largest cost + 1) * nodes, and rounding hides differences below
    1e-15 of that. So small costs are divided by their own size. If the plan only uses pairs far cheaper than the
    largest cost, the problem is solved again with costs cut to a cap. A plan without a capped pair is optimal for the
    cost itself too, since the capped cost lies below it.
    """
    first = _solved(cost, a, b)
    used = float(cost[first.coupling > 0].max())
    cap = 16 * used if 0 < used < FINE * first.largest else np.inf
    while cap < first.largest:
        finer = simplex(np.minimum(cost, cap), a, b)
        if (cost[finer.coupling > 0] < cap).all():
            return finer
        cap *= 16
    return first


def _solved(cost: FloatArray, a: FloatArray, b: FloatArray) -> Solution:
    from ot.lp.emd_wrap import emd_c  # ot.emd is eighteen times slower on small problems

    size = _size(cost)
    coupling, _, u, v, code = emd_c(a, b * a.sum() / b.sum(), np.ascontiguousarray(cost / size), ITERATIONS, 1)
    _check(code, len(a), len(b))
    return Solution(coupling, u * size, v * size, float(cost.max()))


def sparse_simplex(pairs: Atoms, a: FloatArray, b: FloatArray, start: Duals) -> tuple[Atoms, Duals]:
    """Find the optimal plan that uses only the given pairs.

    POT drops masses below 1e-15, so masses are in units of about their mean.

    Args:
        pairs: Rows, columns and costs of the pairs; they must contain some plan between a and b.
        a: Masses (n,) of the rows.
        b: Masses (m,) of the columns.
        start: The potentials (n,) and (m,) to start from.

    Returns:
        The rows, columns and masses of the plan; and its potentials.
    """
    from ot.lp.emd_wrap import emd_c_sparse

    rows, cols, cost = pairs
    size, fraction = _size(cost), unit(np.array([a.sum() / len(a)]))
    given = rows.astype(np.uint64), cols.astype(np.uint64), cost / size
    warm = (np.ascontiguousarray(side / size) for side in start)
    masses = a / fraction, b * (a.sum() / b.sum() / fraction)
    i, j, mass, _, u, v, code = emd_c_sparse(*masses, *given, ITERATIONS, *warm)
    _check(code, len(a), len(b))
    return (i.astype(np.intp), j.astype(np.intp), mass * fraction), (u * size, v * size)


def _size(cost: FloatArray) -> float:
    """The divisor of costs; 1 if the largest is an ordinary number of at least 1, so that ties stay ties."""
    size = unit(cost)
    return 1.0 if 1 <= size <= 2.0**500 else size


def _check(code: int, n: int, m: int) -> None:
    if code != OPTIMAL:
        raise SolverFailed(f"expected an optimal plan between {n} and {m} points, got: {FAILURES[code]}")


@dataclass(frozen=True, eq=False)
class Plan:
    """A transport plan as a list of atoms.

    Args:
        rows: The source point (k,) of each atom.
        cols: The target point (k,) of each atom.
        mass: The mass (k,) that moves from one to the other.
        excess: 0 for an exact plan; for a nearly optimal one an upper bound on W2(plan) / W2 - 1.
    """

    rows: IndexArray
    cols: IndexArray
    mass: FloatArray
    excess: float = 0.0


def exact_plan(cost: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """Find the optimal plan for costs (n, m) between masses a (n,) and b (m,), by network simplex."""
    rows, cols, cost, a, b = _with_mass(cost, a, b)
    return Plan(*atoms(simplex(cost, a, b).coupling, rows, cols))


def shortest_hops(cost: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """Among the plans that are optimal for costs (n, m), find the one with the least mean of cost^2.

    W1 has many optimal plans, most of them with needlessly long hops. A single problem with cost d + 1e-4 d^2 finds the
    same plan if distances are integers, but misses W1 by up to 1e-4 if they are not. So a second problem is limited to
    the pairs that an optimal plan can use: those without slack in the first problem's dual.
    """
    rows, cols, cost, a, b = _with_mass(cost, a, b)
    first = simplex(cost, a, b)
    usable = (cost - first.u[:, None] - first.v <= 1e-12 * first.largest) | (first.coupling > 0)
    square = np.where(usable, (cost / unit(cost[usable])) ** 2, np.inf)
    largest = square[usable].max()
    if largest == 0:
        return Plan(*atoms(first.coupling, rows, cols))
    square[~usable] = largest * (len(a) + len(b))
    return Plan(*atoms(simplex(square / largest, a, b).coupling, rows, cols))


def sorted_plan(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """Find the monotone plan between x (n,) and y (m,) on the line, which is optimal for every convex cost of x - y."""
    x, y = as_vector(x, "x"), as_vector(y, "y")
    a, b = as_masses(a, "a", x.size), as_masses(b, "b", y.size)
    rows, cols = (np.argsort(points, kind="stable") for points in (x, y))
    rows, cols = rows[a[rows] > 0], cols[b[cols] > 0]
    left, right = np.cumsum(a[rows]), np.cumsum(b[cols])
    left[-1] = right[-1] = max(left[-1], right[-1])
    cuts = np.union1d(left, right)
    i, j = (np.searchsorted(edges, cuts) for edges in (left, right))
    return Plan(rows[i], cols[j], np.diff(cuts, prepend=0.0))


def atoms(coupling: FloatArray, rows: IndexArray, cols: IndexArray) -> Atoms:
    """List the atoms of a coupling (n, m) between points with these numbers: from, to, mass."""
    i, j = np.nonzero(coupling)
    return rows[i], cols[j], coupling[i, j]


def assignment(rows: FloatArray, columns: FloatArray) -> IndexArray:
    """Assign each row point (n, d) its own column point (m, d), m >= n, at the least sum of squared distances."""
    rows = as_points(rows, "rows")
    columns = as_points(columns, "columns", rows.shape[1])
    if len(columns) < len(rows):
        raise InvalidInput(f"expected at least as many columns as rows, got {len(columns)} and {len(rows)}")
    # The origin is the mean rounded to many times the spread: zero unless squared coordinates would drown differences.
    size, step = max(unit(rows), unit(columns)), 4096 * unit(np.ptp(columns, axis=0))
    origin = step * np.round(columns.mean(axis=0) / step)
    rows, columns = (rows - origin) / size, (columns - origin) / size
    cost = (rows**2).sum(axis=1)[:, None] + (columns**2).sum(axis=1) - 2.0 * rows @ columns.T
    return cheapest(cost)


def cheapest(cost: FloatArray) -> IndexArray:
    """Assign each row its own column at the least sum of costs (n, m), m >= n."""
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(cost)[1])


def _with_mass(cost: FloatArray, a: FloatArray, b: FloatArray) -> tuple[IndexArray, IndexArray, *Problem]:
    """Validate costs and masses, and restrict them to the points that have mass: their rows and columns come first."""
    n, m = as_array(a, "a").size, as_array(b, "b").size
    table, a, b = _as_table(cost, n, m), as_masses(a, "a", n), as_masses(b, "b", m)
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    return rows, cols, as_costs(table[np.ix_(rows, cols)], len(rows), len(cols)), a[rows], b[cols]


def _as_table(cost: FloatArray, n: int, m: int) -> FloatArray:
    """Validate the shape (n, m) of a metric's costs, without copying them."""
    table = as_array(cost, "distances")
    if table.shape != (n, m):
        raise InvalidInput(f"expected distances of shape ({n}, {m}), got shape {table.shape}")
    return table


def as_costs(cost: FloatArray, n: int, m: int) -> FloatArray:
    """Validate finite costs (n, m)."""
    table = _as_table(cost, n, m)
    if not np.isfinite(table).all():
        raise InvalidInput(f"expected finite distances, got {int((~np.isfinite(table)).sum())} NaN or infinite ones")
    return table


def as_masses(values: FloatArray, name: str, n: int) -> FloatArray:
    """Validate masses (n,)."""
    masses = as_vector(values, name, n)
    if not n or masses.min() < 0 or not 0 < masses.sum() < np.inf:
        raise InvalidInput(f"expected {name} to be masses: non-negative, with a positive sum; got {short_repr(masses)}")
    return masses
