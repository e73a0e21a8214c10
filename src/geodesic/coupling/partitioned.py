"""Nearly optimal plans between large point sets, by partitioning space."""

from __future__ import annotations

import warnings

import numpy as np

from geodesic.contexts import FloatArray
from geodesic.coupling.plans import Plan, sorted_plan
from geodesic.coupling.simplex import IndexArray, simplex


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
) -> tuple[IndexArray, IndexArray, FloatArray]:
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


def _residual(weights: FloatArray, side: IndexArray, mass: FloatArray) -> FloatArray:
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
    g = simplex(_squared(x[plan.rows[first]], anchors), even, even).v
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
