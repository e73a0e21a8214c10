from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geodesic.analysis import measures
from geodesic.errors import InvalidInput

NUMBERS = st.lists(st.floats(-100, 100), min_size=1, max_size=40)


@given(NUMBERS, st.integers(1, 15))
def test_rolling_mean_is_the_mean_of_the_last_window(values: list[float], window: int) -> None:
    expected = [np.mean(values[max(0, k + 1 - window) : k + 1]) for k in range(len(values))]
    np.testing.assert_allclose(measures.rolling_mean(values, window), expected, atol=1e-9)


def test_rolling_mean_leaves_out_what_is_not_known() -> None:
    np.testing.assert_equal(measures.rolling_mean([math.nan, 1.0, math.nan, 4.0], 2), [math.nan, 1.0, 1.0, 4.0])
    assert len(measures.rolling_mean([], 10)) == 0
    with pytest.raises(InvalidInput, match="expected window to be a positive integer, got 0"):
        measures.rolling_mean([1.0], 0)


@pytest.mark.parametrize(
    ("scores", "time"),
    [
        ([0, 0, 9, 9], 3),  # reached and kept
        ([9, 0, 9, 9], 3),  # lost once: the first time does not count
        ([9, 9, 9, 9], 1),
        ([9, 9, 9, 0], math.inf),
        ([5, 5, 5, 5], math.inf),  # at the level is not above it
        ([math.nan, 9, 9, 9], 2),
        ([9, 9, 9, math.nan], math.inf),
    ],
)
def test_time_to_solved(scores: list[float], time: float) -> None:
    assert measures.time_to_solved([1, 2, 3, 4], scores, solved=5, window=1) == time


def test_the_first_time_above_may_be_lost_again() -> None:
    steps, scores = [0, 1, 2, 3], [0.0, 5.0, 0.0, 5.0]
    assert measures.time_to_solved(steps, scores, 1.0, window=1) == 3
    assert measures.time_to_solved(steps, scores, 1.0, window=1, stays=False) == 1
    assert measures.time_to_solved(steps, [0.0] * 4, 1.0, window=1, stays=False) == math.inf


def test_time_to_solved_looks_at_the_smoothed_score() -> None:
    # Means over 2: 0, 4, 8, 4.5, 5.5, 10
    assert measures.time_to_solved(range(6), [0, 8, 8, 1, 10, 10], solved=5, window=2) == 4
    with pytest.raises(InvalidInput, match="expected as many steps as scores, got 1 and 2"):
        measures.time_to_solved([1], [1, 2], solved=5)


def test_smoothing_delays_the_first_time_above() -> None:
    scores = [-1.0] * 10 + [0.7] * 20
    assert measures.time_to_solved(range(30), scores, 0.5, stays=False) == 18
    assert measures.time_to_solved(range(30), scores, 0.5, window=1, stays=False) == 10


@pytest.mark.parametrize(("scores", "solved"), [([], 5.0), ([math.nan, math.nan], 5.0), ([1.0, 9.0], math.nan)])
def test_a_time_of_which_nothing_is_known_is_not_never(scores: list[float], solved: float) -> None:
    assert math.isnan(measures.time_to_solved(range(len(scores)), scores, solved))
    assert math.isnan(measures.time_to_solved(range(len(scores)), scores, solved, stays=False))


@pytest.mark.parametrize(("n", "count"), [(1, 1), (9, 1), (10, 1), (11, 2), (30, 3), (70, 7), (100, 10)])
def test_asymptotic_is_the_mean_of_the_last_tenth(n: int, count: int) -> None:
    values = np.arange(n, dtype=float)
    assert measures.asymptotic(values) == values[-count:].mean()


def test_asymptotic_leaves_out_what_is_not_known_as_rolling_means_do() -> None:
    assert measures.asymptotic([*range(28), math.nan, 30.0]) == (27 + 30) / 2
    assert math.isnan(measures.asymptotic([*range(9), math.nan]))


def test_asymptotic_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expected at least one evaluation, got none"):
        measures.asymptotic([])


def test_interquartile_mean_cuts_a_quarter_at_either_end() -> None:
    assert measures.interquartile_mean(np.array([-1e9, 1.0, 3.0, math.inf])) == 2.0
    assert measures.interquartile_mean(np.array([1.0, 2.0, 6.0])) == 3.0


def test_interquartile_mean_does_not_cut_off_what_is_not_known() -> None:
    values = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, math.nan]])
    np.testing.assert_equal(measures.interquartile_mean(values), [2.5, math.nan])
