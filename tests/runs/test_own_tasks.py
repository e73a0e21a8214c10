"""Comparisons of tasks of a user's own, in worker processes that have to find them first."""

import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
from lasting import contents
from steady import LEARNER, restless

import geodesic as gd
from geodesic.cli import main
from geodesic.errors import InvalidInput
from geodesic.records import load_comparison, read_config
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import LocalProcesses
from geodesic.runs.executors.base import Job, do, pack, unpack
from geodesic.tasks import load

HERE = Path(__file__).parent
METHODS = ["gradient", "target-only"]


def only_here(bonus):
    """A task that no other process could find: its class and its functions live in this call."""

    class Local(gd.ContextualMDP):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)
        max_steps = 10

        def initial(self, rng, context):
            return jnp.zeros(1)

        def transition(self, state, action, rng, context):
            return state + 1

        def observation(self, state, rng, context):
            return state

        def reward(self, state, action, next_state, rng, context):
            return bonus * action + context[0]

        def terminal(self, state, rng, context):
            return state[0] >= 5

    return gd.Task(
        env=Local(),
        contexts={"pay": (0.0, 2.0)},
        source=lambda rng: gd.Particles.uniform([1.0], [2.0], 20, rng),
        target={"pay": (0.0, 0.5)},
        threshold=1.0,
        best_return=lambda contexts: 5 * contexts[:, 0] + 5 * bonus,
        learner=LEARNER,
        steps=300,
        segment=2,
        eval_every=2,
        methods={"gradient": {"step": 0.5, "window": 5}},
        name="local",
    )


def same_as_alone(configs, out, alone, task=None):
    """Every run in `out` is what this process makes of it."""
    for index, config in enumerate(configs):
        folder = alone / str(index)
        do(Job((config,), (folder,)), lambda steps, note: None, task)
        assert contents(folder) == contents(run_folder(out, config))


def test_a_task_that_only_this_process_knows(tmp_path):
    task = only_here(bonus=0.25)
    configs = plan_comparison(task, METHODS, [0], None, tmp_path / "c")
    outcome = compare(configs, tmp_path / "c", task, LocalProcesses(1))
    assert (outcome.done, outcome.failed) == (2, {})
    assert not read_config(run_folder(tmp_path / "c", configs[0])).portable
    same_as_alone(configs, tmp_path / "c", tmp_path / "alone", task)
    by_label = {run.label: run for run in load_comparison(tmp_path / "c")}
    assert len(by_label["gradient"].stages.stages) > 1
    assert set(by_label["gradient"].episodes.lengths) == {5}


def test_without_the_task_itself_such_runs_are_refused_before_a_worker_starts(tmp_path):
    task = only_here(bonus=0.5)
    configs = plan_comparison(task, ["target-only"], [0], None, tmp_path)
    with pytest.raises(InvalidInput, match="expected the task 'local' itself: it was an object"):
        compare(configs, tmp_path, None, LocalProcesses(1))


def test_a_task_survives_being_packed_only_where_it_must_be():
    task = unpack(pack(only_here(bonus=0.75)))
    assert (task.name, task.reference, task.in_jax) == ("local", None, True)
    assert task.reachable() == pytest.approx(5 * task.target_particles.mean()[0] + 3.75)
    assert pack(load("maze")) is None
    assert pack(load(f"{HERE / 'steady.py'}:task")) is None
    assert unpack(None) is None


def test_a_task_in_a_file(tmp_path, monkeypatch, capsys):
    """Named from its folder; the runs know it by its whole path."""
    shutil.copy(HERE / "steady.py", tmp_path / "problem.py")
    monkeypatch.chdir(tmp_path)
    arguments = ["--methods", "gradient", "--seeds", "1", "--steps", "300", "--workers", "1", "--quiet"]
    assert main(["compare", "problem.py:task", *arguments]) == 0
    out = tmp_path / "runs" / "problem" / "compare"
    assert "wrote runs/problem/compare" in capsys.readouterr().out
    (run,) = load_comparison(out)
    assert run.finished
    config = read_config(run.folder)
    assert (config.task, config.name, config.portable) == (f"{tmp_path / 'problem.py'}:task", "problem", True)
    monkeypatch.chdir(HERE)  # it is found from anywhere
    same_as_alone([config], out, tmp_path / "alone")


def test_a_task_in_a_package(tmp_path):
    """From the folder that the command is called in."""
    (tmp_path / "parcel").mkdir()
    (tmp_path / "parcel" / "__init__.py").write_text("")
    shutil.copy(HERE / "steady.py", tmp_path / "parcel" / "inner.py")
    command = [sys.executable, "-m", "geodesic", "compare", "parcel.inner:task", "--methods", "gradient"]
    rest = ["--seeds", "1", "--steps", "300", "--workers", "1", "--out", "out", "--quiet"]
    done = subprocess.run([*command, *rest], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "inner, 300 steps, solved above 2" in done.stdout
    (run,) = load_comparison(tmp_path / "out")
    assert run.finished
    config = read_config(run.folder)
    assert (config.task, config.name, config.portable) == ("parcel.inner:task", "inner", True)
    same_as_alone([config], tmp_path / "out", tmp_path / "alone", restless())
