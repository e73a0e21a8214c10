"""Gaussians over contexts, and steps between them in coordinates where the old Gaussian is N(0, I).

A step (u, A) from N(m, L L') leads to N(m + L u, L A A' L'), A lower triangular with a positive diagonal. As a flat
vector x it is (u, log diag A, strictly lower part of A); x = 0 stays. KL(new || old) is convex in x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import as_covariance, as_rng, as_size, as_vector
from geodesic.contexts import FloatArray, Moments, Particles


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A Gaussian over contexts.

    Args:
        mean: Its mean (d,).
        chol: The lower Cholesky factor (d, d) of its covariance.
    """

    mean: FloatArray
    chol: FloatArray

    @property
    def dim(self) -> int:
        """The dimension of contexts."""
        return self.mean.size

    @classmethod
    def fit(cls, mean: FloatArray, cov: FloatArray, floor: FloatArray) -> Gaussian:
        """The Gaussian with these moments, except that standard deviations below a floor are raised to it.

        A covariance without full rank (a point, a line) has no density, so floor^2 is added to it where needed.

        Args:
            mean: The mean (d,).
            cov: The covariance (d, d).
            floor: The lowest standard deviations (d,).

        Returns:
            The Gaussian.
        """
        d = floor.size
        mean, cov = as_vector(mean, "mean", d), as_covariance(cov, d)
        scaled = cov / np.outer(floor, floor)
        values, vectors = np.linalg.eigh(scaled)
        raised = (vectors * np.maximum(values, 1.0)) @ vectors.T
        return cls(mean, np.linalg.cholesky(raised * np.outer(floor, floor)))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Samples (n, d)."""
        return np.asarray(self.mean + as_rng(rng).standard_normal((as_size(n), self.dim)) @ self.chol.T)

    def whiten(self, points: FloatArray) -> FloatArray:
        """Points (n, d) in the coordinates where this Gaussian is N(0, I), as columns (d, n)."""
        return np.asarray(np.linalg.solve(self.chol, (points - self.mean).T))

    def moved(self, u: FloatArray, a: FloatArray) -> Gaussian:
        """The Gaussian that the step (u, A) leads to."""
        return Gaussian(self.mean + self.chol @ u, self.chol @ a)

    def kl(self, other: Gaussian) -> float:
        """KL(self || other)."""
        return KullbackLeibler(self, other)(np.zeros(self.dim), np.eye(self.dim))[0]

    def wasserstein(self, other: Gaussian, unit: FloatArray) -> float:
        """W2(self, other) of contexts divided by a unit (d,), in Bures' closed form.

        W2^2 = |n - m|^2 + |B|^2 + |C|^2 - 2 ||B' C||_* of N(n, C C') and N(m, B B'); the nuclear norm is
        tr (B' C C' B)^(1/2).
        """
        shift = (other.mean - self.mean) / unit
        b, c = other.chol / unit[:, None], self.chol / unit[:, None]
        overlap = np.linalg.svd(b.T @ c)[1].sum()
        squared = float(shift @ shift + (c * c).sum() - 2.0 * overlap) + float((b**2).sum())
        return float(np.sqrt(max(squared, 0.0)))


Valued = tuple[float, FloatArray, FloatArray]  # a value and its gradients by u (d,) and by A (d, d)
StepFunction = Callable[[FloatArray, FloatArray], Valued]  # of the step (u, A)


class KullbackLeibler:
    """KL(p || q) of the Gaussian p that a step from `old` leads to.

    With q = N(c, B B') in the old Gaussian's coordinates and Q its precision,
    KL = (|B^-1 A|^2 + (u - c)' Q (u - c) - d) / 2 - sum log A_ii + sum log B_ii.

    Args:
        old: Where the step begins.
        other: The Gaussian q.
    """

    def __init__(self, old: Gaussian, other: Gaussian) -> None:
        self.centre = old.whiten(other.mean[None])[:, 0]
        factor = np.linalg.solve(other.chol, old.chol)
        self.precision = factor.T @ factor
        self.offset = -0.5 * old.dim - float(np.log(np.diag(factor)).sum())

    def __call__(self, u: FloatArray, a: FloatArray) -> Valued:
        """The divergence and its gradients at (u, A)."""
        by_u = self.precision @ (u - self.centre)
        by_a = self.precision @ a
        diagonal = a.diagonal()
        value = 0.5 * float((a * by_a).sum() + (u - self.centre) @ by_u) - float(np.log(diagonal).sum()) + self.offset
        return value, by_u, by_a - np.diag(1.0 / diagonal)


def reverse_kl(u: FloatArray, a: FloatArray) -> Valued:
    """KL(old || p) of the Gaussian p that a step from `old` leads to.

    KL = (|A^-1|^2 + |A^-1 u|^2 - d) / 2 + sum log A_ii.
    """
    inverse = np.linalg.inv(a)
    score = inverse @ u
    diagonal = a.diagonal()
    value = 0.5 * float((inverse**2).sum() + score @ score - len(u)) + float(np.log(diagonal).sum())
    by_a = np.diag(1.0 / diagonal) - inverse.T @ (inverse @ inverse.T + np.outer(score, score))
    return value, inverse.T @ score, by_a


class ImportanceWeighted:
    """v + mean_i p(c_i) / old(c_i) (v_i - v): the expected value under the Gaussian p a step from `old` leads to.

    v is the mean of the v_i, or 0 without the baseline. The expectation is the same, since that of the weights is 1,
    but without a baseline two dozen episodes of equal value would push p around by the noise of their contexts.

    Args:
        old: Where the step begins.
        contexts: Contexts (n, d) drawn from it.
        values: The value v_i (n,) in each of them.
        baseline: Whether v is their mean.
    """

    def __init__(self, old: Gaussian, contexts: FloatArray, values: FloatArray, baseline: bool = True) -> None:
        self.points = old.whiten(contexts)
        self.log_old = 0.5 * (self.points**2).sum(axis=0)
        self.mean = float(values.mean()) if baseline else 0.0
        self.fractions = (values - self.mean) / len(values)

    def __call__(self, u: FloatArray, a: FloatArray) -> Valued:
        """The expectation and its gradients at (u, A)."""
        inverse = np.linalg.inv(a)
        scores = inverse @ (self.points - u[:, None])
        log_ratio = self.log_old - 0.5 * (scores * scores).sum(axis=0) - float(np.log(a.diagonal()).sum())
        mass = self.fractions * np.exp(np.minimum(log_ratio, 50.0))
        total = float(mass.sum())
        weighted = scores * mass
        by_a = inverse.T @ (weighted @ scores.T) - total * np.diag(1.0 / a.diagonal())
        return self.mean + total, inverse.T @ weighted.sum(axis=1), by_a


@lru_cache
def _lower(d: int) -> tuple[NDArray[np.intp], ...]:
    return tuple(np.tril_indices(d, -1))


def unpack(x: FloatArray, d: int) -> tuple[FloatArray, FloatArray]:
    """The step (u, A) of a flat vector."""
    a = np.diag(np.exp(x[d : 2 * d]))
    a[_lower(d)] = x[2 * d :]
    return x[:d], a


def flatten(u: FloatArray, a: FloatArray) -> FloatArray:
    """The flat vector of a step (u, A)."""
    return np.concatenate([u, np.log(a.diagonal()), a[_lower(len(a))]])


def flat_gradient(by_u: FloatArray, by_a: FloatArray, a: FloatArray) -> FloatArray:
    """The gradient by the flat vector, from those by u and A."""
    return np.concatenate([by_u, by_a.diagonal() * a.diagonal(), by_a[_lower(len(a))]])


@dataclass(frozen=True, eq=False)
class Step:
    """max E_p[V] / mean V - pull * D(p, target) over Gaussians p with T(p, old) <= radius and std >= the bound.

    Args:
        value: E_p[V] / mean V as a function of the step from old to p.
        distance: D(p, target) as a function of the step.
        trust: T(p, old) as a function of the step.
        pull: The weight of the distance.
        radius: Of the trust region.
        log_std_floor: The lower bounds (d,) of log diag A.
    """

    value: StepFunction
    distance: StepFunction
    trust: StepFunction
    pull: float
    radius: float
    log_std_floor: FloatArray

    def objective(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The function to minimise, and its gradient, at the flat step x."""
        u, a = unpack(x, self.dim)
        value, by_u, by_a = self.value(u, a)
        if self.pull:
            far, far_by_u, far_by_a = self.distance(u, a)
            value, by_u, by_a = value - self.pull * far, by_u - self.pull * far_by_u, by_a - self.pull * far_by_a
        return -value, -flat_gradient(by_u, by_a, a)

    def slack(self, x: FloatArray) -> float:
        """How much of the trust region is left, in units of its radius."""
        return 1.0 - self.trust(*unpack(x, self.dim))[0] / self.radius

    def slack_gradient(self, x: FloatArray) -> FloatArray:
        """The gradient of `slack` at the flat step x."""
        u, a = unpack(x, self.dim)
        _, by_u, by_a = self.trust(u, a)
        return -flat_gradient(by_u, by_a, a) / self.radius

    @property
    def dim(self) -> int:
        """The dimension of contexts."""
        return self.log_std_floor.size

    def solve(self) -> FloatArray | None:
        """The best step as a flat vector; None if the optimizer found none that is allowed and better.

        None as well if it tried a step whose A is numerically singular.
        """
        from scipy.optimize import minimize

        d = self.dim
        start = np.zeros(2 * d + d * (d - 1) // 2)
        bounds = [(None, None)] * d + [(low, 3.0) for low in self.log_std_floor] + [(None, None)] * (start.size - 2 * d)
        trust = {"type": "ineq", "fun": self.slack, "jac": self.slack_gradient}
        options = {"maxiter": 60, "ftol": 1e-6}
        try:
            with np.errstate(all="ignore"):
                found = minimize(
                    self.objective, start, method="SLSQP", jac=True, bounds=bounds, constraints=trust, options=options
                )
                return self._accept(np.asarray(found.x), start)
        except np.linalg.LinAlgError:
            return None

    def _accept(self, x: FloatArray, start: FloatArray) -> FloatArray | None:
        """The step pulled back into the trust region (SLSQP leaves it by rounding), unless it is no improvement."""
        for _ in range(20):
            used = 1.0 - self.slack(x)
            if not np.isfinite(used):
                return None
            if used <= 1.0:
                return x if self.objective(x)[0] <= self.objective(start)[0] else None
            x = x / used * (1.0 - 1e-12)
        return None


def moments(particles: Particles, stated: Moments | None) -> Moments:
    """The mean and covariance that are given, or else those of the particles."""
    return (particles.mean(), particles.cov()) if stated is None else stated
