"""Benchmarks: what they train, how they resume, what is added to them, and what they refuse."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

import geodesic as gd
from geodesic.cli import main
from geodesic.errors import InvalidInput, RunFailed
from geodesic.records import load_comparison
from geodesic.runs import benchmark
from geodesic.runs.benchmark import is_benchmark, load_benchmark, plan_benchmark, run_benchmark
from geodesic.runs.executors import ThisProcess
from geodesic.tasks import suites
from run_files import contents
from run_folders import write_benchmark

STEPS = {"maze": 1000, "four-rooms": 500}
METHODS = ["uniform", "target-only"]
MINE = """
import geodesic as gd

class MyMethod(gd.curricula.Uniform):
    '''Mine.'''
"""
SMALL = """
import sys
from dataclasses import replace
from geodesic.tasks import suites

known = suites.suite_of
suites.suite_of = lambda name: [replace(each, steps=20_000) for each in known(name) if each.task == "maze"]
from geodesic.cli import main

sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Of each suite, the Maze and the four rooms with a few steps."""
    known = suites.suite_of

    def short(name):
        return [replace(each, steps=STEPS[each.task]) for each in known(name) if each.task in STEPS]

    monkeypatch.setattr(suites, "suite_of", short)
    monkeypatch.setenv("GEODESIC_TRACK", "none")


def train(out, *arguments, **options):
    return run_benchmark(plan_benchmark(out, *arguments, **options), ThisProcess())


def written(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.csv")}


def test_a_benchmark_is_a_comparison_for_each_task(tmp_path):
    assert train(tmp_path / "out", METHODS, seeds=[3, 4]).done == 8
    suite, found = load_benchmark(tmp_path / "out")
    assert (suite, set(found)) == ("fast", set(STEPS))
    for name, (member, runs) in found.items():
        assert [(run.label, run.seed, run.steps) for run in runs] == [
            (label, seed, STEPS[name]) for label in ("target-only", "uniform") for seed in (3, 4)
        ]
        assert member.task == name
        assert runs[0].folder.parents[2] == tmp_path / "out" / name
    with_compare = gd.compare("maze", ["uniform"], steps=1000, seeds=[3, 4], out=tmp_path / "other", workers=0).runs
    assert contents(with_compare[0].folder) == contents(load_comparison(tmp_path / "out" / "maze")[2].folder)


def test_a_method_is_added_with_the_recorded_seeds_and_nothing_is_trained_again(tmp_path, capsys, monkeypatch):
    (tmp_path / "my_file.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    train(out, ["uniform"], tasks="maze", seeds=[5, 7])
    before = written(out)
    assert main(["benchmark", "--methods", "my_file.py:MyMethod", "--out", "out", "--workers", "1", "--quiet"]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    runs = load_comparison(out / "maze")
    assert {(run.label, run.seed) for run in runs} == {
        (name, seed) for name in ("uniform", "MyMethod") for seed in (5, 7)
    }
    assert {run.seed for run in load_comparison(out / "four-rooms")} == {0, 1, 2, 3, 4}
    shown = capsys.readouterr().out
    assert "MyMethod" in shown
    assert all(f"wrote out/{name}" in shown for name in ("benchmark.md", "aggregate.csv", "scores.csv", "report.html"))
    after = written(out)
    assert main(["benchmark", "--methods", "my_file.py:MyMethod", "--out", "out", "--quiet"]) == 0
    assert {path: at for path, at in written(out).items() if "runs" in path.parts} == {
        path: at for path, at in after.items() if "runs" in path.parts
    }


def test_seeds_are_added(tmp_path):
    train(tmp_path, ["uniform"], tasks="maze", seeds=[0])
    assert train(tmp_path, ["uniform"], tasks="maze", seeds=[0, 1]).done == 2
    assert {run.seed for run in load_benchmark(tmp_path)[1]["maze"][1]} == {0, 1}


def picky(problem):
    if len(problem.space.support) > 60:
        raise InvalidInput("expected at most 60 cells")
    return gd.curricula.Uniform(problem.space)


def test_a_method_is_left_out_where_a_task_refuses_it(tmp_path):
    plan = plan_benchmark(tmp_path, [picky, "uniform"], seeds=[0])
    assert dict(plan.left_out.keys()) == {"picky": "four-rooms"}
    assert "expected at most 60 cells" in plan.left_out["picky", "four-rooms"]
    assert {each.task.name: [config.label for config in each.configs] for each in plan.tasks} == {
        "four-rooms": ["uniform"],
        "maze": ["picky", "uniform"],
    }
    with pytest.raises(InvalidInput, match="expected at most 60 cells"):
        plan_benchmark(tmp_path, [picky, "uniform"], tasks="four-rooms", seeds=[0])


def test_folders_that_hold_something_else_are_refused(tmp_path):
    (tmp_path / "file.txt").write_text("something")
    with pytest.raises(InvalidInput, match="expected a new or empty folder or an earlier benchmark"):
        plan_benchmark(tmp_path)
    with pytest.raises(InvalidInput, match="expected a folder for the benchmark"):
        plan_benchmark(tmp_path / "file.txt")
    out = tmp_path / "out"
    train(out, ["uniform"], tasks="maze", seeds=[0])
    with pytest.raises(InvalidInput, match="holds a benchmark of the suite fast, got paper; try another --out"):
        plan_benchmark(out, suite="paper")
    (out / "benchmark.json").write_text('{"suite": "../.."}')
    with pytest.raises(InvalidInput, match="expected the suite in .* to be one of fast, paper, rivals, all"):
        plan_benchmark(out)


def test_an_unwritable_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidInput, match=r"cannot write to .*/file/out: "):
        train(tmp_path / "file" / "out", ["uniform"], tasks="maze", seeds=[0])


def test_folders_without_a_benchmark_are_refused(tmp_path):
    assert not is_benchmark(tmp_path)
    with pytest.raises(InvalidInput, match=r"to hold a benchmark, got no benchmark\.json"):
        load_benchmark(tmp_path)
    (tmp_path / "benchmark.json").write_text('{"suite": "fast"}')
    with pytest.raises(InvalidInput, match="expected runs of the suite fast in"):
        load_benchmark(tmp_path)
    with pytest.raises(InvalidInput, match="expected runs of maze with 1000 steps in .*, got one of maze with 777"):
        load_benchmark(write_benchmark(tmp_path / "out", {"maze": 777}, {"uniform": {}}))


def test_a_strangers_benchmark_runs_no_code(tmp_path, capsys):
    """A method of the folder's, and a task: the first is never imported, the second is refused."""
    marker = tmp_path / "executed"
    (tmp_path / "evil.py").write_text(f"open({str(marker)!r}, 'w')\nclass Evil: pass\ntask = Evil\n")
    evil = f"{tmp_path}/evil.py:Evil"
    out = write_benchmark(tmp_path / "out", STEPS, {"Evil": {"method": evil}, "uniform": {"method": "uniform"}})
    assert main(["report", str(out)]) == 0
    assert f"{tmp_path}/evil.py:Evil" in (out / "report.html").read_text()  # the command to copy
    assert gd.load_benchmark(out).table()
    for path in out.glob("maze/runs/*/seed-*/config.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "task": f"{tmp_path}/evil.py:task"}))
    assert main(["report", str(out)]) == 2
    shown = capsys.readouterr().err
    assert "expected runs of maze" in shown
    assert shown.count("\n") == 1
    assert not marker.exists()


def test_a_failed_run_is_named_and_the_others_are_trained(tmp_path, monkeypatch):
    def failing(configs, folder, *arguments, **options):
        if folder.name == "maze":
            return benchmark.Outcome(0, {"uniform seed 0": "no memory"})
        return real(configs, folder, *arguments, **options)

    real = benchmark.compare
    monkeypatch.setattr(benchmark, "compare", failing)
    outcome = train(tmp_path, ["uniform"], seeds=[0])
    assert (outcome.done, outcome.failed) == (1, {"maze uniform seed 0": "no memory"})
    with pytest.raises(RunFailed, match="maze uniform seed 0: no memory"):
        gd.benchmark(["uniform"], seeds=1, out=tmp_path, workers=0)


def test_a_killed_benchmark_resumes(tmp_path):
    (tmp_path / "small.py").write_text(SMALL)
    command = [sys.executable, "small.py", "benchmark", "--methods", "uniform", "--seeds", "2", "--out", "out"]
    command += ["--save-every", "0", "--workers", "1"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        deadline = time.monotonic() + 300
        while not list(tmp_path.glob("out/maze/runs/*/*/checkpoint/previous.npz")) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    assert not list(tmp_path.glob("out/maze/runs/*/*/summary.json"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert "2 runs in out, 0 of them finished" in done.stdout
    summary = json.loads((tmp_path / "out/maze/runs/uniform/seed-1/summary.json").read_text())
    assert summary["runs_at_once"] == 2  # the seeds of a method
    whole = gd.compare("maze", ["uniform"], steps=20_000, seeds=2, out=tmp_path / "whole", workers=0).runs
    assert contents(tmp_path / "out/maze/runs/uniform/seed-1") == contents(whole[1].folder)


def test_ctrl_c_says_how_to_resume(tmp_path, capsys, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(benchmark, "compare", interrupted)
    assert main(["benchmark", "--methods", "uniform", "--seeds", "2", "--out", str(tmp_path / "out"), "--quiet"]) == 1
    shown = capsys.readouterr().err
    assert "stopped; 0 of 4 runs are finished" in shown
    assert f"resume with: geodesic benchmark --methods uniform --seeds 2 --out {tmp_path / 'out'}" in shown


def test_the_python_function(tmp_path):
    mine = {"mine": lambda problem: gd.curricula.Uniform(problem.space)}
    result = gd.benchmark(mine, tasks=["maze"], seeds=[9], out=tmp_path, workers=0)
    assert list(result.tasks) == ["maze"]
    assert [(run.label, run.seed) for run in result.tasks["maze"].runs] == [("mine", 9)]
    assert [row.label for row in result.aggregate()] == ["mine"]
    assert "mine" in result.table()
    assert result.report() == tmp_path / "report.html"
    assert gd.load_benchmark(tmp_path) == result


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"methods": ["magic"]}, "expected method to be one of"),
        ({"methods": 3}, "expected methods as a list or as a dictionary by label, got 3"),
        ({"suite": "slow"}, "expected the suite to be one of"),
        ({"suite": 3}, "expected the suite to be one of"),
        ({"tasks": "maze"}, "expected tasks"),
        ({"tasks": ["u-maze"]}, "expected a task of the suite fast to be one of"),
        ({"tasks": []}, "expected tasks of the suite fast, got none"),
        ({"seeds": []}, "expected at least one seed, got none"),
        ({"seeds": [-1]}, "expected seed"),
        ({"out": 3}, "expected out"),
        ({"progress": "yes"}, "expected progress"),
        ({"workers": -1}, "expected workers"),
    ],
)
def test_wrong_arguments_are_refused_before_any_work(wrong, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        gd.benchmark(**{"methods": ["uniform"], "out": tmp_path / "out", **wrong})
    assert not (tmp_path / "out").exists()
