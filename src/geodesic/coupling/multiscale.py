"""Nearly optimal plans between large point sets, for the squared distance.

Points are gathered in cells of equal mass, the plan between cells is found in the same way, and carried over to the
points. Its potentials show which pairs of points may matter, and a linear program over those refines it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import FloatArray, as_points
from geodesic.coupling.plans import (
    Atoms,
    Duals,
    IndexArray,
    Plan,
    as_masses,
    atoms,
    simplex,
    sorted_plan,
    sparse_simplex,
    unit,
)

TABLE = 600**2  # pairs up to which one table of costs is solved
KEPT = 300  # points of a side up to which each is its own cell
REFINED = 25_000  # points of both sides up to which a linear program over near pairs is solved
COARSE = 4000  # cells of a side above that
TOLERANCE = 1e-3  # of W2, for the linear program
PARTNERS = 5  # pairs that each point suggests
ROUNDS = 12
GROUP = 128  # atoms that are solved together
SWEEPS = 3
LEAF = 32  # points whose best partners are searched for together
WHOLE = 2**15  # entries of a table that is searched as a whole

Sides = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
Pairs = tuple[IndexArray, IndexArray]


def partitioned_plan(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """Find a nearly optimal plan for the squared distance.

    Up to `REFINED` points, a linear program over pairs that may matter runs until the plan is within `TOLERANCE`. With
    more, small groups of neighbouring atoms are solved exactly. The same input gives the same plan.

    Args:
        x: Source points (n, d).
        y: Target points (m, d).
        a: Masses (n,) of the source.
        b: Masses (m,) of the target.

    Returns:
        The plan. Its `excess` comes from potentials that hold for all pairs, so it is never too small.

    Raises:
        InvalidInput: If points or masses have wrong shapes, are not finite, or there is no mass.
    """
    x = as_points(x, "x")
    y = as_points(y, "y", x.shape[1])
    a, b = as_masses(a, "a", len(x)), as_masses(b, "b", len(y))
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    x, y, a, b = x[rows] - x[rows[0]], y[cols] - x[rows[0]], a[rows] / a.sum(), b[cols] / b.sum()
    size = max(unit(x), unit(y))
    x, y = x / size, y / size
    left, right = align(x, y, a, b)
    offset = _fixed_cost(x, y, a, b) - _fixed_cost(left, right, a, b)
    plan, potentials = _solve((left, right, a, b), offset, TOLERANCE)
    cost = float(plan.mass @ ((x[plan.rows] - y[plan.cols]) ** 2).sum(axis=1))
    bound = cost - gap(left, right, plan, *potentials)
    excess = 0.0 if cost == 0 else float(np.sqrt(cost / bound) - 1) if bound > 0 else float("inf")
    return Plan(rows[plan.rows], cols[plan.cols], plan.mass, excess)


def _solve(sides: Sides, offset: float, tolerance: float) -> tuple[Plan, Duals]:
    """A plan for costs |x - y|^2 + offset, and potentials with f(x) + g(y) <= |x - y|^2 for all pairs."""
    x, y, a, b = sides
    if len(a) * len(b) <= TABLE:
        solution = simplex(_squares(x, y), a, b)
        plan = Plan(*atoms(solution.coupling, np.arange(len(a)), np.arange(len(b))))
        return plan, suggest(x, y, solution.v)[1]
    small = len(a) + len(b) <= REFINED
    ends = _gather(x, a, small), _gather(y, b, small)
    (few_x, few_a), (few_y, few_b) = centroids(x, a, ends[0]), centroids(y, b, ends[1])
    coarse, (_, g) = _solve((few_x, few_y, few_a, few_b), offset, 5 * tolerance)
    plan = carry(coarse, sides, ends)
    f = conjugate(x, few_y, g)[0]
    g = conjugate(y, x, f)[0]
    if small:
        return refine(sides, plan, g, offset, tolerance)
    return polish(x, y, plan), (f, g)


def _squares(x: FloatArray, y: FloatArray) -> FloatArray:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(x, y, "sqeuclidean"))


def _gather(points: FloatArray, weights: FloatArray, small: bool) -> IndexArray:
    if len(points) <= KEPT:
        return np.arange(len(points))
    return cells(points, weights, max(len(points) // 4 if small else min(COARSE, len(points) // 4), 1))


def align(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Transform both sides so that the best linear map between them is the identity and neighbours are partners.

    With A the optimal map between Gaussians of their moments, x becomes A^1/2 (x - mean) and y becomes
    A^-1/2 (y - mean). The optimal plan stays the same: <x, y> does not change, and |x|^2 and |y|^2 cost every plan the
    same.
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
    """A power of a symmetric matrix, with eigenvalues raised to at least `least`."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, least) ** exponent) @ vectors.T)


def _fixed_cost(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> float:
    """The part of the cost that every plan has: between the means, and the variance of either side."""
    means = a @ x, b @ y
    spread = (float(w @ ((p - mean) ** 2).sum(axis=1)) for p, w, mean in zip((x, y), (a, b), means))
    return float(((means[0] - means[1]) ** 2).sum()) + sum(spread)


def cells(points: FloatArray, weights: FloatArray, count: int) -> IndexArray:
    """Assign points (n, d) to cells (n,) by halving the mass repeatedly, across one axis after the other.

    There are about `count` cells, fewer if single points outweigh one; they are numbered from 0 without gaps.
    """
    cell = np.zeros(len(points), dtype=np.intp)
    for level in range(max(round(np.log2(count)), 0)):
        order = np.lexsort((points[:, level % points.shape[1]], cell))
        first = np.flatnonzero(np.diff(cell[order], prepend=-1))
        part = np.repeat(np.arange(len(first)), np.diff(first, append=len(cell)))
        mass = weights[order]
        total = np.add.reduceat(mass, first)
        middle = np.cumsum(mass) - mass / 2
        middle -= (np.cumsum(total) - total)[part]
        cell[order] = 2 * cell[order] + (middle > total[part] / 2)
    return np.asarray(np.unique(cell, return_inverse=True)[1], dtype=np.intp)


def centroids(points: FloatArray, weights: FloatArray, cell: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Compute the mean point (k, d) and the mass (k,) of each cell."""
    mass = np.bincount(cell, weights).astype(np.float64)
    return np.stack([np.bincount(cell, weights * axis) / mass for axis in points.T], axis=1), mass


def carry(coarse: Plan, sides: Sides, ends: Pairs) -> Plan:
    """Carry a coarse plan between the cells `ends` over to the points of the sides x, y, a, b.

    In each cell of x, points are sorted against the cells that they go to, along the axis on which these differ most;
    likewise in each cell of y; and then the two sides of each atom of the coarse plan. Masses are summed in long
    doubles, because the boundaries of the cells must match on both sides.
    """
    x, y, a, b = sides
    far = centroids(y, b, ends[1])[0][coarse.cols], centroids(x, a, ends[0])[0][coarse.rows]
    out = _divide(x, a, ends[0], coarse.rows, coarse.mass, far[0])
    into = _divide(y, b, ends[1], coarse.cols, coarse.mass, far[1])
    axis = _widest(y[into.rows], into.cols, len(coarse.mass))
    left = _ranks(out.cols, x[out.rows, axis[out.cols]])
    right = _ranks(into.cols, y[into.rows, axis[into.cols]])
    plan = sorted_plan(left, right, out.mass, into.mass)
    kept = plan.mass > 0
    return Plan(out.rows[plan.rows[kept]], into.rows[plan.cols[kept]], plan.mass[kept].astype(np.float64))


def _divide(
    points: FloatArray, weights: FloatArray, cell: IndexArray, atom_cell: IndexArray, mass: FloatArray, far: FloatArray
) -> Plan:
    """Divide each cell's points among the atoms (k,) that leave it, towards `far` (k, d)."""
    axis = _widest(far, atom_cell, int(cell.max()) + 1)
    left = _ranks(cell, points[np.arange(len(points)), axis[cell]])
    right = _ranks(atom_cell, far[np.arange(len(far)), axis[atom_cell]])
    return sorted_plan(left, right, weights.astype(np.longdouble), mass.astype(np.longdouble))


def _widest(points: FloatArray, cell: IndexArray, count: int) -> IndexArray:
    """The axis (count,) on which the points of each cell spread most."""
    number = np.maximum(np.bincount(cell, minlength=count), 1)
    spread = []
    for axis in points.T:
        mean = np.bincount(cell, axis, count) / number
        spread.append(np.bincount(cell, (axis - mean[cell]) ** 2, count))
    return np.asarray(np.argmax(spread, axis=0), dtype=np.intp)


def _ranks(cell: IndexArray, position: FloatArray) -> FloatArray:
    """The rank of each entry in the order of cells, and of positions within a cell."""
    ranks = np.empty(len(cell))
    ranks[np.lexsort((position, cell))] = np.arange(len(cell))
    return ranks


def refine(sides: Sides, plan: Plan, g: FloatArray, offset: float, tolerance: float) -> tuple[Plan, Duals]:
    """Improve a plan between the sides x, y, a, b to within `tolerance` of W2, for costs |x - y|^2 + offset.

    It solves a linear program over the pairs of the plan and near ones, from potentials g (m,). The program's own
    potentials, extended to all pairs, bound the remaining gain and show which pairs to add.
    """
    x, y, a, b = sides
    more, potentials = suggest(x, y, g)
    pairs = _join(len(b), (plan.rows, plan.cols), _neighbours(x, y), more)
    for _ in range(ROUNDS):
        (rows, cols, mass), (u, v) = sparse_simplex((*pairs, _costs(x, y, pairs)), a, b, potentials)
        plan = Plan(rows, cols, mass)
        more, potentials = suggest(x, y, v)
        cost = float(mass @ _costs(x, y, (rows, cols))) + offset
        if gap(x, y, plan, *potentials) <= 2 * tolerance * cost:
            break
        gaining = _costs(x, y, more) < u[more[0]] + v[more[1]]
        pairs = _join(len(b), pairs, (more[0][gaining], more[1][gaining]))
    return plan, potentials


def suggest(x: FloatArray, y: FloatArray, g: FloatArray) -> tuple[Pairs, Duals]:
    """Find pairs of little slack, and potentials with f(x) + g(y) <= |x - y|^2 for all pairs, from any g (m,)."""
    f, towards = conjugate(x, y, g, PARTNERS)
    g, back = conjugate(y, x, f, PARTNERS)
    return _pair(towards, back), (f, g)


def polish(x: FloatArray, y: FloatArray, plan: Plan) -> Plan:
    """Solve groups of neighbouring atoms exactly, in several groupings; the plan never gets worse."""
    for sweep in range(SWEEPS):
        turn = np.linalg.qr(np.random.default_rng(sweep).normal(size=(x.shape[1], x.shape[1])))[0]
        middle = (x[plan.rows] + y[plan.cols]) @ turn
        group = cells(middle, np.ones(len(middle)), max(len(middle) // GROUP, 1))
        order = np.argsort(group, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
        solved = [_solve_group(x, y, plan.rows[part], plan.cols[part], plan.mass[part]) for part in parts]
        rows, cols, mass = (np.concatenate(column) for column in zip(*solved))
        plan = Plan(rows, cols, mass)
    return plan


def _solve_group(x: FloatArray, y: FloatArray, rows: IndexArray, cols: IndexArray, mass: FloatArray) -> Atoms:
    """Redistribute the mass of these atoms among themselves at the least cost."""
    left, i = np.unique(rows, return_inverse=True)
    right, j = np.unique(cols, return_inverse=True)
    if len(left) == 1 or len(right) == 1:
        return rows, cols, mass
    a, b = (np.bincount(side, mass).astype(np.float64) for side in (i, j))
    return atoms(simplex(_squares(x[left], y[right]), a, b).coupling, left, right)


def _neighbours(x: FloatArray, y: FloatArray) -> Pairs:
    from scipy.spatial import cKDTree

    towards, back = (
        cKDTree(there).query(here, min(PARTNERS, len(there)))[1].reshape(len(here), -1)
        for here, there in ((x, y), (y, x))
    )
    return _pair(towards, back)


def _pair(towards: IndexArray, back: IndexArray) -> Pairs:
    """Partners (n, k) of the rows and (m, k) of the columns, as pairs."""
    n, m = len(towards), len(back)
    rows = np.concatenate([np.repeat(np.arange(n), towards.shape[1]), back.ravel()])
    return rows, np.concatenate([towards.ravel(), np.repeat(np.arange(m), back.shape[1])])


def _join(m: int, *pairs: Pairs) -> Pairs:
    """All pairs, without duplicates."""
    keys = np.unique(np.concatenate([rows * m + cols for rows, cols in pairs]))
    return keys // m, keys % m


def _costs(x: FloatArray, y: FloatArray, pairs: Pairs) -> FloatArray:
    return square_norms(x[pairs[0]] - y[pairs[1]])


def conjugate(x: FloatArray, y: FloatArray, g: FloatArray, k: int = 1) -> tuple[FloatArray, IndexArray]:
    """Compute f(x) = min_y |x - y|^2 - g(y), and k partners at or near the minimum.

    It is exact without a table (n, m): the x are halved repeatedly, and with them the y that can still be best.

    Args:
        x: Points (n, d).
        y: Points (m, d).
        g: Duals (m,) of y.
        k: The number of partners of each x.

    Returns:
        The values f (n,), and rows (n, k) of y.
    """
    k = min(k, len(y))
    values, partners = np.empty(len(x)), np.empty((len(x), k), dtype=np.intp)
    parts = [(np.arange(len(x)), np.arange(len(y)))]
    while parts:
        i, j = parts.pop()
        j = j[_reachable(x[i], y[j], g[j], k)]
        if len(i) <= LEAF or len(i) * len(j) <= WHOLE:
            values[i], partners[i] = _best(x[i], y[j], g[j], j, k)
        else:
            parts += [(half, j) for half in _halves(x, i)]
    return values, partners


def _reachable(x: FloatArray, y: FloatArray, g: FloatArray, k: int) -> NDArray[np.bool_]:
    """Mark the y that can be best for one of the x, or are among the k best for their mean.

    With s(y) = |c - y|^2 - g(y) at the mean c and y* its best, y beats y* at c + e only if
    s(y) - s(y*) < 2 e (y - y*), and |e| is at most the radius.
    """
    middle = x.mean(axis=0)
    radius = np.sqrt(square_norms(x - middle).max())
    away = square_norms(y - middle)
    score = away - g
    best = score.argmin()
    reach = 2 * radius * np.sqrt(square_norms(y - y[best]))
    rounding = 1e-14 * (away + np.abs(g))
    kept = score - score[best] <= reach + rounding + rounding[best]
    if k > 1 and np.count_nonzero(kept) < k:
        kept[_least(score[None], k)[0]] = True
    return np.asarray(kept)


def _best(x: FloatArray, y: FloatArray, g: FloatArray, j: IndexArray, k: int) -> tuple[FloatArray, IndexArray]:
    values, partners = [], []
    block = max(1, 4_000_000 // len(y))
    for start in range(0, len(x), block):
        table = _squares(x[start : start + block], y) - g
        values.append(table.min(axis=1))
        partners.append(j[_least(table, k)])
    return np.concatenate(values), np.concatenate(partners)


def _least(table: FloatArray, k: int) -> IndexArray:
    """Columns (n, k) of the k least entries of each row (n, m), k <= m."""
    if k == 1:
        return np.asarray(table.argmin(axis=1)[:, None])
    return np.asarray(np.argpartition(table, k - 1, axis=1)[:, :k])


def _halves(x: FloatArray, i: IndexArray) -> list[IndexArray]:
    """The points i, halved across the widest axis."""
    axis = np.ptp(x[i], axis=0).argmax()
    order = np.argpartition(x[i, axis], len(i) // 2)
    return [i[order[: len(i) // 2]], i[order[len(i) // 2 :]]]


def square_norms(vectors: FloatArray) -> FloatArray:
    """Compute |v|^2 (n,) of vectors (n, d), several times faster than a sum over a short axis."""
    return np.asarray(np.einsum("ij,ij->i", vectors, vectors))


def gap(x: FloatArray, y: FloatArray, plan: Plan, f: FloatArray, g: FloatArray) -> float:
    """Bound how far a plan's cost can lie above the least, by the mean slack |x - y|^2 - f(x) - g(y) of its atoms.

    f(x) + g(y) <= |x - y|^2 holds for all pairs, so the sum of f and g over any plan, this one or the best, is a lower
    bound on the best cost. The possible rounding error is added.
    """
    cost = square_norms(x[plan.rows] - y[plan.cols])
    ends = f[plan.rows], g[plan.cols]
    slack = np.maximum(cost - ends[0] - ends[1], 0.0)
    rounding = 4e-15 * (cost + np.abs(ends[0]) + np.abs(ends[1]))
    return float(plan.mass @ (slack + rounding) / plan.mass.sum())
