"""Writing a run folder: exact lines, cutting back to a checkpoint, and refusing to overwrite a run."""

import json
import os

import numpy as np
import pytest

from geodesic.contexts import EpisodeBatch, Particles
from geodesic.errors import CheckpointError, InvalidInput, RunFailed, RunWarning
from geodesic.records import (
    RunConfig,
    RunFolder,
    StageDistribution,
    finished,
    load_run,
    read_config,
    run_exists,
    versions,
)
from geodesic.records.origin import sign
from geodesic.records.schema import TABLES

CONFIG = RunConfig(
    task="mine", name="mine", contexts=["length", "mass"], method="gradient", label="gradient", seed=0,
    steps=100, threshold=1.0, solved=2.0, score="return", discount=0.99, metric="l2", backend="jax", learner="ppo",
    segment=1, eval_every=2, eval_episodes=3, eval_policy="deterministic", options={"step": 0.5},
)  # fmt: skip


def stage(number, step=0, alpha=0.0, snapshot=None):
    return StageDistribution(number, step, alpha, Particles([[1.0, 2.0], [3.0, 4.0]]), snapshot or {})


@pytest.fixture
def folder(tmp_path):
    made = RunFolder(tmp_path / "run", CONFIG)
    made.create()
    return made


def add_episodes(folder, *steps, score="return"):
    """An episode that ended at each of these steps."""
    n = len(steps)
    contexts = np.tile([2.5, -1.0], (n, 1)) if n else np.zeros((0, 2))
    ones = np.ones(n)
    folder.episodes(EpisodeBatch(contexts, ones / 3, np.full(n, 7), np.zeros(n), ones / 4, ones, ended=steps), score)


def resumed(folder):
    """The folder as the next process finds and resumes it."""
    folder.release()
    again = RunFolder(folder.path, CONFIG)
    again.acquire()
    found = again.load()
    again.resume()
    return again, found


def files(folder):
    """Everything but the lock."""
    return {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file() and path.name != ".lock"}


def lines(folder, name):
    return (folder.path / name).read_text().splitlines()


def test_a_new_folder_has_its_configuration_and_empty_tables(folder):
    assert sorted(path.name for path in folder.path.iterdir()) == [".lock", "config.json", *sorted(TABLES)]
    assert lines(folder, "episodes.csv") == ["step,stage,return,length,success,score,context_length,context_mass"]
    assert lines(folder, "evaluations.csv") == ["step,stage,alpha,return,return_std,success,score"]
    assert lines(folder, "stages.csv") == ["stage,step,alpha,kind,event,particles,infeasible,distance,details"]
    stored = json.loads((folder.path / "config.json").read_text())
    assert stored == {**CONFIG.to_json(), "versions": versions(), "signature": sign(CONFIG)}
    assert read_config(folder.path) == CONFIG


def test_rows_are_written_by_flush_and_read_back(folder):
    add_episodes(folder, 7, 14)
    returns = np.array([1.0, 2.0, 6.0])
    folder.evaluation(20, 1, 0.5, returns, np.array([0.0, 1.0, 1.0]), returns / 2)
    folder.stage(stage(0), "explore", "step cap", 0.25, 1 / 3, "share of path=0.4; score on path=-1e-05")
    assert len(lines(folder, "episodes.csv")) == 1
    folder.flush()
    assert lines(folder, "episodes.csv")[1:] == [
        "7,0,0.333333333,7,1,0.333333333,2.5,-1", "14,0,0.333333333,7,1,0.333333333,2.5,-1",
    ]  # fmt: skip
    assert lines(folder, "evaluations.csv")[1:] == ["20,1,0.5,3,2.1602469,0.666666667,1.5"]
    assert lines(folder, "stages.csv")[1:] == [
        "0,0,0,explore,step cap,2,0.25,0.333333333,share of path=0.4; score on path=-1e-05"
    ]
    run = load_run(folder.path)
    assert run.episodes.steps.tolist() == [7, 14]
    assert run.evaluations.scores.tolist() == [1.5]
    assert (run.stages.kinds, run.stages.events) == (("explore",), ("step cap",))
    folder.flush()
    assert len(lines(folder, "episodes.csv")) == 3  # nothing is written twice


def test_strings_with_commas_and_quotes_are_read_back(tmp_path):
    folder = RunFolder(tmp_path, CONFIG.replace(contexts=['the "length", in m', "mass"]))
    folder.create()
    add_episodes(folder, 3)
    folder.stage(stage(0), "train", 'mastered, "well"', 0.0, 0.0)
    folder.save({}, {})
    run = load_run(tmp_path)
    assert run.episodes.contexts.tolist() == [[2.5, -1.0]]
    assert run.stages.events == ('mastered, "well"',)


def test_an_empty_batch_adds_no_rows(folder):
    add_episodes(folder)
    folder.flush()
    assert len(lines(folder, "episodes.csv")) == 1


@pytest.mark.parametrize(
    ("score", "value"), [("return", "0.333333333"), ("discounted_return", "0.25"), ("success", "1")]
)
def test_the_score_column_is_of_the_chosen_kind(folder, score, value):
    add_episodes(folder, 7, score=score)
    folder.flush()
    assert lines(folder, "episodes.csv")[1:] == [f"7,0,0.333333333,7,1,{value},2.5,-1"]


def test_a_checkpoint_cuts_the_files_back_to_what_they_were(folder):
    folder.stage(stage(0), "train", "start", 0.0, 1.0)
    add_episodes(folder, 7)
    folder.save({"agent": np.arange(3)}, {"segment": 4})
    then = files(folder)
    folder.stage(stage(1, 20, 0.5, {"heat": np.eye(2)}), "train", "mastered", 0.0, 0.5)
    add_episodes(folder, 14, 21)
    folder.flush()
    again, found = resumed(folder)
    assert (found.arrays["agent"].tolist(), found.count("segment")) == ([0, 1, 2], 4)
    again.save(found.arrays, {"segment": 4})
    assert files(folder) == then


def test_stages_later_than_the_checkpoint_are_dropped(folder):
    """curriculum.npz is written just before the checkpoint: a kill in between leaves it longer."""
    folder.stage(stage(0), "train", "start", 0.0, 1.0)
    folder.save({}, {})
    checkpoint = (folder.path / "checkpoint" / "latest.npz").read_bytes()
    folder.stage(stage(1, 20, 0.5, {"heat": np.eye(2)}), "train", "mastered", 0.0, 0.5)
    folder.save({}, {})
    (folder.path / "checkpoint" / "latest.npz").write_bytes(checkpoint)
    again, _ = resumed(folder)
    again.stage(stage(1, 30, 0.25), "train", "mastered", 0.0, 0.5)
    again.save({}, {})
    run = load_run(folder.path)
    assert [(each.stage, each.step, each.alpha) for each in run.curriculum] == [(0, 0, 0.0), (1, 30, 0.25)]
    assert run.stages.steps.tolist() == [0, 30]
    assert run.curriculum[1].snapshot == {}


def test_snapshots_survive_a_checkpoint(folder):
    folder.stage(stage(0, snapshot={"heat": np.eye(2)}), "train", "start", 0.0, 1.0)
    folder.save({}, {})
    again, _ = resumed(folder)
    again.stage(stage(1), "train", "mastered", 0.0, 1.0)
    again.save({}, {})
    first, second = load_run(folder.path).curriculum
    np.testing.assert_array_equal(first.snapshot["heat"], np.eye(2))
    assert second.snapshot == {}


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([[0.0, 1.0], [-3.0, 127.0]], "int8"), ([[0.5, 1.0]], "f8"), ([[128.0, 1.0]], "f8"), ([[-0.0, 1.0]], "f8")],
)
def test_points_of_small_integers_take_little_space_and_are_read_back_exactly(folder, values, dtype):
    folder.stage(StageDistribution(0, 10, 0.0, Particles(values), {}), "train", "start", 0.0, 1.0)
    folder.save({}, {})
    with np.load(folder.path / "curriculum.npz") as file:
        assert file["points"].dtype == dtype
    (read,) = load_run(folder.path).curriculum
    assert read.particles.points.tobytes() == np.array(values).tobytes()
    again, _ = resumed(folder)
    again.save({}, {})


@pytest.mark.parametrize("change", [{"seed": 1}, {"options": {"step": 0.25}}, {"threshold": 3.0}, {"learner": "sac"}])
def test_a_checkpoint_of_another_run_is_refused(folder, change):
    folder.stage(stage(0), "train", "start", 0.0, 1.0)
    add_episodes(folder, 7)
    folder.save({}, {})
    add_episodes(folder, 14)
    folder.flush()
    before = (folder.path / "episodes.csv").read_bytes()
    with pytest.raises(CheckpointError, match=r"latest.npz belongs to another run than .*config.json"):
        RunFolder(folder.path, CONFIG.replace(**change)).load()
    assert (folder.path / "episodes.csv").read_bytes() == before  # nothing was cut


def test_a_run_with_a_longer_budget_is_the_same_run(folder):
    folder.stage(stage(0), "train", "start", 0.0, 1.0)
    folder.save({}, {"segment": 1})
    assert RunFolder(folder.path, CONFIG.replace(steps=500)).load().count("segment") == 1


def test_a_run_exists_from_its_first_checkpoint(folder):
    assert not run_exists(folder.path)
    folder.release()
    folder = RunFolder(folder.path, CONFIG)
    folder.create()  # there was nothing to lose
    folder.stage(stage(0), "train", "start", 0.0, 1.0)
    folder.save({}, {})
    assert run_exists(folder.path)
    folder.release()
    with pytest.raises(InvalidInput, match="already holds a run; try --resume"):
        RunFolder(folder.path, CONFIG).create()
    with pytest.raises(InvalidInput, match="already holds a run; try --resume"):
        RunFolder(folder.path, CONFIG).acquire(new=True)
    other = RunFolder(folder.path, CONFIG)
    other.create(overwrite=True)
    assert not run_exists(folder.path)
    other.release()


def test_a_folder_with_a_summary_is_finished_until_it_is_reopened(folder):
    assert not finished(folder.path)
    folder.summary({"steps": 100})
    assert finished(folder.path)
    assert json.loads((folder.path / "summary.json").read_text()) == {"steps": 100}
    folder.reopen()
    assert not finished(folder.path)
    folder.reopen()


def test_failed_writes_raise_our_errors(tmp_path, folder):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidInput, match="cannot write to .*file/run: Not a directory"):
        RunFolder(tmp_path / "file" / "run", CONFIG).create()
    (folder.path / "episodes.csv").unlink()
    (folder.path / "episodes.csv").mkdir()
    add_episodes(folder, 7)
    with pytest.raises(RunFailed, match="cannot write .*episodes.csv: Is a directory"):
        folder.flush()


def test_rows_that_a_full_disk_took_in_part_are_written_when_there_is_room(folder, monkeypatch):
    class Full:
        """A disk with room for ten more bytes."""

        def __getattr__(self, name):
            return getattr(os, name)

        def write(self, descriptor, content):
            os.write(descriptor, content[:10])
            raise OSError(28, "No space left on device")

    add_episodes(folder, 7)
    with monkeypatch.context() as patch:
        patch.setattr("geodesic.records.tables.os", Full())
        with pytest.raises(RunFailed, match="cannot write .*episodes.csv: No space left on device"):
            folder.flush()
    assert len(lines(folder, "episodes.csv")) == 1
    folder.flush()
    assert len(lines(folder, "episodes.csv")) == 2


def test_close_writes_waiting_rows(folder):
    add_episodes(folder, 7)
    folder.scalars(7, {"target/return": 1.0})
    folder.close()
    assert len(lines(folder, "episodes.csv")) == 2
    assert list(folder.path.glob("events.out.tfevents*"))
    folder.close()


def test_the_previous_checkpoint_is_used_when_the_latest_is_damaged(folder):
    folder.stage(stage(0), "train", "start", 0.0, 1.0)
    for segment in (1, 2):
        add_episodes(folder, 7 * segment)
        folder.save({}, {"segment": segment})
    assert [found.count("segment") for found in folder.complete_checkpoints()] == [2, 1]
    assert folder.load(segment=1).count("segment") == 1
    with pytest.raises(CheckpointError, match="expected a checkpoint of segment 5 in .*, found none"):
        folder.load(segment=5)
    (folder.path / "checkpoint" / "latest.npz").write_bytes(b"half")
    assert [found.count("segment") for found in folder.complete_checkpoints()] == [1]
    with pytest.warns(RunWarning, match="latest.npz.*; resuming from .*previous.npz, the checkpoint before it"):
        _, found = resumed(folder)
    assert found.count("segment") == 1
    assert len(lines(folder, "episodes.csv")) == 2


def test_resume_needs_a_loaded_checkpoint(folder):
    with pytest.raises(CheckpointError, match="to be loaded before it is resumed"):
        folder.resume()
