"""Ray on two machines that are one: what happens when a machine dies, and what is said where Ray cannot be had."""

import json
import sys
import time
from pathlib import Path

import pytest
from lasting import contents

from geodesic.cli import main
from geodesic.errors import InvalidInput, MissingExtra
from geodesic.records import finished
from geodesic.records.lock import LOCK
from geodesic.runs.compare import compare, plan_comparison, run_folder
from geodesic.runs.executors import Job, LocalProcesses, RayTasks
from geodesic.runs.executors.ledger import Ledger

STEPS = 40_000  # some seconds, so that a run is under way when its machine dies
METHODS = ["gradient:step=0.5:window=5", "uniform"]


def test_a_missing_ray_is_an_error_that_says_what_to_install(tmp_path, monkeypatch, capsys):
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
def test_options_that_do_not_go_together_are_refused(tmp_path, capsys, words, message):
    assert main(["compare", "maze", *words, "--out", str(tmp_path / "never")]) == 2
    assert capsys.readouterr().err == f"geodesic: {message}\n"
    assert not (tmp_path / "never").exists()


@pytest.fixture
def cluster():
    """A head without a core for jobs, and two nodes with one each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    yield made, nodes
    made.shutdown()


def machines_of(job, nodes):
    """The node on which a job runs: its process, which holds the run's lock, is a child of the node's raylet. None once
    the job is over."""
    try:
        process = json.loads((job.folders[0] / LOCK).read_text())["process"]
        parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return []
    return [node for node in nodes if node.all_processes["raylet"][0].process.pid == parent]


@pytest.mark.slow
def test_a_sweep_survives_the_death_of_a_machine(tmp_path, cluster, monkeypatch):
    """Eight runs; a node dies in the middle, with a run on it. Byte for byte what processes here leave."""
    made, nodes = cluster
    ended, lost = [], []
    lose = Ledger.lose
    monkeypatch.setattr(Ledger, "lose", lambda self, *job: (lost.append(job), lose(self, *job)))

    def listen(job, update):
        if update.ended:
            ended.append(job.name)
        elif len(ended) >= 2 and len(nodes) == 2 and 0 < update.steps < STEPS / 2:
            for died in machines_of(job, nodes):
                nodes.remove(died)
                made.remove_node(died, allow_graceful=False)

    configs = plan_comparison("maze", METHODS, range(4), STEPS, tmp_path / "cluster")
    outcome = compare(configs, tmp_path / "cluster", None, RayTasks(made.address), listen=listen, save_every=0.2)
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
def test_what_no_machine_has_or_sees_is_refused(tmp_path, cluster):
    made, _ = cluster
    configs = plan_comparison("maze", ["uniform"], range(2), 8000, tmp_path)
    jobs = [Job((config,), (run_folder(tmp_path / "not-there", config),)) for config in configs]
    quiet = lambda job, update: None  # noqa: E731
    began = time.monotonic()
    with pytest.raises(InvalidInput, match="expected a machine with 3 CPU a job, got at most 1"):
        RayTasks(made.address, cpus=3).run(jobs, quiet)
    with pytest.raises(InvalidInput, match="expected a machine with 1 GPU a job, got at most 0"):
        RayTasks(made.address, gpus=1).run(jobs, quiet)
    failed = RayTasks(made.address).run(jobs, quiet)
    assert sorted(failed) == ["uniform seed 0", "uniform seed 1"]
    assert all("not-there on storage that all machines see, got none on " in why for why in failed.values())
    assert time.monotonic() - began < 120
    assert not any(finished(folder) for job in jobs for folder in job.folders)
