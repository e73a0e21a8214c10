"""The status of runs, read from their folders while another process writes."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import pytest

from geodesic.records.lock import FolderLock
from geodesic.records.status import RunStatus, run_status, run_statuses
from run_folders import write_comparison, write_run


def add_evaluation(folder: Path, step: int) -> None:
    with (folder / "evaluations.csv").open("a") as file:
        file.write(f"{step},1,0.5,41,1,1,41\n")


def test_a_locked_folder_is_running_and_others_are_stopped_or_finished(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=4000, reached=1000, stages=1)
    shutil.copy(folder / "evaluations.csv", folder / "episodes.csv")
    with FolderLock(folder):
        add_evaluation(folder, 3000)
        now = run_status(folder)
        assert (now.name, now.state, now.step, now.steps) == ("gradient seed 0", "running", 3000, 4000)
        assert (now.stage, now.alpha, now.score) == (0, 0.0, 41.0)
    assert run_status(folder).state == "stopped"
    (folder / "summary.json").write_text("{}")
    assert (run_status(folder).state, run_status(folder).step) == ("finished", 4000)


def test_an_incomplete_last_line_and_missing_tables_are_ignored(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=4000, reached=1000)
    (folder / "episodes.csv").unlink()
    (folder / "stages.csv").unlink()
    with (folder / "evaluations.csv").open("a") as file:
        file.write("3999,1,0.5,9")
    assert (run_status(folder).step, run_status(folder).score) == (1000, 0.0)
    (folder / "evaluations.csv").write_text("step,stage,alpha,return,return_std,success,score\n")
    status = run_status(folder)
    assert (status.step, status.stage) == (0, 0)
    assert math.isnan(status.score)
    assert math.isnan(status.alpha)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e300", "-5"])
def test_impossible_counts_are_zero(tmp_path: Path, value: str) -> None:
    folder = write_run(tmp_path / "run", steps=4000, reached=1000)
    for name in ("episodes", "evaluations", "stages"):
        with (folder / f"{name}.csv").open("a") as file:
            file.write(f"{value},{value},{value},{value}\n")
    status = run_status(folder)
    assert (status.step, status.stage, status.steps) == (0, 0, 4000)


def test_a_budget_beyond_all_counts_is_unknown(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=4000, reached=1000)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "steps": 10**400}))
    with FolderLock(folder):
        assert (run_status(folder).state, run_status(folder).steps) == ("running", 0)


def test_the_step_never_exceeds_the_budget(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=4000, reached=1000)
    add_evaluation(folder, 4096)
    assert run_status(folder).step == 4000


def test_age_is_the_time_between_start_and_last_row(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", reached=500)
    os.utime(folder / "config.json", (1000, 1000))
    for path in folder.glob("*.csv"):
        os.utime(path, (1000, 1060))
    assert run_status(folder).age == 60.0


def test_a_reason_belongs_to_runs_that_do_not_run(tmp_path: Path) -> None:
    folder, failures = write_run(tmp_path / "run", reached=500), {"gradient seed 0": "RunFailed: it diverged"}
    status = run_status(folder, failures)
    assert (status.state, status.reason) == ("failed", "RunFailed: it diverged")
    with FolderLock(folder):
        status = run_status(folder, failures)
        assert (status.state, status.reason) == ("running", "")


def test_a_comparison_lists_failed_waiting_and_half_created_runs(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"gradient": {}}, seeds=2, reached=500)
    (tmp_path / "runs" / "gradient" / "seed-2").mkdir()
    planned = [f"gradient seed {seed}" for seed in range(4)]
    (tmp_path / "comparison.json").write_text(json.dumps({"runs": planned}))
    reasons = {"gradient seed 1": "RunFailed: it diverged", "gradient seed 3": "RunFailed: no memory"}
    (tmp_path / "failures.json").write_text(json.dumps(reasons))
    found = {run.name: run for run in run_statuses(tmp_path)}
    assert list(found) == planned
    assert [found[name].state for name in planned] == ["stopped", "failed", "waiting", "failed"]
    assert [found[name].reason for name in planned] == ["", reasons[planned[1]], "", reasons[planned[3]]]


def test_seeds_are_in_numerical_order_and_one_run_is_a_list_of_one(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"gradient": {}}, seeds=11, reached=500)
    assert [run.name for run in run_statuses(tmp_path)] == [f"gradient seed {seed}" for seed in range(11)]
    folder = tmp_path / "runs" / "gradient" / "seed-4"
    assert run_statuses(folder) == [run_status(folder)]
    assert len(run_statuses(tmp_path / "runs")) == 11
    (tmp_path / "none").mkdir()
    assert run_statuses(tmp_path / "none") == []


def test_damaged_files_of_a_comparison_are_ignored(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"gradient": {}}, seeds=2, reached=500)
    (tmp_path / "comparison.json").write_text("{")
    (tmp_path / "failures.json").write_text("[]")
    (tmp_path / "runs" / "gradient" / "seed-1" / "config.json").write_text("{")
    (status,) = run_statuses(tmp_path)
    assert isinstance(status, RunStatus)
    assert (status.name, status.state) == ("gradient seed 0", "stopped")


def test_odd_names_of_folders_and_a_flood_of_planned_runs_are_read(tmp_path: Path) -> None:
    """The superscript is a digit, but no number."""
    write_run(tmp_path / "runs" / "gradient" / "seed-²", reached=500)
    (tmp_path / "comparison.json").write_text(json.dumps({"runs": [f"run {k}" for k in range(10**5 + 10)]}))
    found = run_statuses(tmp_path)
    assert len(found) == 10**5 + 1
    assert found[-1].name == "gradient seed 0"
