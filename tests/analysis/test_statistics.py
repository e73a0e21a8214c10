from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from geodesic.analysis import statistics as gs
from geodesic.errors import InvalidInput
from geodesic.records import load_comparison, load_run
from run_folders import write_comparison, write_run

NUMBERS = st.lists(st.floats(-100, 100), min_size=1, max_size=40)


@given(NUMBERS, st.integers(1, 15))
def test_rolling_mean_is_the_mean_of_the_last_window(values: list[float], window: int) -> None:
    expected = [np.mean(values[max(0, k + 1 - window) : k + 1]) for k in range(len(values))]
    np.testing.assert_allclose(gs.rolling_mean(values, window), expected, atol=1e-9)


def test_rolling_mean_leaves_out_what_is_not_known() -> None:
    np.testing.assert_equal(gs.rolling_mean([math.nan, 1.0, math.nan, 4.0], 2), [math.nan, 1.0, 1.0, 4.0])
    assert len(gs.rolling_mean([], 10)) == 0
    with pytest.raises(InvalidInput, match="expected window to be at least 1, got 0"):
        gs.rolling_mean([1.0], 0)


@pytest.mark.parametrize(
    ("scores", "time"),
    [
        ([0, 0, 9, 9], 3),  # reached and kept
        ([9, 0, 9, 9], 3),  # lost once: the first time does not count
        ([9, 9, 9, 9], 1),
        ([9, 9, 9, 0], math.inf),
        ([5, 5, 5, 5], math.inf),  # at the level is not above it
        ([math.nan, 9, 9, 9], 2),
    ],
)
def test_time_to_solved(scores: list[float], time: float) -> None:
    assert gs.time_to_solved([1, 2, 3, 4], scores, solved=5, window=1) == time


def test_the_first_time_above_may_be_lost_again() -> None:
    steps, scores = [0, 1, 2, 3], [0.0, 5.0, 0.0, 5.0]
    assert gs.time_to_solved(steps, scores, 1.0, window=1) == 3
    assert gs.time_to_solved(steps, scores, 1.0, window=1, stays=False) == 1
    assert gs.time_to_solved(steps, [0.0] * 4, 1.0, window=1, stays=False) == math.inf


def test_time_to_solved_looks_at_the_smoothed_score() -> None:
    # Means over 2: 0, 4, 8, 4.5, 5.5, 10
    assert gs.time_to_solved(range(6), [0, 8, 8, 1, 10, 10], solved=5, window=2) == 4
    assert gs.time_to_solved([], [], solved=5) == math.inf
    with pytest.raises(InvalidInput, match="expected as many steps as scores, got 1 and 2"):
        gs.time_to_solved([1], [1, 2], solved=5)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (9, 1), (10, 1), (11, 2), (30, 3), (70, 7), (100, 10)])
def test_asymptotic_is_the_mean_of_the_last_tenth(n: int, count: int) -> None:
    values = np.arange(n, dtype=float)
    assert gs.asymptotic(values) == values[-count:].mean()


def test_asymptotic_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expected at least one evaluation, got none"):
        gs.asymptotic([])


def test_interquartile_mean_cuts_a_quarter_at_either_end() -> None:
    assert gs.interquartile_mean(np.array([-1e9, 1.0, 3.0, math.inf])) == 2.0
    assert gs.interquartile_mean(np.array([1.0, 2.0, 6.0])) == 3.0


def test_bootstrap_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).normal(3, 2, 12)
    ours = gs.estimate(values, lambda v, axis: v.mean(axis), np.random.default_rng(1))
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20000, method="percentile", rng=2).confidence_interval
    assert ours.value == values.mean()
    np.testing.assert_allclose([ours.low, ours.high], theirs, atol=0.1)


def test_bootstrap_of_a_mean_has_the_normal_width() -> None:
    values = np.random.default_rng(0).normal(0, 1, 400)
    low, high = gs.bootstrap(values, lambda v, axis: v.mean(axis), np.random.default_rng(1))
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.06)


def test_bootstrap_resamples_whole_seeds_and_does_so_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(5, 1))
    low, high = gs.bootstrap(np.hstack([values, 2 * values]), gs.interquartile_mean, np.random.default_rng(1))
    np.testing.assert_allclose([2 * low[0], 2 * high[0]], [low[1], high[1]])
    monkeypatch.setattr(gs, "BLOCK", 1)
    np.testing.assert_array_equal(
        [low[:1], high[:1]], gs.bootstrap(values, gs.interquartile_mean, np.random.default_rng(1))
    )


def test_never_stays_infinite() -> None:
    rng = np.random.default_rng(0)
    most = gs.estimate(np.array([1.0, 2.0, 3.0, 4.0, math.inf]), gs.median, rng)
    assert (most.value, most.low, most.high) == (3.0, 1.0, math.inf)
    few = gs.estimate(np.array([1.0, math.inf, math.inf]), gs.median, rng)
    assert few.value == math.inf
    assert few.low < few.high == math.inf


@settings(deadline=None)  # 2000 resamples a case
@given(NUMBERS, NUMBERS)
def test_probability_of_improvement_is_the_mann_whitney_statistic(x: list[float], y: list[float]) -> None:
    ours = gs.probability_of_improvement(x, y, np.random.default_rng(0))
    expected = stats.mannwhitneyu(x, y, method="asymptotic").statistic / (len(x) * len(y))
    assert ours.value == pytest.approx(expected)
    assert 0 <= ours.low <= ours.high <= 1


def test_probability_of_improvement_counts_ties_half() -> None:
    rng = np.random.default_rng(0)
    assert gs.probability_of_improvement([2, 3], [0, 1], rng) == gs.Estimate(1.0, 1.0, 1.0)
    assert gs.probability_of_improvement([-math.inf], [-math.inf], rng) == gs.Estimate(0.5, 0.5, 0.5)
    with pytest.raises(InvalidInput, match="at least one value on each side, got 0 and 1"):
        gs.probability_of_improvement([], [1.0], rng)


def test_curves_of_runs_with_different_steps_meet_on_what_all_reached(tmp_path: Path) -> None:
    write_run(tmp_path / "a", steps=400, returns=[0.0, 10.0, 20.0, 30.0])
    write_run(tmp_path / "b", steps=400, returns=[10.0, 30.0])
    curve = gs.mean_curve([load_run(tmp_path / "a"), load_run(tmp_path / "b")], window=1)
    assert curve.steps.tolist() == [200, 300, 400]
    assert curve.middle.tolist() == [10.0, 20.0, 30.0]
    np.testing.assert_allclose(curve.high - curve.middle, 0)


def test_curve_bands_are_standard_deviation_and_bootstrap_interval(tmp_path: Path) -> None:
    folder = write_comparison(tmp_path, {"gradient": {"returns": lambda seed: [seed, seed + 1.0]}}, seeds=3)
    runs = load_comparison(folder)
    band = gs.mean_curve(runs, window=1)
    assert band.middle.tolist() == [1.0, 2.0]
    np.testing.assert_allclose(band.high - band.low, 2 * np.std([0, 1, 2], ddof=1))
    iqm = gs.iqm_curve(runs, np.random.default_rng(0), window=1)
    assert iqm.low.tolist() == [0.0, 1.0]
    assert iqm.high.tolist() == [2.0, 3.0]
    assert gs.mean_curve([], window=1).middle.tolist() == []


def comparison(tmp_path: Path) -> Path:
    labels = {
        "gradient": {"returns": lambda seed: [0.0] * 10 + [50.0 + seed] * 90},
        "uniform": {"method": "uniform", "returns": lambda seed: [0.0] * 50 + [50.0 * (seed < 1)] * 50},
        "linear": {"method": "linear", "reached": 500},
    }
    return write_comparison(tmp_path, labels, seeds=4)


def test_summary_of_a_comparison(tmp_path: Path) -> None:
    rows = {row.label: row for row in gs.summarise(load_comparison(comparison(tmp_path)), solved=40)}
    gradient, uniform, linear = rows["gradient"], rows["uniform"], rows["linear"]
    # Nine of ten evaluations in the window have to be good: 8/10 of 51 is above 40, and of 50 exactly at it.
    assert gradient.time.value == pytest.approx(180)
    assert (gradient.runs, gradient.finished, gradient.reached) == (4, 4, 4)
    assert (gradient.final_mean, gradient.final_iqm.value) == (51.5, 51.5)
    assert gradient.final_std == pytest.approx(np.std([0, 1, 2, 3], ddof=1))
    assert (gradient.faster, gradient.better) == (None, None)
    assert (uniform.reached, uniform.time.value, uniform.final_mean) == (1, math.inf, 12.5)
    assert uniform.faster is not None
    assert uniform.faster.value == 1.0
    assert uniform.better is not None
    assert uniform.better.value == pytest.approx((15 + 0.5) / 16)
    assert (linear.runs, linear.finished, linear.faster) == (4, 0, None)
    assert math.isnan(linear.final_mean)


def test_summary_does_not_change_when_a_label_is_added(tmp_path: Path) -> None:
    runs = load_comparison(comparison(tmp_path))
    some = gs.summarise([run for run in runs if run.label != "linear"], solved=40)
    assert some == [row for row in gs.summarise(runs, solved=40) if row.label != "linear"]


@pytest.mark.parametrize(("reference", "found"), [("uniform", "uniform"), ("gradient", "gradient a"), ("spdl", None)])
def test_the_reference_is_a_label_or_the_first_of_a_method(tmp_path: Path, reference: str, found: str | None) -> None:
    labels = {"gradient b": {}, "gradient a": {}, "uniform": {"method": "uniform"}}
    runs = load_comparison(write_comparison(tmp_path, labels, seeds=1))
    rows = gs.summarise(runs, solved=40, reference=reference)
    assert {row.reference for row in rows} == {found}
    assert [row.label for row in rows if row.faster is None] == ([found] if found else [row.label for row in rows])


def test_a_task_that_measures_success_is_summarised_by_it(tmp_path: Path) -> None:
    labels = {"gradient": {"returns": lambda seed: [0.0] * 10 + [50.0] * 90}}
    runs = load_comparison(write_comparison(tmp_path, labels, seeds=2, measure="success", solved=40.0))
    (row,) = gs.summarise(runs, solved=0.85)
    assert row.time.value == 190  # nine of ten evaluations succeeded
    assert (row.final_mean, row.final_success) == (1.0, 1.0)
    assert gs.mean_curve(runs, window=1).middle.tolist() == [0.0] * 10 + [1.0] * 90


def test_a_finished_run_that_was_never_evaluated_says_nothing(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "evaluations.csv").unlink()
    (row,) = gs.summarise([load_run(folder)], solved=40)
    assert (row.runs, row.finished) == (1, 0)
