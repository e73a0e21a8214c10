from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from geodesic.analysis import statistics as gs
from geodesic.analysis.curves import mean_curve
from geodesic.records import load_comparison, load_run
from run_folders import write_comparison, write_run


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
    assert (gradient.first.value, gradient.first_raw.value) == (pytest.approx(180), 110)
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


def test_a_seed_without_a_known_evaluation_is_neither_dropped_nor_the_worst(tmp_path: Path) -> None:
    labels = {"gradient": {}, "uniform": {"method": "uniform", "returns": [50.0] * 4}}
    folder = write_comparison(tmp_path, labels, seeds=2)
    table = folder / "runs" / "uniform" / "seed-1" / "evaluations.csv"
    header, *lines = table.read_text().splitlines()
    table.write_text("\n".join([header, *(f"{line.rsplit(',', 1)[0]},nan" for line in lines), ""]))
    row = gs.summarise(load_comparison(folder), solved=40)[1]
    assert (row.finished, row.reached) == (2, 1)
    assert row.better is not None
    assert row.faster is not None
    unknown = [row.first_raw, row.first, row.time, row.final_iqm, row.better, row.faster]
    assert all(math.isnan(estimate.value) and math.isnan(estimate.low) for estimate in unknown)
    assert math.isnan(row.final_mean)


def test_summary_does_not_change_when_a_label_is_added(tmp_path: Path) -> None:
    runs = load_comparison(comparison(tmp_path))
    some = gs.summarise([run for run in runs if run.label != "linear"], solved=40)
    assert str(some) == str([row for row in gs.summarise(runs, solved=40) if row.label != "linear"])


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
    assert mean_curve(runs, window=1).middle.tolist() == [0.0] * 10 + [1.0] * 90


def test_a_finished_run_that_was_never_evaluated_says_nothing(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "evaluations.csv").unlink()
    (row,) = gs.summarise([load_run(folder)], solved=40)
    assert (row.runs, row.finished) == (1, 0)
