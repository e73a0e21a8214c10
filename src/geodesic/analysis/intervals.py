"""Statistics over seeds, with 95 % intervals that hold for every distribution and from few seeds.

Seeds of one method solve the task or fail it, so their scores have two modes, and five of five may show only one. The
spread of such a sample says nothing about the other mode, and methods that rely on it (bootstrap, BCa, Student's t)
cover far less than they state. So no shape is assumed here:

    median, interquartile mean      order statistics x_(1) <= ... <= x_(n): the distribution of F(x_(i)) does not depend
                                    on F
    probability of improvement      a tail bound for the Mann-Whitney statistic

The price is wider intervals, and a least number of seeds. Put almost 3/4 of the mass at 0 and the rest at M: the
interquartile mean grows with M, but all n seeds fall on one side with probability .75^n + .25^n, and an interval that
scales with the scores cannot depend on M then. So no interval covers with more than 1 - .75^n - .25^n, nor one of the
median, with half of the mass on either side, with more than 1 - 2^(1-n). The range of the seeds attains both.
`python -m benchmarks.coverage` simulates all of this, and the bootstrap for comparison.

NaN means unknown: a statistic over seeds of which one is unknown is unknown too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special  # not scipy.stats, which takes half a second to import

from geodesic.checks import FloatArray, as_array, as_count, as_fraction
from geodesic.errors import InvalidInput

Ends = tuple[FloatArray, FloatArray]

LEVEL = 0.95
# With fewer seeds there is no interval. With exactly as many, the range of the seeds covers 93.75 % and 94.4 %, the
# most that any interval can; from one more seed on it is 95 %.
MEDIAN_SEEDS = 5
IQM_SEEDS = 10
DRAWS = 2000


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval.

    Args:
        value: The value.
        low: The lower end; NaN with too few seeds for an interval.
        high: The upper end; NaN with too few seeds for an interval.
    """

    value: float
    low: float
    high: float


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


def median_of(values: FloatArray) -> Estimate:
    """Estimate the median of one value per seed (n,)."""
    return _estimate(values, median, median_interval)


def iqm_of(values: FloatArray) -> Estimate:
    """Estimate the interquartile mean of one value per seed (n,)."""
    return _estimate(values, interquartile_mean, iqm_interval)


def _estimate(
    values: FloatArray, statistic: Callable[[FloatArray], FloatArray], interval: Callable[[FloatArray], Ends]
) -> Estimate:
    values = as_values(values, "values")
    if not len(values):
        return UNKNOWN
    low, high = interval(values)
    return Estimate(float(statistic(values)), float(low), float(high))


def median_interval(values: FloatArray) -> Ends:
    """Compute the interval of the median, from the k-th lowest seed to the k-th highest.

        P(x_(k) <= median <= x_(n+1-k)) >= 1 - 2 P(Bin(n, 1/2) < k)

    k is the largest for which this is 95 %, and 1 for five seeds. Infinite times (never) are allowed.

    Args:
        values: Values (seeds, ...).

    Returns:
        The lower and the upper end (...); NaN with too few seeds.
    """
    values = as_seeds(values)
    if len(values) < MEDIAN_SEEDS:
        return _known(values, np.nan, np.nan)
    at_most = special.bdtr(np.arange(len(values)), len(values), 0.5)
    place = max(1, int(np.searchsorted(at_most, (1 - LEVEL) / 2)))
    ordered = np.sort(values, axis=0)
    return _known(values, ordered[place - 1], ordered[-place])


def iqm_interval(values: FloatArray) -> Ends:
    """Compute the interval of the interquartile mean.

    With Q the quantile function and U_1 <= ... <= U_n distributed as F(x_(1)), ..., F(x_(n)) are, that is as ordered
    uniform numbers, whatever F is:

        IQM = 2 int_(1/4)^(3/4) Q(u) du >= 2 int_(1/4)^(3/4) x_(i(u)) du,     i(u) = #{i : U_i <= u}

    if the U are the true ones. The low end is the 2.5 % quantile of the right side over draws of U, the high end its
    mirror image. This is the interval of Learned-Miller and Thomas (2020), theirs for a mean; for a quantile in place
    of the IQM it is the exact binomial one. With two values it is exact. In general its coverage is their conjecture,
    which neither their simulations nor ours have contradicted. With probability .75^n no seed lies below 1/4: up to 13
    seeds there is no such end, and the range of the seeds is used, which misses with probability .75^n + .25^n at most.

    Args:
        values: Values (seeds, ...).

    Returns:
        The lower and the upper end (...); NaN with too few seeds.
    """
    values = as_seeds(values)
    if len(values) < IQM_SEEDS:
        return _known(values, np.nan, np.nan)
    return _known(values, _iqm_low(values), -_iqm_low(-values))


def _iqm_low(values: FloatArray) -> FloatArray:
    ordered, weights = np.sort(values, axis=0), _iqm_weights(len(values))
    unbounded, place = weights[:, 0] > 0, math.floor((1 - LEVEL) / 2 * DRAWS) - 1
    if unbounded.sum() > place:
        return np.asarray(ordered[0])
    bounds = np.tensordot(weights[:, 1:], ordered, axes=1)
    bounds[unbounded] = -np.inf
    return np.asarray(np.partition(bounds, place, axis=0)[place])


@lru_cache(maxsize=8)
def _iqm_weights(seeds: int) -> FloatArray:
    """The weight of each x_(i) in the integral above per draw of U (DRAWS, 1 + seeds); first, of the unbounded part."""
    drawn = np.sort(np.random.default_rng(0).random((DRAWS, seeds)), axis=1)
    edges = np.pad(drawn, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))
    return np.asarray(2 * np.diff(edges.clip(0.25, 0.75), axis=1))


def _known(values: FloatArray, low: FloatArray | float, high: FloatArray | float) -> Ends:
    """The ends where every seed is known, else NaN: sorting puts NaN last, as if it were the best."""
    unknown = np.isnan(values).any(axis=0)
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Estimate P(X > Y) + P(X = Y) / 2 over all pairs of seeds, the Mann-Whitney statistic.

    For times, where less is better, pass their negatives; two runs that never arrive are a tie. An unknown seed (NaN)
    makes the estimate unknown: dropping it would flatter the method it belongs to.

    Args:
        x: One value per seed of the first method (n,).
        y: One value per seed of the second method (m,).

    Returns:
        The estimate; any number of seeds has an interval.

    Raises:
        InvalidInput: If one side is empty.
    """
    ours, theirs = as_values(x, "x"), as_values(y, "y")
    if not len(ours) or not len(theirs):
        raise InvalidInput(f"expected at least one value on each side, got {len(ours)} and {len(theirs)}")
    if np.isnan(ours).any() or np.isnan(theirs).any():
        return UNKNOWN
    fraction = float(((ours[:, None] > theirs) + 0.5 * (ours[:, None] == theirs)).mean())
    return Estimate(fraction, *probability_interval(fraction, min(len(ours), len(theirs))))


def probability_interval(fraction: float, pairs: int) -> tuple[float, float]:
    """Compute the interval of the probability of improvement from its estimate.

    The estimate U is a mean, over all ways to pair seeds off, of means of k independent values in [0, 1] with the
    probability t as mean (Hoeffding 1963). A convex function is therefore, in expectation, largest for B / k,
    B ~ Bin(k, t), and with the hinge at c (Bentkus 2004)

        P_t(U >= u) <= min_(c < k u) E (B - c)^+ / (k u - c),       c = 0, 1, ...

    for any two distributions, ties included. The ends are where this is 2.5 %. If every seed beats every seed it is
    t^k, which one constant side attains: 1.00 [0.29, 1.00] with 3 seeds, [0.69, 1.00] with 10. Rank tests that estimate
    a variance (Brunner-Munzel) find none there.

    Args:
        fraction: The estimate.
        pairs: The number of seeds on the side with fewer, k.

    Returns:
        The lower and the upper end.
    """
    fraction, pairs = as_fraction(fraction, "fraction"), as_count(pairs, "pairs", 10**5)
    return _lowest(fraction, pairs), 1.0 - _lowest(1.0 - fraction, pairs)


@lru_cache(maxsize=4096)
def _lowest(fraction: float, pairs: int) -> float:
    """The probability at which an estimate of `fraction` or more has a 2.5 % chance."""
    wins = fraction * pairs
    hinges = np.arange(math.ceil(wins))[:, None]
    counts = np.arange(pairs + 1)
    ways = -special.betaln(counts + 1, pairs - counts + 1) - math.log(pairs + 1)

    def excess(probability: float) -> float:
        logs = ways + special.xlogy(counts, probability) + special.xlog1py(pairs - counts, -probability)
        expected = np.maximum(counts - hinges, 0) @ np.exp(logs)
        return float((expected / (wins - hinges[:, 0])).min()) - (1 - LEVEL) / 2

    return float(optimize.brentq(excess, 0.0, fraction)) if len(hinges) else 0.0


def interquartile_mean(values: FloatArray) -> FloatArray:
    """Compute the mean of the middle half of the seeds: values (seeds, ...) -> (...).

    A quarter of them, rounded down, is cut off at either end. A NaN is never cut off and makes the mean NaN.
    """
    values = as_seeds(values)
    cut = len(values) // 4
    means = np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0)
    return np.where(np.isnan(values).any(axis=0), np.nan, means)


def deviation(values: FloatArray) -> FloatArray:
    """Compute the standard deviation over seeds (ddof 1): values (seeds, ...) -> (...); zero for one seed."""
    values = as_seeds(values)
    return np.asarray(values.std(axis=0, ddof=1 if len(values) > 1 else 0))


def median(values: FloatArray) -> FloatArray:
    """Compute the median over seeds, infinite values included: values (seeds, ...) -> (...)."""
    return np.asarray(np.median(as_seeds(values), axis=0))


def as_values(values: ArrayLike, name: str) -> FloatArray:
    """Validate one number (n,) per evaluation or seed; NaN means unknown, infinite never."""
    data = as_array(values, name)
    if data.ndim != 1:
        raise InvalidInput(f"expected {name} of shape (n,), got shape {data.shape}")
    return data


def as_seeds(values: ArrayLike) -> FloatArray:
    """Validate values (seeds, ...) of at least one seed."""
    data = as_array(values, "values")
    if not data.ndim or not len(data):
        raise InvalidInput(f"expected values of at least one seed, got shape {data.shape}")
    return data
