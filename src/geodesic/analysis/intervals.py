"""95 % intervals over seeds that hold for every distribution of scores and times, and from few seeds.

Seeds of one method solve the task or fail it: their scores have two modes, and five of five may show only one. Then
the spread of the sample says nothing of the other mode, and what rests on it (bootstrap, BCa, Student's t) covers far
less than it says. So nothing here assumes a shape:

    median, interquartile mean      order statistics x_(1) <= ... <= x_(n): where F(x_(i)) may lie is the same for all F
    probability of improvement      a tail bound for the Mann-Whitney statistic

The price is width, and that below some number of seeds there is none. Put almost 3/4 of the mass at 0 and the rest at
M: the interquartile mean grows with M, all n seeds fall together with probability .75^n + .25^n, and an interval that
moves with the scores cannot know M then. So none covers with more than 1 - .75^n - .25^n, nor the median, with half of
the mass on either side of it, with more than 1 - 2^(1-n). The range of the seeds attains both.
`python -m benchmarks.coverage` simulates all of this, and the bootstrap beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special  # not scipy.stats, which takes half a second to import

from geodesic.analysis.measures import as_seeds, as_values, interquartile_mean, median
from geodesic.checks import FloatArray, as_count, as_share
from geodesic.errors import InvalidInput

Ends = tuple[FloatArray, FloatArray]

LEVEL = 0.95
# Fewer seeds have no interval. With just as many the range of the seeds covers 93.75 % and 94.4 %, which is the most
# that any interval can; the next number has 95 %.
MEDIAN_SEEDS = 5
IQM_SEEDS = 10
DRAWS = 2000


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 95 % interval, which are NaN where the seeds are too few for one."""

    value: float
    low: float
    high: float


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


def median_of(values: FloatArray) -> Estimate:
    """The median of one value per seed, with its interval."""
    return _estimate(values, median, median_interval)


def iqm_of(values: FloatArray) -> Estimate:
    """The interquartile mean of one value per seed, with its interval."""
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
    """From the k-th lowest seed to the k-th highest: values (seeds, ...) -> low (...), high (...).

        P(x_(k) <= median <= x_(n+1-k)) >= 1 - 2 P(Bin(n, 1/2) < k)

    k is the largest for which this is 95 %, and 1 for five seeds. Times that are infinite (never) have their place.
    """
    values = as_seeds(values)
    if len(values) < MEDIAN_SEEDS:
        return _none(values)
    at_most = special.bdtr(np.arange(len(values)), len(values), 0.5)
    place = max(1, int(np.searchsorted(at_most, (1 - LEVEL) / 2)))
    ordered = np.sort(values, axis=0)
    return _known(values, ordered[place - 1], ordered[-place])


def iqm_interval(values: FloatArray) -> Ends:
    """Interval of the interquartile mean: values (seeds, ...) -> low (...), high (...).

    With Q the quantile function and U_1 <= ... <= U_n distributed as F(x_(1)), ..., F(x_(n)) are, that is as ordered
    uniform numbers, whatever F is:

        IQM = 2 int_(1/4)^(3/4) Q(u) du >= 2 int_(1/4)^(3/4) x_(i(u)) du,     i(u) = #{i : U_i <= u}

    if the U are the true ones. The low end is the 2.5 % quantile of the right side over draws of U, the high end its
    mirror image: the interval of Learned-Miller and Thomas (2020), theirs of a mean, and for a quantile in place of the
    IQM the exact binomial one. With two values it is exact; in general that it covers is their conjecture, which
    simulations have not contradicted, nor ours. Below 1/4 lies no seed with probability .75^n: to 13 seeds there is
    no such end, and the range stands for it, which misses with probability .75^n + .25^n at most.
    """
    values = as_seeds(values)
    if len(values) < IQM_SEEDS:
        return _none(values)
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
    """What x_(i) weighs in the integral above, for each draw of U: (DRAWS, 1 + seeds), first what no seed bounds."""
    drawn = np.sort(np.random.default_rng(0).random((DRAWS, seeds)), axis=1)
    edges = np.pad(drawn, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))
    return np.asarray(2 * np.diff(edges.clip(0.25, 0.75), axis=1))


def _none(values: FloatArray) -> Ends:
    return np.full(values.shape[1:], np.nan), np.full(values.shape[1:], np.nan)


def _known(values: FloatArray, low: FloatArray, high: FloatArray) -> Ends:
    """The ends where every seed is known; sorting has put NaN last, as if it were the best."""
    unknown = np.isnan(values).any(axis=0)
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 over all pairs of seeds, the Mann-Whitney statistic, with an interval from any number.

    For times, where less is better, pass their negatives: two runs that never arrive are a tie. A seed of which nothing
    is known (NaN) leaves the whole unknown: to drop it would flatter the method that lost it.
    """
    ours, theirs = as_values(x, "x"), as_values(y, "y")
    if not len(ours) or not len(theirs):
        raise InvalidInput(f"expected at least one value on each side, got {len(ours)} and {len(theirs)}")
    if np.isnan(ours).any() or np.isnan(theirs).any():
        return UNKNOWN
    share = float(((ours[:, None] > theirs) + 0.5 * (ours[:, None] == theirs)).mean())
    return Estimate(share, *probability_interval(share, min(len(ours), len(theirs))))


def probability_interval(share: float, pairs: int) -> tuple[float, float]:
    """Interval of the probability of improvement from its estimate; pairs: seeds on the side that has fewer.

    The estimate U is a mean, over all ways to pair seeds off, of means of k independent values in [0, 1] with the
    probability t as mean (Hoeffding 1963). A convex function is therefore, in expectation, largest for B / k,
    B ~ Bin(k, t), and with the hinge at c (Bentkus 2004)

        P_t(U >= u) <= min_(c < k u) E (B - c)^+ / (k u - c),       c = 0, 1, ...

    whatever the two distributions, ties included. The ends are where this is 2.5 %. If every seed beats every seed it
    is t^k, which one constant side attains: from 3 seeds 1.00 [0.29, 1.00], from 10 [0.69, 1.00]. Rank tests that
    estimate a variance (Brunner-Munzel) find none there.
    """
    share, pairs = as_share(share, "share"), as_count(pairs, "pairs", 10**5)
    return _lowest(share, pairs), 1.0 - _lowest(1.0 - share, pairs)


@lru_cache(maxsize=4096)
def _lowest(share: float, pairs: int) -> float:
    """The probability at which an estimate of `share` or more has a chance of 2.5 %."""
    wins = share * pairs
    hinges = np.arange(math.ceil(wins))[:, None]
    counts = np.arange(pairs + 1)
    ways = -special.betaln(counts + 1, pairs - counts + 1) - math.log(pairs + 1)

    def excess(probability: float) -> float:
        logs = ways + special.xlogy(counts, probability) + special.xlog1py(pairs - counts, -probability)
        expected = np.maximum(counts - hinges, 0) @ np.exp(logs)
        return float((expected / (wins - hinges[:, 0])).min()) - (1 - LEVEL) / 2

    return float(optimize.brentq(excess, 0.0, share)) if len(hinges) else 0.0
