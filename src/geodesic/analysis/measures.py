"""What one run, or the seeds of one method, amount to in a number.

NaN is what is not known. An evaluation that is not finite is left out of every mean over evaluations; a run without
any other has neither a time nor a final score, and a statistic over seeds with such a run is not known either. Never
is a time: infinite, later than all others.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import FloatArray, as_array, as_count, as_share, is_number
from geodesic.errors import InvalidInput, shown

WINDOW = 10  # evaluations that a rolling mean joins


def rolling_mean(values: ArrayLike, window: int = WINDOW) -> FloatArray:
    """Mean of each value and those before it, `window` in all; at the start, of as many as there are.

    Values that are not finite are left out; a window without any other gives NaN.
    """
    data = as_values(values, "values")
    window = min(as_count(window, "window"), max(len(data), 1))
    known = np.isfinite(data)
    sums = _window_sums(np.where(known, data, 0.0), window)
    counts = _window_sums(known.astype(np.float64), window)
    means: FloatArray = np.divide(sums, counts, out=np.full(len(data), np.nan), where=counts > 0)
    return means


def _window_sums(values: FloatArray, window: int) -> FloatArray:
    if not len(values):
        return values
    return np.asarray(np.convolve(values, np.ones(window))[: len(values)])


def time_to_solved(
    steps: ArrayLike, scores: ArrayLike, solved: float, window: int = WINDOW, stays: bool = True
) -> float:
    """First step from which the smoothed target score stays above the level `solved`; infinite if it never does.

    "Stays" means to the end of the run: a level that is passed by luck and lost again does not count. With
    stays=False, the first step at which it is above; with window=1 as well, of the evaluations as they are. A rolling
    mean lags: by up to `window` evaluations, if the score jumps from far below to just above.
    NaN without a level or a single known evaluation; a window without one is not above.
    """
    times, smooth = as_values(steps, "steps"), rolling_mean(scores, window)
    if not is_number(solved):
        raise InvalidInput(f"expected solved to be a number, got {shown(solved)}")
    if len(times) != len(smooth):
        raise InvalidInput(f"expected as many steps as scores, got {len(times)} and {len(smooth)}")
    if math.isnan(solved) or np.isnan(smooth).all():
        return math.nan
    above = smooth > solved
    below = np.flatnonzero(~above)
    first = int(below[-1]) + 1 if len(below) else 0
    if not stays and above.any():
        first = int(above.argmax())
    return float(times[first]) if first < len(times) else math.inf


def asymptotic(scores: ArrayLike, share: float = 0.1) -> float:
    """Mean of the last share of the evaluations, at least of one; those that are not finite are left out."""
    values, share = as_values(scores, "scores"), as_share(share, "share")
    if not len(values):
        raise InvalidInput("expected at least one evaluation, got none")
    # A product such as 0.1 * 30 is a hair above 3 and must not count as 4.
    count = max(1, math.ceil(share * len(values) - 1e-9))
    return float(rolling_mean(values[-count:], count)[-1])


def interquartile_mean(values: FloatArray) -> FloatArray:
    """Mean of the middle half of the seeds: values (seeds, ...) -> (...).

    A quarter of them, rounded down, is cut off at either end; NaN is not an end, and makes the mean NaN.
    """
    values = as_seeds(values)
    cut = len(values) // 4
    means = np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0)
    return np.where(np.isnan(values).any(axis=0), np.nan, means)


def deviation(values: FloatArray) -> FloatArray:
    """Standard deviation over seeds (n - 1 in the denominator): values (seeds, ...) -> (...); zero for one seed."""
    values = as_seeds(values)
    return np.asarray(values.std(axis=0, ddof=1 if len(values) > 1 else 0))


def median(values: FloatArray) -> FloatArray:
    """The median over seeds, infinite values included: values (seeds, ...) -> (...)."""
    return np.asarray(np.median(as_seeds(values), axis=0))


def as_values(values: ArrayLike, name: str) -> FloatArray:
    """One number (n,) for each evaluation or seed; NaN is not known, infinite never."""
    data = as_array(values, name)
    if data.ndim != 1:
        raise InvalidInput(f"expected {name} of shape (n,), got shape {data.shape}")
    return data


def as_seeds(values: ArrayLike) -> FloatArray:
    """Values (seeds, ...) of at least one seed."""
    data = as_array(values, "values")
    if not data.ndim or not len(data):
        raise InvalidInput(f"expected values of at least one seed, got shape {data.shape}")
    return data
