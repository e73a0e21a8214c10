"""Comparisons: what they keep, how they resume, and what they refuse."""

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

from geodesic.cli import main
from geodesic.errors import CheckpointError, InvalidInput
from geodesic.records import load_comparison
from geodesic.records.status import run_status
from geodesic.report.text import record, sparklines
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import Job, JobResult, LocalProcesses
from geodesic.runs.executors.base import run_name
from geodesic.runs.run import groups, run_job
from geodesic.training.configure import configure
from run_files import contents

STEPS = 1000
METHODS = ["gradient:step=0.5", "target-only"]


def plan(out, methods=METHODS, seeds=(0, 1)):
    return plan_comparison("maze", methods, seeds, STEPS, out)


def test_a_run_is_the_same_alone_and_in_a_worker(tmp_path):
    """The first test, so that the workers of the tests below find its programs compiled."""
    configs = plan(tmp_path / "pool", METHODS[:1], (3,))
    run_job(Job(tuple(configs), (tmp_path / "alone",)))
    compare(configs, tmp_path / "pool", None, LocalProcesses(1))
    assert contents(run_folder(tmp_path / "pool", configs[0])) == contents(tmp_path / "alone")


class Jobs:
    """Keeps the jobs instead of running them, all runs in one program where that is possible."""

    def at_once(self, runs):
        return runs

    def run(self, jobs):
        self.kept = jobs
        return iter(())


def test_methods_that_need_value_losses_train_in_programs_of_their_own(tmp_path):
    jobs = Jobs()
    compare(plan(tmp_path, ["uniform", "plr", "target-only", "plr:loss=l1"]), tmp_path, None, jobs)
    labels = [{config.label for config in job.configs} for job in jobs.kept]
    assert labels == [{"uniform", "target-only"}, {"plr", "plr:loss=l1"}]


def test_a_comparison_runs_everything_once_and_keeps_finished_runs(tmp_path):
    configs = plan(tmp_path)
    reported = []
    outcome = compare(configs, tmp_path, None, LocalProcesses(2), report=reported.append)
    assert (outcome.done, outcome.failed) == (4, {})
    assert reported == [outcome]
    runs = load_comparison(tmp_path)
    assert sorted((run.label, run.seed) for run in runs) == [
        ("gradient:step=0.5", 0), ("gradient:step=0.5", 1), ("target-only", 0), ("target-only", 1),
    ]  # fmt: skip
    assert all(run.finished for run in runs)
    statuses = [run_status(run_folder(tmp_path, config)) for config in configs]
    assert [status.name for status in statuses] == [run_name(config) for config in configs]
    assert {(status.step, status.steps) for status in statuses} == {(STEPS, STEPS)}
    assert len(sparklines(runs)) == 3
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.csv")}
    more = plan(tmp_path, seeds=(0, 1, 2))
    interrupted = run_folder(tmp_path, more[0])
    (interrupted / "summary.json").unlink()  # as after a kill behind its last checkpoint
    assert compare(more, tmp_path, None, LocalProcesses(1), at_once=4).done == 6
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {path for path in before if after[path] != before[path]} <= set(interrupted.glob("*.csv"))
    assert len(load_comparison(tmp_path)) == 6
    assert compare(more, tmp_path, None, Unused()).done == 6


class Unused:
    """An executor that must not be called."""

    def at_once(self, runs):
        return 1

    def run(self, jobs):
        raise AssertionError("called though every run is finished")


def test_an_executor_needs_two_methods(tmp_path):
    """This one runs the jobs one after another, in this process."""

    class InThisProcess:
        def at_once(self, runs):
            return 3

        def run(self, jobs):
            for job in jobs:
                yield None
                yield JobResult(job, {name: str(error) for name, error in run_job(job).items()})

    configs = plan(tmp_path, ["target-only", "uniform"], (0, 1))
    outcome = compare(configs, tmp_path, None, InThisProcess())
    assert (outcome.done, outcome.failed) == (4, {})
    assert all(run.finished for run in load_comparison(tmp_path))


def test_a_job_resumes_each_of_its_runs_where_it_stopped(tmp_path):
    """Two runs are finished, one was interrupted, one has not started: the others end as if alone."""
    configs = plan(tmp_path, ["target-only"], (0, 1, 2, 3))
    folders = tuple(run_folder(tmp_path, config) for config in configs)
    run_job(Job(tuple(configs[:3]), folders[:3]))
    (folders[1] / "summary.json").unlink()
    stamps = [path.stat().st_mtime_ns for path in folders[0].glob("*.csv")]
    job = Job(tuple(configs), folders)
    assert groups(job) == [([3], False), ([1], True)]
    run_job(job)
    assert groups(job) == []
    assert [path.stat().st_mtime_ns for path in folders[0].glob("*.csv")] == stamps
    for seed, folder in enumerate(folders):
        run_job(Job((configs[seed],), (tmp_path / f"alone-{seed}",)))
        assert contents(folder) == contents(tmp_path / f"alone-{seed}")


def test_a_damaged_run_fails_alone_and_the_command_names_it(tmp_path, capsys):
    configs = plan(tmp_path, ["target-only"], (0, 1))
    compare(configs, tmp_path, None, LocalProcesses(1))
    damaged = run_folder(tmp_path, configs[0])
    (damaged / "summary.json").unlink()
    for name in ("latest.npz", "previous.npz"):
        (damaged / "checkpoint" / name).write_bytes(b"no checkpoint")
    arguments = ["compare", "maze", "--methods", "target-only", "--seeds", "2", "--steps", str(STEPS)]
    assert main([*arguments, "--out", str(tmp_path), "--workers", "1"]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("geodesic: target-only seed 0: damaged or foreign file")
    assert shown.err.count("\n") == 1
    assert "1 of 2" in shown.out
    assert (damaged / "checkpoint" / "latest.npz").read_bytes() == b"no checkpoint"


class Idle(Unused):
    """An executor that does nothing, which leaves what a comparison writes before its first run."""

    def run(self, jobs):
        return iter(())


def test_a_folder_of_another_comparison_is_refused(tmp_path):
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
def test_a_damaged_comparison_json_is_refused(tmp_path, text):
    compare(plan(tmp_path), tmp_path, None, Idle())
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"damaged file .*comparison.json"):
        plan(tmp_path)


def test_every_method_is_checked_before_any_work(tmp_path):
    for methods, message in (
        (["gradient", "magic"], "expected method to be one of"),
        (["gradient", "uniform:metric=l2"], "expected a method that uses a metric"),
        (["gradient:step=7"], "expected step in"),
        (["gradient", "gradient"], "expected methods with different names, got two of 'gradient'"),
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
    run_job(Job((other,), (run_folder(tmp_path, configs[0]),)))
    with pytest.raises(InvalidInput, match=r"seed-0 holds another run \(it differs in seed\)"):
        compare(configs, tmp_path, None, Unused())


def test_a_folder_has_one_comparison_at_a_time(tmp_path):
    configs = plan(tmp_path)
    script = "import sys; from geodesic.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["compare", "maze", "--methods", ",".join(METHODS), "--seeds", "2", "--steps", str(STEPS)]
    second = []

    class StartsAnother(Idle):
        def run(self, jobs):
            command = [sys.executable, "-c", script, *words, "--out", str(tmp_path)]
            second.append(subprocess.run(command, capture_output=True, text=True))
            return iter(())

    compare(configs, tmp_path, None, StartsAnother())
    (refused,) = second
    assert refused.returncode == 2
    holder = f"geodesic: {tmp_path} is being written by process {os.getpid()} on {platform.node()} since "
    assert refused.stderr.startswith(holder)
    assert refused.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["comparison.json"]  # no lock, nothing else


def test_failures_are_named_even_if_the_table_cannot_be_made(tmp_path, capsys, monkeypatch):
    configs = plan(tmp_path, ["target-only"], (0, 1))
    compare(configs, tmp_path, None, Idle())

    class Failing(Unused):
        def run(self, jobs):
            reasons = {"target-only seed 0": "RunFailed: no room", "target-only seed 1": "RunFailed: no air"}
            yield JobResult(jobs[0], reasons)

    monkeypatch.setattr("geodesic.cli.commands._executor", lambda options: Failing())
    arguments = ["compare", "maze", "--methods", "target-only", "--seeds", "2", "--steps", str(STEPS)]
    assert main([*arguments, "--out", str(tmp_path)]) == 1
    message = "geodesic: target-only seed 0: RunFailed: no room; target-only seed 1: RunFailed: no air; and no table: "
    assert capsys.readouterr().err.startswith(message)


def test_runs_that_started_together_resume_together(tmp_path):
    """Also if a run of another group is finished, or the comparison was interrupted."""
    configs = plan(tmp_path, ["target-only"], (0, 1, 2, 3))
    seen = []

    class Recording(Idle):
        def run(self, jobs):
            seen.append([[config.seed for config in job.configs] for job in jobs])
            return iter(())

    compare(configs, tmp_path, None, Recording(), at_once=2)
    run_job(Job((configs[0],), (run_folder(tmp_path, configs[0]),)))
    compare(configs, tmp_path, None, Recording(), at_once=2)
    run_job(Job((configs[1],), (run_folder(tmp_path, configs[1]),)))
    compare(configs, tmp_path, None, Recording(), at_once=2)
    assert seen == [[[0, 1], [2, 3]], [[0, 1], [2, 3]], [[2, 3]]]


def test_the_tasks_methods_are_compared_by_default(tmp_path):
    configs = plan_comparison("maze", [], [0], STEPS, tmp_path)
    assert [config.label for config in configs] == [
        "gradient:step=0.2", "gradient", "gradient:step=0.05", "uniform", "linear", "target-only",
    ]  # fmt: skip


def test_a_table_replaces_the_one_recorded_before(tmp_path):
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
    """The child processes of a process, from /proc."""
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
def test_workers_exit_when_the_comparison_is_killed(tmp_path, when):
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
def test_an_interrupted_comparison_prints_how_to_resume(tmp_path, group):
    out = tmp_path / "c"
    words = [*STOPPED, "--out", str(out), "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "geodesic", *words], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until(lambda: any(path.stat().st_size > 200 for path in out.rglob("evaluations.csv")))
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    message = re.fullmatch(
        r"geodesic: stopped; (\d) of 4 runs are finished, and the others are saved in (\S+); resume with: (.+)\n", error
    )
    assert message, error
    assert (message[2], message[3]) == (str(out), shlex.join(["geodesic", *words]))
    assert process.returncode == 1
    assert list(out.rglob(".*")) == []
    assert len(list(out.rglob("summary.json"))) == int(message[1]) < 4
    assert main(shlex.split(message[3])[1:]) == 0
    assert [run.finished for run in load_comparison(out)] == [True] * 4
    configs = plan_comparison("maze", ["target-only", "uniform"], (0, 1), 12_000, out)
    run_job(Job((configs[0],), (tmp_path / "alone",)))
    assert contents(run_folder(out, configs[0])) == contents(tmp_path / "alone")


@pytest.mark.parametrize("level", ["runs", "runs/gradient", "runs/gradient/seed-0"])
def test_no_link_leads_out_of_a_comparison(tmp_path, level):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "out" / level
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "out" / "comparison.json").write_text("{}")
    config = configure("maze", "gradient")
    with pytest.raises(InvalidInput, match="nothing is written through links"):
        run_folder(tmp_path / "out", config)
    assert not list((tmp_path / "elsewhere").iterdir())
