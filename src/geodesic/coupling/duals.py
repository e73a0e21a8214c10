"""Dual potentials for the squared distance: what no plan can go below."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.coupling.plans import Plan
from geodesic.coupling.simplex import IndexArray

LEAF = 32  # points whose best partners are looked for together
TABLE = 2**15  # entries of a table that needs no further narrowing


def conjugate(x: FloatArray, y: FloatArray, g: FloatArray, k: int = 1) -> tuple[FloatArray, IndexArray]:
    """f(x) = min_y |x - y|^2 - g(y) over all y (m, d), for each x (n, d); and k partners (n, k) at or near the minimum.

    Exact, without a table (n, m): the x are halved again and again, and with them the y that can still be best.
    """
    k = min(k, len(y))
    values, partners = np.empty(len(x)), np.empty((len(x), k), dtype=np.intp)
    parts = [(np.arange(len(x)), np.arange(len(y)))]
    while parts:
        i, j = parts.pop()
        j = j[_reachable(x[i], y[j], g[j], k)]
        if len(i) <= LEAF or len(i) * len(j) <= TABLE:
            values[i], partners[i] = _best(x[i], y[j], g[j], j, k)
        else:
            parts += [(half, j) for half in _halves(x, i)]
    return values, partners


def _reachable(x: FloatArray, y: FloatArray, g: FloatArray, k: int) -> NDArray[np.bool_]:
    """Which y can be best for one of the x, or are among the k best for their middle.

    With s(y) = |c - y|^2 - g(y) at the middle c and y* its best, y beats y* at c + e only if
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
    from scipy.spatial.distance import cdist

    values, partners = [], []
    block = max(1, 4_000_000 // len(y))
    for start in range(0, len(x), block):
        table = cdist(x[start : start + block], y, "sqeuclidean") - g
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
    """|v|^2 (n,) of vectors (n, d); several times as fast as a sum over a short axis."""
    return np.asarray(np.einsum("ij,ij->i", vectors, vectors))


def gap(x: FloatArray, y: FloatArray, plan: Plan, f: FloatArray, g: FloatArray) -> float:
    """The mean slack |x - y|^2 - f(x) - g(y) of the plan's atoms: how far its cost can lie above the least.

    f(x) + g(y) <= |x - y|^2 for all pairs, so that the sum of f and g over any plan, this one or the best, is a lower
    bound on the best cost. What rounding can hide is added.
    """
    cost = square_norms(x[plan.rows] - y[plan.cols])
    ends = f[plan.rows], g[plan.cols]
    slack = np.maximum(cost - ends[0] - ends[1], 0.0)
    rounding = 4e-15 * (cost + np.abs(ends[0]) + np.abs(ends[1]))
    return float(plan.mass @ (slack + rounding) / plan.mass.sum())
