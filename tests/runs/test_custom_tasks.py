"""Comparisons of a user's tasks, which worker processes have to find or receive."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

import geodesic as gd
from geodesic.cli import main
from geodesic.errors import InvalidInput
from geodesic.records import load_comparison, read_config
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import Job, LocalProcesses
from geodesic.runs.run import run_job
from geodesic.tasks import load
from geodesic.training.configure import objects_of
from geodesic.training.objects import pack, unpack
from known_returns import LEARNER, varied_returns
from run_files import contents

TASKS = Path(__file__).parent.parent / "known_returns.py"
METHODS = ["gradient", "target-only"]


def local_task(bonus):
    """A task that no other process can find: its class and functions are local to this call."""

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
        evaluation=gd.EvaluationSettings(every=2),
        training=gd.TrainingSettings(
            learner=LEARNER, steps=300, segment=2, methods={"gradient": {"step": 0.5, "window": 5}}
        ),
        name="local",
    )


def assert_as_alone(configs, out, alone, task=None):
    """Every run in `out` is the same when it is trained in this process."""
    for index, config in enumerate(configs):
        folder = alone / str(index)
        assert run_job(Job((config,), (folder,)), task, [objects_of(task, "")] if task else None) == {}
        assert contents(folder) == contents(run_folder(out, config))


def test_a_task_object_is_sent_to_the_workers(tmp_path):
    task = local_task(bonus=0.25)
    configs = plan_comparison(task, METHODS, [0], None, tmp_path / "c")
    outcome = compare(configs, tmp_path / "c", task, LocalProcesses(1))
    assert (outcome.done, outcome.failed) == (2, {})
    assert read_config(run_folder(tmp_path / "c", configs[0])).objects == objects_of(task).fingerprints
    assert_as_alone(configs, tmp_path / "c", tmp_path / "alone", task)
    by_label = {run.label: run for run in load_comparison(tmp_path / "c")}
    assert len(by_label["gradient"].stages.stages) > 1
    assert set(by_label["gradient"].episodes.lengths) == {5}


def test_runs_of_a_task_object_are_refused_without_it_before_a_worker_starts(tmp_path):
    task = local_task(bonus=0.5)
    configs = plan_comparison(task, ["target-only"], [0], None, tmp_path)
    with pytest.raises(InvalidInput, match="expected the task 'local', which was passed as an object"):
        compare(configs, tmp_path, None, LocalProcesses(1))


def test_only_objects_without_a_reference_are_packed():
    (objects,) = unpack(pack([objects_of(local_task(bonus=0.75), "")]))
    task = objects.task
    assert (task.name, task.reference, task.in_jax) == ("local", None, True)
    assert task.reachable() == pytest.approx(5 * task.target_particles.mean()[0] + 3.75)
    assert pack([objects_of(load("maze"), "")]) is None
    assert pack([objects_of(load(f"{TASKS}:task"), "")]) is None
    assert unpack(None) is None


class Registered(gym.Env):
    """An environment that a script registers, which other processes do not run."""

    observation_space, action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32), gym.spaces.Discrete(2)


def test_registered_environments_are_sent_along(monkeypatch):
    monkeypatch.setattr("__main__.Registered", Registered, raising=False)
    gym.register("Registered-v0", entry_point="__main__:Registered")
    task = gd.Task("Registered-v0", {"x": (0.0, 1.0)}, target={"x": 1.0}, set_context=lambda env, x: None)
    packed = pack([objects_of(task, "")])
    monkeypatch.undo()
    del gym.registry["Registered-v0"]
    try:
        (objects,) = unpack(packed)
        assert type(objects.task.make().unwrapped).__name__ == "Registered"
    finally:
        del gym.registry["Registered-v0"]


def test_registered_parts_are_sent_along(monkeypatch):
    class Mine(gd.curricula.TargetOnly):
        """Local to this test, as a class in a script is to its process."""

    registry = gd.curricula.REGISTRY
    monkeypatch.setattr(registry, "_values", dict(registry._values))
    gd.curricula.register("mine", Mine)
    packed = pack([objects_of(load("maze"), "mine")])
    monkeypatch.undo()
    assert "mine" not in registry
    monkeypatch.setattr(registry, "_values", dict(registry._values))
    unpack(packed)
    unpack(packed)  # a worker receives it with every job
    assert registry.get("mine").__doc__ == Mine.__doc__


def test_an_object_that_cannot_be_sent_is_refused():
    lock = threading.Lock()
    task = gd.Task("CartPole-v1", {"x": (0.0, 1.0)}, target={"x": 1.0}, set_context=lambda env, x: lock)
    with pytest.raises(InvalidInput, match="expected objects that can be sent to other processes, got TypeError"):
        pack([objects_of(task, "")])


def test_a_task_in_a_file(tmp_path, monkeypatch, capsys):
    """Given relative to the current folder; the runs record its absolute path."""
    shutil.copy(TASKS, tmp_path / "problem.py")
    monkeypatch.chdir(tmp_path)
    arguments = ["--methods", "gradient", "--seeds", "1", "--steps", "300", "--workers", "1", "--quiet"]
    assert main(["compare", "problem.py:task", *arguments]) == 0
    out = tmp_path / "runs" / "problem" / "compare"
    assert "wrote runs/problem/compare" in capsys.readouterr().out
    (run,) = load_comparison(out)
    assert run.finished
    config = read_config(run.folder)
    assert (config.task, config.name, config.objects) == (f"{tmp_path / 'problem.py'}:task", "problem", {})
    monkeypatch.chdir(TASKS.parent)  # it can be found from any folder
    assert_as_alone([config], out, tmp_path / "alone")


def test_a_task_in_a_package(tmp_path):
    """Found from the current folder of the command."""
    (tmp_path / "parcel").mkdir()
    (tmp_path / "parcel" / "__init__.py").write_text("")
    shutil.copy(TASKS, tmp_path / "parcel" / "inner.py")
    command = [sys.executable, "-m", "geodesic", "compare", "parcel.inner:task", "--methods", "gradient"]
    rest = ["--seeds", "1", "--steps", "300", "--workers", "1", "--out", "out", "--quiet"]
    done = subprocess.run([*command, *rest], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "inner, 300 steps, solved above 2" in done.stdout
    (run,) = load_comparison(tmp_path / "out")
    assert run.finished
    config = read_config(run.folder)
    assert (config.task, config.name, config.objects) == ("parcel.inner:task", "inner", {})
    assert_as_alone([config], tmp_path / "out", tmp_path / "alone", varied_returns())


def test_own_code_is_run_without_asking_and_somebody_elses_only_if_trusted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(TASKS, tmp_path / "own.py")
    assert main(["run", "own.py:task", "--steps", "200", "--out", "mine", "--quiet"]) == 0
    assert main(["run", "--resume", "mine", "--steps", "400", "--quiet"]) == 0
    assert main(["run", "--config", "mine/config.json", "--out", "again", "--quiet"]) == 0
    assert main(["report", "mine", "--no-film"]) == 0
    assert "--trust" not in capsys.readouterr().err
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    for command in (["run", "--resume", "mine", "--steps", "600"], ["run", "--config", "mine/config.json"]):
        assert main([*command, "--quiet"]) == 2
        assert "config.json was not written by you on this machine and names code" in capsys.readouterr().err
    assert read_config(Path("mine")).steps == 400
    assert main(["run", "--resume", "mine", "--steps", "600", "--quiet", "--trust"]) == 0
    assert read_config(Path("mine")).steps == 600
    assert main(["run", "--resume", "mine", "--steps", "800", "--quiet"]) == 0  # it is this user's own since then
