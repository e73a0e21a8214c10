from __future__ import annotations

from pathlib import Path

import numpy as np

from geodesic.analysis.paths import path_stages, stage_path
from geodesic.records import load_run
from run_folders import write_run

SQUARE = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


def test_a_translated_cloud_has_the_length_and_speed_of_its_translation(tmp_path: Path) -> None:
    clouds = [SQUARE, SQUARE + np.array([3.0, 4.0]), SQUARE + np.array([3.0, 14.0])]
    path = stage_path(load_run(write_run(tmp_path / "run", points=clouds, infeasible=[0.0, 0.25, 1.0])))
    np.testing.assert_allclose(path.alphas, [0, 0.5, 1])
    np.testing.assert_allclose(path.feasible, [1, 0.75, 0])
    np.testing.assert_allclose(path.lengths, [0, 5, 15])
    np.testing.assert_allclose(path.speeds, [np.nan, 10, 20])


def test_exploration_stages_are_left_out_of_the_path(tmp_path: Path) -> None:
    clouds = [SQUARE, 100 * SQUARE, SQUARE + np.array([3.0, 4.0])]
    run = load_run(write_run(tmp_path / "run", points=clouds, kinds=["train", "explore", "train"]))
    assert [stage.stage for stage in path_stages(run)] == [0, 2]
    np.testing.assert_allclose(stage_path(run).lengths, [0, 5])


def test_a_single_stage_has_length_zero(tmp_path: Path) -> None:
    path = stage_path(load_run(write_run(tmp_path / "run", points=[SQUARE], stages=1)))
    assert path.lengths.tolist() == [0.0]
    assert np.isnan(path.speeds).tolist() == [True]
