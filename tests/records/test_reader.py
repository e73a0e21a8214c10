"""Reading run folders: what was written is read back, and damage is refused with the name of the file."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from geodesic.errors import CheckpointError, InvalidInput
from geodesic.records import by_label, load_comparison, load_run
from geodesic.records.schema import format_details
from run_folders import write_comparison, write_run

EVALUATION = "step,stage,alpha,return,return_std,success,score"
STAGE = "stage,step,alpha,kind,event,particles,infeasible,distance,details"


def test_a_run_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", metric="l2", seed=4, solved=55.0, contexts=["length", "mass"]))
    assert (run.task, run.method, run.label, run.seed, run.steps) == ("mine", "gradient", "gradient", 4, 1000)
    assert (run.threshold, run.solved, run.score, run.metric, run.finished) == (40.0, 55.0, "return", "l2", True)
    assert run.contexts == ("length", "mass")
    assert run.evaluations.steps.tolist() == [250, 500, 750, 1000]
    assert run.evaluations.returns.tolist() == [0.0, 20.0, 50.0, 60.0]
    assert run.evaluations.stages.tolist() == [0, 1, 2, 2]
    assert run.evaluations.scores.tolist() == [0.0, 20.0, 50.0, 60.0]
    assert run.evaluations.successes.tolist() == [0, 0, 0, 1]
    assert run.episodes.contexts.shape == (100, 2)
    assert run.episodes.scores.tolist() == run.episodes.returns.tolist()
    assert run.stages.events == ("start", "mastered", "mastered")
    assert run.stages.steps.tolist() == [0, 333, 666]
    assert run.stages.kinds == ("train", "train", "train")
    assert not run.stages.explores.any()
    assert np.isnan(run.stages.distances).all()


def test_scores_are_of_the_kind_in_the_configuration(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", score="success"))
    assert run.score == "success"
    assert run.evaluations.scores.tolist() == run.evaluations.successes.tolist() == [0, 0, 1, 1]
    assert set(run.episodes.scores.tolist()) == {0.0, 1.0}


def test_stages_that_explore_have_that_kind(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", kinds=["train", "explore", "train"]))
    assert run.stages.explores.tolist() == [False, True, False]
    assert run.explored == {1}


def test_the_curriculum_is_split_into_its_stages(tmp_path: Path) -> None:
    clouds = [np.full((n, 1), float(n)) for n in (2, 3, 1)]
    fractions = [np.array([0.25, 0.75]), np.full(3, 1 / 3), np.ones(1)]
    snapshots = {1: {"heat": np.eye(2)}}
    run = load_run(write_run(tmp_path / "run", points=clouds, weights=fractions, snapshots=snapshots))
    assert [len(stage.particles) for stage in run.curriculum] == [2, 3, 1]
    assert run.curriculum[0].particles.weights.tolist() == [0.25, 0.75]
    assert [stage.alpha for stage in run.curriculum] == [0.0, 0.5, 1.0]
    assert [list(stage.snapshot) for stage in run.curriculum] == [[], ["heat"], []]


@pytest.mark.parametrize(("step", "stage"), [(0, 0), (332, 0), (333, 1), (10**6, 2)])
def test_the_stage_in_force(tmp_path: Path, step: int, stage: int) -> None:
    found = load_run(write_run(tmp_path / "run")).in_force(step)
    assert found is not None
    assert found.stage == stage


def test_the_details_of_stages_are_numbers_by_name(tmp_path: Path) -> None:
    details = [
        format_details({"share of path": 0.4, "a=b; c": 1e-7, "unknown": math.nan}),
        "",
        "share of path=0.5; score=1.2.3; =; share of path=x",
    ]
    assert details[0] == "share of path=0.4; a b  c=1e-07"
    numbers = load_run(write_run(tmp_path / "run", details=details)).stages.numbers()
    np.testing.assert_array_equal(numbers["share of path"], [0.4, np.nan, 0.5])
    np.testing.assert_array_equal(numbers["a b  c"], [1e-7, np.nan, np.nan])


def test_a_name_for_every_stage_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    lines = (f"{k},{k},0,train,start,3,0,0,name{k}=1" for k in range(5000))
    (folder / "stages.csv").write_text("\n".join([STAGE, *lines, ""]))
    stages = load_run(folder).stages
    with pytest.raises(InvalidInput, match="expected details of stages with the same names, got 2001 names"):
        stages.numbers()


def test_contexts_of_another_size_than_the_configuration_are_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "contexts": ["x", "y", "z"]}))
    for name in ("curriculum.npz", "episodes.csv"):
        with pytest.raises(CheckpointError, match="expected contexts of 3 values, got 2"):
            load_run(folder)
        (folder / name).unlink()
    assert load_run(folder).contexts == ("x", "y", "z")


def test_runs_with_other_contexts_are_no_comparison(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"gradient": {}}, seeds=1)
    wide = {"contexts": ["a", "b", "c"], "points": [np.zeros((2, 3))] * 3}
    write_run(tmp_path / "runs" / "gradient" / "seed-1", seed=1, **wide)
    with pytest.raises(InvalidInput, match="expected runs with the same contexts"):
        load_comparison(tmp_path)


def test_a_run_that_just_started_is_empty_and_unfinished(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    for name in ("episodes.csv", "evaluations.csv", "stages.csv", "curriculum.npz", "summary.json"):
        (folder / name).unlink()
    run = load_run(folder)
    assert (len(run.episodes.steps), len(run.evaluations.steps), run.curriculum, run.finished) == (0, 0, (), False)
    assert run.in_force(0) is None


def test_a_run_with_a_summary_is_finished(tmp_path: Path) -> None:
    assert not load_run(write_run(tmp_path / "short", reached=750)).finished
    folder = write_run(tmp_path / "whole")
    assert load_run(folder).finished
    (folder / "summary.json").unlink()
    assert not load_run(folder).finished


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    with (folder / "evaluations.csv").open("a") as file:
        file.write("1250,2,1.0,6")
    assert load_run(folder).evaluations.steps.tolist() == [250, 500, 750, 1000]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "{", "damaged file {path}: Expecting property name"),
        ("config.json", "[]", "damaged file {path}: expected a JSON object"),
        ("config.json", "[" * 100_000, "damaged file {path}: maximum recursion depth exceeded"),
        ("config.json", '{"options":' + "[" * 40 + "]" * 40 + "}", "expected JSON of at most 32 levels, got more"),
        ("config.json", '{"name": "mine"}', "got one without task, contexts, method, label, seed, steps"),
        ("evaluations.csv", "time,reward\n1,2\n", f"to have the columns {EVALUATION}, got time,reward"),
        ("evaluations.csv", f"{EVALUATION}\n1,2\n", "expected 7 values in line 2 of {path}, got 2"),
        ("evaluations.csv", f"{EVALUATION}\n1,0,0,x,0,0,0\n", "numbers in column return of"),
        ("stages.csv", f"{STAGE}\n0.5,0,0,train,start,1,0,0,\n", "integers in column stage of"),
        (
            "evaluations.csv",
            f"{EVALUATION}\n1,0,0,1,{'9' * 200_000},0,0\n",
            "expected {path} to be a table, got Error: field",
        ),
        ("evaluations.csv", f"{EVALUATION}\n1e300,0,0,1,0,0,0\n", "integers in column step of"),
        ("curriculum.npz", "not an archive", "damaged or foreign file {path}: "),
    ],
)
def test_damage_is_reported_in_one_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    folder = write_run(tmp_path / "run")
    (folder / name).write_text(content)
    with pytest.raises((InvalidInput, CheckpointError)) as error:
        load_run(folder)
    assert message.format(path=folder / name) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["episodes.csv", "evaluations.csv", "stages.csv", "curriculum.npz"])
def test_a_file_of_holes_is_not_read_into_memory(tmp_path: Path, name: str) -> None:
    folder = write_run(tmp_path / "run")
    os.truncate(folder / name, 2**40)
    with pytest.raises((InvalidInput, CheckpointError), match="expected at most 1073741824 bytes, got 1099511627776"):
        load_run(folder)


def test_foreign_archives_are_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    np.savez(folder / "curriculum.npz", points=np.zeros((1, 1)))
    with pytest.raises(CheckpointError, match="got none of weights, offsets, stage, step, alpha"):
        load_run(folder)
    np.savez(
        folder / "curriculum.npz",
        points=np.full((1, 1), np.nan), weights=np.ones(1), offsets=[0, 1], stage=[0], step=[0], alpha=[0],
    )  # fmt: skip
    with pytest.raises(CheckpointError, match="to hold a distribution per stage, got expected points to be finite"):
        load_run(folder)


@pytest.mark.parametrize("name", ["episodes.csv", "evaluations.csv", "stages.csv"])
def test_repeated_rows_are_reported_with_their_line(tmp_path: Path, name: str) -> None:
    table = write_run(tmp_path / "run") / name
    head, *rows = table.read_text().splitlines(keepends=True)
    for doubled, line in (([*rows[:2], *rows[1:]], 4), ([*rows, *rows], len(rows) + 2)):
        table.write_text("".join([head, *doubled]))
        with pytest.raises(
            CheckpointError,
            match=rf"damaged file .*{name}: expected .* to increase from line to line, .* in line {line};",
        ):
            load_run(tmp_path / "run")


@pytest.mark.parametrize("label", [3, None])
def test_a_configuration_with_an_invalid_value_is_refused(tmp_path: Path, label: object) -> None:
    folder = write_run(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "label": label}))
    with pytest.raises(InvalidInput, match="invalid configuration of a run: expected label to be a string, got"):
        load_run(folder)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="to be a run folder with a config.json, found none"):
        load_run(tmp_path)
    with pytest.raises(InvalidInput, match="to hold config.json or runs at runs/<label>/seed-<k>, got neither"):
        load_comparison(tmp_path)


def test_a_comparison_holds_finished_and_unfinished_runs(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"uniform": {"method": "uniform"}, "gradient .05": {}}, seeds=11)
    write_run(tmp_path / "runs" / "linear" / "seed-0", method="linear", reached=500)
    (tmp_path / "runs" / "linear" / "seed-1").mkdir()
    groups = by_label(load_comparison(tmp_path))
    assert list(groups) == ["gradient .05", "uniform", "linear"]
    assert [run.seed for run in groups["uniform"]] == list(range(11))
    assert [run.finished for run in groups["linear"]] == [False]
