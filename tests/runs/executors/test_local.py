"""What a driver does about workers that die, stall, or are cut off in the middle of a message."""

import multiprocessing
import os
import struct
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from geodesic.cli import main
from geodesic.errors import RunWarning
from geodesic.runs.compare import compare, plan_comparison
from geodesic.runs.executors import Job, LocalProcesses, local
from geodesic.runs.executors.base import Attempt, Dispatcher, JobResult
from geodesic.runs.executors.local import Worker
from geodesic.training.configure import configure

JOB = Job((), ())


def stand_in(answer=None):
    """The driver's side of a worker, and the other end of its pipe. answer: is called with each job it is given."""
    worker = Worker.__new__(Worker)
    worker.pipe, theirs = multiprocessing.Pipe()
    worker.attempt, worker.gone, worker._active = None, False, 0.0
    worker.process = SimpleNamespace(exitcode=-9, join=lambda patience=None: None, kill=lambda: None)
    if answer is not None:
        worker.send = answer
    return worker, theirs


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        struct.pack("!i", 1000) + b"half a message",
        struct.pack("!i", 4)[:2],
        struct.pack("!i", 4) + b"junk",
    ],
    ids=["nothing", "half a message", "half a length", "no message"],
)
def test_a_worker_that_is_cut_off_in_the_middle_of_a_message_is_gone(sent):
    worker, theirs = stand_in()
    worker.assign(Attempt(JOB))
    theirs.send({"a run": "a reason"})
    os.write(theirs.fileno(), sent)
    theirs.close()
    assert worker.receive() == JobResult(JOB, {"a run": "a reason"})
    assert worker.attempt is None
    assert not worker.gone
    assert worker.receive() is None
    assert worker.gone


def test_a_warning_about_a_run_reaches_the_driver():
    """Which shows it without breaking the progress bars; any other warning is shown by the worker."""
    worker, theirs = stand_in()
    worker.assign(Attempt(JOB))
    others = []

    def send(category, message):
        local._show_warning(theirs, lambda *given: others.append(given[1]), message, category, "a file", 3)

    send(RunWarning, RunWarning("stage 3 has not improved"))
    send(DeprecationWarning, "old")
    theirs.send({"a run": "a reason"})
    with pytest.warns(RunWarning, match="^stage 3 has not improved$"):
        assert worker.receive() is None
    assert (worker.gone, others) == (False, [DeprecationWarning])
    assert worker.receive() == JobResult(JOB, {"a run": "a reason"})


def test_orders_to_a_dead_worker_raise_no_error():
    worker, theirs = stand_in()
    theirs.close()
    worker.assign(Attempt(JOB))
    worker.send(None)


def test_a_worker_is_stalled_when_no_file_of_its_job_has_changed(tmp_path):
    job = Job((), (tmp_path / "run", tmp_path / "not yet"))
    worker, _ = stand_in()
    assert not worker.is_stalled(0.0)  # it has no job
    worker.assign(Attempt(job, started=time.monotonic() - 100))
    assert worker.is_stalled(99)
    assert not worker.is_stalled(101)
    checkpoint = tmp_path / "run" / "checkpoint" / "latest.npz"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"")
    for path in (checkpoint, checkpoint.parent, tmp_path / "run"):
        os.utime(path, (0, time.time() - 1000))  # before the job began
    assert worker.is_stalled(99)
    os.utime(checkpoint, (0, time.time() - 50))
    assert not worker.is_stalled(99)
    assert worker.is_stalled(49)


def test_a_job_is_tried_three_times(tmp_path):
    config = configure("maze", steps=1000)
    jobs = [Job((config,), (tmp_path / "a",)), Job((config.replace(seed=1),), (tmp_path / "b",))]
    queue = Dispatcher(jobs)
    for number in (1, 2, 3):
        attempt = queue.next()  # a retry comes before the jobs that have not been tried
        assert (attempt.job, attempt.number) == (jobs[0], number)
        results = queue.retry(attempt, "died")
        assert results == ([] if number < 3 else [JobResult(jobs[0], {"auto seed 0": "its worker died, 3 times"})])
    assert queue.next().job == jobs[1]
    assert not queue.waiting


@pytest.mark.parametrize("dead", [True, False], ids=["dead", "stalled"])
def test_the_job_of_a_lost_worker_is_tried_again_and_then_fails(tmp_path, monkeypatch, dead):
    """Another worker runs its job to the end meanwhile."""
    monkeypatch.setattr(local, "STALL_SECONDS", 0.3)
    assigned = []

    def start():
        def answer(job):
            assigned.append(job.configs[0].seed)
            if job.configs[0].seed == 1:
                theirs.send({})
            elif dead:
                os.write(theirs.fileno(), struct.pack("!i", 1000) + b"half")
                theirs.close()

        worker, theirs = stand_in(answer)
        return worker

    monkeypatch.setattr(local, "Worker", start)
    configs = plan_comparison("maze", ["uniform"], (0, 1), 1000, tmp_path)
    outcome = compare(configs, tmp_path, None, LocalProcesses(2))
    reason = "died with exit code -9" if dead else "stopped responding"
    assert outcome.failed == {"uniform seed 0": f"its worker {reason}, 3 times"}
    assert sorted(assigned) == [0, 0, 0, 1]


def test_workers_do_not_import_the_script_that_starts_them(tmp_path):
    """So that a script without the guard `if __name__ == "__main__"` can compare methods."""
    script = tmp_path / "script.py"
    script.write_text(
        "from geodesic.runs.executors.local import Worker\nprint('once')\nworker = Worker()\n"
        "worker.send(None)\nworker.process.join()\nprint(worker.process.exitcode)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("once\n0\n", "")


def test_workers_that_were_started_early_get_the_jobs(tmp_path, monkeypatch):
    started = []

    def start():
        worker, theirs = stand_in(lambda job: theirs.send({}))
        started.append(theirs)
        return worker

    monkeypatch.setattr(local, "Worker", start)
    pool = LocalProcesses(2)
    with pool.warm_up(5):
        assert len(started) == 2
        configs = plan_comparison("maze", ["uniform"], (0, 1, 2), 1000, tmp_path)
        assert compare(configs, tmp_path, None, pool).failed == {}
    assert len(started) == 2
    compare(configs, tmp_path, None, pool)
    assert len(started) == 4


def test_workers_that_were_started_in_vain_are_ended(tmp_path, monkeypatch, capsys):
    """For example where the plan is refused; the exit of the driver would wait for them forever."""
    started = []
    monkeypatch.setattr(local, "Worker", lambda: started.append(Worker()) or started[-1])
    assert main(["compare", "maze", "--methods", "nonsense", "--seeds", "2", "--out", str(tmp_path / "out")]) == 2
    assert "nonsense" in capsys.readouterr().err
    assert len(started) == min(2, os.cpu_count())
    assert all(worker.process.exitcode is not None for worker in started)


def test_no_worker_is_started_early_where_all_runs_may_be_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "Worker", None)
    (tmp_path / "comparison.json").write_text("{")
    assert main(["compare", "maze", "--methods", "uniform", "--out", str(tmp_path)]) == 2
