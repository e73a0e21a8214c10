from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geodesic.analysis import statistics
from geodesic.analysis.curves import mean_curve
from geodesic.analysis.statistics import (
    FEW,
    asymptotic,
    rolling_mean,
    smoothing_window,
    summarise,
    time_to_solved,
    window_of,
)
from geodesic.errors import InvalidInput
from geodesic.records import load_comparison, load_run
from run_folders import write_comparison, write_run

NUMBERS = st.lists(st.floats(-100, 100), min_size=1, max_size=40)


def comparison(tmp_path: Path) -> Path:
    labels = {
        "gradient": {"returns": lambda seed: [0.0] * 10 + [50.0 + seed] * 90},
        "uniform": {"method": "uniform", "returns": lambda seed: [0.0] * 50 + [50.0 * (seed < 1)] * 50},
        "linear": {"method": "linear", "reached": 500},
    }
    return write_comparison(tmp_path, labels, seeds=4)


def test_summary_of_a_comparison(tmp_path: Path) -> None:
    rows = {row.label: row for row in statistics.summarise(load_comparison(comparison(tmp_path)), solved=40)}
    gradient, uniform, linear = rows["gradient"], rows["uniform"], rows["linear"]
    # Nine of ten evaluations in the window have to be good: 8/10 of 51 is above 40, and of 50 exactly at it.
    assert gradient.time.value == pytest.approx(180)
    assert (gradient.first.value, gradient.first_raw.value) == (pytest.approx(180), 110)
    assert (gradient.runs, gradient.finished, gradient.reached) == (4, 4, 4)
    assert (gradient.final_mean, gradient.final_iqm.value) == (51.5, 51.5)
    assert gradient.final_std == pytest.approx(np.std([0, 1, 2, 3], ddof=1))
    assert (gradient.faster, gradient.better) == (None, None)
    assert (uniform.reached, uniform.time.value, uniform.final_mean) == (1, math.inf, 12.5)
    assert uniform.faster is not None
    assert uniform.faster.value == 1.0
    assert uniform.first_faster is not None
    assert (gradient.first_faster, uniform.first_faster.value) == (None, 1.0)
    assert uniform.better is not None
    assert uniform.better.value == pytest.approx((15 + 0.5) / 16)
    assert (linear.runs, linear.finished, linear.faster) == (4, 0, None)
    assert math.isnan(linear.final_mean)


def test_the_two_readings_of_faster_can_disagree(tmp_path: Path) -> None:
    """Early and lost once, against late and kept: first by the one reading, last by the other."""
    labels = {
        "gradient": {"returns": [50.0] * 60 + [0.0] * 20 + [50.0] * 20},
        "uniform": {"method": "uniform", "returns": [0.0] * 40 + [50.0] * 60},
    }
    _, uniform = statistics.summarise(load_comparison(write_comparison(tmp_path, labels, seeds=3)), solved=40)
    assert uniform.first_faster is not None
    assert uniform.faster is not None
    assert (uniform.first_faster.value, uniform.faster.value) == (1.0, 0.0)


def test_a_seed_with_only_unknown_evaluations_makes_its_label_unknown(tmp_path: Path) -> None:
    labels = {"gradient": {}, "uniform": {"method": "uniform", "returns": [50.0] * 4}}
    folder = write_comparison(tmp_path, labels, seeds=2)
    table = folder / "runs" / "uniform" / "seed-1" / "evaluations.csv"
    header, *lines = table.read_text().splitlines()
    table.write_text("\n".join([header, *(f"{line.rsplit(',', 1)[0]},nan" for line in lines), ""]))
    row = statistics.summarise(load_comparison(folder), solved=40)[1]
    assert (row.finished, row.reached) == (2, 1)
    assert row.better is not None
    assert row.faster is not None
    assert row.first_faster is not None
    unknown = [row.first_raw, row.first, row.time, row.final_iqm, row.better, row.faster, row.first_faster]
    assert all(math.isnan(estimate.value) and math.isnan(estimate.low) for estimate in unknown)
    assert math.isnan(row.final_mean)


def test_summary_does_not_change_when_a_label_is_added(tmp_path: Path) -> None:
    runs = load_comparison(comparison(tmp_path))
    some = statistics.summarise([run for run in runs if run.label != "linear"], solved=40)
    assert str(some) == str([row for row in statistics.summarise(runs, solved=40) if row.label != "linear"])


@pytest.mark.parametrize(("reference", "found"), [("uniform", "uniform"), ("gradient", "gradient a"), ("spdl", None)])
def test_the_reference_is_a_label_or_the_first_of_a_method(tmp_path: Path, reference: str, found: str | None) -> None:
    labels = {"gradient b": {}, "gradient a": {}, "uniform": {"method": "uniform"}}
    runs = load_comparison(write_comparison(tmp_path, labels, seeds=1))
    rows = statistics.summarise(runs, 40, reference)
    assert {row.reference for row in rows} == {found}
    assert [row.label for row in rows if row.faster is None] == ([found] if found else [row.label for row in rows])


@pytest.mark.parametrize(
    ("methods", "references", "found"),
    [
        (["gradient", "auto", "uniform"], (), "auto"),
        (["uniform", "gradient"], (), "gradient"),
        (["uniform", "spdl"], (), None),
        (["gradient", "auto", "uniform"], ("spdl", "uniform", "auto"), "uniform"),
    ],
)
def test_the_reference_is_the_first_one_among_the_runs(
    tmp_path: Path, methods: list[str], references: tuple[str, ...], found: str | None
) -> None:
    """By default auto, or gradient in a comparison without auto."""
    runs = load_comparison(write_comparison(tmp_path, {name: {"method": name} for name in methods}, seeds=1))
    assert {row.reference for row in statistics.summarise(runs, 40, *references)} == {found}


def test_without_a_solved_level_times_are_unknown(tmp_path: Path) -> None:
    (row,) = statistics.summarise([load_run(write_run(tmp_path / "run", threshold="auto"))], math.nan)
    assert all(math.isnan(estimate.value) for estimate in (row.first_raw, row.first, row.time))
    assert row.reached == 0
    assert math.isfinite(row.final_mean)


def test_a_task_whose_score_is_success_is_summarised_by_it(tmp_path: Path) -> None:
    labels = {"gradient": {"returns": lambda seed: [0.0] * 10 + [50.0] * 90}}
    runs = load_comparison(write_comparison(tmp_path, labels, seeds=2, score="success", solved=40.0))
    (row,) = statistics.summarise(runs, solved=0.85)
    assert row.time.value == 190  # nine of ten evaluations succeeded
    assert (row.final_mean, row.final_success) == (1.0, 1.0)
    assert mean_curve(runs, window=1).middle.tolist() == [0.0] * 10 + [1.0] * 90


def test_a_finished_run_without_evaluations_is_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "evaluations.csv").unlink()
    (row,) = statistics.summarise([load_run(folder)], solved=40)
    assert (row.runs, row.finished) == (1, 0)


@given(NUMBERS, st.integers(1, 15))
def test_rolling_mean_is_the_mean_of_the_last_window(values: list[float], window: int) -> None:
    expected = [np.mean(values[max(0, k + 1 - window) : k + 1]) for k in range(len(values))]
    np.testing.assert_allclose(rolling_mean(values, window), expected, atol=1e-9)


@given(NUMBERS, st.integers(0, 7))
def test_a_centred_mean_is_of_as_many_values_on_both_sides(values: list[float], half: int) -> None:
    expected = [np.mean(values[max(0, k - half) : k + half + 1]) for k in range(len(values))]
    np.testing.assert_allclose(rolling_mean(values, 2 * half + 1, centred=True), expected, atol=1e-9)


def test_rolling_mean_leaves_out_nan() -> None:
    np.testing.assert_equal(rolling_mean([math.nan, 1.0, math.nan, 4.0], 2), [math.nan, 1.0, 1.0, 4.0])
    assert len(rolling_mean([], 10)) == 0
    with pytest.raises(InvalidInput, match="expected window to be a positive integer, got 0"):
        rolling_mean([1.0], 0)


@pytest.mark.parametrize(
    ("scores", "time"),
    [
        ([0, 0, 9, 9], 3),  # reached and kept
        ([9, 0, 9, 9], 3),  # passed and lost: the first time does not count
        ([9, 9, 9, 9], 1),
        ([9, 9, 9, 0], math.inf),
        ([5, 5, 5, 5], math.inf),  # at the level is not above it
        ([math.nan, 9, 9, 9], 2),
        ([9, 9, 9, math.nan], math.inf),
    ],
)
def test_time_to_solved(scores: list[float], time: float) -> None:
    assert time_to_solved([1, 2, 3, 4], scores, solved=5, window=1) == time


def test_the_first_time_above_need_not_be_kept() -> None:
    steps, scores = [0, 1, 2, 3], [0.0, 5.0, 0.0, 5.0]
    assert time_to_solved(steps, scores, 1.0, window=1) == 3
    assert time_to_solved(steps, scores, 1.0, window=1, stays=False) == 1
    assert time_to_solved(steps, [0.0] * 4, 1.0, window=1, stays=False) == math.inf


@pytest.mark.parametrize("count", range(1, FEW))
def test_a_short_run_whose_final_score_is_above_the_level_has_solved_its_target(count: int) -> None:
    """However late it began to: as one that ends with nothing but successes."""
    rng, solved, window = np.random.default_rng(count), 0.8, smoothing_window(count)
    for late in range(count):
        scores = np.where(np.arange(count) >= late, 1.0, rng.random(count))
        reached = np.isfinite(time_to_solved(range(count), scores, solved, window))
        assert reached == (asymptotic(scores) > solved)


def test_the_window_of_a_comparison_is_that_of_its_longest_run(tmp_path: Path) -> None:
    runs = {"gradient": {"returns": [0.0] * 21}, "uniform": {"method": "uniform", "returns": [0.0] * 12}}
    loaded = load_comparison(write_comparison(tmp_path, runs, seeds=1))
    assert window_of(loaded) == 3
    assert [row.window for row in summarise(loaded, 1.0)] == [3, 3]
    assert window_of([]) == 1


def test_time_to_solved_uses_the_smoothed_score() -> None:
    # Means over 2: 0, 4, 8, 4.5, 5.5, 10
    assert time_to_solved(range(6), [0, 8, 8, 1, 10, 10], solved=5, window=2) == 4
    with pytest.raises(InvalidInput, match="expected as many steps as scores, got 1 and 2"):
        time_to_solved([1], [1, 2], solved=5)


def test_smoothing_delays_the_first_time_above() -> None:
    scores = [-1.0] * 10 + [0.7] * 20
    assert time_to_solved(range(30), scores, 0.5, stays=False) == 18
    assert time_to_solved(range(30), scores, 0.5, window=1, stays=False) == 10


@pytest.mark.parametrize(("scores", "solved"), [([], 5.0), ([math.nan, math.nan], 5.0), ([1.0, 9.0], math.nan)])
def test_an_unknown_time_is_nan_and_not_infinite(scores: list[float], solved: float) -> None:
    assert math.isnan(time_to_solved(range(len(scores)), scores, solved))
    assert math.isnan(time_to_solved(range(len(scores)), scores, solved, stays=False))


@pytest.mark.parametrize(("n", "count"), [(1, 1), (9, 1), (10, 1), (11, 2), (30, 3), (70, 7), (100, 10)])
def test_asymptotic_is_the_mean_of_the_last_tenth(n: int, count: int) -> None:
    values = np.arange(n, dtype=float)
    assert asymptotic(values) == values[-count:].mean()


def test_asymptotic_leaves_out_nan_as_rolling_means_do() -> None:
    assert asymptotic([*range(28), math.nan, 30.0]) == (27 + 30) / 2
    assert math.isnan(asymptotic([*range(9), math.nan]))


def test_asymptotic_needs_an_evaluation() -> None:
    with pytest.raises(InvalidInput, match="expected at least one evaluation, got none"):
        asymptotic([])
