"""The contract of executors, for each of them: worker processes on this machine, and Ray."""

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from geodesic.errors import GeodesicError
from geodesic.records import finished
from geodesic.records.status import run_status
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import Job, LocalProcesses, RayTasks
from geodesic.runs.executors.base import run_name
from geodesic.runs.run import run_job
from geodesic.tasks import load
from run_files import contents

TASKS = Path(__file__).parents[2] / "known_returns.py"
LONG = 60_000  # steps; about a second
METHODS = ["gradient", "uniform"]


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.slow)])
def executor(request):
    if request.param == "ray":
        request.getfixturevalue("cluster")
        return RayTasks()
    return LocalProcesses(2)


@pytest.fixture(scope="module")
def task():
    return load(f"{TASKS}:task")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, task):
    """What the runs leave behind when they run one after another in this process."""
    out = tmp_path_factory.mktemp("undisturbed")
    configs = plan_comparison(task, METHODS, (0, 1), LONG, out)
    for config in configs:
        assert run_job(Job((config,), (run_folder(out, config),)), task) == {}
    return records(out, configs)


def records(out, configs):
    return {(config.label, config.seed): contents(run_folder(out, config)) for config in configs}


def leftovers(out):
    """Locks and temporary files."""
    return [path.relative_to(out) for path in out.rglob(".*")]


class Recorded:
    """An executor that keeps the results it yields."""

    def __init__(self, executor):
        self.executor, self.results = executor, []

    def at_once(self, runs):
        return self.executor.at_once(runs)

    def run(self, jobs):
        for result in self.executor.run(jobs):
            self.results += [] if result is None else [result]
            yield result


class Disturbance:
    """In a thread: acts on processes whose runs have trained some steps, a number of times; on each process once."""

    def __init__(self, out, act, times=1, label="*"):
        self.out, self.act, self.times, self.label = out, act, times, label
        self.processes, self.over = set(), threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def watch(self):
        while not self.over.wait(0.005):
            for lock in self.out.glob(f"runs/{self.label}/seed-*/.lock"):
                with contextlib.suppress(OSError, ValueError, KeyError, GeodesicError):  # the run began or ended now
                    if len(self.processes) < self.times and 0 < run_status(lock.parent).step < LONG:
                        self.disturb(json.loads(lock.read_text())["process"])

    def disturb(self, process):
        if process not in self.processes:
            self.processes.add(process)
            self.act(process)


def kill(process):
    os.kill(process, signal.SIGKILL)


def test_every_run_ends_as_if_undisturbed_even_when_workers_are_killed(tmp_path, executor, task, undisturbed):
    configs = plan_comparison(task, METHODS, (0, 1), LONG, tmp_path)
    recorded = Recorded(executor)
    with Disturbance(tmp_path, kill, times=2) as disturbance:
        outcome = compare(configs, tmp_path, task, recorded, save_every=0.2)
    assert len(disturbance.processes) == 2
    assert (outcome.done, outcome.failed) == (4, {})
    assert records(tmp_path, configs) == undisturbed
    names = [run_name(result.job.configs[0]) for result in recorded.results]
    assert sorted(names) == sorted(map(run_name, configs))
    assert all(result.failed == {} for result in recorded.results)
    assert leftovers(tmp_path) == []


def test_a_run_that_fails_does_not_stop_the_others(tmp_path, executor, task):
    """Its checkpoints are damaged: the failure is reported, and another run of the same job is trained."""
    configs = plan_comparison(task, ["uniform"], (0, 1, 2), None, tmp_path)
    broken = run_folder(tmp_path, configs[1])
    compare(configs[1:2], tmp_path, task, executor)
    (broken / "summary.json").unlink()
    for path in (broken / "checkpoint").iterdir():
        path.write_bytes(b"no checkpoint")
    outcome = compare(configs, tmp_path, task, executor, at_once=2)
    assert list(outcome.failed) == ["uniform seed 1"]
    assert "damaged or foreign file" in outcome.failed["uniform seed 1"]
    assert [finished(run_folder(tmp_path, config)) for config in configs] == [True, False, True]


@pytest.mark.slow
def test_runs_that_diverge_are_named_one_by_one_with_their_step(tmp_path, executor, task):
    learner = "ppo:learning_rate=1e30:n_envs=2:rollout=25:batch_size=50:epochs=1:net=[8]"
    configs = plan_comparison(task, ["uniform"], (0, 1), 600, tmp_path, learner=learner)
    outcome = compare(configs, tmp_path, task, executor, at_once=2)
    assert list(outcome.failed) == ["uniform seed 0", "uniform seed 1"]
    for seed in (0, 1):
        reason = outcome.failed[f"uniform seed {seed}"]
        assert reason.startswith(f"uniform seed {seed} diverged by step ")
        assert f"seed {1 - seed}" not in reason
    assert outcome.done == 0


@pytest.mark.slow
def test_a_job_whose_workers_always_die_fails(tmp_path, executor, task):
    configs = plan_comparison(task, METHODS, (0,), LONG, tmp_path)
    with Disturbance(tmp_path, kill, times=99, label="gradient") as disturbance:
        outcome = compare(configs, tmp_path, task, executor)
    assert list(outcome.failed) == ["gradient seed 0"]
    assert outcome.failed["gradient seed 0"].startswith("its worker ")
    assert outcome.failed["gradient seed 0"].endswith(", 3 times")
    assert len(disturbance.processes) == 3
    assert outcome.done == 1


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_stops_it_between_segments_and_it_can_be_resumed(tmp_path, executor, task, undisturbed, number):
    configs = plan_comparison(task, METHODS, (0, 1), LONG, tmp_path)
    with (
        Disturbance(tmp_path, lambda process: os.kill(os.getpid(), number)),
        pytest.raises(KeyboardInterrupt),
    ):
        compare(configs, tmp_path, task, executor, save_every=1e9)
    assert not all(finished(run_folder(tmp_path, config)) for config in configs)
    assert leftovers(tmp_path) == []  # no process writes any more
    sizes = [path.stat().st_size for path in tmp_path.rglob("episodes.csv")]
    assert max(sizes) > 1000  # the progress of a stopped run is kept
    outcome = compare(configs, tmp_path, task, executor)
    assert (outcome.done, outcome.failed) == (4, {})
    assert records(tmp_path, configs) == undisturbed


def test_closing_the_iterator_ends_all_workers(tmp_path, task):
    executor = LocalProcesses(2)
    configs = plan_comparison(task, METHODS, (0, 1), LONG, tmp_path)
    jobs = [Job((config,), (run_folder(tmp_path, config),)) for config in configs]
    handler = signal.getsignal(signal.SIGINT)
    results = executor.run(jobs)
    assert next(result for result in results if result is not None).failed == {}
    results.close()
    assert signal.getsignal(signal.SIGINT) is handler
    holders = [json.loads(path.read_text())["process"] for path in tmp_path.rglob("seed-*/.lock")]
    assert not any(map(alive, holders))


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(tmp_path, executor):
    """The runs have segments that last for minutes; only an end at once ends them in time."""
    task = load(f"{TASKS}:endless")
    configs = plan_comparison(task, METHODS, (0,), None, tmp_path)
    ended = threading.Event()

    def signal_twice():
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not list(tmp_path.rglob("seed-0/checkpoint/latest.npz")):
            time.sleep(0.05)
        time.sleep(3.0)  # from its first checkpoint to its first segment; before that it would stop in order
        os.kill(os.getpid(), signal.SIGINT)
        if not ended.wait(2.0):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=signal_twice)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compare(configs, tmp_path, task, executor)
    ended.set()
    thread.join()
    assert time.monotonic() - began < 150
    holders = [json.loads(path.read_text())["process"] for path in tmp_path.rglob("seed-0/.lock")]
    assert holders  # no process had the time to release its lock
    deadline = time.monotonic() + 30
    while any(map(alive, holders)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, holders))


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
