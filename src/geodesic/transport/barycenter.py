"""Wasserstein barycenters of two distributions on a fixed support."""

from __future__ import annotations

import numpy as np

from geodesic.distributions import FloatArray, Particles
from geodesic.errors import InvalidInput, UnknownName
from geodesic.metrics.base import Discrete, Metric
from geodesic.transport.geodesic import as_time
from geodesic.transport.plan import exact_plan, same_dim

METHODS = ("exact", "sinkhorn")


def barycenter(
    a: Particles, b: Particles, t: float, metric: Metric, method: str = "exact", p: float = 2, reg: float = 0.005
) -> Particles:
    """argmin over z on the metric's support of (1 - t) W_2^2(a, z) + t W_2^2(z, b); a at 0 and b at 1, exactly.

    The paper writes the cost d (p = 1). Its minimiser is then a for t < 1/2 and b above: no path. So p = 2, cost d^2.
    """
    same_dim(a, b)
    t = as_time(t)
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    if p != 2:
        raise InvalidInput(f"expected p = 2, got {p!r}: with p = 1 the barycenter jumps from a to b at t = 1/2")
    if not isinstance(metric, Discrete):
        raise InvalidInput(f"expected a metric with a finite support (Graph or Matrix), got {type(metric).__name__}")
    if t in (0.0, 1.0):
        return b if t else a
    cost = metric.pairwise(metric.support, metric.support) ** 2
    masses = [np.bincount(metric.index(c.points), c.weights, len(cost)) for c in (a, b)]
    if method == "sinkhorn":
        return Particles(metric.support, sinkhorn(cost, *masses, t, reg))
    return Particles(metric.support, exact(cost, *masses, t))


def exact(cost: FloatArray, a: FloatArray, b: FloatArray, t: float) -> FloatArray:
    """One plan with cost min_z [(1 - t) d^2(x, z) + t d^2(z, y)], its mass pushed to the argmin."""
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    via = np.stack([(1 - t) * cost[x][None] + t * cost[cols] for x in rows])
    plan = exact_plan(via.min(axis=2), a[rows], b[cols])
    return np.bincount(via.argmin(axis=2)[plan.rows, plan.cols], plan.mass, len(cost))


def sinkhorn(cost: FloatArray, a: FloatArray, b: FloatArray, t: float, reg: float) -> FloatArray:
    """The paper's Algorithm 2 (debiased Sinkhorn barycenter) in the log domain with weights (1 - t, t)."""
    from scipy.special import logsumexp

    kernel = -cost / (reg * cost.max())
    with np.errstate(divide="ignore"):
        logs = np.log(np.stack([a, b]))
    weights = np.array([1 - t, t])
    v, d = np.zeros_like(logs), np.zeros(len(cost))
    for _ in range(1000):
        u = logs - logsumexp(kernel[None] + v[:, None, :], axis=2)
        ktu = logsumexp(kernel[None] + u[:, None, :], axis=2)
        bar = d + weights @ ktu
        v = bar - ktu
        d = 0.5 * (d + bar - logsumexp(kernel + d, axis=1))
    mass = np.exp(bar - bar.max())
    return np.asarray(mass / mass.sum())
