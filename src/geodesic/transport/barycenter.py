"""Wasserstein barycenters of two distributions on a fixed support."""

from __future__ import annotations

import numpy as np

from geodesic.checks import FloatArray, as_fraction, as_name, as_positive
from geodesic.contexts import Particles
from geodesic.coupling.plans import exact_plan
from geodesic.errors import InvalidInput, short_repr
from geodesic.metrics.base import Metric
from geodesic.metrics.graph import Finite
from geodesic.transport.geodesic import check_ends

METHODS = ("exact", "sinkhorn")
SWEEPS = 2000
LEAST = 1e-6  # entropy at which this many sweeps still converge


def barycenter(
    a: Particles, b: Particles, t: float, metric: Metric, method: str = "exact", p: float = 2, reg: float = 0.005
) -> Particles:
    """The barycenter of two distributions: argmin_z (1 - t) W_2^2(a, z) + t W_2^2(z, b), z on the metric's support.

    Differs from the paper, which writes the cost d (p = 1): its minimizer is a for t < 1/2 and b above, which is no
    path. So p = 2 with cost d^2.

    Args:
        a: The distribution at t = 0, exactly.
        b: The distribution at t = 1, exactly.
        t: Where between them, in [0, 1].
        metric: A metric with a finite support, such as `metrics.Graph` or `metrics.Matrix`.
        method: `"exact"` solves one plan; `"sinkhorn"` is the paper's Algorithm 2.
        p: Only 2.
        reg: The entropy of `"sinkhorn"`, as a fraction of the largest cost.

    Returns:
        The barycenter, on the metric's whole support.

    Raises:
        InvalidInput: If an argument is invalid.

    Example:
        >>> import geodesic as gd
        >>> line = gd.metrics.Graph([[0.0], [1.0], [2.0]], [[0, 1], [1, 2]])
        >>> ends = [gd.Particles.categorical(weights, line.support) for weights in ([1, 0, 0], [0, 0, 1])]
        >>> gd.barycenter(*ends, 0.5, line).weights
        array([0., 1., 0.])
    """
    check_ends(a, b, metric)
    t = as_fraction(t, "t")
    as_name(method, "method", METHODS)
    if not np.isscalar(p) or p != 2:
        no_path = "with p = 1 the barycenter is a below t = 1/2 and b above: no path"
        raise InvalidInput(f"expected p = 2, got {short_repr(p)}; {no_path}")
    if as_positive(reg, "reg") < LEAST:
        raise InvalidInput(f"expected reg of at least {LEAST}, got {reg!r}; method='exact' is the limit at 0")
    if not isinstance(metric, Finite):
        raise InvalidInput(f"expected a metric with a finite support (Graph or Matrix), got {type(metric).__name__}")
    if t in (0.0, 1.0):
        return b if t else a
    cost = metric.pairwise(metric.support, metric.support) ** 2
    start, end = (np.bincount(metric.index(c.points), c.weights, len(cost)).astype(np.float64) for c in (a, b))
    mass = _exact(cost, start, end, t) if method == "exact" else _sinkhorn(cost, start, end, t, reg)
    return Particles(metric.support, mass)


def _exact(cost: FloatArray, a: FloatArray, b: FloatArray, t: float) -> FloatArray:
    """One plan with cost min_z [(1 - t) d^2(x, z) + t d^2(z, y)], its mass pushed to the argmin."""
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    least, via = np.empty((len(rows), len(cols))), np.empty((len(rows), len(cols)), dtype=np.intp)
    for i, x in enumerate(rows):
        total = (1 - t) * cost[x] + t * cost[cols]
        via[i] = total.argmin(axis=1)
        least[i] = total.min(axis=1)
    plan = exact_plan(least, a[rows], b[cols])
    return np.asarray(np.bincount(via[plan.rows, plan.cols], plan.mass, len(cost)), dtype=np.float64)


def _sinkhorn(cost: FloatArray, a: FloatArray, b: FloatArray, t: float, reg: float) -> FloatArray:
    """The paper's Algorithm 2 (debiased Sinkhorn barycenter, Janati et al. 2020), K = exp(-cost / (reg * max cost)).

    Differs from the paper: weights (1 - t, t), since the paper's (t, 1 - t) put the target at t = 0; in the log domain,
    since K underflows at reg <= 1e-3; a small reg is reached by factors of 4, each warm-starting the next, since alone
    it does not converge; the result is renormalised. Names are the paper's: log a_m, log b_m, log l and log rho.

    It ends when all plans have their marginals: a_m * K b_m the given ends (b_m * K a_m is rho by construction), and
    l * K l, the plan from the barycenter to itself, rho.
    """
    with np.errstate(divide="ignore"):
        log_ends = np.log(np.stack([a, b]))
    log_b, log_rho = np.zeros_like(log_ends), np.zeros(len(cost))
    count = max(int(np.ceil(np.log(0.1 / reg) / np.log(4))), 0)
    for entropy in [reg * 4.0**k for k in range(count, -1, -1)]:
        kernel = -cost / (entropy * max(float(cost.max()), 1e-300))
        log_b = 4 * log_b  # potentials are reg * log_b: they hardly change from one reg to the next
        log_l = np.zeros(len(cost))  # a point that a larger reg has emptied would never fill again
        tolerance, sweeps = (1e-7, SWEEPS) if entropy == reg else (1e-3, 100)
        log_a = log_ends - _log_apply(kernel, log_b)
        for _ in range(sweeps):
            reached, doubled = _log_apply(kernel, log_a), _log_apply(kernel, log_l) + log_l
            log_rho = log_l + np.array([1 - t, t]) @ reached
            log_b = log_rho - reached
            back = _log_apply(kernel, log_b)
            off = max(_apart(log_a + back, log_ends), _apart(doubled, log_rho))
            log_a, log_l = log_ends - back, log_l + (log_rho - doubled) / 2
            if off <= tolerance:
                break
    mass = np.exp(log_rho - log_rho.max())
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def _apart(log_found: FloatArray, log_wanted: FloatArray) -> float:
    """The largest sum of differences between densities given by their logarithms, those above e counted as e."""
    off = np.abs(np.exp(np.minimum(log_found, 1.0)) - np.exp(np.minimum(log_wanted, 1.0)))
    return float(off.sum(axis=-1).max())


def _log_apply(kernel: FloatArray, logs: FloatArray) -> FloatArray:
    """log(K exp(logs)) for a symmetric kernel log K (n, n) and logs (..., n)."""
    terms = kernel + logs[..., None, :]
    top = terms.max(axis=-1)
    return np.asarray(top + np.log(np.exp(terms - top[..., None]).sum(axis=-1)))
