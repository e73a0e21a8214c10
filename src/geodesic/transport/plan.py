"""Optimal plans between weighted point sets, as sparse atoms."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geodesic.distributions import FloatArray, Particles
from geodesic.errors import InvalidInput, SolverFailed
from geodesic.metrics.base import Flat, Metric

IntArray = NDArray[np.intp]
ITERATIONS = 10_000_000


@dataclass(frozen=True, eq=False)
class Plan:
    """Atoms of a transport plan: `mass[k]` goes from source point `rows[k]` to target point `cols[k]`."""

    rows: IntArray
    cols: IntArray
    mass: FloatArray
    excess: float = 0.0


def same_dim(source: Particles, target: Particles) -> None:
    if source.dim != target.dim:
        raise InvalidInput(f"expected source and target of one dimension, got {source.dim} and {target.dim}")


def solve(source: Particles, target: Particles, metric: Metric) -> Plan:
    """The plan that carries the metric's geodesic from source to target."""
    if isinstance(metric, Flat):
        x, y = metric.coordinates(source.points), metric.coordinates(target.points)
        if x.shape[1] == 1:
            return sorted_plan(x[:, 0], y[:, 0], source.weights, target.weights)
    return exact_plan(metric.plan_cost(source.points, target.points), source.weights, target.weights)


def exact_plan(cost: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """argmin <cost, P> over plans with marginals a (n,) and b (m,), by network simplex."""
    import ot

    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coupling, log = ot.emd(a[rows], b[cols], cost[np.ix_(rows, cols)], numItermax=ITERATIONS, log=True)
    if log["warning"]:
        raise SolverFailed(f"expected an optimal plan of {len(rows)} x {len(cols)} points, got: {log['warning']}")
    i, j = np.nonzero(coupling)
    return Plan(rows[i], cols[j], coupling[i, j])


def sorted_plan(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> Plan:
    """The monotone plan on the line: optimal for every convex cost of x - y."""
    rows, cols = (np.argsort(points, kind="stable") for points in (x, y))
    rows, cols = rows[a[rows] > 0], cols[b[cols] > 0]
    left, right = np.cumsum(a[rows]), np.cumsum(b[cols])
    left[-1] = right[-1] = 1.0
    cuts = np.union1d(left, right)
    mass = np.diff(cuts, prepend=0.0)
    kept = mass > 0
    i, j = (np.searchsorted(edges, cuts[kept]) for edges in (left, right))
    return Plan(rows[i], cols[j], mass[kept])
