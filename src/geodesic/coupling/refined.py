"""Better plans from good ones: a linear program over the pairs that may matter, or one for each group of neighbours."""

from __future__ import annotations

import numpy as np

from geodesic.contexts import FloatArray
from geodesic.coupling.cells import cells
from geodesic.coupling.duals import conjugate, gap, square_norms
from geodesic.coupling.plans import Plan
from geodesic.coupling.simplex import IndexArray, simplex, sparse_simplex

PARTNERS = 5  # pairs that each point suggests
ROUNDS = 12
GROUP = 128  # atoms that are solved together
SWEEPS = 3

Potentials = tuple[FloatArray, FloatArray]
Sides = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
Pairs = tuple[IndexArray, IndexArray]


def refined(sides: Sides, plan: Plan, g: FloatArray, offset: float, tolerance: float) -> tuple[Plan, Potentials]:
    """A plan between the sides x, y, a, b within `tolerance` of W2; costs that count are |x - y|^2 + offset.

    A linear program over the pairs of the given plan and near ones (g (m,): potentials to begin with). Its own
    potentials, made to hold for all pairs, bound what is still to gain and name the pairs that gain it; these join.
    """
    x, y, a, b = sides
    more, potentials = suggested(x, y, g)
    pairs = _joined(len(b), (plan.rows, plan.cols), _neighbours(x, y), more)
    for _ in range(ROUNDS):
        rows, cols, mass, u, v = sparse_simplex((*pairs, _costs(x, y, pairs)), a, b, potentials)
        plan = Plan(rows, cols, mass)
        more, potentials = suggested(x, y, v)
        cost = float(mass @ _costs(x, y, (rows, cols))) + offset
        if gap(x, y, plan, *potentials) <= 2 * tolerance * cost:
            break
        gaining = _costs(x, y, more) < u[more[0]] + v[more[1]]
        pairs = _joined(len(b), pairs, (more[0][gaining], more[1][gaining]))
    return plan, potentials


def suggested(x: FloatArray, y: FloatArray, g: FloatArray) -> tuple[Pairs, Potentials]:
    """Pairs of little slack, and potentials with f(x) + g(y) <= |x - y|^2 for all pairs, from any g (m,)."""
    f, towards = conjugate(x, y, g, PARTNERS)
    g, back = conjugate(y, x, f, PARTNERS)
    return _paired(towards, back), (f, g)


def polished(x: FloatArray, y: FloatArray, plan: Plan) -> Plan:
    """The plan with groups of neighbouring atoms solved exactly, in several groupings: never worse."""
    for sweep in range(SWEEPS):
        turn = np.linalg.qr(np.random.default_rng(sweep).normal(size=(x.shape[1], x.shape[1])))[0]
        middle = (x[plan.rows] + y[plan.cols]) @ turn
        group = cells(middle, np.ones(len(middle)), max(len(middle) // GROUP, 1))
        order = np.argsort(group, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
        atoms = [_solved(x, y, plan.rows[part], plan.cols[part], plan.mass[part]) for part in parts]
        rows, cols, mass = (np.concatenate(column) for column in zip(*atoms))
        plan = Plan(rows, cols, mass)
    return plan


def _solved(
    x: FloatArray, y: FloatArray, rows: IndexArray, cols: IndexArray, mass: FloatArray
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """These atoms, exchanged among themselves at the least cost."""
    from scipy.spatial.distance import cdist

    left, i = np.unique(rows, return_inverse=True)
    right, j = np.unique(cols, return_inverse=True)
    if len(left) == 1 or len(right) == 1:
        return rows, cols, mass
    a, b = (np.bincount(side, mass).astype(np.float64) for side in (i, j))
    coupling = simplex(cdist(x[left], y[right], "sqeuclidean"), a, b).coupling
    i, j = np.nonzero(coupling)
    return left[i], right[j], coupling[i, j]


def _neighbours(x: FloatArray, y: FloatArray) -> Pairs:
    from scipy.spatial import cKDTree

    towards, back = (
        cKDTree(there).query(here, min(PARTNERS, len(there)))[1].reshape(len(here), -1)
        for here, there in ((x, y), (y, x))
    )
    return _paired(towards, back)


def _paired(towards: IndexArray, back: IndexArray) -> Pairs:
    """Partners (n, k) of the rows and (m, k) of the columns, as pairs."""
    n, m = len(towards), len(back)
    rows = np.concatenate([np.repeat(np.arange(n), towards.shape[1]), back.ravel()])
    return rows, np.concatenate([towards.ravel(), np.repeat(np.arange(m), back.shape[1])])


def _joined(m: int, *pairs: Pairs) -> Pairs:
    """All pairs, none twice."""
    keys = np.unique(np.concatenate([rows * m + cols for rows, cols in pairs]))
    return keys // m, keys % m


def _costs(x: FloatArray, y: FloatArray, pairs: Pairs) -> FloatArray:
    return square_norms(x[pairs[0]] - y[pairs[1]])
