"""Killed at each of its writes, alone or several at once, a run goes on and ends as one that was not."""

import os
from functools import partial
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from lasting import contents
from mortal import Instant, Killed, kill_at
from steady import restless

from geodesic.errors import CheckpointError, InvalidInput, RunFailed, RunWarning
from geodesic.records import checkpoint, checkpoint_path, finished, generations, load_run
from geodesic.runs import batch as batch_module
from geodesic.runs import run
from geodesic.runs.config import configure
from geodesic.runs.executors.base import Job, do, groups

SEEDS = (0, 1, 2)  # at once


@pytest.fixture
def instant(monkeypatch):
    monkeypatch.setattr(run, "trainer_of", lambda configs, task: Instant())
    clock = SimpleNamespace(monotonic=partial(next, count(step=100.0)))
    monkeypatch.setattr(batch_module, "time", clock)  # a checkpoint after each segment
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # these kills lose nothing that a disk would


@pytest.fixture(scope="module")
def task():
    return restless(steps=300)  # three segments


def job_in(folder, task, seeds=SEEDS):
    configs = tuple(configure(task, "gradient:window=5", seed) for seed in seeds)
    return Job(configs, tuple(folder / str(seed) for seed in seeds))


def go_on(job, task):
    return do(job, lambda steps, note: None, task)


def ends(job):
    """All that a run must have in common with one that was not broken off."""
    found = []
    for folder in job.folders:
        assert finished(folder)
        kept = checkpoint.load(checkpoint_path(folder))
        found.append((contents(folder), {name: array.tobytes() for name, array in kept.arrays.items()}))
        assert not [path for path in folder.rglob(".*") if path.is_file()]  # no lock, nothing half written
    return found


@pytest.fixture
def unbroken(tmp_path, task, instant):
    whole = job_in(tmp_path / "whole", task)
    go_on(whole, task)
    return ends(whole)


@pytest.mark.parametrize("stride", [10, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("error")
def test_a_kill_at_any_write_of_several_runs_changes_nothing(tmp_path, task, unbroken, monkeypatch, stride):
    with monkeypatch.context() as patch:
        system = kill_at(patch, 10**9)
        go_on(job_in(tmp_path / "count", task), task)
    assert system.calls > 200
    for last in range(np.random.default_rng().integers(1, stride + 1), system.calls + 1, stride):
        job = job_in(tmp_path / str(last), task)
        with monkeypatch.context() as patch:
            kill_at(patch, last)
            with pytest.raises(Killed):
                go_on(job, task)
        go_on(job, task)
        assert ends(job) == unbroken, last


def test_being_killed_again_while_going_on_changes_nothing(tmp_path, task, unbroken, monkeypatch):
    rng = np.random.default_rng()
    for trial in range(15):
        job = job_in(tmp_path / str(trial), task)
        moments = rng.integers(1, 150, 4).tolist()
        for last in moments:
            with monkeypatch.context() as patch:
                kill_at(patch, last)
                try:
                    go_on(job, task)
                except Killed:
                    continue
        go_on(job, task)
        assert ends(job) == unbroken, moments


def broken_off(folder, task, steps):
    """Runs that were stopped together, without having come to their end."""
    job = job_in(folder, task)

    def cut(index, progress):
        if progress.step == steps:
            raise Killed

    with pytest.raises(Killed):
        run.start(job.configs, job.folders, task, cut).train()
    return job


def test_a_kill_between_two_saves_leaves_the_runs_together(tmp_path, task, unbroken):
    job = broken_off(tmp_path, task, 100)
    newest = [run.standing(*each).segments for each in zip(job.configs, job.folders)]
    assert newest == [(1, 0)] * 3
    before = checkpoint_path(job.folders[1])
    batch = run.resume(job.configs, job.folders, task)
    batch.save()
    batch.release()
    assert groups(job) == [([0, 1, 2], True)]
    latest, previous = generations(job.folders[1])
    latest.unlink()
    previous.rename(before)  # this one is a checkpoint behind the others
    assert groups(job) == [([0, 1, 2], True)]
    go_on(job, task)
    assert ends(job) == unbroken


def test_a_run_that_goes_on_without_the_others_has_the_same_numbers(tmp_path, task, unbroken):
    job = broken_off(tmp_path, task, 200)
    for place in (2, 0, 1):
        batch = run.resume([job.configs[place]], [job.folders[place]], task)
        assert (batch.trainer.runs, batch.seats, len(batch.lessons)) == (3, [place], 1)
        batch.train()
    assert ends(job) == unbroken


def test_runs_that_were_killed_in_their_first_save_begin_again_together(tmp_path, task, unbroken):
    job = job_in(tmp_path, task)
    batch = run.start(job.configs, job.folders, task)
    batch.release()
    checkpoint_path(job.folders[1]).unlink()
    assert groups(job) == [([0, 1, 2], True)]
    go_on(job, task)
    assert ends(job) == unbroken


def test_new_runs_do_not_make_those_under_way_begin_again(tmp_path, task, instant):
    job = job_in(tmp_path, task)
    for configs, folders in ((job.configs[:2], job.folders[:2]),):
        run.start(configs, folders, task).train()
    (job.folders[0] / "summary.json").unlink()
    assert groups(job) == [([2], False), ([0], True)]


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_newest_generation_is_named_and_the_older_used(tmp_path, task, unbroken, damage):
    job = broken_off(tmp_path, task, 200)
    latest = checkpoint_path(job.folders[1])
    whole = latest.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 4
    if damage == "gone":
        latest.unlink()  # as after a kill between the two moves of a save
        go_on(job, task)
    else:
        latest.write_bytes(whole[:-30] if damage == "cut" else flipped)
        with pytest.warns(RunWarning, match=rf"damaged .*{latest}.*; going on from .*previous.npz"):
            go_on(job, task)
    assert ends(job) == unbroken


def test_a_run_whose_generations_are_both_damaged_fails_alone(tmp_path, task, unbroken):
    job = broken_off(tmp_path, task, 200)
    for path in generations(job.folders[0]):
        path.write_bytes(b"nothing")
    (failed,) = go_on(job, task).items()
    assert failed[0] == "gradient:window=5 seed 0"
    assert isinstance(failed[1], CheckpointError)
    assert [finished(folder) for folder in job.folders] == [False, True, True]


def test_a_diverged_run_keeps_its_place_and_the_others_their_numbers(tmp_path, task, unbroken, monkeypatch):
    job = job_in(tmp_path, task)
    batch = run.start(job.configs, job.folders, task)
    whole = batch.trainer.finish_segment

    def poisoned(before):
        if before == 0:
            batch.trainer.state[1][1] = np.nan
        return whole(before)

    def cut(index, progress):
        if progress.step == 200 and index == 2:
            raise Killed  # after the others' checkpoint at step 200

    monkeypatch.setattr(batch.trainer, "finish_segment", poisoned)
    batch.watch = cut
    with pytest.raises(Killed):
        batch.train()
    assert groups(job) == [([0, 2], True), ([1], True)]
    go_on(job, task)
    assert ends(job) == unbroken


def test_another_writer_is_noticed_before_a_row_is_written(tmp_path, task, instant):
    config, folder = configure(task), tmp_path / "run"
    first = run.start([config], [folder], task, owner="job")
    run.resume([config], [folder], task, owner="job").train()
    before = contents(folder)
    with pytest.raises(RunFailed, match="was taken from this process; stopped, nothing more is written there"):
        first.train()
    assert contents(folder) == before
    assert load_run(folder).finished


def test_rows_of_a_stranger_stop_the_run(tmp_path, task, instant):
    batch = run.start([configure(task)], [tmp_path], task)
    with (tmp_path / "episodes.csv").open("a") as file:
        file.write("1,2,3\n")
    with pytest.raises(RunFailed, match=r"episodes.csv was changed by somebody else; stopped"):
        batch.train()


def test_other_versions_are_said_in_one_line(tmp_path, task, instant, monkeypatch):
    monkeypatch.setattr("geodesic.records.writer.versions", lambda: {"python": "3.0", "jax": "0.0.1"})
    batch = run.start([configure(task)], [tmp_path], task)
    batch.release()
    monkeypatch.setattr("geodesic.records.writer.versions", lambda: {"python": "3.0", "jax": "0.0.2"})
    said = r"was last written with other versions: jax 0.0.1 is 0.0.2; its numbers may differ$"
    with pytest.warns(RunWarning, match=said) as heard:
        run.resume([configure(task)], [tmp_path], task).train()
    assert len(heard) == 1


def test_a_refused_run_leaves_no_lock(tmp_path, task, instant):
    run.start([configure(task)], [tmp_path], task).train()
    for again in (run.start, run.resume):
        with pytest.raises(InvalidInput):
            again([configure(task), configure(task, seed=1)], [tmp_path, tmp_path / "b"], task)
    assert not (tmp_path / ".lock").exists()
    assert not (tmp_path / "b").exists()
