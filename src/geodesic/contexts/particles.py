"""Distributions over contexts as weighted point sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import (
    FloatArray,
    as_array,
    as_bounds,
    as_covariance,
    as_points,
    as_rng,
    as_size,
    as_vector,
    as_weights,
)
from geodesic.errors import InvalidInput


@dataclass(frozen=True, eq=False, repr=False)
class Particles:
    """A weighted point set on contexts: points (n, d), weights (n,) that sum to one.

    Discrete distributions are particles on a fixed support; continuous ones are samples.
    """

    points: FloatArray
    weights: FloatArray

    def __init__(self, points: ArrayLike, weights: ArrayLike | None = None) -> None:
        checked = as_points(points)
        n = len(checked)
        shares = np.full(n, 1.0 / n) if weights is None else as_weights(weights, n)
        for array in (checked, shares):
            array.setflags(write=False)
        object.__setattr__(self, "points", checked)
        object.__setattr__(self, "weights", shares)

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        mean, std = self.mean(), np.sqrt(np.diagonal(self.cov()))
        along = ", ".join(f"{m:.3g} ± {s:.2g}" for m, s in zip(mean[:4], std[:4]))
        return f"Particles({len(self)} points, mean {along}{', ...' if self.dim > 4 else ''})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Particles)
            and np.array_equal(self.points, other.points)
            and np.array_equal(self.weights, other.weights)
        )

    @property
    def dim(self) -> int:
        return int(self.points.shape[1])

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """n contexts drawn with replacement, shape (n, d)."""
        return self.points[as_rng(rng).choice(len(self), size=as_size(n), p=self.weights)]

    def mean(self) -> FloatArray:
        return np.asarray(self.weights @ self.points)

    def cov(self) -> FloatArray:
        """Covariance matrix (d, d) of the weighted points."""
        centred = self.points - self.mean()
        return np.asarray((centred * self.weights[:, None]).T @ centred)

    def positive(self) -> Particles:
        """The same distribution without the points of weight 0."""
        some = self.weights > 0
        return self if some.all() else Particles(self.points[some], self.weights[some])

    def merged(self) -> Particles:
        """The same distribution with equal points joined and weightless ones dropped."""
        some = self.weights > 0
        points, index = np.unique(self.points[some], axis=0, return_inverse=True)
        return Particles(points, np.bincount(index.ravel(), weights=self.weights[some], minlength=len(points)))

    def thinned(self, n: int, rng: np.random.Generator) -> Particles:
        """n particles of equal weight by systematic resampling: each point is drawn n w times, rounded up or down."""
        return Particles(self.points[self.drawn(n, rng)])

    def drawn(self, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """The rows (n,) of the points that `thinned` takes."""
        marks = (np.arange(as_size(n)) + as_rng(rng).random()) / n
        cumulated = np.cumsum(self.weights)
        rows = np.searchsorted(cumulated, marks * cumulated[-1], side="right")
        return np.asarray(rows.clip(max=len(self) - 1))

    @classmethod
    def gaussian(
        cls,
        mean: ArrayLike,
        std_or_cov: ArrayLike,
        n: int,
        rng: np.random.Generator,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
    ) -> Particles:
        """n samples of a Gaussian; a matrix is a covariance, a vector or scalar are standard deviations.

        Samples outside the bounds are clipped to them.
        """
        centre = as_vector(mean, "mean")
        d = centre.size
        spread = as_array(std_or_cov, "std_or_cov")
        if spread.ndim == 2:
            values, vectors = np.linalg.eigh(as_covariance(spread, d))
            root = vectors * np.sqrt(np.clip(values, 0, None))
        else:
            std = as_vector(spread, "std", d)
            if (std < 0).any():
                raise InvalidInput(f"expected std to be non-negative, got {std}")
            root = np.diag(std)
        points = centre + as_rng(rng).standard_normal((as_size(n), d)) @ root.T
        lower, upper = as_bounds(
            np.full(d, -np.inf) if low is None else low, np.full(d, np.inf) if high is None else high
        )
        return cls(np.clip(points, lower, upper))

    @classmethod
    def uniform(cls, low: ArrayLike, high: ArrayLike, n: int, rng: np.random.Generator) -> Particles:
        """n samples of the uniform distribution on a box."""
        lower, upper = as_bounds(as_vector(low, "low"), as_vector(high, "high"))
        return cls(as_rng(rng).uniform(lower, upper, (as_size(n), lower.size)))

    @classmethod
    def categorical(cls, probs: ArrayLike, support: ArrayLike | None = None) -> Particles:
        """A distribution on a fixed support; without one, on the indices 0 ... n - 1."""
        n = as_vector(probs, "probs").size
        return cls(np.arange(n, dtype=np.float64)[:, None] if support is None else support, probs)
