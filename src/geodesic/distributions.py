"""Distributions over contexts: weighted point sets, and the space that contexts live in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.errors import InvalidInput

FloatArray = NDArray[np.float64]


def as_points(values: ArrayLike, name: str = "points", dim: int | None = None) -> FloatArray:
    """Contexts as a finite (n, d) array; a single context of shape (d,) is not accepted."""
    try:
        points = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"expected {name} to be an array of numbers of shape (n, d), got {values!r:.60}") from error
    if points.ndim != 2:
        raise InvalidInput(f"expected {name} of shape (n, d), got shape {points.shape}")
    if points.size == 0:
        raise InvalidInput(f"expected {name} to hold at least one point, got shape {points.shape}")
    if dim is not None and points.shape[1] != dim:
        raise InvalidInput(f"expected {name} of dimension {dim}, got dimension {points.shape[1]}")
    if not np.isfinite(points).all():
        raise InvalidInput(
            f"expected {name} to be finite, got {int((~np.isfinite(points)).sum())} NaN or infinite values"
        )
    return points


def as_vector(values: ArrayLike, name: str, size: int | None = None) -> FloatArray:
    """A finite vector of shape (size,); a scalar is spread over it."""
    try:
        vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"expected {name} to be numbers, got {values!r:.60}") from error
    if vector.ndim == 0 and size is not None:
        vector = np.full(size, float(vector))
    if vector.ndim != 1 or vector.size == 0 or (size is not None and vector.size != size):
        wanted = "(d,)" if size is None else f"({size},)"
        raise InvalidInput(f"expected {name} of shape {wanted}, got shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise InvalidInput(f"expected {name} to be finite, got {vector}")
    return vector


def as_weights(values: ArrayLike, n: int) -> FloatArray:
    """Weights that are non-negative and sum to one (they are normalised)."""
    weights = as_vector(values, "weights", n)
    if (weights < 0).any():
        raise InvalidInput(f"expected weights to be non-negative, got a smallest weight of {weights.min():g}")
    total = weights.sum()
    if total <= 0:
        raise InvalidInput("expected weights with a positive sum, got all zeros")
    return weights if abs(total - 1.0) <= 1e-9 else weights / total


def as_count(value: int, name: str = "n") -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInput(f"expected {name} to be a positive integer, got {value!r}")
    return int(value)


@dataclass(frozen=True, eq=False)
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
        return self.points[rng.choice(len(self), size=as_count(n), p=self.weights)]

    def mean(self) -> FloatArray:
        return np.asarray(self.weights @ self.points)

    def cov(self) -> FloatArray:
        """Covariance matrix (d, d) of the weighted points."""
        centred = self.points - self.mean()
        return np.asarray((centred * self.weights[:, None]).T @ centred)

    def merged(self) -> Particles:
        """The same distribution with equal points joined and weightless ones dropped."""
        held = self.weights > 0
        points, index = np.unique(self.points[held], axis=0, return_inverse=True)
        return Particles(points, np.bincount(index.ravel(), weights=self.weights[held], minlength=len(points)))

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
        spread = np.array(std_or_cov, dtype=np.float64)
        if spread.ndim == 2:
            if spread.shape != (d, d) or not np.isfinite(spread).all() or not np.allclose(spread, spread.T):
                raise InvalidInput(f"expected a symmetric covariance of shape ({d}, {d}), got shape {spread.shape}")
            values, vectors = np.linalg.eigh(spread)
            if values.min() < -1e-10 * max(1.0, float(values.max())):
                raise InvalidInput(f"expected a positive semi-definite covariance, got eigenvalue {values.min():g}")
            root = vectors * np.sqrt(np.clip(values, 0, None))
        else:
            std = as_vector(spread, "std", d)
            if (std < 0).any():
                raise InvalidInput(f"expected std to be non-negative, got {std}")
            root = np.diag(std)
        points = centre + rng.standard_normal((as_count(n), d)) @ root.T
        if low is not None or high is not None:
            points = ContextSpace(
                np.full(d, -np.inf) if low is None else low, np.full(d, np.inf) if high is None else high
            ).clip(points)
        return cls(points)

    @classmethod
    def uniform(cls, low: ArrayLike, high: ArrayLike, n: int, rng: np.random.Generator) -> Particles:
        """n samples of the uniform distribution on a box."""
        space = ContextSpace(as_vector(low, "low"), as_vector(high, "high"))
        return cls(rng.uniform(space.low, space.high, (as_count(n), space.dim)))

    @classmethod
    def categorical(cls, probs: ArrayLike, support: ArrayLike | None = None) -> Particles:
        """A distribution on a fixed support; without one, on the indices 0 ... n - 1."""
        n = as_vector(probs, "probs").size
        return cls(np.arange(n, dtype=np.float64)[:, None] if support is None else support, probs)


@dataclass(frozen=True, eq=False)
class ContextSpace:
    """Where contexts live: a box, or the finite support of a discrete space inside it."""

    low: FloatArray
    high: FloatArray
    support: FloatArray | None = None

    def __init__(self, low: ArrayLike, high: ArrayLike, support: ArrayLike | None = None) -> None:
        lower, upper = (np.array(bound, dtype=np.float64) for bound in (low, high))
        if lower.ndim != 1 or lower.shape != upper.shape or lower.size == 0:
            raise InvalidInput(f"expected low and high of one shape (d,), got shapes {lower.shape} and {upper.shape}")
        if np.isnan(lower).any() or np.isnan(upper).any() or (lower > upper).any():
            raise InvalidInput(f"expected low <= high, got low {lower} and high {upper}")
        object.__setattr__(self, "low", lower)
        object.__setattr__(self, "high", upper)
        object.__setattr__(self, "support", None if support is None else as_points(support, "support", lower.size))

    @classmethod
    def discrete(cls, support: ArrayLike) -> ContextSpace:
        points = as_points(support, "support")
        return cls(points.min(axis=0), points.max(axis=0), points)

    @property
    def dim(self) -> int:
        return int(self.low.size)

    @property
    def sides(self) -> FloatArray:
        """Size (d,) of a bounded space along each axis; 1 along an axis on which all contexts agree."""
        size = self.high - self.low
        if not np.isfinite(size).all():
            raise InvalidInput(f"expected a bounded context space, got low {self.low} and high {self.high}")
        return np.where(size > 0, size, 1.0)

    def clip(self, points: FloatArray) -> FloatArray:
        """Points moved into the box; on a discrete space, to the nearest support point."""
        if self.support is None:
            return np.clip(points, self.low, self.high)
        return self.support[self.index(points)]

    def index(self, points: FloatArray) -> NDArray[np.intp]:
        """Row of the nearest support point for each point (discrete spaces only)."""
        if self.support is None:
            raise InvalidInput("expected a discrete context space, got a box")
        return np.asarray(np.linalg.norm(points[:, None, :] - self.support[None], axis=2).argmin(axis=1))

    def contains(self, points: FloatArray) -> NDArray[np.bool_]:
        inside = ((points >= self.low - 1e-9) & (points <= self.high + 1e-9)).all(axis=1)
        if self.support is None:
            return np.asarray(inside)
        return np.asarray(np.abs(points - self.clip(points)).max(axis=1) <= 1e-6)

    def check(self, points: ArrayLike, name: str = "context") -> FloatArray:
        """The points as (n, d), or an error that names the first one outside."""
        values = as_points(points, name, self.dim)
        outside = ~self.contains(values)
        if outside.any():
            where = f"low {self.low.tolist()}, high {self.high.tolist()}" if self.support is None else "its support"
            raise InvalidInput(f"expected {name} inside {where}, got {values[outside][0].tolist()}")
        return values

    def uniform(self, n: int, rng: np.random.Generator) -> Particles:
        """The uniform distribution: n samples of the box, or the whole support."""
        if self.support is not None:
            return Particles(self.support)
        return Particles.uniform(self.low, self.high, n, rng)
