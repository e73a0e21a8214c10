"""Numbers from outside, checked: every array that a caller hands in goes through one of these."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Array = NDArray[Any]  # of numbers of any type
Arrays = dict[str, Array]


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


def as_count(value: object, name: str = "n") -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInput(f"expected {name} to be a positive integer, got {value!r}")
    return int(value)


def as_number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
        raise InvalidInput(f"expected {name} to be a finite number, got {value!r}")
    return float(value)
