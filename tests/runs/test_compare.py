"""Comparisons: what is kept, what goes on, and what happens when a worker dies."""

import json
import subprocess
import sys
import time

import pytest
from geodesic.experiments import compare as module
from geodesic.experiments.compare import Task, compare, do_task, plan_comparison, run_folder
from geodesic.experiments.results import load_comparison

from geodesic.cli import main
from geodesic.errors import InvalidInput
from geodesic.report.text import record, sparklines

STEPS = 1000
METHODS = ["gradient:step=0.5", "target-only"]


def plan(out, methods=METHODS, seeds=(0, 1)):
    return plan_comparison("maze", methods, seeds, STEPS, out)


def test_a_comparison_does_every_run_once_and_keeps_what_is_done(tmp_path):
    configs = plan(tmp_path)
    heard = []
    outcome = compare(configs, tmp_path, workers=2, listen=lambda task, update: heard.append((task.name, update)))
    assert (outcome.done, outcome.failed) == (4, {})
    runs = load_comparison(tmp_path)
    assert sorted((run.label, run.seed) for run in runs) == [
        ("gradient:step=0.5", 0), ("gradient:step=0.5", 1), ("target-only", 0), ("target-only", 1),
    ]  # fmt: skip
    assert all(run.finished for run in runs)
    assert {name for name, update in heard if update.ended} == {f"{c.label} seed {c.seed}" for c in configs}
    assert len(sparklines(runs)) == 3
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.csv")}
    more = plan(tmp_path, seeds=(0, 1, 2))
    broken = run_folder(tmp_path, more[0])
    (broken / "summary.json").unlink()  # as if it had been cut off after its last checkpoint
    assert compare(more, tmp_path, workers=1, at_once=4).done == 6
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {path for path in before if after[path] != before[path]} <= set(broken.glob("*.csv"))
    assert len(load_comparison(tmp_path)) == 6


def test_a_run_is_the_same_alone_and_in_a_worker(tmp_path):
    configs = plan(tmp_path / "pool", METHODS[:1], (3,))
    compare(configs, tmp_path / "pool", workers=1)
    do_task(Task(tuple(configs), (tmp_path / "alone",)), lambda steps, note: None)
    pooled = run_folder(tmp_path / "pool", configs[0])
    for name in ("episodes.csv", "evaluations.csv", "stages.csv", "curriculum.npz"):
        assert (pooled / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


class Stand_in:
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
def test_the_task_of_a_dead_or_silent_worker_is_tried_again_and_then_given_up(tmp_path, monkeypatch, alive):
    monkeypatch.setattr(module, "STALL_SECONDS", -1.0 if alive else 1e9)

    class Worker(module.Worker):
        def __init__(self, context, updates):
            self.process, self.task, self.heard = Stand_in(alive), None, 0.0

        def give(self, index, task):
            self.task = index

    monkeypatch.setattr(module, "Worker", Worker)
    configs = plan(tmp_path, METHODS[:1], (0,))
    outcome = compare(configs, tmp_path, workers=1)
    why = "fell silent" if alive else "died with exit code -9"
    assert outcome.failed == {"gradient:step=0.5 seed 0": f"its worker {why}, 3 times"}
    assert outcome.done == 0


def test_a_damaged_run_fails_alone_and_the_command_says_so(tmp_path, capsys):
    configs = plan(tmp_path, ["target-only"], (0, 1))
    compare(configs, tmp_path, workers=1)
    damaged = run_folder(tmp_path, configs[0])
    (damaged / "summary.json").unlink()
    (damaged / "checkpoint" / "latest.npz").write_bytes(b"no checkpoint")
    arguments = ["compare", "maze", "--methods", "target-only", "--seeds", "2", "--steps", str(STEPS)]
    assert main([*arguments, "--out", str(tmp_path), "--workers", "1"]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("geodesic: target-only seed 0: CheckpointError: damaged or foreign checkpoint")
    assert shown.err.count("\n") == 1
    assert "1 of 2" in shown.out
    assert (damaged / "checkpoint" / "latest.npz").read_bytes() == b"no checkpoint"


def test_another_comparison_is_not_mixed_in(tmp_path):
    plan(tmp_path)
    with pytest.raises(InvalidInput, match="holds another comparison"):
        plan_comparison("maze", METHODS, [0], STEPS + 1, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(InvalidInput, match="expected a new or empty folder or an earlier comparison"):
        plan(other)
    assert (other / "thesis.txt").read_text() == "precious"
    assert json.loads((tmp_path / "comparison.json").read_text())["env"] == "maze"


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
