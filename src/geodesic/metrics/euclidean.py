"""Straight lines between contexts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from geodesic.contexts import FloatArray, as_vector
from geodesic.errors import InvalidInput


class Euclidean:
    """d(x, y) = |(x - y) / scale|, the scale being one unit per dimension.

    Geodesics are W2's: squared cost, mass moves on straight lines at constant speed.
    """

    def __init__(self, scale: ArrayLike | None = None) -> None:
        self.scale = None if scale is None else as_vector(np.atleast_1d(scale), "scale")
        if self.scale is not None and (self.scale <= 0).any():
            raise InvalidInput(f"expected scale to be positive, got {self.scale}")

    def coordinates(self, x: FloatArray) -> FloatArray:
        if self.scale is None:
            return x
        if self.scale.size not in (1, x.shape[1]):
            raise InvalidInput(f"expected contexts of dimension {self.scale.size}, got dimension {x.shape[1]}")
        return np.asarray(x / self.scale)

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(self.coordinates(x), self.coordinates(y)))

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(self.coordinates(x), self.coordinates(y), "sqeuclidean"))

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        return ((1 - t) * x + t * y)[:, None, :], np.ones((len(x), 1))

    def length(self, distances: FloatArray, mass: FloatArray) -> float:
        return float(np.sqrt(mass @ distances**2))
