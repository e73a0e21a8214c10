"""The tasks of `python -m benchmarks.studies.newcomers` are valid and train, and its summary counts correctly."""

import os
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.studies.newcomers import TASKS, USED, load
from benchmarks.studies.newcomers.__main__ import main, rows_of, summary

import geodesic as gd
from extras import needs_gymnax
from geodesic.envs.cmdp import ContextualMDP

OF_GYMNAX = {"acrobot", "weak_engine", "pendulum", "invaders"}
SMALL = gd.PPO(n_envs=2, rollout=64, normalize_observations=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_gymnax if name in OF_GYMNAX else ()) for name in (*TASKS, *USED)]
)
def test_a_task_is_valid_and_its_episodes_end(name, tmp_path):
    task = load(name)
    gd.check_task(task)
    assert isinstance(task.env, ContextualMDP)
    assert task.training.learner is None
    assert 50_000 <= task.training.steps <= 400_000
    task = replace(task, evaluation=gd.EvaluationSettings(episodes=2))
    steps = 2 * (task.env.max_steps + SMALL.rollout)
    run = gd.train(task, "uniform", SMALL, steps, out=tmp_path / "runs", progress=False).runs[0]
    assert run.finished
    assert len(run.episodes.steps) >= 2
    assert (run.episodes.lengths <= task.env.max_steps).all()
    assert np.isfinite(run.evaluations.scores).all()


def test_methods_are_compared_and_read_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GEODESIC_TRACK", "none")
    options = ["--tasks", "catch", "--seeds", "2", "--out", str(tmp_path)]
    trained = [*options, "--methods", "uniform,target-only", "--steps", "300", "--learner", "ppo:rollout=16"]
    assert main(trained) == 0
    first = capsys.readouterr().out
    assert {path.name for path in (tmp_path / "catch" / "runs").iterdir()} == {
        "auto",
        "target-only",
        "uniform",
    }
    assert len(list(tmp_path.glob("catch/runs/*/seed-100[01]"))) == 6
    assert main([*options, "--read"]) == 0
    assert capsys.readouterr().out == first
    rows = rows_of(tmp_path / "catch", "auto")
    assert summary({"catch": rows}, "auto").count("\n") == 2
    assert "GEODESIC_TRACK" in os.environ
