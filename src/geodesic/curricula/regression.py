"""Kernel regression of returns on contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geodesic.contexts import FloatArray


@dataclass(frozen=True, eq=False)
class NadarayaWatson:
    """v(x) = sum_i k(x, x_i) v_i / sum_i k(x, x_i), k(x, y) = exp(-|x - y|^2 / (2 width^2)).

    Far from all data it gives the value of the nearest point. inputs (n, d) in units in which `width` is a length.
    """

    inputs: FloatArray
    values: FloatArray
    width: float

    def predict(self, points: FloatArray) -> FloatArray:
        """v (m,) at points (m, d)."""
        inputs = self.inputs / self.width
        points = points / self.width
        log_kernel = points @ inputs.T - 0.5 * (inputs**2).sum(axis=1)
        log_kernel -= log_kernel.max(axis=1, keepdims=True)
        kernel = np.exp(log_kernel, out=log_kernel)
        kernel /= kernel.sum(axis=1, keepdims=True)
        return np.asarray(kernel @ self.values)
