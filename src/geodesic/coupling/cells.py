"""Points in cells of equal mass, and plans that sort within cells."""

from __future__ import annotations

import numpy as np

from geodesic.contexts import FloatArray
from geodesic.coupling.plans import Plan, sorted_plan
from geodesic.coupling.simplex import IndexArray


def cells(points: FloatArray, weights: FloatArray, count: int) -> IndexArray:
    """The cell (n,) of each point (n, d): halves of equal mass, again and again, across one axis after the other.

    About `count` cells, fewer where single points outweigh one; numbered from 0 without gaps.
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


def centres(points: FloatArray, weights: FloatArray, cell: IndexArray) -> tuple[FloatArray, FloatArray]:
    """The mean point (k, d) and the mass (k,) of each cell."""
    mass = np.bincount(cell, weights).astype(np.float64)
    return np.stack([np.bincount(cell, weights * axis) / mass for axis in points.T], axis=1), mass


def carried(
    coarse: Plan, x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray, ends: tuple[IndexArray, IndexArray]
) -> Plan:
    """A plan between points whose cells `ends` exchange what the coarse plan says.

    In each cell of x, points are sorted beside the cells that they go to, along the axis on which these differ most;
    likewise in each cell of y; and then, for each atom of the coarse plan, what it has on either side. Masses are added
    up in long doubles: the ends of cells must meet.
    """
    far = centres(y, b, ends[1])[0][coarse.cols], centres(x, a, ends[0])[0][coarse.rows]
    out = _shared(x, a, ends[0], coarse.rows, coarse.mass, far[0])
    into = _shared(y, b, ends[1], coarse.cols, coarse.mass, far[1])
    axis = _widest(y[into.rows], into.cols, len(coarse.mass))
    left = _rank(out.cols, x[out.rows, axis[out.cols]])
    right = _rank(into.cols, y[into.rows, axis[into.cols]])
    plan = sorted_plan(left, right, out.mass, into.mass)
    kept = plan.mass > 0
    return Plan(out.rows[plan.rows[kept]], into.rows[plan.cols[kept]], plan.mass[kept].astype(np.float64))


def _shared(
    points: FloatArray, weights: FloatArray, cell: IndexArray, atom_cell: IndexArray, mass: FloatArray, far: FloatArray
) -> Plan:
    """Each cell's points shared out among the atoms (k,) that leave it, towards `far` (k, d)."""
    axis = _widest(far, atom_cell, int(cell.max()) + 1)
    left = _rank(cell, points[np.arange(len(points)), axis[cell]])
    right = _rank(atom_cell, far[np.arange(len(far)), axis[atom_cell]])
    return sorted_plan(left, right, weights.astype(np.longdouble), mass.astype(np.longdouble))


def _widest(points: FloatArray, cell: IndexArray, count: int) -> IndexArray:
    """The axis (count,) on which the points of each cell spread most."""
    number = np.maximum(np.bincount(cell, minlength=count), 1)
    spread = []
    for axis in points.T:
        mean = np.bincount(cell, axis, count) / number
        spread.append(np.bincount(cell, (axis - mean[cell]) ** 2, count))
    return np.asarray(np.argmax(spread, axis=0), dtype=np.intp)


def _rank(cell: IndexArray, position: FloatArray) -> FloatArray:
    """Where each entry comes in the order of cells, and of positions within them."""
    ranks = np.empty(len(cell))
    ranks[np.lexsort((position, cell))] = np.arange(len(cell))
    return ranks
