"""What a driver makes of workers that die, fall silent, or are cut off in the middle of a message."""

import multiprocessing
import os
import struct
from types import SimpleNamespace

import pytest

from geodesic.cli import main
from geodesic.runs.compare import compare, plan_comparison
from geodesic.runs.executors import LocalProcesses, Update, local
from geodesic.runs.executors.worker import Worker


def stand_in():
    """The driver's side of a worker, and the other end of its pipe."""
    worker = Worker.__new__(Worker)
    worker.line, theirs = multiprocessing.Pipe()
    worker.job, worker.gone, worker.heard = 0, False, 0.0
    worker.process = SimpleNamespace(exitcode=-9, join=lambda patience=None: None, kill=lambda: None)
    return worker, theirs


@pytest.mark.parametrize(
    "said",
    [
        b"",
        struct.pack("!i", 1000) + b"half a message",
        struct.pack("!i", 4)[:2],
        struct.pack("!i", 4) + b"junk",
    ],
    ids=["nothing", "half a message", "half a length", "no message"],
)
def test_a_worker_that_is_cut_off_in_the_middle_of_a_message_is_gone(said):
    worker, theirs = stand_in()
    theirs.send(Update(0, 10, "before"))
    os.write(theirs.fileno(), said)
    theirs.close()
    assert worker.hear() == Update(0, 10, "before")
    assert worker.hear() is None


def test_a_dead_worker_is_told_nothing_and_nothing_is_raised():
    worker, theirs = stand_in()
    theirs.close()
    worker.give(0, None)
    worker.ask_to_stop()


@pytest.mark.parametrize("dead", [True, False], ids=["dead", "silent"])
def test_the_job_of_a_lost_worker_is_tried_again_and_then_given_up(tmp_path, monkeypatch, dead):
    """While another worker, in the middle of its own message, is heard to the end."""
    monkeypatch.setattr(local, "STALL_SECONDS", 0.3)
    given, ends = [], []

    def made(context):
        worker, theirs = stand_in()
        ends.append(theirs)

        def give(index, job):
            worker.job, worker.heard = index, local.time.monotonic()
            given.append(index)
            if index == 1:
                theirs.send(Update(1, job.steps, ended=True))
            elif dead:
                os.write(theirs.fileno(), struct.pack("!i", 1000) + b"half")
                theirs.close()

        worker.give = give
        return worker

    monkeypatch.setattr(local, "Worker", made)
    configs = plan_comparison("maze", ["uniform"], (0, 1), 1000, tmp_path)
    heard = []
    outcome = compare(configs, tmp_path, None, LocalProcesses(2), listen=lambda job, update: heard.append(update))
    reason = "died with exit code -9" if dead else "fell silent"
    assert outcome.failed == {"uniform seed 0": f"its worker {reason}, 3 times"}
    assert sorted(given) == [0, 0, 0, 1]
    assert Update(1, 1000, ended=True) in heard


def test_workers_that_were_started_ahead_get_the_jobs(tmp_path, monkeypatch):
    made = []

    def start(context):
        worker, theirs = stand_in()
        worker.job = None
        made.append(theirs)

        def give(index, job):
            worker.job = index
            theirs.send(Update(index, job.steps, ended=True))

        worker.give = give
        return worker

    monkeypatch.setattr(local, "Worker", start)
    pool = LocalProcesses(2)
    with pool.ahead(5):
        assert len(made) == 2
        configs = plan_comparison("maze", ["uniform"], (0, 1, 2), 1000, tmp_path)
        assert compare(configs, tmp_path, None, pool).failed == {}
    assert len(made) == 2
    compare(configs, tmp_path, None, pool)
    assert len(made) == 4


def test_workers_that_were_started_for_nothing_are_ended(tmp_path, monkeypatch, capsys):
    """Such as where the plan is refused; an exit would wait for them for ever."""
    started = []
    monkeypatch.setattr(local, "Worker", lambda context: started.append(Worker(context)) or started[-1])
    assert main(["compare", "maze", "--methods", "nonsense", "--seeds", "2", "--out", str(tmp_path / "out")]) == 2
    assert "nonsense" in capsys.readouterr().err
    assert len(started) == min(2, os.cpu_count())
    assert all(worker.process.exitcode is not None for worker in started)


def test_nothing_is_started_ahead_where_all_may_be_done(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "Worker", None)
    (tmp_path / "comparison.json").write_text("{")
    assert main(["compare", "maze", "--methods", "uniform", "--out", str(tmp_path)]) == 2
