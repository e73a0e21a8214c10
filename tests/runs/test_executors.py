"""The contract of executors, held by each of them: worker processes here, and Ray."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from lasting import contents

from geodesic.records import finished
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import Job, LocalProcesses, RayTasks
from geodesic.runs.executors.base import do
from geodesic.tasks import load

HERE = Path(__file__).parent
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
    return load(f"{HERE / 'steady.py'}:task")


@pytest.fixture(scope="module")
def alone(tmp_path_factory, task):
    """What runs leave behind that nobody disturbed, done one after another in this process."""
    out = tmp_path_factory.mktemp("alone")
    configs = plan_comparison(task, METHODS, (0, 1), LONG, out)
    for config in configs:
        do(Job((config,), (run_folder(out, config),)), lambda steps, note: None, task)
    return records(out, configs)


def records(out, configs):
    return {(config.label, config.seed): contents(run_folder(out, config)) for config in configs}


def leftovers(out):
    """Locks and files that were being written."""
    return [path.relative_to(out) for path in out.rglob(".*")]


class Disturbance:
    """Does something about a process that holds a run of a job that is heard of, so many times; each process once."""

    def __init__(self, act, times=1):
        self.act, self.times, self.done = act, times, set()

    def __call__(self, job, update):
        if update.ended or len(self.done) >= self.times:
            return
        try:
            process = json.loads((job.folders[0] / ".lock").read_text())["process"]
        except (OSError, ValueError):
            return
        if process not in self.done:
            self.done.add(process)
            self.act(process)


def kill(process):
    os.kill(process, signal.SIGKILL)


def test_every_run_is_done_as_if_alone_also_when_workers_are_killed(tmp_path, executor, task, alone):
    configs = plan_comparison(task, METHODS, (0, 1), LONG, tmp_path)
    heard = []
    disturbance = Disturbance(kill, times=2)

    def listen(job, update):
        heard.append((job.name, update))
        disturbance(job, update)

    outcome = compare(configs, tmp_path, task, executor, listen=listen, save_every=0.2)
    assert len(disturbance.done) == 2
    assert (outcome.done, outcome.failed) == (4, {})
    assert records(tmp_path, configs) == alone
    assert sorted(name for name, update in heard if update.ended) == sorted(f"{c.label} seed {c.seed}" for c in configs)
    assert {update.steps for _, update in heard if update.ended} == {LONG}
    assert leftovers(tmp_path) == []


def test_a_run_that_fails_takes_nobody_along(tmp_path, executor, task):
    """Damaged where it was broken off: it is named, and another run of its own job is done."""
    configs = plan_comparison(task, ["uniform"], (0, 1, 2), None, tmp_path)
    broken = run_folder(tmp_path, configs[1])
    compare(configs[1:2], tmp_path, task, executor)
    (broken / "summary.json").unlink()
    for path in (broken / "checkpoint").iterdir():
        path.write_bytes(b"no checkpoint")
    outcome = compare(configs, tmp_path, task, executor, at_once=2)
    assert list(outcome.failed) == ["uniform seed 1"]
    assert outcome.failed["uniform seed 1"].startswith("CheckpointError: ")
    assert [finished(run_folder(tmp_path, config)) for config in configs] == [True, False, True]


@pytest.mark.slow
def test_runs_that_diverge_are_named_one_by_one_with_their_step(tmp_path, executor, task):
    learner = "ppo:learning_rate=1e30:n_envs=2:rollout=25:batch_size=50:epochs=1:net=[8]"
    configs = plan_comparison(task, ["uniform"], (0, 1), 600, tmp_path, learner=learner)
    outcome = compare(configs, tmp_path, task, executor, at_once=2)
    assert list(outcome.failed) == ["uniform seed 0", "uniform seed 1"]
    for seed in (0, 1):
        why = outcome.failed[f"uniform seed {seed}"]
        assert why.startswith(f"RunFailed: uniform seed {seed} diverged by step ")
        assert f"seed {1 - seed}" not in why
    assert outcome.done == 0


@pytest.mark.slow
def test_a_job_whose_workers_always_die_is_given_up(tmp_path, executor, task):
    configs = plan_comparison(task, METHODS, (0,), LONG, tmp_path)
    disturbance = Disturbance(kill, times=99)

    def listen(job, update):
        if job.configs[0].label == "gradient":
            disturbance(job, update)

    outcome = compare(configs, tmp_path, task, executor, listen=listen)
    assert list(outcome.failed) == ["gradient seed 0"]
    assert outcome.failed["gradient seed 0"].startswith("its worker ")
    assert outcome.failed["gradient seed 0"].endswith(", 3 times")
    assert len(disturbance.done) == 3
    assert outcome.done == 1


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_asked_to_stop_it_stops_between_segments_and_goes_on(tmp_path, executor, task, alone, number):
    configs = plan_comparison(task, METHODS, (0, 1), LONG, tmp_path)
    stop = Disturbance(lambda process: os.kill(os.getpid(), number))
    with pytest.raises(KeyboardInterrupt):
        compare(configs, tmp_path, task, executor, listen=stop, save_every=1e9)
    assert not all(finished(run_folder(tmp_path, config)) for config in configs)
    assert leftovers(tmp_path) == []  # nobody is at work any more
    sizes = [path.stat().st_size for path in tmp_path.rglob("episodes.csv")]
    assert max(sizes) > 1000  # a run that was stopped has kept what it did
    outcome = compare(configs, tmp_path, task, executor)
    assert (outcome.done, outcome.failed) == (4, {})
    assert records(tmp_path, configs) == alone


@pytest.mark.slow
def test_asked_twice_it_ends_at_once(tmp_path, executor):
    """The runs have segments that last for minutes; only an end at once ends them in time."""
    task = load(f"{HERE / 'steady.py'}:endless")
    configs = plan_comparison(task, METHODS, (0,), None, tmp_path)
    ended = threading.Event()

    def signal_twice():
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not list(tmp_path.rglob("seed-0/checkpoint/latest.npz")):
            time.sleep(0.05)
        time.sleep(3.0)  # from its first checkpoint to its first segment; asked before that it would stop in order
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
    assert holders  # nobody had the time to let go
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
