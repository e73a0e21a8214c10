"""A run: its folder, resuming it after a kill, extending it, and what is refused."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np
import pytest

from geodesic.errors import CheckpointError, InvalidInput
from geodesic.records import checkpoint as checkpoints
from geodesic.records import load_run, read_config
from geodesic.records.status import run_status
from geodesic.runs import run
from geodesic.tasks import load
from geodesic.training.configure import configure
from run_files import Interrupted, after_each_segment, contents, release

GEODESIC = [sys.executable, "-m", "geodesic"]


def quick(method="gradient", steps=3000, seed=0):
    """A configuration with easy stages, so that a short run masters several."""
    return configure("maze", f"{method}:window=5" if method == "gradient" else method, seed, steps, threshold=-60.0)


def test_a_run_folder_holds_everything_about_the_run(tmp_path):
    config = quick()
    run.start([config], [tmp_path / "a"]).train()
    result = load_run(tmp_path / "a")
    assert result.evaluations.steps.tolist() == [0, 1000, 2000, 3000]
    assert result.stages.events[0] == "start"
    assert set(result.stages.events[1:]) == {"mastered"}
    assert set(result.stages.kinds) == {"train"}
    assert len(result.curriculum) == len(result.stages.stages) > 1
    assert result.curriculum[0].particles == load("maze").source_particles
    assert (np.diff(result.episodes.steps) > 0).all()
    assert result.episodes.lengths.sum() <= 3000
    np.testing.assert_array_equal(result.episodes.scores, result.episodes.returns)
    np.testing.assert_array_equal(result.evaluations.scores, result.evaluations.returns)
    stored = json.loads((tmp_path / "a" / "config.json").read_text())
    assert stored["learner_options"]["learning_rate"] == 1e-4
    assert stored["versions"]["jax"]
    assert read_config(tmp_path / "a") == config
    assert list((tmp_path / "a").glob("events.out.tfevents*"))
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert (summary["steps"], summary["runs_at_once"]) == (3000, 1)
    assert summary["stage"] == result.stages.stages[-1]
    assert summary["target_score"] == pytest.approx(result.evaluations.scores[-1])


def test_the_tensorboard_scalars_are_the_evaluations(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run.start([quick(steps=2000)], [tmp_path]).train()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    evaluations = load_run(tmp_path).evaluations
    returns = events.Scalars("target/return")
    assert [event.step for event in returns] == evaluations.steps.tolist()
    np.testing.assert_allclose([event.value for event in returns], evaluations.returns, rtol=1e-6)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run.start([quick(seed=seed)], [tmp_path / name]).train()
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["episodes.csv"] != contents(tmp_path / "c")["episodes.csv"]


def test_runs_of_several_methods_train_at_once(tmp_path):
    configs = [quick(), quick("target-only"), quick("uniform")]
    folders = [tmp_path / str(i) for i in range(3)]
    batch = run.start(configs, folders)
    seen = [[], [], []]
    after_each_segment(batch, lambda index: seen[index].append((batch.step, run_status(folders[index]))))
    batch.train()
    stages = [load_run(folder).stages.stages for folder in folders]
    assert [len(s) > 1 for s in stages] == [True, False, False]
    assert load_run(folders[0]).method == "gradient"
    for statuses, folder in zip(seen, folders):
        assert [step for step, _ in statuses] == [500, 1000, 1500, 2000, 2500, 3000]
        assert all(step - 100 <= status.step <= step for step, status in statuses)  # the last episode in the table
        assert {(status.steps, status.state) for _, status in statuses} == {(3000, "running")}
        last = run_status(folder)
        assert (last.step, last.state) == (3000, "finished")
        assert last.stage == statuses[-1][1].stage == load_run(folder).stages.stages[-1]
        assert last.score == statuses[-1][1].score == pytest.approx(load_run(folder).evaluations.scores[-1])


def test_runs_that_cannot_train_at_once_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="expected runs at once to share task, learner and steps, got several of st"):
        run.start([quick(), quick(steps=4000, seed=1)], [tmp_path / "a", tmp_path / "b"])
    other = configure("maze", "gradient", learner="ppo:learning_rate=1e-3", steps=3000)
    with pytest.raises(InvalidInput, match="got several of learner_options"):
        run.start([quick(), other], [tmp_path / "a", tmp_path / "b"])
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("method", ["gradient", "plr:buffer=20"])
def test_resuming_in_the_middle_gives_the_same_bytes(tmp_path, method):
    run.start([quick(method)], [tmp_path / "whole"]).train()
    batch = run.start([quick(method)], [tmp_path / "interrupted"])

    def interrupt(index):
        batch.checkpoint_seconds = 0.0 if batch.step == 1000 else 1e9  # one more checkpoint, at step 1500
        if batch.step == 2000:
            raise Interrupted  # after the checkpoint: the files are longer than it says

    after_each_segment(batch, interrupt)
    with pytest.raises(Interrupted):
        batch.train()
    assert contents(tmp_path / "interrupted")["episodes.csv"] != contents(tmp_path / "whole")["episodes.csv"]
    again = run.resume([quick(method)], [tmp_path / "interrupted"])
    assert again.step == 1500
    again.train()
    assert contents(tmp_path / "interrupted") == contents(tmp_path / "whole")


def kill_at(arguments, file, lines):
    """Start the command and kill it once a file has that many lines; return whether it was still running then."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if file.exists() and file.read_bytes().count(b"\n") >= lines:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            return True
        time.sleep(0.002)
    _, complaint = process.communicate()
    assert process.returncode == 0, complaint.decode()
    return False


def test_a_run_killed_at_three_random_moments_ends_as_an_uninterrupted_one(tmp_path):
    easy = ["--method", "gradient:window=5", "--threshold", "-60"]
    common = [*GEODESIC, "run", "maze", *easy, "--steps", "20000", "--save-every", "0.05"]
    subprocess.run([*common, "--out", tmp_path / "whole"], check=True, stdout=subprocess.DEVNULL)
    killed = tmp_path / "killed"
    moments = sorted(random.Random(time.time_ns()).sample(range(3, 18), 3))
    was_running = [kill_at([*common, "--out", killed], killed / "evaluations.csv", moments[0])]
    for lines in moments[1:]:
        again = [*GEODESIC, "run", "--resume", killed, "--save-every", "0.05"]
        was_running.append(kill_at(again, killed / "evaluations.csv", lines))
    assert all(was_running), moments
    subprocess.run([*GEODESIC, "run", "--resume", killed], check=True, stdout=subprocess.DEVNULL)
    assert contents(killed) == contents(tmp_path / "whole"), moments
    assert len(load_run(killed).stages.stages) > 5


def test_damage_is_refused_and_nothing_is_lost(tmp_path):
    release(run.start([quick()], [tmp_path]))
    checkpoint = tmp_path / "checkpoint" / "latest.npz"
    whole = checkpoint.read_bytes()
    before = contents(tmp_path)
    checkpoint.write_bytes(whole[:-200])
    with pytest.raises(CheckpointError, match="damaged or foreign file .*latest.npz"):
        run.resume([quick()], [tmp_path])
    checkpoint.write_bytes(whole)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        run.resume([quick(seed=3)], [tmp_path])
    found = checkpoints.load(checkpoint)
    older = {name: array for name, array in found.arrays.items() if not name.startswith("waiting/")}
    checkpoints.save(checkpoint, older, found.meta)
    with pytest.raises(CheckpointError, match="is of another version: it has no 'waiting/contexts'"):
        run.resume([quick()], [tmp_path])
    checkpoint.write_bytes(whole)
    (tmp_path / "episodes.csv").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"episodes.csv is shorter than its checkpoint says"):
        run.resume([quick()], [tmp_path])
    (tmp_path / "episodes.csv").write_bytes(before["episodes.csv"].replace(b"step", b"stop"))
    with pytest.raises(CheckpointError, match=r"episodes.csv does not match its checkpoint: rows were changed"):
        run.resume([quick()], [tmp_path])
    (tmp_path / "episodes.csv").write_bytes(before["episodes.csv"])
    (tmp_path / "curriculum.npz").write_bytes(before["curriculum.npz"][:-50])
    with pytest.raises(CheckpointError, match=r"damaged or foreign file .*curriculum.npz"):
        run.resume([quick()], [tmp_path])
    (tmp_path / "curriculum.npz").write_bytes(before["curriculum.npz"])
    assert contents(tmp_path) == before
    assert not (tmp_path / ".lock").exists()
    run.resume([quick()], [tmp_path])


@pytest.mark.parametrize("missing", ["segment", "updates", "tables", "stages", "batch_members"])
def test_a_checkpoint_of_another_version_is_named(tmp_path, missing):
    release(run.start([quick()], [tmp_path]))
    path = tmp_path / "checkpoint" / "latest.npz"
    found = checkpoints.load(path)
    checkpoints.save(path, found.arrays, {key: value for key, value in found.meta.items() if key != missing})
    with pytest.raises(CheckpointError, match=f"is of another version: it has no '{missing}'"):
        run.resume([quick()], [tmp_path])


def test_a_damaged_config_is_refused(tmp_path):
    run.start([quick()], [tmp_path])
    for text in ("{", "[]"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(CheckpointError, match=r"damaged file .*config.json"):
            run.extend(tmp_path, None)
    (tmp_path / "config.json").write_text('{"task": "maze"}')
    with pytest.raises(InvalidInput, match=r"expected a run's config.json, got one without name, contexts"):
        run.extend(tmp_path, None)


def test_the_trained_agent_can_be_loaded(tmp_path):
    run.start([quick(steps=12_000)], [tmp_path]).train()
    policy = run.load_policy(tmp_path)
    env = gym.make("geodesic/Maze-v0").unwrapped
    lengths = []
    for cell in env.mdp.starts[env.mdp.start_distance == 1]:
        obs, _ = env.reset(seed=0, options={"context": cell})
        _, _, terminated, _, _ = env.step(policy(obs))
        lengths.append(terminated)
    assert lengths == [True, True]  # it takes the one step to the goal


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    release(run.start([quick()], [tmp_path]))
    before = contents(tmp_path)
    with pytest.raises(InvalidInput, match="already holds a run; try --resume"):
        run.start([quick()], [tmp_path])
    assert contents(tmp_path) == before


def test_an_unreachable_threshold_is_refused_before_any_work(tmp_path):
    config = configure("maze", threshold=-10.0)
    with pytest.raises(
        InvalidInput, match=r"expected a threshold that the target can reach \(below -13.3333\), got -10"
    ):
        run.start([config], [tmp_path / "never"])
    assert not (tmp_path / "never").exists()


def test_resuming_in_the_middle_of_an_exploration_gives_the_same_bytes(tmp_path):
    config = configure("u-maze", "gradient:metric=return-lift:explore_steps=4000:window=5", 0, 16_000, threshold=-0.99)
    run.start([config], [tmp_path / "whole"]).train()
    stages = load_run(tmp_path / "whole").stages
    assert stages.explores.sum() > 1
    explored, trained = stages.explores[1:], ~stages.explores[1:]
    events = np.array(stages.events[1:])
    assert set(events[explored]) == {"mastered"}  # the stage before it
    assert set(events[trained]) == {"mastered"}
    assert (stages.explores[1::2]).all()  # every other stage explores, and alpha stays meanwhile
    assert not stages.explores[::2].any()
    assert (stages.alphas[1::2] == stages.alphas[:-1:2][: len(stages.alphas[1::2])]).all()
    batch = run.start([config], [tmp_path / "interrupted"])

    def interrupt(index):
        (session,) = batch.sessions
        if session.state.kind == "explore" and len(session.waiting):  # some wait for earlier ones to end
            raise Interrupted

    after_each_segment(batch, interrupt)
    batch.checkpoint_seconds = 0.0
    with pytest.raises(Interrupted):
        batch.train()
    again = run.resume([config], [tmp_path / "interrupted"])
    assert again.sessions[0].state.kind == "explore"
    assert len(again.sessions[0].waiting)
    again.train()
    assert contents(tmp_path / "interrupted") == contents(tmp_path / "whole")


def test_a_run_interrupted_before_its_first_checkpoint_starts_over(tmp_path):
    run.start([quick()], [tmp_path / "whole"]).train()
    run.start([quick()], [tmp_path / "interrupted"])
    (tmp_path / "interrupted" / "checkpoint" / "latest.npz").unlink()
    (tmp_path / "interrupted" / "curriculum.npz").unlink()
    (tmp_path / "interrupted" / "stages.csv").write_text("half a li")
    run.extend(tmp_path / "interrupted", None).train()
    assert contents(tmp_path / "interrupted") == contents(tmp_path / "whole")


def test_a_finished_run_that_is_extended_is_one_longer_run(tmp_path):
    run.start([quick(steps=2000)], [tmp_path / "short"]).train()
    run.start([quick(steps=4000)], [tmp_path / "long"]).train()
    batch = run.extend(tmp_path / "short", 4000)
    assert batch.step == 2000
    assert not load_run(tmp_path / "short").finished
    assert read_config(tmp_path / "short").steps == 4000
    batch.train()
    assert contents(tmp_path / "short") == contents(tmp_path / "long")
    assert load_run(tmp_path / "short").finished
    assert read_config(tmp_path / "short") == read_config(tmp_path / "long")


def test_an_interrupted_extension_resumes(tmp_path):
    run.start([quick(steps=2000)], [tmp_path / "short"]).train()
    run.start([quick(steps=4000)], [tmp_path / "long"]).train()
    run.extend(tmp_path / "short", 4000)  # killed before its first segment
    batch = run.extend(tmp_path / "short", None)
    assert batch.config.steps == 4000
    batch.train()
    assert contents(tmp_path / "short") == contents(tmp_path / "long")


def test_an_extension_killed_between_two_files_loses_nothing(tmp_path, monkeypatch):
    """Wherever it is killed, the run is still finished or can be extended again."""
    run.start([quick(steps=1000)], [tmp_path]).train()

    def killed(*_):
        raise Interrupted

    for step in ("describe", "reopen"):
        with monkeypatch.context() as patch:
            patch.setattr(f"geodesic.records.writer.RunFolder.{step}", killed)
            with pytest.raises(Interrupted):
                run.extend(tmp_path, 2000)
    run.extend(tmp_path, 2000).train()
    assert load_run(tmp_path).evaluations.steps.tolist() == [0, 1000, 2000]


def test_a_run_is_not_shortened_and_a_finished_one_not_resumed(tmp_path):
    run.start([quick(steps=1000)], [tmp_path]).train()
    before = contents(tmp_path)
    with pytest.raises(InvalidInput, match="expected at least the run's 1000 steps, got 500"):
        run.extend(tmp_path, 500)
    for steps in (None, 1000):
        with pytest.raises(InvalidInput, match=r"is finished; nothing to resume \(--steps N trains on to N steps\)"):
            run.extend(tmp_path, steps)
    assert contents(tmp_path) == before
    assert load_run(tmp_path).finished


@pytest.mark.parametrize(("steps", "evaluated"), [(1500, [0, 1000, 1500]), (1600, [0, 1000, 2000]), (1, [0, 500])])
def test_the_last_step_is_always_evaluated(tmp_path, steps, evaluated):
    """A segment has 500 steps, every second is evaluated; a budget inside a segment ends with it."""
    run.start([quick(steps=steps)], [tmp_path]).train()
    result = load_run(tmp_path)
    assert result.evaluations.steps.tolist() == evaluated
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["steps"] == evaluated[-1]
    assert summary["target_score"] == pytest.approx(result.evaluations.scores[-1])


def test_runs_that_were_not_started_together_do_not_resume_together(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    run.start([quick(steps=1000)], folders[:1]).train()
    run.start([quick(steps=1000, seed=1)], folders[1:])
    assert [run.segment_of(folder) for folder in (*folders, tmp_path / "none")] == [2, 0, None]
    before = contents(folders[0])
    with pytest.raises(InvalidInput, match=r"expected runs that were started together, got others; try them one by"):
        run.resume([quick(steps=1000), quick(steps=1000, seed=1)], folders)
    assert contents(folders[0]) == before


def test_a_second_process_is_refused_before_anything_is_compiled_or_touched(tmp_path, monkeypatch):
    batch = run.start([quick(steps=500)], [tmp_path / "a"])
    before = contents(tmp_path / "a")
    monkeypatch.setattr("geodesic.training.compiled.CompiledTrainer.prepare", None)
    for again in (run.start, run.resume):
        with pytest.raises(InvalidInput, match=rf"is being written by process {os.getpid()} on "):
            again([quick(steps=500), quick(steps=500, seed=1)], [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(InvalidInput, match="is being written by process"):
        run.extend(tmp_path / "a", 1000)
    assert contents(tmp_path / "a") == before
    assert not (tmp_path / "b").exists()
    batch.train()
    assert not (tmp_path / "a" / ".lock").exists()
    with pytest.raises(InvalidInput, match="already holds a run"):
        run.start([quick(steps=500)], [tmp_path / "a"])
