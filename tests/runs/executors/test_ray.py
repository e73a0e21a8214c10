"""Ray on two nodes of one machine: what happens when a node dies, and the errors where Ray is unavailable."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from geodesic.cli import main
from geodesic.errors import GeodesicError, InvalidInput, MissingExtra
from geodesic.records import finished
from geodesic.records.lock import LOCK
from geodesic.records.status import run_status
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import Job, LocalProcesses, RayTasks
from geodesic.runs.executors import ray as ray_executor
from geodesic.runs.executors.base import Dispatcher
from run_files import contents

STEPS = 40_000  # some seconds, so that a run is training when its node dies
METHODS = ["gradient:step=0.5:window=5", "uniform"]


def test_the_error_of_a_missing_ray_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"Ray is not installed; try: pip install 'geodesic-rl\[ray\]'"):
        RayTasks()
    words = ["compare", "maze", "--methods", "uniform", "--seeds", "1", "--steps", "1000", "--executor", "ray"]
    assert main([*words, "--out", str(tmp_path / "never")]) == 1
    assert capsys.readouterr().err == "geodesic: Ray is not installed; try: pip install 'geodesic-rl[ray]'\n"
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--executor", "ray", "--workers", "2"], "expected --workers with --executor local only"),
        (["--address", "auto"], "expected --address with --executor ray only"),
        (["--gpus", "1"], "expected --gpus with --executor ray only"),
        (["--executor", "ray", "--cpus", "-1"], "expected cpus of a job to be non-negative, got -1.0"),
        (["--executor", "ray", "--gpus", "nan"], "expected gpus of a job to be a finite number, got nan"),
        (["--save-every", "nan"], "expected --save-every of at least 0 seconds, got nan"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path, capsys, words, message):
    assert main(["compare", "maze", *words, "--out", str(tmp_path / "never")]) == 2
    assert capsys.readouterr().err == f"geodesic: {message}\n"
    assert not (tmp_path / "never").exists()


@pytest.fixture
def silent():
    """The address of a server that accepts connections and never answers."""
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def on_ray(address, out):
    words = ["compare", "maze", "--methods", "uniform", "--seeds", "1", "--steps", "1000", "--quiet"]
    return [*words, "--executor", "ray", "--address", address, "--out", str(out)]


def test_an_address_where_nothing_answers_is_refused_in_one_line(tmp_path, silent, monkeypatch, capsys):
    assert ray_executor.CONNECT_SECONDS < 25
    monkeypatch.setattr(ray_executor, "CONNECT_SECONDS", 2.0)
    assert main(on_ray(silent, tmp_path)) == 2
    message = f"expected a Ray cluster at {silent}, got connecting to Ray: no answer within 2 seconds"
    assert capsys.readouterr().err == f"geodesic: {message}\n"


def test_sigterm_ends_a_command_that_waits_for_a_cluster(tmp_path, silent):
    command = [sys.executable, "-m", "geodesic", *on_ray(silent, tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "comparison.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)  # it is connecting
    process.terminate()
    _, shown = process.communicate(timeout=10)
    assert (process.returncode, shown.count("\n")) == (1, 1)
    assert shown.startswith("geodesic: stopped; 0 of 1 runs are finished")


@pytest.fixture
def cluster():
    """A head without a core for jobs, and two nodes with one each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    yield made, nodes
    made.shutdown()


def nodes_of(folder, nodes):
    """The node of a run: the process that holds its lock is a child of the node's raylet. None if it is not running."""
    try:
        process = json.loads((folder / LOCK).read_text())["process"]
        parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return []
    return [node for node in nodes if node.all_processes["raylet"][0].process.pid == parent]


@pytest.mark.slow
def test_a_comparison_survives_the_death_of_a_node(tmp_path, cluster, monkeypatch):
    """Eight runs; a node dies with a run on it. The files are byte for byte those of local processes."""
    made, nodes = cluster
    lost, over = [], threading.Event()
    retry = Dispatcher.retry
    monkeypatch.setattr(Dispatcher, "retry", lambda self, *attempt: (lost.append(attempt), retry(self, *attempt))[1])
    out = tmp_path / "cluster"
    configs = plan_comparison("maze", METHODS, range(4), STEPS, out)
    folders = [run_folder(out, config) for config in configs]

    def end_a_node():
        """Once two runs are finished: the first node that has a run which is not half done."""
        while len(nodes) == 2 and not over.wait(0.01):
            for folder in folders if sum(map(finished, folders)) >= 2 else ():
                with contextlib.suppress(OSError, ValueError, GeodesicError):  # the run began or ended now
                    if 0 < run_status(folder).step < STEPS / 2:
                        for node in nodes_of(folder, nodes):
                            nodes.remove(node)
                            made.remove_node(node, allow_graceful=False)
                            return

    thread = threading.Thread(target=end_a_node)
    thread.start()
    try:
        outcome = compare(configs, out, None, RayTasks(made.address), save_every=0.2)
    finally:
        over.set()
        thread.join()
    assert len(nodes) == 1
    assert lost
    assert (outcome.done, outcome.failed) == (8, {})
    configs = plan_comparison("maze", METHODS, range(4), STEPS, tmp_path / "here")
    assert compare(configs, tmp_path / "here", None, LocalProcesses(2)).done == 8
    for config in configs:
        there, here = (run_folder(tmp_path / name, config) for name in ("cluster", "here"))
        assert contents(there) == contents(here)
    assert list(tmp_path.rglob(".*")) == []


@pytest.mark.slow
def test_claims_and_folders_that_no_node_has_are_refused(tmp_path, cluster):
    made, _ = cluster
    configs = plan_comparison("maze", ["uniform"], range(2), 8000, tmp_path)
    jobs = [Job((config,), (run_folder(tmp_path / "not-there", config),)) for config in configs]
    began = time.monotonic()
    with pytest.raises(InvalidInput, match="expected a machine with 3 CPU a job, got at most 1"):
        list(RayTasks(made.address, cpus=3).run(jobs))
    with pytest.raises(InvalidInput, match="expected a machine with 1 GPU a job, got at most 0"):
        list(RayTasks(made.address, gpus=1).run(jobs))
    results = [result for result in RayTasks(made.address).run(jobs) if result is not None]
    failed = {name: reason for result in results for name, reason in result.failed.items()}
    assert sorted(failed) == ["uniform seed 0", "uniform seed 1"]
    assert all("not-there on storage that all machines see, got none on " in reason for reason in failed.values())
    assert time.monotonic() - began < 120
    assert not any(finished(folder) for job in jobs for folder in job.folders)
