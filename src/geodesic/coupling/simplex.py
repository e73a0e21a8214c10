"""The network simplex, told in which unit costs come. The only file that calls it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.errors import SolverFailed

IndexArray = NDArray[np.intp]
ITERATIONS = 10_000_000
OPTIMAL = 1  # POT's codes
FAILURES = {0: "infeasible", 2: "unbounded", 3: "no end within the limit of iterations"}
FINE = 1e-4  # a plan whose dearest atom is below this part of the dearest pair is solved again, in its own unit


def unit(values: FloatArray) -> float:
    """The power of two below the largest magnitude: dividing by it rounds nothing. 1 where all are zero."""
    largest = float(np.abs(values).max(initial=0.0))
    return float(2.0 ** (np.frexp(largest)[1] - 1)) if largest > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Solution:
    """A coupling (n, m), dual potentials u (n,) and v (m,), and the largest cost that was told apart from others."""

    coupling: FloatArray
    u: FloatArray
    v: FloatArray
    largest: float


def simplex(cost: FloatArray, a: FloatArray, b: FloatArray) -> Solution:
    """argmin <cost, P> over couplings P (n, m) with marginals a (n,) and b (m,), all positive.

    POT's simplex gives its artificial arcs the cost (largest cost + 1) * nodes and rounds against that: it sees no
    difference below 1e-15 of it. So small costs are divided by their own size. Where the plan needs only pairs far
    cheaper than the dearest, it is solved again with costs above a cap counted as the cap. A plan without a capped pair
    is optimal for the cost itself too, since the capped cost lies below it.
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
    from ot.lp.emd_wrap import emd_c  # ot.emd takes eighteen times as long on small problems

    size = _size(cost)
    coupling, _, u, v, code = emd_c(a, b * a.sum() / b.sum(), np.ascontiguousarray(cost / size), ITERATIONS, 1)
    _check(code, len(a), len(b))
    return Solution(coupling, u * size, v * size, float(cost.max()))


def sparse_simplex(
    pairs: tuple[IndexArray, IndexArray, FloatArray],
    a: FloatArray,
    b: FloatArray,
    start: tuple[FloatArray, FloatArray],
) -> tuple[IndexArray, IndexArray, FloatArray, FloatArray, FloatArray]:
    """The optimal plan that uses only the given pairs (rows, cols, cost), as rows, cols, mass; and potentials u, v.

    `start` are the potentials to start from. The pairs must hold some plan between a and b. POT leaves out masses below
    1e-15, so masses are counted in shares of about the mean one.
    """
    from ot.lp.emd_wrap import emd_c_sparse

    rows, cols, cost = pairs
    size, share = _size(cost), unit(np.array([a.sum() / len(a)]))
    given = rows.astype(np.uint64), cols.astype(np.uint64), cost / size
    warm = (np.ascontiguousarray(side / size) for side in start)
    i, j, mass, _, u, v, code = emd_c_sparse(a / share, b * (a.sum() / b.sum() / share), *given, ITERATIONS, *warm)
    _check(code, len(a), len(b))
    return i.astype(np.intp), j.astype(np.intp), mass * share, u * size, v * size


def _size(cost: FloatArray) -> float:
    """What costs are divided by: nothing where the largest is an ordinary number from 1 up, so that ties stay."""
    size = unit(cost)
    return 1.0 if 1 <= size <= 2.0**500 else size


def _check(code: int, n: int, m: int) -> None:
    if code != OPTIMAL:
        raise SolverFailed(f"expected an optimal plan between {n} and {m} points, got: {FAILURES[code]}")
