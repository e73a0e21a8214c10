"""Distributions over contexts as weighted point sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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

Moments = tuple[FloatArray, FloatArray]  # mean (d,), covariance (d, d)


@dataclass(frozen=True, eq=False, repr=False)
class Particles:
    """A distribution over contexts as a weighted point set.

    Discrete distributions are particles on a fixed support; continuous ones are samples.

    Args:
        points: Contexts (n, d).
        weights: Non-negative weights (n,), which are normalised (default: equal).

    Raises:
        InvalidInput: If there are no points, a value is not finite, or the weights do not fit.

    Example:
        >>> import geodesic as gd
        >>> gd.Particles([[0.0], [1.0]], [1, 3]).mean()
        array([0.75])
    """

    points: FloatArray
    weights: FloatArray

    def __init__(self, points: ArrayLike, weights: ArrayLike | None = None) -> None:
        checked = as_points(points)
        n = len(checked)
        mass = np.full(n, 1.0 / n) if weights is None else as_weights(weights, n)
        for array in (checked, mass):
            array.setflags(write=False)
        vars(self).update(points=checked, weights=mass)  # the class is frozen

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
        """The dimension of the contexts."""
        return int(self.points.shape[1])

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw contexts.

        Args:
            rng: The generator.
            n: How many.

        Returns:
            Contexts (n, d), drawn with replacement.
        """
        return self.points[self._cumulative.searchsorted(as_rng(rng).random(as_size(n)), side="right")]

    @cached_property
    def _cumulative(self) -> FloatArray:
        """The cumulative weights (n,), exactly as `numpy.random.Generator.choice` computes them."""
        sums = self.weights.cumsum()
        return np.asarray(sums / sums[-1])

    @cached_property
    def _rows(self) -> frozenset[bytes]:
        """The contexts that can be drawn, as `rows_of` sees them; much faster than `numpy.isin` on such values."""
        return frozenset(rows_of(self.points[self.weights > 0]).tolist())

    def mean(self) -> FloatArray:
        """Compute the mean context.

        Returns:
            The mean (d,) of the weighted points.
        """
        return np.asarray(self.weights @ self.points)

    def cov(self) -> FloatArray:
        """Compute the covariance.

        Returns:
            The covariance matrix (d, d) of the weighted points.
        """
        centred = self.points - self.mean()
        return np.asarray((centred * self.weights[:, None]).T @ centred)

    def positive(self) -> Particles:
        """Remove the points of weight 0.

        Returns:
            The same distribution; this object if there are none.
        """
        some = self.weights > 0
        return self if some.all() else Particles(self.points[some], self.weights[some])

    def merged(self) -> Particles:
        """Merge equal points and remove those of weight 0.

        Returns:
            The same distribution, with its points sorted.
        """
        here = self.positive()
        points, index = np.unique(here.points, axis=0, return_inverse=True)
        return Particles(points, np.bincount(index.ravel(), here.weights))

    def thinned(self, n: int, rng: np.random.Generator) -> Particles:
        """Resample systematically: each point is drawn n times its weight, rounded up or down.

        Args:
            n: The number of particles.
            rng: The generator.

        Returns:
            n particles of equal weight.
        """
        return Particles(self.points[self.drawn(n, rng)])

    def drawn(self, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Choose the points that `thinned` takes.

        Args:
            n: The number of particles.
            rng: The generator.

        Returns:
            The rows (n,) of the points.
        """
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
        """Sample a Gaussian.

        Args:
            mean: The mean (d,).
            std_or_cov: A covariance (d, d), or standard deviations (d,) or a number.
            n: The number of samples.
            rng: The generator.
            low: The lower bounds (d,) that samples are clipped to (default: none).
            high: The upper bounds (d,) (default: none).

        Returns:
            n particles of equal weight.

        Raises:
            InvalidInput: If a shape does not fit or the covariance is not positive semi-definite.
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
        """Sample the uniform distribution on a box.

        Args:
            low: The lower bounds (d,).
            high: The upper bounds (d,).
            n: The number of samples.
            rng: The generator.

        Returns:
            n particles of equal weight.
        """
        lower, upper = as_bounds(as_vector(low, "low"), as_vector(high, "high"))
        return cls(as_rng(rng).uniform(lower, upper, (as_size(n), lower.size)))

    @classmethod
    def categorical(cls, probs: ArrayLike, support: ArrayLike | None = None) -> Particles:
        """A distribution on a fixed support.

        Args:
            probs: The probabilities (n,), which are normalised.
            support: The contexts (n, d) (default: the indices 0 ... n - 1).

        Returns:
            The particles.
        """
        n = as_vector(probs, "probs").size
        return cls(np.arange(n, dtype=np.float64)[:, None] if support is None else support, probs)


def rows_of(points: FloatArray) -> NDArray[np.void]:
    """View contexts as values that can be compared, in the precision in which environments get them.

    Args:
        points: Contexts (n, d).

    Returns:
        One value (n,) for each context; those of equal contexts are equal.
    """
    rounded = np.ascontiguousarray(points, np.float32) + np.float32(0)  # -0.0 becomes 0.0
    return rounded.view(np.dtype((np.void, rounded.dtype.itemsize * rounded.shape[1]))).ravel()


def are_drawn_from(contexts: FloatArray, particles: Particles) -> NDArray[np.bool_]:
    """Which contexts can have been drawn from a distribution.

    Args:
        contexts: Contexts (n, d).
        particles: The distribution.

    Returns:
        Whether each (n,) is one of its points with a positive weight.
    """
    return np.array([row in particles._rows for row in rows_of(contexts).tolist()], bool)
