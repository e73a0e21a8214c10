"""Beta distributions, one for each context value: their divergences, and DORAEMON's step between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln, polygamma, psi

from geodesic.contexts import FloatArray

SLACK = 1e-5  # by which constraints may be missed
SAFER = "towards success"

Valued = tuple[float, FloatArray]  # a value and its gradient by the parameters (2, d)
Function = Callable[[FloatArray], Valued]  # of the parameters
Bounds = tuple[float, float]  # of a parameter


def to_uniform(params: FloatArray) -> Valued:
    """KL(phi || uniform) = sum (a - 1) (psi(a) - psi(a + b)) + (b - 1) (psi(b) - psi(a + b)) - ln B(a, b)."""
    value = ((params - 1) * _mean_logs(params)).sum() - betaln(*params).sum()
    return float(value), (params - 1) * polygamma(1, params) - (params - 1).sum(axis=0) * polygamma(
        1, params.sum(axis=0)
    )


def _mean_logs(params: FloatArray) -> FloatArray:
    """The expectations (2, d) of ln u and ln(1 - u) under Beta distributions."""
    return np.asarray(psi(params) - psi(params.sum(axis=0)))


class Step:
    """The problem of an update: functions of the parameters (2, d), each with its gradient.

    Args:
        old: The parameters that contexts were drawn with.
        points: Contexts (n, d) in (0, 1).
        successes: The success in each of them, (n,).
    """

    def __init__(self, old: FloatArray, points: FloatArray, successes: FloatArray) -> None:
        self.old = old
        self.logs = np.stack([np.log(points), np.log1p(-points)], axis=1)
        self.successes = successes

    def rate(self, params: FloatArray) -> Valued:
        """The success rate under phi, by importance weights."""
        scale = betaln(*self.old).sum() - betaln(*params).sum()
        mass = np.exp(np.minimum(np.einsum("nkd,kd->n", self.logs, params - self.old) + scale, 50.0)) * self.successes
        mean = float(mass.mean())
        return mean, np.einsum("n,nkd->kd", mass, self.logs) / len(mass) - mean * _mean_logs(params)

    def distance(self, params: FloatArray) -> Valued:
        """KL(phi_old || phi)."""
        means = _mean_logs(self.old)
        value = betaln(*params).sum() - betaln(*self.old).sum() + ((self.old - params) * means).sum()
        return float(value), _mean_logs(params) - means

    def solve(self, success: float, radius: float, bounds: Bounds) -> tuple[FloatArray | None, str]:
        """Take the step.

        Args:
            success: The success rate to keep.
            radius: The largest KL(phi_old || phi).
            bounds: The least and the largest value of a parameter.

        Returns:
            The new parameters, or None if no better ones that are allowed were found; and what they achieve.
        """

        def near(params: FloatArray) -> Valued:
            return _minus(self.distance(params), radius)

        def seldom(params: FloatArray) -> Valued:
            return _minus(self.rate(params), success, -1.0)

        start = self.old
        if seldom(start)[0] > 0:
            safer = _minimise(seldom, start, [near], bounds)
            if safer is None or seldom(safer)[0] > 0:
                return safer, SAFER
            start = safer
        wider = _minimise(to_uniform, start, [near, seldom], bounds)
        if wider is None and start is not self.old:
            return start, SAFER
        return wider, "wider"


def _minus(valued: Valued, limit: float, sign: float = 1.0) -> Valued:
    """sign * (value - limit), with its gradient."""
    return sign * (valued[0] - limit), sign * valued[1]


def _minimise(objective: Function, start: FloatArray, limits: list[Function], bounds: Bounds) -> FloatArray | None:
    """The parameters that minimise a function, with others at most 0; None without improvement over the start."""
    shape = start.shape

    def flat(
        function: Function, sign: float = 1.0
    ) -> tuple[Callable[[FloatArray], float], Callable[[FloatArray], FloatArray]]:
        """The function of the logarithms, and its gradient by them."""
        return (
            lambda x: sign * function(np.exp(x).reshape(shape))[0],
            lambda x: sign * function(np.exp(x).reshape(shape))[1].ravel() * np.exp(x),
        )

    value, gradient = flat(objective)
    constraints = [dict(zip(("type", "fun", "jac"), ("ineq", *flat(limit, -1.0)))) for limit in limits]
    x = np.log(start).ravel()
    box = [(float(np.log(bounds[0])), float(np.log(bounds[1])))] * x.size
    with np.errstate(all="ignore"):
        options = {"maxiter": 100, "ftol": 1e-8}
        found = minimize(value, x, method="SLSQP", jac=gradient, bounds=box, constraints=constraints, options=options)
    params = np.clip(np.exp(found.x).reshape(shape), *bounds)
    allowed = np.isfinite(params).all() and all(limit(params)[0] <= SLACK for limit in limits)
    return params if allowed and objective(params)[0] <= objective(start)[0] else None
