"""Gaussians over contexts, and steps between them in coordinates where the old Gaussian is N(0, I).

A step (u, A) from N(m, L L') leads to N(m + L u, L A A' L'), A lower triangular with a positive diagonal. As a flat
vector x it is (u, log diag A, strictly lower part of A); x = 0 stays. KL(new || old) is convex in x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import as_covariance, as_rng, as_size, as_vector
from geodesic.contexts import FloatArray, Particles


@dataclass(frozen=True, eq=False)
class Gaussian:
    """mean (d,) and lower Cholesky factor (d, d) of the covariance."""

    mean: FloatArray
    chol: FloatArray

    @property
    def dim(self) -> int:
        return self.mean.size

    @classmethod
    def fit(cls, mean: FloatArray, cov: FloatArray, floor: FloatArray) -> Gaussian:
        """The Gaussian of these moments; standard deviations under the floor (d,) are raised to it.

        A covariance without full rank (a point, a line) has no density, so floor^2 is added to it where needed.
        """
        d = floor.size
        mean, cov = as_vector(mean, "mean", d), as_covariance(cov, d)
        scaled = cov / np.outer(floor, floor)
        values, vectors = np.linalg.eigh(scaled)
        raised = (vectors * np.maximum(values, 1.0)) @ vectors.T
        return cls(mean, np.linalg.cholesky(raised * np.outer(floor, floor)))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        return np.asarray(self.mean + as_rng(rng).standard_normal((as_size(n), self.dim)) @ self.chol.T)

    def whiten(self, points: FloatArray) -> FloatArray:
        """Points (n, d) in the coordinates where this Gaussian is N(0, I), as columns (d, n)."""
        return np.asarray(np.linalg.solve(self.chol, (points - self.mean).T))

    def moved(self, u: FloatArray, a: FloatArray) -> Gaussian:
        return Gaussian(self.mean + self.chol @ u, self.chol @ a)

    def kl(self, other: Gaussian) -> float:
        """KL(self || other)."""
        return KullbackLeibler(self, other)(np.zeros(self.dim), np.eye(self.dim))[0]

    def wasserstein(self, other: Gaussian, unit: FloatArray) -> float:
        """W2(self, other) with contexts measured in this unit (d,), in Bures' closed form.

        W2^2 = |n - m|^2 + |B|^2 + |C|^2 - 2 ||B' C||_* of N(n, C C') and N(m, B B'); the nuclear norm is
        tr (B' C C' B)^(1/2).
        """
        shift = (other.mean - self.mean) / unit
        b, c = other.chol / unit[:, None], self.chol / unit[:, None]
        overlap = np.linalg.svd(b.T @ c)[1].sum()
        squared = float(shift @ shift + (c * c).sum() - 2.0 * overlap) + float((b**2).sum())
        return float(np.sqrt(max(squared, 0.0)))


Valued = tuple[float, FloatArray, FloatArray]  # a value and its gradients by u (d,) and by A (d, d)


class StepFunction(Protocol):
    """A function of the step (u, A)."""

    def __call__(self, u: FloatArray, a: FloatArray) -> Valued: ...


class KullbackLeibler:
    """KL(p || q) of the Gaussian p that a step from `old` leads to.

    With q = N(c, B B') in the old Gaussian's coordinates and Q its precision,
    KL = (|B^-1 A|^2 + (u - c)' Q (u - c) - d) / 2 - sum log A_ii + sum log B_ii.
    """

    def __init__(self, old: Gaussian, other: Gaussian) -> None:
        self.centre = old.whiten(other.mean[None])[:, 0]
        factor = np.linalg.solve(other.chol, old.chol)
        self.precision = factor.T @ factor
        self.offset = -0.5 * old.dim - float(np.log(np.diag(factor)).sum())

    def __call__(self, u: FloatArray, a: FloatArray) -> Valued:
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

    v is the mean of the v_i, or 0 without the baseline. The expectation is the same, since the weights' is 1, but two
    dozen episodes of equal value would then push p about by the noise of their contexts.
    """

    def __init__(self, old: Gaussian, contexts: FloatArray, values: FloatArray, baseline: bool = True) -> None:
        self.points = old.whiten(contexts)
        self.log_old = 0.5 * (self.points**2).sum(axis=0)
        self.mean = float(values.mean()) if baseline else 0.0
        self.shares = (values - self.mean) / len(values)

    def __call__(self, u: FloatArray, a: FloatArray) -> Valued:
        inverse = np.linalg.inv(a)
        scores = inverse @ (self.points - u[:, None])
        log_ratio = self.log_old - 0.5 * (scores * scores).sum(axis=0) - float(np.log(a.diagonal()).sum())
        mass = self.shares * np.exp(np.minimum(log_ratio, 50.0))
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


def flat_gradient(by_u: FloatArray, by_a: FloatArray, a: FloatArray) -> FloatArray:
    """The gradient by the flat vector, from those by u and A."""
    return np.concatenate([by_u, by_a.diagonal() * a.diagonal(), by_a[_lower(len(a))]])


@dataclass(frozen=True, eq=False)
class Step:
    """max E_p[V] / mean V - pull * D(p, target) over Gaussians p with T(p, old) <= radius and std >= the bound.

    `value`, `distance` and `trust` are functions of the step from old to p; log_std_floor (d,) bounds log diag A.
    """

    value: StepFunction
    distance: StepFunction
    trust: StepFunction
    pull: float
    radius: float
    log_std_floor: FloatArray

    def objective(self, x: FloatArray) -> tuple[float, FloatArray]:
        """What is minimised, and its gradient, at the flat step x."""
        u, a = unpack(x, self.dim)
        value, by_u, by_a = self.value(u, a)
        if self.pull:
            far, far_by_u, far_by_a = self.distance(u, a)
            value, by_u, by_a = value - self.pull * far, by_u - self.pull * far_by_u, by_a - self.pull * far_by_a
        return -value, -flat_gradient(by_u, by_a, a)

    def slack(self, x: FloatArray) -> float:
        """The room left in the trust region, in units of its radius."""
        return 1.0 - self.trust(*unpack(x, self.dim))[0] / self.radius

    def slack_gradient(self, x: FloatArray) -> FloatArray:
        u, a = unpack(x, self.dim)
        _, by_u, by_a = self.trust(u, a)
        return -flat_gradient(by_u, by_a, a) / self.radius

    @property
    def dim(self) -> int:
        return self.log_std_floor.size

    def solve(self) -> FloatArray | None:
        """The best step as a flat vector, or nothing where the optimiser found none that is allowed and better.

        Nothing too where it tried a step so narrow or so long that its A has no inverse in numbers.
        """
        try:
            with np.errstate(all="ignore"):
                return self._search()
        except np.linalg.LinAlgError:
            return None

    def _search(self) -> FloatArray | None:
        from scipy.optimize import minimize

        d = self.dim
        start = np.zeros(2 * d + d * (d - 1) // 2)
        bounds = [(None, None)] * d + [(low, 3.0) for low in self.log_std_floor] + [(None, None)] * (start.size - 2 * d)
        found = minimize(
            self.objective,
            start,
            jac=True,
            method="SLSQP",
            bounds=bounds,
            constraints={"type": "ineq", "fun": self.slack, "jac": self.slack_gradient},
            options={"maxiter": 60, "ftol": 1e-6},
        )
        return self._accept(np.asarray(found.x), start)

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


def moments(particles: Particles, stated: tuple[FloatArray, FloatArray] | None) -> tuple[FloatArray, FloatArray]:
    """The stated mean and covariance, or those of the particles."""
    return (particles.mean(), particles.cov()) if stated is None else stated
