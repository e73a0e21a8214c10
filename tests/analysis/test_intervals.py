"""Statistics over seeds; coverage is simulated with distributions of known truth (see benchmarks/coverage.py)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from geodesic.analysis import intervals
from geodesic.analysis.intervals import (
    Estimate,
    interquartile_mean,
    iqm_interval,
    median,
    median_interval,
    probability_interval,
)
from geodesic.errors import InvalidInput

Shape = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

NUMBERS = st.lists(st.floats(-100, 100), min_size=1, max_size=40)
SAMPLES = 4000
NOISE = 0.01  # of a fraction of so many samples: three standard errors at 95 %


def modes(low: float, spread: float) -> Shape:
    return lambda rng, size: np.where(rng.random(size) < low, 0.0, 10.0) + spread * rng.normal(size=size)


SHAPES: dict[str, Shape] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "skewed": lambda rng, size: rng.lognormal(size=size),
    "heavy-tailed": lambda rng, size: rng.standard_t(2, size),
    "bimodal": modes(0.5, 1.0),
    "bimodal, most fail": modes(0.7, 0.3),
    "all or nothing": modes(0.74, 0.0),
}
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def covered(low: np.ndarray, high: np.ndarray, true: float) -> float:
    return float(((low <= true) & (true <= high)).mean())


def truth(shape: Shape, statistic: Callable[[np.ndarray], np.ndarray]) -> float:
    return float(statistic(shape(np.random.default_rng(1), (1_000_000,))))


@shapes
def test_median_intervals_cover_from_five_seeds_on(shape: Shape) -> None:
    true, rng = truth(shape, median), np.random.default_rng(0)
    for seeds, stated in ((5, 0.9375), (6, 0.95), (10, 0.95), (20, 0.95)):
        assert covered(*median_interval(shape(rng, (seeds, SAMPLES))), true) >= stated - NOISE, seeds


@shapes
def test_interquartile_mean_intervals_cover_from_ten_seeds_on(shape: Shape) -> None:
    true, rng = truth(shape, interquartile_mean), np.random.default_rng(0)
    for seeds, stated in ((10, 1 - 0.75**10 - 0.25**10), (11, 0.95), (20, 0.95)):
        assert covered(*iqm_interval(shape(rng, (seeds, SAMPLES))), true) >= stated - NOISE, seeds


def wins(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x[:, :, None] > y[:, None]) + 0.5 * (x[:, :, None] == y[:, None])).mean(axis=(1, 2))


@shapes
@pytest.mark.parametrize("other", ["shifted", "constant"])
def test_probability_of_improvement_intervals_cover_from_any_number_of_seeds(shape: Shape, other: str) -> None:
    def rival(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        return shape(rng, size) - 2.0 if other == "shifted" else np.full(size, 1.5)

    rng = np.random.default_rng(0)
    true = float(wins(shape(rng, (1_000_000, 1)), rival(rng, (1_000_000, 1))).mean())
    for ours, theirs in ((3, 3), (5, 5), (3, 10), (10, 10), (20, 20)):
        fractions, inverse = np.unique(
            wins(shape(rng, (SAMPLES, ours)), rival(rng, (SAMPLES, theirs))), return_inverse=True
        )
        ends = np.array([probability_interval(float(fraction), min(ours, theirs)) for fraction in fractions])[inverse]
        assert covered(ends[:, 0], ends[:, 1], true) >= 0.95 - NOISE, (ours, theirs)


def test_too_few_seeds_have_no_interval() -> None:
    for interval, fewest in ((median_interval, intervals.MEDIAN_SEEDS), (iqm_interval, intervals.IQM_SEEDS)):
        assert np.isnan(interval(np.zeros(fewest - 1))).all()
        assert interval(np.zeros(fewest)) == (0.0, 0.0)
    three = intervals.iqm_of(np.array([1.0, 2.0, 6.0]))
    assert three.value == 3.0
    assert math.isnan(three.low)
    assert intervals.median_of(np.zeros(0)) == intervals.UNKNOWN


def test_the_fewest_seeds_are_those_whose_range_covers_93_percent() -> None:
    assert [1 - 2 * 0.5**n >= 0.93 for n in (4, 5)] == [False, True]
    assert [1 - 0.75**n - 0.25**n >= 0.93 for n in (9, 10)] == [False, True]


@pytest.mark.parametrize(("seeds", "place"), [(5, 1), (6, 1), (8, 1), (9, 2), (10, 2), (20, 6)])
def test_the_median_lies_between_order_statistics(seeds: int, place: int) -> None:
    values = np.random.default_rng(seeds).permutation(np.arange(1.0, seeds + 1))
    assert median_interval(values) == (place, seeds + 1 - place)
    if seeds > 5:
        exact = stats.quantile_test(values, p=0.5).confidence_interval(0.95)
        assert median_interval(values) == (exact.low, exact.high)


def test_infinite_times_are_ordered_last() -> None:
    times = np.array([1.0, 2.0, 3.0, 4.0, math.inf])
    assert intervals.median_of(times) == Estimate(3.0, 1.0, math.inf)
    assert intervals.median_of(np.array([1.0, 2.0, *[math.inf] * 4])) == Estimate(math.inf, 1.0, math.inf)
    assert intervals.median_of(np.full(6, math.inf)) == Estimate(math.inf, math.inf, math.inf)


def test_one_unknown_seed_makes_every_statistic_unknown() -> None:
    values = np.array([math.nan, *np.arange(12.0)])
    for estimate in (intervals.median_of(values), intervals.iqm_of(values)):
        assert np.isnan([estimate.value, estimate.low, estimate.high]).all()
    unknown = intervals.probability_of_improvement(values, np.zeros(12))
    assert np.isnan([unknown.value, unknown.low, unknown.high]).all()


@pytest.mark.parametrize("seeds", [10, 13, 14, 30])
def test_interquartile_mean_intervals_shift_and_scale_with_the_scores(seeds: int) -> None:
    values = np.random.default_rng(0).normal(size=seeds)
    low, high = iqm_interval(values)
    assert values.min() <= low < intervals.iqm_of(values).value < high <= values.max()
    np.testing.assert_allclose(iqm_interval(3 * values + 1), (3 * low + 1, 3 * high + 1))
    np.testing.assert_allclose(iqm_interval(-values), (-high, -low))
    columns = iqm_interval(np.stack([values, 2 * values], axis=1))
    np.testing.assert_allclose(columns, [[low, 2 * low], [high, 2 * high]])


def test_the_interval_of_an_interquartile_mean_is_the_range_below_14_seeds() -> None:
    for seeds in range(10, 20):
        values = np.random.default_rng(seeds).normal(size=seeds)
        assert (iqm_interval(values) == (values.min(), values.max())) == (seeds < 14)


def test_the_interval_of_an_interquartile_mean_of_two_values_is_the_binomial_one() -> None:
    """With z zeros and the rest ones it is 2 (3/4 - F(0)), cut off at 0 and 1, and F(0) has its beta quantiles."""
    zeros, seeds = 11, 20
    low, high = iqm_interval(np.repeat([0.0, 1.0], [zeros, seeds - zeros]))
    most, least = stats.beta.ppf(0.975, zeros + 1, seeds - zeros), stats.beta.ppf(0.025, zeros, seeds - zeros + 1)
    np.testing.assert_allclose([low, high], np.clip(1.5 - 2 * np.array([most, least]), 0, 1), atol=0.02)


@given(NUMBERS, NUMBERS)
def test_probability_of_improvement_is_the_mann_whitney_statistic(x: list[float], y: list[float]) -> None:
    ours = intervals.probability_of_improvement(x, y)
    expected = stats.mannwhitneyu(x, y, method="asymptotic").statistic / (len(x) * len(y))
    assert ours.value == pytest.approx(expected)
    assert 0 <= ours.low <= ours.value <= ours.high <= 1


@given(st.integers(0, 200), st.integers(1, 30))
def test_the_interval_of_the_complement_is_mirrored(wins: int, pairs: int) -> None:
    fraction = wins / 200
    low, high = probability_interval(fraction, pairs)
    np.testing.assert_allclose(probability_interval(1.0 - fraction, pairs), (1 - high, 1 - low), atol=1e-6)


@pytest.mark.parametrize("seeds", [1, 3, 5, 10])
def test_where_every_seed_beats_every_seed_the_interval_is_the_binomial_one(seeds: int) -> None:
    estimate = intervals.probability_of_improvement(np.arange(seeds) + 10.0, np.arange(seeds))
    exact = stats.binomtest(seeds, seeds).proportion_ci(0.95)
    assert estimate == Estimate(1.0, pytest.approx(exact.low), 1.0)


@pytest.mark.parametrize(("pairs", "wins"), [(5, 3), (10, 5), (10, 8), (20, 13)])
def test_probability_intervals_are_wider_than_binomial_and_narrower_than_hoeffding_ones(pairs: int, wins: int) -> None:
    low, high = probability_interval(wins / pairs, pairs)
    exact = stats.binomtest(wins, pairs).proportion_ci(0.95)
    reach = math.sqrt(math.log(2 / 0.05) / (2 * pairs))
    assert max(0, wins / pairs - reach) < low < exact.low
    assert exact.high < high < min(1, wins / pairs + reach)


def test_probability_of_improvement_counts_ties_half() -> None:
    assert intervals.probability_of_improvement([2, 3], [0, 3]).value == 0.625
    assert intervals.probability_of_improvement([-math.inf] * 3, [-math.inf] * 3).value == 0.5
    with pytest.raises(InvalidInput, match="at least one value on each side, got 0 and 1"):
        intervals.probability_of_improvement([], [1.0])


def test_interquartile_mean_cuts_a_quarter_at_either_end() -> None:
    assert interquartile_mean(np.array([-1e9, 1.0, 3.0, math.inf])) == 2.0
    assert interquartile_mean(np.array([1.0, 2.0, 6.0])) == 3.0


def test_interquartile_mean_does_not_cut_off_nan() -> None:
    values = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, math.nan]])
    np.testing.assert_equal(interquartile_mean(values), [2.5, math.nan])
