"""Straight lines between contexts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import FloatArray, as_array, as_points, as_vector, within
from geodesic.errors import InvalidInput
from geodesic.metrics.base import as_ways


class Euclidean:
    """d(x, y) = |(x - y) / scale|, the scale being one unit per dimension.

    Geodesics are W2's: squared cost, mass moves on straight lines at constant speed.
    """

    def __init__(self, scale: ArrayLike | None = None) -> None:
        self.scale = None if scale is None else as_vector(np.atleast_1d(as_array(scale, "scale")), "scale")
        if self.scale is not None and (self.scale <= 0).any():
            raise InvalidInput(f"expected scale to be positive, got {self.scale}")

    def coordinates(self, x: FloatArray) -> FloatArray:
        dim = None if self.scale is None or self.scale.size == 1 else self.scale.size
        points = as_points(x, "contexts", dim)
        return points if self.scale is None else within(np.asarray(points / self.scale), "contexts in units of scale")

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(self.coordinates(x), self.coordinates(y)))

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(self.coordinates(x), self.coordinates(y), "sqeuclidean"))

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        x, y, t = as_ways(x, y, t)
        return ((1 - t) * x + t * y)[:, None, :], np.ones((len(x), 1))

    def length(self, distances: FloatArray, mass: FloatArray) -> float:
        return float(np.sqrt(mass @ distances**2))
