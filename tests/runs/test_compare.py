"""Comparisons: what is kept, what goes on, and what happens when a worker dies."""

import json
import subprocess
import sys
import time

import pytest
from lasting import contents

from geodesic.cli import main
from geodesic.errors import CheckpointError, InvalidInput, RunFailed
from geodesic.records import load_comparison
from geodesic.report.text import record, sparklines
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import Job, LocalProcesses, Update, local
from geodesic.runs.executors.base import do, groups, why

STEPS = 1000
METHODS = ["gradient:step=0.5", "target-only"]


def plan(out, methods=METHODS, seeds=(0, 1)):
    return plan_comparison("maze", methods, seeds, STEPS, out)


def test_a_comparison_does_every_run_once_and_keeps_what_is_done(tmp_path):
    configs = plan(tmp_path)
    heard = []
    pool = LocalProcesses(2)
    outcome = compare(configs, tmp_path, None, pool, listen=lambda job, update: heard.append((job.name, update)))
    assert (outcome.done, outcome.failed) == (4, {})
    runs = load_comparison(tmp_path)
    assert sorted((run.label, run.seed) for run in runs) == [
        ("gradient:step=0.5", 0), ("gradient:step=0.5", 1), ("target-only", 0), ("target-only", 1),
    ]  # fmt: skip
    assert all(run.finished for run in runs)
    assert {name for name, update in heard if update.ended} == {f"{c.label} seed {c.seed}" for c in configs}
    assert {update.steps for _, update in heard if update.ended} == {STEPS}
    assert len(sparklines(runs)) == 3
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.csv")}
    more = plan(tmp_path, seeds=(0, 1, 2))
    broken = run_folder(tmp_path, more[0])
    (broken / "summary.json").unlink()  # as if it had been cut off after its last checkpoint
    assert compare(more, tmp_path, None, LocalProcesses(1), at_once=4).done == 6
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {path for path in before if after[path] != before[path]} <= set(broken.glob("*.csv"))
    assert len(load_comparison(tmp_path)) == 6
    assert compare(more, tmp_path, None, Nobody()).done == 6  # nothing is left to do


class Nobody:
    """An executor that must not be asked."""

    def run(self, jobs, listen):
        raise AssertionError("asked to do what is done")


def test_another_executor_does_the_jobs(tmp_path):
    """The contract is one method: here the jobs are done one after another, in this process."""

    class Here:
        def run(self, jobs, listen):
            for index, job in enumerate(jobs):
                do(job, lambda steps, note: None)
                listen(job, Update(index, job.steps, ended=True))
            return {}

    configs = plan(tmp_path, ["target-only", "uniform"], (0, 1))
    outcome = compare(configs, tmp_path, None, Here(), at_once=3)
    assert (outcome.done, outcome.failed) == (4, {})
    assert all(run.finished for run in load_comparison(tmp_path))


def test_a_run_is_the_same_alone_and_in_a_worker(tmp_path):
    configs = plan(tmp_path / "pool", METHODS[:1], (3,))
    compare(configs, tmp_path / "pool", None, LocalProcesses(1))
    do(Job(tuple(configs), (tmp_path / "alone",)), lambda steps, note: None)
    assert contents(run_folder(tmp_path / "pool", configs[0])) == contents(tmp_path / "alone")


def test_a_job_goes_on_where_each_of_its_runs_stopped(tmp_path):
    """One finished, one broken off, one not begun: the first is left alone, the others end as if alone."""
    configs = plan(tmp_path, ["target-only"], (0, 1, 2))
    folders = tuple(run_folder(tmp_path, config) for config in configs)
    quiet = lambda steps, note: None  # noqa: E731
    do(Job(tuple(configs[:2]), folders[:2]), quiet)
    (folders[1] / "summary.json").unlink()
    stamps = [path.stat().st_mtime_ns for path in folders[0].glob("*.csv")]
    job = Job(tuple(configs), folders)
    assert groups(job) == [([2], False), ([1], True)]
    do(job, quiet)
    assert groups(job) == []
    assert [path.stat().st_mtime_ns for path in folders[0].glob("*.csv")] == stamps
    for seed, folder in enumerate(folders):
        do(Job((configs[seed],), (tmp_path / f"alone-{seed}",)), quiet)
        assert contents(folder) == contents(tmp_path / f"alone-{seed}")


def test_what_is_said_of_a_job_adds_up(tmp_path):
    configs = plan(tmp_path, ["target-only"], (0, 1))
    job = Job(tuple(configs), tuple(run_folder(tmp_path, config) for config in configs))
    assert (job.name, job.steps) == ("2 runs at once", 2 * STEPS)
    assert Job(job.configs[:1], job.folders[:1]).name == "target-only seed 0"
    heard = []
    do(job, lambda steps, note: heard.append((steps, note)))
    steps = [count for count, _ in heard]
    assert steps == sorted(steps)
    assert all(0 < count <= job.steps for count in steps)
    assert heard[0][1].startswith("stage 0 α 1.00 target -")


class StandIn:
    """A process that is dead or silent, as told."""

    def __init__(self, alive):
        self.alive, self.exitcode, self.ended = alive, -9, False

    def is_alive(self):
        return self.alive

    def terminate(self):
        self.ended = True
        self.alive = False

    def join(self, seconds):
        pass


@pytest.mark.parametrize("alive", [False, True])
def test_the_job_of_a_dead_or_silent_worker_is_tried_again_and_then_given_up(tmp_path, monkeypatch, alive):
    monkeypatch.setattr(local, "STALL_SECONDS", -1.0 if alive else 1e9)
    given = []

    class Worker(local.Worker):
        def __init__(self, context, updates):
            self.process, self.job, self.heard = StandIn(alive), None, 0.0

        def give(self, index, job):
            self.job = index
            given.append(index)

    monkeypatch.setattr(local, "Worker", Worker)
    configs = plan(tmp_path, METHODS[:1], (0,))
    outcome = compare(configs, tmp_path, None, LocalProcesses(1))
    reason = "fell silent" if alive else "died with exit code -9"
    assert outcome.failed == {"gradient:step=0.5 seed 0": f"its worker {reason}, 3 times"}
    assert outcome.done == 0
    assert given == [0, 0, 0]


def test_errors_are_one_line():
    assert why(RunFailed("no\n  room")) == "RunFailed: no room"
    assert why(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_a_damaged_run_fails_alone_and_the_command_says_so(tmp_path, capsys):
    configs = plan(tmp_path, ["target-only"], (0, 1))
    compare(configs, tmp_path, None, LocalProcesses(1))
    damaged = run_folder(tmp_path, configs[0])
    (damaged / "summary.json").unlink()
    for name in ("latest.npz", "previous.npz"):
        (damaged / "checkpoint" / name).write_bytes(b"no checkpoint")
    arguments = ["compare", "maze", "--methods", "target-only", "--seeds", "2", "--steps", str(STEPS)]
    assert main([*arguments, "--out", str(tmp_path), "--workers", "1"]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("geodesic: target-only seed 0: CheckpointError: damaged or foreign file")
    assert shown.err.count("\n") == 1
    assert "1 of 2" in shown.out
    assert (damaged / "checkpoint" / "latest.npz").read_bytes() == b"no checkpoint"


def test_another_comparison_is_not_mixed_in(tmp_path):
    plan(tmp_path)
    with pytest.raises(InvalidInput, match=r"holds another comparison \(steps differ\)"):
        plan_comparison("maze", METHODS, [0], STEPS + 1, tmp_path)
    with pytest.raises(InvalidInput, match=r"holds another comparison \(threshold, solved differ\)"):
        plan_comparison("maze", METHODS, [0], STEPS, tmp_path, threshold=-20.0)
    with pytest.raises(InvalidInput, match=r"holds another comparison \(learner_options differ\)"):
        plan_comparison("maze", METHODS, [0], STEPS, tmp_path, learner="ppo:learning_rate=1e-3")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(InvalidInput, match="expected a new or empty folder or an earlier comparison"):
        plan(other)
    assert (other / "thesis.txt").read_text() == "precious"
    assert json.loads((tmp_path / "comparison.json").read_text())["task"] == "maze"


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_note_on_the_comparison_is_refused(tmp_path, text):
    plan(tmp_path)
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"damaged file .*comparison.json"):
        plan(tmp_path)


def test_every_method_is_checked_before_any_work(tmp_path):
    for methods, message in (
        (["gradient", "magic"], "expected method to be one of"),
        (["gradient", "uniform:metric=l2"], "expected a method that uses a metric"),
        (["gradient:step=7"], "expected step in"),
    ):
        with pytest.raises(InvalidInput, match=message):
            plan(tmp_path / "never", methods)
    assert not (tmp_path / "never").exists()


def test_without_methods_the_tasks_own_are_compared(tmp_path):
    configs = plan_comparison("maze", [], [0], STEPS, tmp_path)
    assert [config.label for config in configs] == [
        "gradient:step=0.2", "gradient", "gradient:step=0.05", "uniform", "linear", "target-only",
    ]  # fmt: skip


def test_a_table_is_recorded_in_its_place(tmp_path):
    path = tmp_path / "results.md"
    path.write_text("# Results\n\nWords.\n\n<!-- compare maze -->\n\nold\n\n<!-- end of compare maze -->\n\nMore.\n")
    record(path, "compare maze", "| new |")
    record(path, "compare u-maze", "| other |")
    text = path.read_text()
    assert text.startswith(
        "# Results\n\nWords.\n\n<!-- compare maze -->\n\n| new |\n\n<!-- end of compare maze -->\n\nMore.\n"
    )
    assert text.endswith("<!-- compare u-maze -->\n\n| other |\n\n<!-- end of compare u-maze -->\n")
    assert "old" not in text


def test_workers_leave_when_the_comparison_is_killed(tmp_path):
    command = [sys.executable, "-m", "geodesic.cli", "compare", "maze", "--methods", "target-only", "--seeds", "1"]
    process = subprocess.Popen([*command, "--steps", "5000000", "--out", tmp_path / "c"], stdout=subprocess.DEVNULL)
    evaluations = tmp_path / "c" / "runs" / "target-only" / "seed-0" / "evaluations.csv"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (evaluations.exists() and evaluations.stat().st_size > 200):
        time.sleep(0.1)
    process.kill()
    process.wait()
    time.sleep(3)
    size = evaluations.stat().st_size
    time.sleep(2)
    assert evaluations.stat().st_size == size > 200
