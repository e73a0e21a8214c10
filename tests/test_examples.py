"""The examples work, on a small budget."""

import importlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import geodesic as gd
from geodesic.cli import main
from geodesic.records import load_comparison, load_run

EXAMPLES = Path(__file__).parent.parent / "examples"
CAR = f"{EXAMPLES / 'mountain_car.py'}:task"
QUICK = "gradient:step=0.5:window=3:max_stage_steps=6000"


def test_mountain_car_is_valid():
    task = gd.tasks.load(CAR)
    gd.check_task(task)
    assert (task.name, task.reference) == ("mountain_car", CAR)


def test_mountain_car_is_short():
    """At most 27 lines besides its dynamics: the spaces, the task, and training."""
    code = (EXAMPLES / "mountain_car.py").read_text().split('"""')[2]
    dynamics = code[code.index("    def initial") : code.index("task = gd.Task")]
    rest = [line for line in code.replace(dynamics, "").splitlines() if line.strip()]
    assert len(rest) <= 27  # two of them are the guard and the class statement


def test_own_environment_is_valid_without_a_source_and_a_threshold():
    task = gd.tasks.load(f"{EXAMPLES / 'own_environment.py'}:task")
    gd.check_task(task)
    assert task.source is None
    assert task.threshold == "auto"


def test_mixed_contexts_are_planned_trained_drawn_and_reported(tmp_path, capsys):
    path = f"{EXAMPLES / 'mixed_contexts.py'}:task"
    task = gd.tasks.load(path)
    gd.check_task(task)
    assert main(["plan", path, "--alphas", "0,.5", "--out", str(tmp_path / "plan")]) == 0
    assert "wind=none 0.5, wind=steady 0.25, wind=gusts 0.25" in capsys.readouterr().out
    learner = gd.PPO(n_envs=4, rollout=32, batch_size=64, epochs=1, net=(8,))
    method = "gradient:window=5:threshold=5:step=0.3"
    result = gd.train(task, method, learner=learner, steps=1500, out=tmp_path / "run")
    (run,) = result.runs
    assert len(run.curriculum) > 2
    assert all(task.space.contains(stage.particles.points).all() for stage in run.curriculum)
    assert task.space.contains(run.episodes.contexts).all()
    assert run.config.metric == "product"
    assert run.categories == {"wind": ["none", "steady", "gusts"]}
    assert all(figure.exists() for figure in [tmp_path / "plan" / "plan.png", *result.figures()])
    assert "gusts" in result.report().read_text()
    env = result.task.make()
    obs, _ = env.reset(seed=0, options={"context": {"gravity": 18.0, "wind": "gusts", "delay": 2}})
    assert env.action_space.contains(result.policy(seed=0)(obs).item())


@pytest.mark.slow
def test_mountain_car_trains_on_four_seeds(tmp_path):
    result = gd.train(gd.tasks.load(CAR), QUICK, steps=20_000, seeds=4, out=tmp_path)
    assert [run.seed for run in result.runs] == [0, 1, 2, 3]
    assert all(run.finished and len(run.stages.stages) > 1 for run in result.runs)
    assert "gradient" in result.table()
    assert all(path.exists() for path in result.figures())
    env = result.task.make()
    obs, _ = env.reset(seed=0)
    for stochastic in (False, True):
        assert env.action_space.contains(result.policy(seed=3, stochastic=stochastic)(obs).item())


@pytest.mark.parametrize("how", ["file", "module"])
def test_mountain_car_is_compared_in_workers(tmp_path, monkeypatch, capsys, how):
    monkeypatch.chdir(EXAMPLES.parent)
    reference = CAR if how == "file" else "examples.mountain_car:task"
    methods = ["--methods", f"{QUICK},target-only", "--seeds", "1", "--steps", "10000"]
    assert main(["compare", reference, *methods, "--out", str(tmp_path), "--workers", "1", "--quiet"]) == 0
    assert "mountain_car, 10000 steps, solved above -140" in capsys.readouterr().out
    assert {run.label for run in load_comparison(tmp_path)} == {QUICK, "target-only"}
    assert (tmp_path / "figures" / "contexts.png").exists()


def test_a_policy_is_deployed_in_a_process_that_has_loaded_numpy_alone(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import deploy

    printed = deploy.main(out=tmp_path)
    task, step, score, loaded = re.fullmatch(
        r"(.*), step (\d+): mean score (\d+) of 500, loaded (.*)\n", printed
    ).groups()
    assert (task, loaded) == ("CartPole-v1", "[]")
    assert 0 < int(step) <= 61_440
    assert int(score) > 400
    assert (tmp_path / "numpy_policy.py").exists()


@pytest.mark.slow
def test_mountain_car_learns_to_swing(tmp_path):
    result = gd.train(gd.tasks.load(CAR), "gradient:step=0.1", seeds=2, out=tmp_path)
    finals = [run.evaluations.scores[-5:].mean() for run in result.runs]
    assert min(finals) > -140


def test_a_killed_custom_loop_resumes_at_the_same_stage(tmp_path):
    command = [sys.executable, EXAMPLES / "own_loop.py"]
    subprocess.run([*command, tmp_path / "whole"], check=True, stdout=subprocess.DEVNULL)
    killed = tmp_path / "killed"
    for stage in (1, 3):
        process = subprocess.Popen([*command, killed], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if (killed / "stages.csv").exists() and (killed / "stages.csv").read_bytes().count(b"\n") > stage + 1:
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.005)
        assert process.wait() == -signal.SIGKILL
        assert load_run(killed).stages.stages[-1] >= stage
    subprocess.run([*command, killed], check=True, stdout=subprocess.DEVNULL)
    for name in ("episodes.csv", "stages.csv", "evaluations.csv", "curriculum.npz"):
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    run = load_run(killed)
    assert run.finished
    assert (np.diff(run.episodes.steps) > 0).all()
    assert run.stages.alphas[-1] == 1.0


SPARSE = pytest.mark.filterwarnings("ignore:expected contexts to change")  # few random actions reach a goal


@SPARSE
@pytest.mark.parametrize("name", ["frozen_lake", "sparse_goals", "obstacles"])
def test_a_script_prints_its_table_and_verdict(name, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    module = importlib.import_module(name)
    result = module.main(2_000, tmp_path)
    assert result.runs[0].finished
    assert capsys.readouterr().out.rstrip().endswith(str(result.verdict()))


@SPARSE
@pytest.mark.slow
@pytest.mark.parametrize("name", ["frozen_lake", "sparse_goals", "obstacles"])
def test_a_script_solves_its_target(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    assert "solved" in str(importlib.import_module(name).main(out=tmp_path).verdict())


def test_the_sweep_trains_every_combination(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    result = importlib.import_module("sweep").main(600, tmp_path, seeds=1, workers=0)
    grid = {f"gradient:step={step}:window={window}" for step in (0.1, 0.2) for window in (10, 20)}
    assert {label for label, _ in result.folders} == {*grid, "auto", "target-only"}
    assert str(result.verdict()) in capsys.readouterr().out
