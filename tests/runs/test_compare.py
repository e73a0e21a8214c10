"""Comparisons: what is kept, what goes on, and what happens when a worker dies."""

import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lasting import contents

from geodesic.cli import main
from geodesic.errors import CheckpointError, InvalidInput, RunFailed
from geodesic.records import load_comparison
from geodesic.report.text import record, sparklines
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import Job, LocalProcesses, Update
from geodesic.runs.executors.base import do, groups, why

STEPS = 1000
METHODS = ["gradient:step=0.5", "target-only"]


def plan(out, methods=METHODS, seeds=(0, 1)):
    return plan_comparison("maze", methods, seeds, STEPS, out)


def test_a_run_is_the_same_alone_and_in_a_worker(tmp_path):
    """First of all, and alone first: the workers of the tests below then find its programs compiled."""
    configs = plan(tmp_path / "pool", METHODS[:1], (3,))
    do(Job(tuple(configs), (tmp_path / "alone",)), lambda steps, note: None)
    compare(configs, tmp_path / "pool", None, LocalProcesses(1))
    assert contents(run_folder(tmp_path / "pool", configs[0])) == contents(tmp_path / "alone")


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
    """An executor that must not be asked to do anything."""

    def at_once(self, runs):
        return 1

    def run(self, jobs, listen):
        raise AssertionError("asked to do what is done")


def test_another_executor_does_the_jobs(tmp_path):
    """The contract is one method: here the jobs are done one after another, in this process."""

    class Here:
        def at_once(self, runs):
            return 3

        def run(self, jobs, listen):
            for index, job in enumerate(jobs):
                do(job, lambda steps, note: None)
                listen(job, Update(index, job.steps, ended=True))
            return {}

    configs = plan(tmp_path, ["target-only", "uniform"], (0, 1))
    outcome = compare(configs, tmp_path, None, Here())
    assert (outcome.done, outcome.failed) == (4, {})
    assert all(run.finished for run in load_comparison(tmp_path))


def test_a_job_goes_on_where_each_of_its_runs_stopped(tmp_path):
    """Two finished, one broken off, one not begun: the first are left alone, the others end as if alone."""
    configs = plan(tmp_path, ["target-only"], (0, 1, 2, 3))
    folders = tuple(run_folder(tmp_path, config) for config in configs)
    quiet = lambda steps, note: None  # noqa: E731
    do(Job(tuple(configs[:3]), folders[:3]), quiet)
    (folders[1] / "summary.json").unlink()
    stamps = [path.stat().st_mtime_ns for path in folders[0].glob("*.csv")]
    job = Job(tuple(configs), folders)
    assert groups(job) == [([3], False), ([1], True)]
    do(job, quiet)
    assert groups(job) == []
    assert [path.stat().st_mtime_ns for path in folders[0].glob("*.csv")] == stamps
    for seed, folder in enumerate(folders):
        do(Job((configs[seed],), (tmp_path / f"alone-{seed}",)), quiet)
        assert contents(folder) == contents(tmp_path / f"alone-{seed}")


def test_what_is_said_of_a_job_adds_up(tmp_path):
    configs = plan(tmp_path, ["target-only"], (0, 1, 2))
    job = Job(tuple(configs), tuple(run_folder(tmp_path, config) for config in configs))
    assert (job.name, job.steps) == ("target-only seed 0 and 2 more", 3 * STEPS)
    assert Job(job.configs[:1], job.folders[:1]).name == "target-only seed 0"
    heard = []
    do(job, lambda steps, note: heard.append((steps, note)))
    steps = [count for count, _ in heard]
    assert steps == sorted(steps)
    assert all(0 < count <= job.steps for count in steps)
    assert heard[0][1].startswith("stage 0 α 1.00 target -")


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


class Idle(Nobody):
    """An executor that does nothing: what remains is what a comparison notes before its first run."""

    def run(self, jobs, listen):
        return {}


def test_another_comparison_is_not_mixed_in(tmp_path):
    compare(plan(tmp_path), tmp_path, None, Idle())
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
    compare(plan(tmp_path), tmp_path, None, Idle())
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"damaged file .*comparison.json"):
        plan(tmp_path)


def test_every_method_is_checked_before_any_work(tmp_path):
    for methods, message in (
        (["gradient", "magic"], "expected method to be one of"),
        (["gradient", "uniform:metric=l2"], "expected a method that uses a metric"),
        (["gradient:step=7"], "expected step in"),
        (["gradient", "gradient"], "expected methods with names of their own, got 'gradient' and 'gradient'"),
    ):
        with pytest.raises(InvalidInput, match=message):
            plan(tmp_path / "never", methods)
    assert not (tmp_path / "never").exists()


def test_a_learner_that_does_not_fit_is_refused_before_a_folder_is_made(tmp_path):
    with pytest.raises(InvalidInput, match="expected a Box action space"):
        plan_comparison("maze", METHODS, [0], STEPS, tmp_path / "never", learner="sac")
    assert not (tmp_path / "never").exists()


def test_a_folder_that_holds_another_run_is_refused_before_a_worker_starts(tmp_path):
    configs = plan(tmp_path, ["target-only"], (0,))
    compare(configs, tmp_path, None, Idle())
    other = configs[0].replace(seed=7)
    do(Job((other,), (run_folder(tmp_path, configs[0]),)), lambda steps, note: None)
    with pytest.raises(InvalidInput, match=r"seed-0 holds another run \(see its config.json\)"):
        compare(configs, tmp_path, None, Nobody())


def test_a_folder_has_one_comparison_at_a_time(tmp_path):
    configs = plan(tmp_path)
    script = "import sys; from geodesic.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["compare", "maze", "--methods", ",".join(METHODS), "--seeds", "2", "--steps", str(STEPS)]
    second = []

    class Watched(Idle):
        def run(self, jobs, listen):
            command = [sys.executable, "-c", script, *words, "--out", str(tmp_path)]
            second.append(subprocess.run(command, capture_output=True, text=True))
            return {}

    compare(configs, tmp_path, None, Watched())
    (refused,) = second
    assert refused.returncode == 2
    holder = f"geodesic: {tmp_path} is being written by process {os.getpid()} on {platform.node()} since "
    assert refused.stderr.startswith(holder)
    assert refused.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["comparison.json"]  # the lock is gone, nothing else came


def test_what_failed_is_told_even_if_the_table_cannot_be_made(tmp_path, capsys, monkeypatch):
    configs = plan(tmp_path, ["target-only"], (0, 1))
    compare(configs, tmp_path, None, Idle())

    class Failing(Nobody):
        def run(self, jobs, listen):
            return {"target-only seed 0": "RunFailed: no room", "target-only seed 1": "RunFailed: no air"}

    monkeypatch.setattr("geodesic.cli.compare._executor", lambda options: Failing())
    arguments = ["compare", "maze", "--methods", "target-only", "--seeds", "2", "--steps", str(STEPS)]
    assert main([*arguments, "--out", str(tmp_path)]) == 1
    told = "geodesic: target-only seed 0: RunFailed: no room; target-only seed 1: RunFailed: no air; and no table: "
    assert capsys.readouterr().err.startswith(told)


def test_runs_that_began_together_go_on_together(tmp_path):
    """Also when a run of another group is finished, or the whole was cut off in between."""
    configs = plan(tmp_path, ["target-only"], (0, 1, 2, 3))
    seen = []

    class Asked(Idle):
        def run(self, jobs, listen):
            seen.append([[config.seed for config in job.configs] for job in jobs])
            return {}

    compare(configs, tmp_path, None, Asked(), at_once=2)
    do(Job((configs[0],), (run_folder(tmp_path, configs[0]),)), lambda steps, note: None)
    compare(configs, tmp_path, None, Asked(), at_once=2)
    do(Job((configs[1],), (run_folder(tmp_path, configs[1]),)), lambda steps, note: None)
    compare(configs, tmp_path, None, Asked(), at_once=2)
    assert seen == [[[0, 1], [2, 3]], [[0, 1], [2, 3]], [[2, 3]]]


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


def children(process):
    """The processes that a process has started, as /proc has them."""
    tasks = Path(f"/proc/{process}/task")
    return [int(word) for task in tasks.iterdir() for word in (task / "children").read_text().split()]


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found
    return found


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are counted in /proc")
@pytest.mark.parametrize("when", ["as soon as there are workers", "in the middle of a run"])
def test_workers_leave_when_the_comparison_is_killed(tmp_path, when):
    command = [sys.executable, "-m", "geodesic", "compare", "maze", "--methods", "target-only", "--seeds", "1"]
    process = subprocess.Popen([*command, "--steps", "5000000", "--out", tmp_path / "c"], stdout=subprocess.DEVNULL)
    evaluations = tmp_path / "c" / "runs" / "target-only" / "seed-0" / "evaluations.csv"
    until(lambda: len(children(process.pid)) >= 2)  # multiprocessing's own helper, and a worker
    if when == "in the middle of a run":
        until(lambda: evaluations.exists() and evaluations.stat().st_size > 200)
    workers = children(process.pid)
    process.kill()
    process.wait()
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), seconds=30)


STOPPED = ["compare", "maze", "--methods", "target-only,uniform", "--seeds", "2", "--steps", "12000", "--workers", "2"]


@pytest.mark.parametrize(
    "group",
    [pytest.param(False, id="the command", marks=pytest.mark.slow), pytest.param(True, id="as a terminal does")],
)
def test_a_comparison_that_is_interrupted_says_how_to_go_on(tmp_path, group):
    out = tmp_path / "c"
    words = [*STOPPED, "--out", str(out), "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "geodesic", *words], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until(lambda: any(path.stat().st_size > 200 for path in out.rglob("evaluations.csv")))
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=120)
    told = re.fullmatch(
        r"geodesic: stopped; (\d) of 4 runs are finished and what the others did is kept in (\S+); go on with: (.+)\n",
        complaint,
    )
    assert told, complaint
    assert (told[2], told[3]) == (str(out), shlex.join(["geodesic", *words]))
    assert process.returncode == 1
    assert list(out.rglob(".*")) == []
    assert len(list(out.rglob("summary.json"))) == int(told[1]) < 4
    assert main(shlex.split(told[3])[1:]) == 0
    assert [run.finished for run in load_comparison(out)] == [True] * 4
    configs = plan_comparison("maze", ["target-only", "uniform"], (0, 1), 12_000, out)
    do(Job((configs[0],), (tmp_path / "alone",)), lambda steps, note: None)
    assert contents(run_folder(out, configs[0])) == contents(tmp_path / "alone")
