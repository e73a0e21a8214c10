"""Kernel regression of returns on contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geodesic.contexts import FloatArray

CHUNK = 2**19  # kernel values at once: 4 MB
NOTHING = -60.0  # logarithm of what adds nothing to a sum of doubles; exp takes six times as long where it underflows


@dataclass(frozen=True, eq=False)
class NadarayaWatson:
    """J(x) = sum_i k(x, x_i) v_i / sum_i k(x, x_i), k(x, y) = exp(-|(x - y) / unit|^2 / (2 width^2)).

    Far from all data it gives the value of the nearest point. inputs (n, d); unit (d,): what contexts are divided by
    before they are compared, such as the space's `unit_length`; values (n,), or (n, k): k of them at once.
    """

    inputs: FloatArray
    values: FloatArray
    width: float
    unit: FloatArray | float = 1.0

    def predict(self, points: FloatArray) -> FloatArray:
        """J (m,), or (m, k), at points (m, d)."""
        inputs = self.inputs / self.unit / self.width
        points = points / self.unit / self.width
        rows = max(1, CHUNK // len(inputs))
        parts = [self._part(points[i : i + rows], inputs) for i in range(0, max(len(points), 1), rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _part(self, points: FloatArray, inputs: FloatArray) -> FloatArray:
        """The same at points and inputs in widths, few enough for a table of their kernels."""
        log_kernel = points @ inputs.T
        log_kernel -= 0.5 * (inputs**2).sum(axis=1)
        log_kernel -= log_kernel.max(axis=1, keepdims=True)
        kernel = np.exp(np.maximum(log_kernel, NOTHING, out=log_kernel), out=log_kernel)
        return np.asarray((kernel @ self.values).T / kernel.sum(axis=1)).T
