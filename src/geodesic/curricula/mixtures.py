"""Gaussian mixtures of several sizes, fitted side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray

RIDGE = 1e-6  # added to each variance, so that a component on one point keeps a density
SMALLEST = 10 * np.finfo(np.float64).eps  # mass of a component that no point belongs to


@dataclass(frozen=True, eq=False)
class Mixture:
    """weights (k,), means (k, d), covariances (k, d, d), and Akaike's criterion on the points it was fitted to."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    aic: float


def fit_mixtures(
    points: FloatArray, sizes: Sequence[int], rng: np.random.Generator, tol: float = 3e-3, max_iter: int = 100
) -> list[Mixture]:
    """One mixture with full covariances per size, by expectation maximisation on points (n, d).

    The components of all mixtures are rows of the same arrays, so that a sweep costs a handful of array operations.
    From the same start, each mixture is the one that scikit-learn's GaussianMixture finds, at a small part of its
    cost. All start from one k-means++ sequence: its first k points are seeds for k components. Sweeps go on until no
    mixture's mean log-likelihood gains `tol`.
    """
    seeds = points[plus_plus(points, max(sizes), rng)]
    shares = np.concatenate([nearest_seed(points, seeds[:k]) for k in sizes])
    em = _Sweeps(points, sizes)
    before = np.full(len(sizes), -np.inf)
    for _ in range(max_iter):
        weights, means, covariances = em.maximise(shares)
        shares, now = em.expect(weights, means, covariances)
        if (now - before < tol).all():
            break
        before = now
    weights, means, covariances = em.maximise(shares)
    now = em.expect(weights, means, covariances)[1]
    n, d = points.shape
    cuts = np.cumsum(sizes)[:-1]
    return [
        Mixture(w, m, c, 2.0 * (len(w) * (d * (d + 1) // 2 + d + 1) - 1) - 2.0 * n * float(score))
        for w, m, c, score in zip(
            np.split(weights, cuts), np.split(means, cuts), np.split(covariances, cuts), now, strict=True
        )
    ]


class _Sweeps:
    def __init__(self, points: FloatArray, sizes: Sequence[int]) -> None:
        n, d = points.shape
        self.points = points
        self.squares = np.einsum("ni,nj->nij", points, points).reshape(n, d * d)
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.owner = np.repeat(np.arange(len(sizes)), sizes)

    def maximise(self, shares: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights, means and covariances from the share (k, n) of each component in each point."""
        d = self.points.shape[1]
        mass = shares.sum(axis=1) + SMALLEST
        means = shares @ self.points / mass[:, None]
        seconds = (shares @ self.squares / mass[:, None]).reshape(-1, d, d)
        covariances = seconds - means[:, :, None] * means[:, None, :]
        covariances[:, np.arange(d), np.arange(d)] += RIDGE
        return mass / np.add.reduceat(mass, self.starts)[self.owner], means, covariances

    def expect(self, weights: FloatArray, means: FloatArray, covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The share (k, n) of each component in each point, and each mixture's mean log-likelihood."""
        chol = np.linalg.cholesky(covariances)
        scores = np.linalg.inv(chol) @ (self.points.T - means[:, :, None])
        log_det = np.log(np.einsum("kii->ki", chol)).sum(axis=1)
        log_joint = -0.5 * (scores * scores).sum(axis=1)
        log_joint += (np.log(weights) - log_det - 0.5 * means.shape[1] * np.log(2.0 * np.pi))[:, None]
        top = np.maximum.reduceat(log_joint, self.starts, axis=0)
        joint = np.exp(log_joint - top[self.owner])
        total = np.add.reduceat(joint, self.starts, axis=0)
        return joint / total[self.owner], (np.log(total) + top).mean(axis=1)


def plus_plus(points: FloatArray, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """k-means++: rows drawn one by one in proportion to their squared distance to those already drawn."""
    rows = [int(rng.integers(len(points)))]
    squared = np.full(len(points), np.inf)
    for _ in range(k - 1):
        squared = np.minimum(squared, ((points - points[rows[-1]]) ** 2).sum(axis=1))
        total = squared.sum()
        rows.append(int(rng.choice(len(points), p=squared / total if total > 0 else None)))
    return np.array(rows)


def nearest_seed(points: FloatArray, seeds: FloatArray) -> FloatArray:
    """Shares (k, n) that give each point to its nearest seed."""
    squared = ((seeds[:, None] - points) ** 2).sum(axis=2)
    return np.asarray(np.arange(len(seeds))[:, None] == squared.argmin(axis=0), dtype=np.float64)
