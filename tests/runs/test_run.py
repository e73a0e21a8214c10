"""A run as its users meet it: its folder, its resumption after a kill, and its refusals."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from geodesic.experiments import run
from geodesic.experiments.config import configure, curriculum_of, parse_method, table
from geodesic.experiments.results import load_run

from geodesic.errors import CheckpointError, InvalidInput, UnknownName
from geodesic.training import checkpoint as checkpoints

LASTING = ("evaluations.csv", "stages.csv", "episodes.csv", "curriculum.npz")
GEODESIC = [sys.executable, "-m", "geodesic.cli"]


def quick(method="gradient", steps=3000, seed=0):
    """Easy stages, so that a short run passes several."""
    return configure("maze", f"{method}:window=5" if method == "gradient" else method, seed, steps, threshold=-60.0)


def contents(folder):
    return {name: (Path(folder) / name).read_bytes() for name in LASTING}


def test_a_run_leaves_everything_in_its_folder(tmp_path):
    config = quick()
    run.start([config], [tmp_path / "a"]).train()
    result = load_run(tmp_path / "a")
    assert result.evaluations.steps.tolist() == [0, 1000, 2000, 3000]
    assert result.stages.events[0] == "start"
    assert len(result.curriculum) == len(result.stages.stages) > 1
    assert result.curriculum[0].particles == curriculum_of(config, run.program_of([config]).mdp).source
    assert (np.diff(result.episodes.steps) > 0).all()
    assert result.episodes.lengths.sum() <= 3000
    stored = json.loads((tmp_path / "a" / "config.json").read_text())
    assert stored["learner_options"]["learning_rate"] == 1e-4
    assert stored["versions"]["jax"]
    assert list((tmp_path / "a").glob("events.out.tfevents*"))


def test_the_tensorboard_scalars_are_the_evaluations(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run.start([quick(steps=2000)], [tmp_path]).train()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    evaluations = load_run(tmp_path).evaluations
    shown = events.Scalars("target/return")
    assert [event.step for event in shown] == evaluations.steps.tolist()
    np.testing.assert_allclose([event.value for event in shown], evaluations.returns, rtol=1e-6)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run.start([quick(seed=seed)], [tmp_path / name]).train()
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["episodes.csv"] != contents(tmp_path / "c")["episodes.csv"]


def test_runs_of_several_methods_train_at_once(tmp_path):
    configs = [quick(), quick("target-only"), quick("uniform")]
    folders = [tmp_path / str(i) for i in range(3)]
    run.start(configs, folders).train()
    stages = [load_run(folder).stages.stages for folder in folders]
    assert [len(s) > 1 for s in stages] == [True, False, False]
    assert load_run(folders[0]).config["method"] == "gradient"


def test_resuming_in_the_middle_gives_the_same_bytes(tmp_path):
    run.start([quick()], [tmp_path / "whole"]).train()
    batch = run.start([quick()], [tmp_path / "broken"])

    class Cut(Exception):
        pass

    def cut(index, progress):
        if progress.step == 1500:
            batch.save()
        if progress.step == 2000:
            raise Cut  # beyond the checkpoint: the files are longer than it says

    batch.report = cut
    with pytest.raises(Cut):
        batch.train()
    assert contents(tmp_path / "broken")["episodes.csv"] != contents(tmp_path / "whole")["episodes.csv"]
    run.resume([quick()], [tmp_path / "broken"]).train()
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def kill_at(arguments, file, lines):
    """Start the command and kill it once a file has that many lines; whether it was still running then."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if file.exists() and file.read_bytes().count(b"\n") >= lines:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.002)
    assert process.poll() == 0, process.stderr.read().decode()
    return False


def test_a_run_killed_at_three_random_moments_ends_as_an_unbroken_one(tmp_path):
    common = [*GEODESIC, "run", "maze", "--steps", "40000", "--save-every", "0.05"]
    subprocess.run([*common, "--out", tmp_path / "whole"], check=True, stdout=subprocess.DEVNULL)
    broken = tmp_path / "broken"
    moments = sorted(random.Random(time.time_ns()).sample(range(3, 36), 3))
    killed = [kill_at([*common, "--out", broken], broken / "evaluations.csv", moments[0])]
    for lines in moments[1:]:
        again = [*GEODESIC, "run", "--resume", broken, "--save-every", "0.05"]
        killed.append(kill_at(again, broken / "evaluations.csv", lines))
    assert all(killed), moments
    subprocess.run([*GEODESIC, "run", "--resume", broken], check=True, stdout=subprocess.DEVNULL)
    assert contents(broken) == contents(tmp_path / "whole"), moments


def test_damage_is_refused_and_nothing_is_lost(tmp_path):
    batch = run.start([quick()], [tmp_path])
    checkpoint = tmp_path / "checkpoint" / "latest.npz"
    whole = checkpoint.read_bytes()
    before = contents(tmp_path)
    checkpoint.write_bytes(whole[:-200])
    with pytest.raises(CheckpointError, match="damaged or foreign checkpoint"):
        run.resume([quick()], [tmp_path])
    checkpoint.write_bytes(whole)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        run.resume([quick(seed=3)], [tmp_path])
    older = {name: array for name, array in checkpoints.load(checkpoint)[0].items() if not name.startswith("held/")}
    checkpoints.save(checkpoint, older, checkpoints.load(checkpoint)[1])
    with pytest.raises(CheckpointError, match="is of another version: it has no 'held/contexts'"):
        run.resume([quick()], [tmp_path])
    checkpoint.write_bytes(whole)
    (tmp_path / "episodes.csv").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"episodes.csv is shorter than its checkpoint says"):
        run.resume([quick()], [tmp_path])
    (tmp_path / "episodes.csv").write_bytes(before["episodes.csv"])
    assert contents(tmp_path) == before
    assert batch.step == 0
    run.resume([quick()], [tmp_path])


def test_the_trained_agent_can_be_taken_out(tmp_path):
    run.start([quick(steps=12_000)], [tmp_path]).train()
    policy = run.load_policy(tmp_path)
    env = gym.make("geodesic/Maze-v0").unwrapped
    lengths = []
    for cell in env.mdp.starts[env.mdp.start_distance == 1]:
        obs, _ = env.reset(seed=0, options={"context": cell})
        _, _, terminated, _, _ = env.step(policy(obs))
        lengths.append(terminated)
    assert lengths == [True, True]  # one step from the goal, it goes there


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    run.start([quick()], [tmp_path])
    with pytest.raises(InvalidInput, match="already holds a run; try --resume"):
        run.start([quick()], [tmp_path])


def test_methods_are_read_with_their_options():
    assert parse_method("gradient:step=0.05:window=10") == ("gradient", {"step": 0.05, "window": 10})
    config = configure("maze", "gradient:step=.2:metric=graph")
    assert (config.options["step"], config.metric, config.label) == (0.2, "graph", "gradient:step=.2:metric=graph")
    assert table("maze")["learner"]["entropy_coef"] == 0.1
    for text in ("gradient:", "gradient:step", "gradient:=3"):
        with pytest.raises(InvalidInput, match="expected a method as name:option=value"):
            parse_method(text)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("nowhere",), UnknownName, "expected environment to be one of maze, .*; got 'nowhere'"),
        (("maze", "nonsense"), UnknownName, "expected method to be one of gradient, .*; got 'nonsense'"),
        (("maze", "gradient", -1), InvalidInput, r"expected seed to be an integer in \[0, 2\^31\), got -1"),
        (("maze", "gradient", 0, 0), InvalidInput, "expected steps to be a positive integer, got 0"),
        (
            ("maze", "gradient", 0, 10, "embedding"),
            UnknownName,
            "expected metric of maze to be one of contextual, graph, l2; got 'embedding'",
        ),
    ],
)
def test_configurations_that_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        configure(*arguments)


def test_an_unreachable_threshold_is_refused_before_any_work(tmp_path):
    config = configure("maze", threshold=-10.0)
    with pytest.raises(
        InvalidInput, match=r"expected a threshold that the target can reach \(below -13.3333\), got -10"
    ):
        run.start([config], [tmp_path / "never"])
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("metric", ["return-lift"])
def test_resuming_in_the_middle_of_an_exploration_gives_the_same_bytes(tmp_path, metric):
    config = configure("u-maze", f"gradient:metric={metric}:explore_steps=4000:window=5", 0, 16_000, threshold=-0.99)
    run.start([config], [tmp_path / "whole"]).train()
    events = load_run(tmp_path / "whole").stages.events
    assert events.count("explore") > 1
    batch = run.start([config], [tmp_path / "broken"])

    class Cut(Exception):
        pass

    def cut(index, progress):
        state, held = batch.runs[0].state, batch.runs[0].held
        if state.phase == "explore" and len(held.episodes):  # some wait for earlier ones to end
            batch.save()
            raise Cut

    batch.report = cut
    with pytest.raises(Cut):
        batch.train()
    run.resume([config], [tmp_path / "broken"]).train()
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
