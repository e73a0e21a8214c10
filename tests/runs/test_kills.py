"""A run killed at any of its writes, alone or together with others, resumes and ends as an uninterrupted one."""

import os
from functools import partial
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from killable_run import InstantTrainer, Killed, kill_at

from geodesic.errors import CheckpointError, InvalidInput, RunFailed, RunWarning
from geodesic.records import checkpoint, checkpoint_path, finished, generations, load_run
from geodesic.runs import run
from geodesic.runs.executors import Job
from geodesic.runs.run import groups, run_job
from geodesic.training.configure import configure
from known_returns import varied_returns
from run_files import after_each_segment, contents, release

SEEDS = (0, 1, 2)  # trained together


@pytest.fixture
def instant(monkeypatch):
    monkeypatch.setattr(run, "trainer_of", lambda *_: InstantTrainer())
    clock = SimpleNamespace(monotonic=partial(next, count(step=100.0)))
    monkeypatch.setattr(run, "time", clock)  # a checkpoint after each segment
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # a kill loses nothing that is not on disk yet


@pytest.fixture(scope="module")
def task():
    return varied_returns(training={"steps": 300})  # three segments


def job_in(folder, task, seeds=SEEDS):
    configs = tuple(configure(task, "gradient:window=5", seed) for seed in seeds)
    return Job(configs, tuple(folder / str(seed) for seed in seeds))


def ends(job):
    """Everything that an interrupted run must have in common with an uninterrupted one."""
    found = []
    for folder in job.folders:
        assert finished(folder)
        kept = checkpoint.load(checkpoint_path(folder))
        assert kept.arrays.keys() >= {"device", "best/device"}
        found.append(
            (contents(folder), {name: array.tobytes() for name, array in kept.arrays.items()}, kept.meta["best"])
        )
        assert not [path for path in folder.rglob(".*") if path.is_file()]  # no lock, no temporary file
    return found


@pytest.fixture
def uninterrupted(tmp_path, task, instant):
    whole = job_in(tmp_path / "whole", task)
    run_job(whole, task)
    return ends(whole)


@pytest.mark.parametrize("stride", [10, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("error")
def test_a_kill_at_any_write_of_several_runs_changes_nothing(tmp_path, task, uninterrupted, monkeypatch, stride):
    with monkeypatch.context() as patch:
        system = kill_at(patch, 10**9)
        run_job(job_in(tmp_path / "count", task), task)
    assert system.calls > 200
    for last in range(np.random.default_rng().integers(1, stride + 1), system.calls + 1, stride):
        job = job_in(tmp_path / str(last), task)
        with monkeypatch.context() as patch:
            kill_at(patch, last)
            with pytest.raises(Killed):
                run_job(job, task)
        run_job(job, task)
        assert ends(job) == uninterrupted, last


def test_several_kills_change_nothing(tmp_path, task, uninterrupted, monkeypatch):
    rng = np.random.default_rng()
    for trial in range(15):
        job = job_in(tmp_path / str(trial), task)
        moments = rng.integers(1, 150, 4).tolist()
        for last in moments:
            with monkeypatch.context() as patch:
                kill_at(patch, last)
                try:
                    run_job(job, task)
                except Killed:
                    continue
        run_job(job, task)
        assert ends(job) == uninterrupted, moments


def killed_together(folder, task, steps):
    """Runs that were trained together and killed at this step."""
    job = job_in(folder, task)
    batch = run.start(job.configs, job.folders, task)

    def kill(index):
        if batch.step == steps:
            raise Killed

    after_each_segment(batch, kill)
    with pytest.raises(Killed):
        batch.train()
    return job


def test_a_kill_between_two_checkpoints_leaves_the_runs_together(tmp_path, task, uninterrupted):
    job = killed_together(tmp_path, task, 100)
    newest = [run.resume_points(*each).segments for each in zip(job.configs, job.folders)]
    assert newest == [(1, 0)] * 3
    before = checkpoint_path(job.folders[1])
    batch = run.resume(job.configs, job.folders, task)
    batch.save()
    release(batch)
    assert groups(job) == [([0, 1, 2], True)]
    latest, previous = generations(job.folders[1])
    latest.unlink()
    previous.rename(before)  # this one is a checkpoint behind the others
    assert groups(job) == [([0, 1, 2], True)]
    run_job(job, task)
    assert ends(job) == uninterrupted


def test_a_run_that_resumes_without_the_others_has_the_same_numbers(tmp_path, task, uninterrupted):
    job = killed_together(tmp_path, task, 200)
    for place in (2, 0, 1):
        batch = run.resume([job.configs[place]], [job.folders[place]], task)
        assert (batch.trainer.runs, batch.slots, len(batch.sessions)) == (3, [place], 1)
        batch.train()
    assert ends(job) == uninterrupted


def test_runs_killed_in_their_first_checkpoint_start_over_together(tmp_path, task, uninterrupted):
    job = job_in(tmp_path, task)
    release(run.start(job.configs, job.folders, task))
    checkpoint_path(job.folders[1]).unlink()
    assert groups(job) == [([0, 1, 2], True)]
    run_job(job, task)
    assert ends(job) == uninterrupted


def test_new_runs_do_not_make_started_ones_start_over(tmp_path, task, instant):
    job = job_in(tmp_path, task)
    run.start(job.configs[:2], job.folders[:2], task).train()
    (job.folders[0] / "summary.json").unlink()
    assert groups(job) == [([2], False), ([0], True)]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_used(tmp_path, task, uninterrupted, damage):
    job = killed_together(tmp_path, task, 200)
    latest = checkpoint_path(job.folders[1])
    whole = latest.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 4
    if damage == "missing":
        latest.unlink()  # as after a kill between the two moves of a checkpoint
        run_job(job, task)
    else:
        latest.write_bytes(whole[:-30] if damage == "truncated" else flipped)
        with pytest.warns(RunWarning, match=rf"damaged .*{latest}.*; resuming from .*previous.npz"):
            run_job(job, task)
    assert ends(job) == uninterrupted


def test_a_run_whose_checkpoints_are_both_damaged_fails_alone(tmp_path, task, uninterrupted):
    job = killed_together(tmp_path, task, 200)
    for path in generations(job.folders[0]):
        path.write_bytes(b"nothing")
    (failed,) = run_job(job, task).items()
    assert failed[0] == "gradient:window=5 seed 0"
    assert isinstance(failed[1], CheckpointError)
    assert [finished(folder) for folder in job.folders] == [False, True, True]


def test_a_diverged_run_keeps_its_slot_and_the_others_their_numbers(tmp_path, task, uninterrupted, monkeypatch):
    job = job_in(tmp_path, task)
    batch = run.start(job.configs, job.folders, task)
    finish_segment = batch.trainer.finish_segment

    def diverge(before):
        if before == 0:
            batch.trainer.state[1][1] = np.nan
        return finish_segment(before)

    def kill(index):
        if batch.step == 200 and index == 2:
            raise Killed  # after the others' checkpoint at step 200

    monkeypatch.setattr(batch.trainer, "finish_segment", diverge)
    after_each_segment(batch, kill)
    with pytest.raises(Killed):
        batch.train()
    assert groups(job) == [([0, 2], True), ([1], True)]
    run_job(job, task)
    assert ends(job) == uninterrupted


def test_another_writer_is_noticed_before_a_row_is_written(tmp_path, task, instant):
    config, folder = configure(task), tmp_path / "run"
    first = run.start([config], [folder], task, owner="job")
    run.resume([config], [folder], task, owner="job").train()
    before = contents(folder)
    with pytest.raises(RunFailed, match="was taken from this process; stopped, nothing more is written there"):
        first.train()
    assert contents(folder) == before
    assert load_run(folder).finished


def test_rows_of_another_writer_stop_the_run(tmp_path, task, instant):
    batch = run.start([configure(task)], [tmp_path], task)
    with (tmp_path / "episodes.csv").open("a") as file:
        file.write("1,2,3\n")
    with pytest.raises(RunFailed, match=r"episodes.csv was changed by another process; stopped"):
        batch.train()


def test_changed_versions_are_warned_about_in_one_line(tmp_path, task, instant, monkeypatch):
    monkeypatch.setattr("geodesic.records.writer.versions", lambda: {"python": "3.0", "jax": "0.0.1"})
    release(run.start([configure(task)], [tmp_path], task))
    monkeypatch.setattr("geodesic.records.writer.versions", lambda: {"python": "3.0", "jax": "0.0.2"})
    message = r"was last written with other versions: jax 0.0.1 is 0.0.2; its numbers may differ$"
    with pytest.warns(RunWarning, match=message) as warned:
        run.resume([configure(task)], [tmp_path], task).train()
    assert len(warned) == 1


def test_a_refused_run_leaves_no_lock(tmp_path, task, instant):
    run.start([configure(task)], [tmp_path], task).train()
    for again in (run.start, run.resume):
        with pytest.raises(InvalidInput):
            again([configure(task), configure(task, seed=1)], [tmp_path, tmp_path / "b"], task)
    assert not (tmp_path / ".lock").exists()
    assert not (tmp_path / "b").exists()
