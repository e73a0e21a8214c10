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

from geodesic.contexts import FloatArray, Particles
from geodesic.curricula.regression import NadarayaWatson
from geodesic.errors import InvalidInput


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
        mean, cov = np.array(mean, dtype=np.float64), np.array(cov, dtype=np.float64)
        d = floor.size
        if mean.shape != (d,) or cov.shape != (d, d):
            raise InvalidInput(f"expected moments of shapes ({d},) and ({d}, {d}), got {mean.shape} and {cov.shape}")
        scaled = cov / np.outer(floor, floor)
        values, vectors = np.linalg.eigh(scaled)
        raised = (vectors * np.maximum(values, 1.0)) @ vectors.T
        return cls(mean, np.linalg.cholesky(raised * np.outer(floor, floor)))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        return np.asarray(self.mean + rng.standard_normal((n, self.dim)) @ self.chol.T)

    def whiten(self, points: FloatArray) -> FloatArray:
        """Points (n, d) in the coordinates where this Gaussian is N(0, I), as columns (d, n)."""
        return np.asarray(np.linalg.solve(self.chol, (points - self.mean).T))

    def moved(self, u: FloatArray, a: FloatArray) -> Gaussian:
        return Gaussian(self.mean + self.chol @ u, self.chol @ a)

    def kl(self, other: Gaussian) -> float:
        """KL(self || other)."""
        return KullbackLeibler(self, other)(np.zeros(self.dim), np.eye(self.dim))[0]

    def wasserstein(self, other: Gaussian, unit: FloatArray) -> float:
        """W2(self, other) with contexts measured in this unit (d,)."""
        squared = BuresWasserstein(self, other, unit)(np.zeros(self.dim), np.eye(self.dim))[0]
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


class BuresWasserstein:
    """W2(p, q)^2 of the Gaussian p that a step from `old` leads to, contexts measured in `unit`.

    With q = N(m, B B') and p = N(n, C C'): |n - m|^2 + |B|^2 + |C|^2 - 2 ||B' C||_*, the nuclear norm being
    tr (B' C C' B)^(1/2); its gradient by C is B U V' for B' C = U S V'.
    """

    def __init__(self, old: Gaussian, other: Gaussian, unit: FloatArray) -> None:
        self.frame = old.chol / unit[:, None]
        self.centre = (other.mean - old.mean) / unit
        self.chol = other.chol / unit[:, None]
        self.offset = float((self.chol**2).sum())

    def __call__(self, u: FloatArray, a: FloatArray) -> Valued:
        shift = self.frame @ u - self.centre
        chol = self.frame @ a
        left, singular, right = np.linalg.svd(self.chol.T @ chol)
        value = float(shift @ shift + (chol * chol).sum() - 2.0 * singular.sum()) + self.offset
        by_chol = 2.0 * (chol - self.chol @ left @ right)
        return value, 2.0 * self.frame.T @ shift, self.frame.T @ by_chol


class ImportanceWeighted:
    """v + mean_i p(c_i) / old(c_i) (v_i - v): the expected value under the Gaussian p a step from `old` leads to.

    v is the mean of the v_i. Without it the expectation is the same, since the weights' is 1, but two dozen episodes
    of equal value would already push p about by the noise of their contexts.
    """

    def __init__(self, old: Gaussian, contexts: FloatArray, values: FloatArray) -> None:
        self.points = old.whiten(contexts)
        self.log_old = 0.5 * (self.points**2).sum(axis=0)
        self.mean = float(values.mean())
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


class Cubature:
    """E_p[v] of a regression v on contexts, for the Gaussian p that a step from `old` leads to.

    The mean over the 2 d points n +- sqrt(d) C e_i of p = N(n, C C'), exact for v of third degree.
    """

    def __init__(self, old: Gaussian, regression: NadarayaWatson, unit: FloatArray) -> None:
        d = old.dim
        self.regression = regression
        self.mean = old.mean / unit
        self.frame = old.chol / unit[:, None]
        self.offsets = np.sqrt(d) * np.concatenate([np.eye(d), -np.eye(d)])

    def __call__(self, u: FloatArray, a: FloatArray) -> Valued:
        points = self.mean + (u + self.offsets @ a.T) @ self.frame.T
        values, slopes = self.regression.gradient(points)
        slopes = slopes @ self.frame / len(points)
        return float(values.mean()), slopes.sum(axis=0), slopes.T @ self.offsets


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


def moments(particles: Particles, stated: tuple[FloatArray, FloatArray] | None) -> tuple[FloatArray, FloatArray]:
    """The stated mean and covariance, or those of the particles."""
    return (particles.mean(), particles.cov()) if stated is None else stated
