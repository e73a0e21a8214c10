"""Kernel regression of scores on contexts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from geodesic.contexts import FloatArray

CHUNK = 2**19  # kernel values at once: 4 MB
NEGLIGIBLE = -60.0  # logarithm of a kernel value that is lost in a sum of doubles; exp is six times slower at underflow


@dataclass(frozen=True, eq=False)
class NadarayaWatson:
    """J(x) = sum_i k(x, x_i) v_i / sum_i k(x, x_i) with k(x, y) = exp(-|(x - y) / unit|^2 / (2 bandwidth^2)).

    Far from all data it gives the value of the nearest point.

    Args:
        inputs: Contexts (n, d).
        values: The value in each of them, (n,) or (n, k).
        bandwidth: Of the Gaussian kernel.
        unit: What contexts are divided by before they are compared, such as the space's `unit_length`, (d,).

    Example:
        >>> import numpy as np
        >>> NadarayaWatson(np.array([[0.0], [1.0]]), np.array([2.0, 4.0]), 0.1).predict(np.array([[0.5], [9.0]]))
        array([3., 4.])
    """

    inputs: FloatArray
    values: FloatArray
    bandwidth: float
    unit: FloatArray | float = 1.0

    def predict(self, points: FloatArray) -> FloatArray:
        """The expected values in other contexts.

        Args:
            points: Contexts (m, d).

        Returns:
            Values (m,), or (m, k).
        """
        points = points / self.unit / self.bandwidth
        rows = max(1, CHUNK // len(self.inputs))
        parts = [self._part(points[i : i + rows]) for i in range(0, max(len(points), 1), rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @cached_property
    def _scaled(self) -> tuple[FloatArray, FloatArray]:
        """The inputs in units of the bandwidth, (n, d), and half their squared norms, (n,)."""
        inputs = self.inputs / self.unit / self.bandwidth
        return inputs, 0.5 * (inputs**2).sum(axis=1)

    def _part(self, points: FloatArray) -> FloatArray:
        """J at points in units of the bandwidth, few enough for a table of their kernel values."""
        inputs, half_squares = self._scaled
        log_kernel = points @ inputs.T
        log_kernel -= half_squares
        log_kernel -= log_kernel.max(axis=1, keepdims=True)
        kernel = np.exp(np.maximum(log_kernel, NEGLIGIBLE, out=log_kernel), out=log_kernel)
        return np.asarray((kernel @ self.values).T / kernel.sum(axis=1)).T
