from __future__ import annotations

from pathlib import Path

import numpy as np

from geodesic.analysis.curves import iqm_curve, mean_curve
from geodesic.records import RunResult, load_comparison, load_run
from run_folders import write_comparison, write_run


def test_runs_with_different_steps_are_interpolated_where_all_have_evaluations(tmp_path: Path) -> None:
    write_run(tmp_path / "a", steps=400, returns=[0.0, 10.0, 20.0, 30.0])
    write_run(tmp_path / "b", steps=400, returns=[10.0, 30.0])
    curve = mean_curve([load_run(tmp_path / "a"), load_run(tmp_path / "b")], window=1)
    assert curve.steps.tolist() == [200, 300, 400]
    assert curve.middle.tolist() == [10.0, 20.0, 30.0]
    np.testing.assert_allclose(curve.high - curve.middle, 0)


def seeds(tmp_path: Path, count: int) -> list[RunResult]:
    labels = {"gradient": {"returns": lambda seed: [float(seed), seed + 2.0]}}
    return load_comparison(write_comparison(tmp_path, labels, seeds=count))


def test_the_band_of_a_mean_curve_is_the_standard_deviation(tmp_path: Path) -> None:
    curve = mean_curve(seeds(tmp_path, 3), window=10)
    assert (curve.middle.tolist(), curve.raw.tolist()) == ([2.0, 2.0], [1.0, 3.0])
    np.testing.assert_allclose(curve.high - curve.low, 2 * np.std([0, 1, 2], ddof=1))
    assert curve.band == "standard deviation"
    assert mean_curve([], window=1).middle.tolist() == []


def test_the_band_of_few_seeds_is_their_range_and_named_so(tmp_path: Path) -> None:
    curve = iqm_curve(seeds(tmp_path, 3), window=10)
    assert (curve.middle.tolist(), curve.raw.tolist()) == ([2.0, 2.0], [1.0, 3.0])
    assert (curve.low.tolist(), curve.high.tolist()) == ([1.0, 1.0], [3.0, 3.0])
    assert curve.band == "range (too few seeds for an interval)"


def test_the_band_of_many_seeds_is_the_interval(tmp_path: Path) -> None:
    curve = iqm_curve(seeds(tmp_path, 20))
    assert curve.band == "95 % interval"
    assert 0 < curve.low[0] < curve.middle[0] == 9.5 < curve.high[0] < 19
