"""The command line: what it prints, and that every error is one line and exit code 2."""

import argparse
import os
import re
import resource
import subprocess
import sys
from io import BytesIO, TextIOWrapper

import numpy as np
import pytest

import geodesic
from geodesic import curricula, learners, metrics, tasks
from geodesic.analysis.verdict import verdict_of
from geodesic.cli import main, parser
from geodesic.numpy_policy import load_policy
from geodesic.records import load_comparison, load_run
from geodesic.records.config import BACKENDS
from geodesic.report import progress
from geodesic.tasks import suites

FAILING = """
import geodesic as gd

def set_gravity(env, gravity):
    raise RuntimeError("no such parameter")

task = gd.Task(
    env="CartPole-v1", contexts={"gravity": (5.0, 15.0)}, source={"gravity": 9.0}, target={"gravity": 12.0},
    threshold=100.0, set_context=set_gravity,
)
"""


def test_list_names_everything(capsys):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for name in [
        *tasks.names(),
        *suites.SUITES,
        *curricula.REGISTRY,
        *learners.names(),
        *BACKENDS,
        *metrics.descriptions(),
    ]:
        assert f"  {name} " in shown


def test_a_terminal_without_unicode_gets_replacements(monkeypatch):
    written = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(written, encoding="ascii"))
    assert main(["list"]) == 0
    sys.stdout.write("α 0.5 ± ▁█ \udcff")
    sys.stdout.flush()
    assert written.getvalue().decode("ascii").endswith("alpha 0.5 +- _# ?")


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"geodesic {geodesic.__version__}\n"


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("words", [["list"], ["--version"], ["watch", "--help"]])
def test_a_full_output_is_one_line(words, buffered):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment |= {} if buffered else {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "geodesic", *words]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert (done.returncode, done.stderr) == (1, "geodesic: cannot write the output: No space left on device\n")


@pytest.mark.slow
def test_a_full_disk_is_one_line(tmp_path):
    command = [sys.executable, "-m", "geodesic", "run", "maze", "--steps", "500", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [*command, "--quiet"],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert done.returncode == 1
    assert done.stderr == f"geodesic: cannot write {tmp_path / 'run' / 'curriculum.npz'}: File too large\n"


@pytest.mark.parametrize("error", [MemoryError("40 GiB"), RuntimeError("RESOURCE_EXHAUSTED: 40 GiB")])
def test_too_little_memory_is_one_line(monkeypatch, capsys, error):
    """NumPy's error, and what JAX raises."""

    def fail(options, console):
        raise error

    monkeypatch.setattr("geodesic.cli.commands.list_all", fail)
    assert main(["list"]) == 1
    assert capsys.readouterr().err == f"geodesic: out of memory: {error}\n"


def test_a_closed_output_is_no_error():
    done = subprocess.run(f"{sys.executable} -m geodesic list >&-", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("mask", [0o077, 0o002])
def test_every_file_respects_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        assert main(["run", "maze", "--steps", "500", "--out", str(tmp_path / "run"), "--quiet"]) == 0
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) > 8
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {oct(0o666 & ~mask)}


def subparsers(root):
    """A parser and all parsers below it."""
    yield root
    for action in root._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from subparsers(sub)


def test_every_option_states_its_default():
    seen = 0
    for each in subparsers(parser()):
        for action in each._actions:
            if action.option_strings and action.dest not in ("help", "version"):
                shown = each._get_formatter()._expand_help(action)
                assert "default" in shown, (each.prog, action.option_strings)
                if action.default not in (None, False, "", argparse.SUPPRESS):
                    assert f"default: {action.default}" in shown, (each.prog, action.option_strings)
                seen += 1
    assert seen > 25


def test_every_command_has_a_help_text(capsys):
    for each in list(subparsers(parser()))[1:]:
        with pytest.raises(SystemExit) as stop:
            main([each.prog.split()[1], "--help"])
        assert stop.value.code == 0
        assert each.description in " ".join(capsys.readouterr().out.split())


def test_plan_draws_the_maze(tmp_path, capsys):
    assert main(["plan", "maze", "--alphas", "0,.5,1", "--out", str(tmp_path)]) == 0
    assert "W(source, target) = 13.05 under contextual" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["distances.png", "plan.png"]


def test_plan_under_another_metric(tmp_path, capsys):
    assert main(["plan", "point-mass", "--metric", "l2", "--alphas", "0,1", "--out", str(tmp_path)]) == 0
    assert "under l2" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["plan.png"]


def test_a_valid_task_passes_the_check(capsys):
    assert main(["check", "maze"]) == 0
    *tried, last = capsys.readouterr().out.splitlines()
    assert last == "Task('maze', contexts row, column, threshold -15 on the return) is valid"
    assert any("episodes with random actions" in line for line in tried)


def test_the_check_of_an_invalid_task_says_what_is_wrong(tmp_path, capsys):
    (tmp_path / "without_gravity.py").write_text(FAILING)
    assert main(["check", f"{tmp_path / 'without_gravity.py'}:task"]) == 2
    shown = capsys.readouterr().err
    assert "no such parameter" in shown
    assert shown.count("\n") == 1


def test_run_prints_a_summary_and_what_it_wrote(tmp_path, capsys):
    assert main(["run", "maze", "--steps", "1000", "--out", str(tmp_path / "r")]) == 0
    shown = capsys.readouterr().out
    assert "auto on maze, seed 0: target return" in shown
    assert f"{verdict_of([load_run(tmp_path / 'r')])}\n  wrote" in shown
    for name in (tmp_path / "r", tmp_path / "r" / "figures" / "run.png"):
        assert f"wrote {name}" in shown
        assert name.exists()


def test_the_default_folder_is_named_after_the_settings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--metric", "graph", "--threshold", "-50", "--learner", "ppo:gamma=0.9", "--seed", "2"]
    assert main(["run", "maze", "--steps", "500", *options]) == 0
    folder = "runs/maze/auto-metric=graph-threshold=-50-ppo-gamma=0.9-steps=500/seed-2"
    assert f"  wrote {folder}\n" in capsys.readouterr().out
    run = load_run(tmp_path / folder)
    assert run.label == "auto:metric=graph:threshold=-50:ppo:gamma=0.9"
    assert run.finished


def test_a_finished_run_is_extended_by_a_command(tmp_path, capsys):
    common = ["run", "maze", "--seed", "1", "--quiet"]
    assert main([*common, "--steps", "1000", "--out", str(tmp_path / "a")]) == 0
    assert main([*common, "--steps", "2000", "--out", str(tmp_path / "b")]) == 0
    assert main(["run", "--resume", str(tmp_path / "a"), "--steps", "2000", "--quiet"]) == 0
    assert "after 2000 steps" in capsys.readouterr().out
    for name in ("episodes.csv", "evaluations.csv", "stages.csv", "curriculum.npz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


OWN = """
from dataclasses import dataclass

from geodesic.curricula import Uniform
from geodesic.learners.ppo import PPO


@dataclass(frozen=True)
class Mine(Uniform):
    pass


@dataclass(frozen=True)
class Slow(PPO):
    pass


def metric(task, threshold):
    return task.make_metric("graph", threshold)
"""


def test_methods_metrics_and_learners_of_a_file_train_and_resume(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    method = ["--method", "mine.py:Mine:particles=50", "--learner", "mine.py:Slow:n_envs=2"]
    assert main(["run", "maze", *method, "--steps", "500", "--out", "a", "--quiet"]) == 0
    assert main(["run", "--resume", "a", "--steps", "1000", *method, "--quiet"]) == 0
    assert (load_run("a").config.steps, load_run("a").config.options["particles"]) == (1000, 50)
    capsys.readouterr()
    assert main(["run", "--resume", "a", "--steps", "1500", "--method", "mine.py:Mine:particles=60"]) == 2
    assert "expected the run's own method" in capsys.readouterr().err
    metric = ["--method", "gradient:step=0.5", "--metric", "mine.py:metric"]
    assert main(["run", "maze", *metric, "--steps", "500", "--out", "b", "--quiet"]) == 0
    assert main(["run", "--resume", "b", "--steps", "1000", *metric, "--quiet"]) == 0


def test_a_comparison_takes_methods_of_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    methods = ["--methods", "mine.py:Mine:particles=50,gradient:pace=particles", "--seeds", "1", "--steps", "500"]
    assert main(["compare", "maze", *methods, "--out", "c", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "Mine:particles=50" in shown
    assert f"\n\n{verdict_of(load_comparison('c'))}\n  wrote" in shown


UNSTATED = """
from known_returns import varied_returns

task = varied_returns(source=None, threshold="auto", name="unstated")
"""


def test_a_task_without_source_and_threshold_is_trained_and_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unstated.py").write_text(UNSTATED)
    assert main(["check", "unstated.py:task"]) == 0
    assert main(["run", "unstated.py:task", "--steps", "400", "--out", "a", "--quiet"]) == 0
    config = load_run("a").config
    assert (config.method, config.threshold, config.solved) == ("auto", "auto", None)
    options = ["--methods", "auto,uniform", "--seeds", "1", "--steps", "400", "--cvar", "0.5", "--out", "c", "--quiet"]
    assert main(["compare", "unstated.py:task", *options]) == 0
    shown = capsys.readouterr().out
    assert "unstated, 400 steps, no threshold" in shown
    for text in (shown, *((tmp_path / "c" / name).read_text() for name in ("table.csv", "table.tex"))):
        assert "uniform" in text
        assert not re.search(r"\bnan\b", text, re.IGNORECASE)


def test_a_threshold_may_be_found_during_training(tmp_path, capsys):
    run = ["--threshold", "auto", "--quiet"]
    assert main(["run", "maze", *run, "--steps", "500", "--out", str(tmp_path / "a")]) == 0
    config = load_run(tmp_path / "a").config
    assert (config.label, config.threshold, config.solved) == ("auto:threshold=auto", "auto", -17.333)
    again = ["--config", str(tmp_path / "a" / "config.json"), "--out", str(tmp_path / "b")]
    assert main(["run", *again, *run]) == 0
    assert load_run(tmp_path / "b").config == config
    assert main(["run", "--resume", str(tmp_path / "a"), "--steps", "1000", *run]) == 0
    assert load_run(tmp_path / "a").config.threshold == "auto"
    capsys.readouterr()
    assert main(["run", "--resume", str(tmp_path / "a"), "--steps", "1500", "--threshold", "-15"]) == 2
    assert "expected the run's own threshold 'auto', got -15.0" in capsys.readouterr().err


def test_export_writes_the_best_policy_of_a_run_or_a_comparison(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed in ("1", "2"):
        out = ["--out", f"all/runs/uniform/seed-{seed}", "--seed", seed, "--quiet"]
        assert main(["run", "maze", "--method", "uniform", "--steps", "500", *out]) == 0
    capsys.readouterr()
    assert main(["export", "all/runs/uniform/seed-1"]) == 0
    assert capsys.readouterr().out == "  wrote policy.npz\n  wrote numpy_policy.py\n"
    assert load_policy("policy.npz").about["seed"] == 1
    assert main(["export", "all", "--out", "x/p.npz", "--seed", "2", "--method", "uniform", "--which", "last"]) == 0
    about = load_policy("x/p.npz").about
    assert about == {"task": "maze", "method": "uniform", "seed": 2, "policy": "last", "step": 500}
    for words, message in (
        (["all", "--seed", "3"], "expected one of the seeds 1, 2, got 3"),
        (["all", "--method", "auto"], "expected the method to be one of uniform; got 'auto'"),
        (["all", "--out", "policy.pt"], "expected a file that ends with .npz, .onnx, .zip, got policy.pt"),
        (["nowhere"], "expected nowhere to hold config.json or runs"),
    ):
        assert main(["export", *words]) == 2
        assert message in capsys.readouterr().err


REFUSALS = {
    "unknown task": (
        ["run", "nowhere"],
        "expected task to be one of ",
    ),
    "unknown module": (["run", "no.such.module:task"], "cannot import no.such.module: ModuleNotFoundError"),
    "unknown file": (["run", "no/such/file.py:task"], "expected a Python file at no/such/file.py, found none"),
    "unknown method": (["run", "maze", "--method", "magic"], "expected method to be one of"),
    "unknown learner": (["run", "maze", "--learner", "abacus"], "expected learner to be one of"),
    "unknown backend": (["run", "maze", "--backend", "abacus"], "expected backend to be one of"),
    "unknown metric": (["run", "maze", "--metric", "taxi"], "expected metric of maze to be one of"),
    "metric without use": (["run", "maze", "--method", "uniform", "--metric", "l2"], "expected a method that uses a"),
    "bad option": (["run", "maze", "--method", "gradient:speed=1"], "expected an option of Gradient"),
    "bad learner option": (["run", "maze", "--learner", "ppo:speed=1"], "expected an option of ppo"),
    "learner in words": (["run", "maze", "--learner", "ppo:rollout=many"], "expected rollout to be a positive integer"),
    "discrete actions": (["run", "maze", "--learner", "sac", "--steps", "500"], "expected a Box action space"),
    "step of zero": (["run", "maze", "--method", "gradient:step=0"], "expected step in (0, 1], got 0"),
    "unreachable threshold": (["run", "maze", "--threshold", "-3"], "expected a threshold that the target can reach"),
    "threshold NaN": (["run", "maze", "--threshold", "nan"], "expected threshold to be a finite number, got nan"),
    "a folder that is not UTF-8": (["run", "maze", "--out", "bad\udcff"], r"as a path in UTF-8, got 'bad\udcff'"),
    "threshold in words": (["run", "maze", "--threshold", "high"], "expected a number or \"auto\", got 'high'"),
    "no task": (["run"], "expected a task: geodesic run TASK (or --resume DIR, or --config FILE)"),
    "no steps": (["run", "maze", "--steps", "0"], "expected steps to be a positive integer"),
    "steps in words": (["run", "maze", "--steps", "many"], "invalid int value"),
    "save in the past": (["run", "maze", "--save-every", "-1"], "expected --save-every of at least 0 seconds, got -1"),
    "alpha outside": (["plan", "maze", "--alphas", "0,2"], "expected alphas in [0, 1], got 2"),
    "alpha NaN": (["plan", "maze", "--alphas", "nan"], "expected alphas in [0, 1], got nan"),
    "alphas in words": (["plan", "maze", "--alphas", "some"], "expected --alphas as numbers separated by commas"),
    "plan of a learned metric": (["plan", "u-maze", "--metric", "embedding"], "is learned while training"),
    "resume nothing": (["run", "--resume", "no/such/folder"], "expected no/such/folder to be a run folder"),
    "config of nothing": (
        ["run", "--config", "no/such/file.json"],
        "expected a run's configuration in no/such/file.json",
    ),
    "unknown command": (["dance"], "invalid choice"),
    "no command": ([], "the following arguments are required: COMMAND"),
    "unknown option": (["run", "maze", "--speed", "3"], "unrecognized arguments: --speed 3"),
    "no seeds": (["compare", "maze", "--seeds", "0"], "expected at least one seed"),
    "no workers": (["compare", "maze", "--workers", "0"], "expected --workers of at least 1, got 0"),
    "none at once": (["compare", "maze", "--at-once", "0"], "expected --at-once of at least 1, got 0"),
    "compare magic": (["compare", "maze", "--methods", "gradient,magic"], "expected method to be one of"),
    "unknown executor": (["compare", "maze", "--executor", "cloud"], "invalid choice: 'cloud'"),
    "save when it is not a number": (["run", "maze", "--save-every", "nan"], "of at least 0 seconds, got nan"),
    "seeds without end": (
        ["compare", "maze", "--seeds", "9" * 20],
        "expected --seeds to be an integer in [0, 10",
    ),
    "a record in a folder": (["compare", "maze", "--record", "."], "expected a Markdown file at ."),
    "unknown suite": (["benchmark", "--suite", "slow"], "argument --suite: invalid choice: 'slow'"),
    "a task of another suite": (["benchmark", "--tasks", "u-maze"], "expected a task of the suite fast to be one of"),
    "benchmark magic": (["benchmark", "--methods", "magic"], "expected method to be one of"),
    "a method that fits no task": (["benchmark", "--methods", "gradient:speed=1"], "expected an option of Gradient"),
    "a benchmark without seeds": (["benchmark", "--seeds", "0"], "expected --seeds to be a positive integer, got 0"),
    "a first seed below 0": (["benchmark", "--first-seed", "-1"], "expected seed"),
    "a benchmark in the clouds": (["benchmark", "--gpus", "1"], "expected --gpus with --executor ray only"),
    "check nothing": (
        ["check", "nowhere"],
        "expected task to be one of ",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_usage_is_one_line_and_exit_code_2(case, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, message = REFUSALS[case]
    try:
        code = main(arguments)
    except SystemExit as stop:  # raised by argparse
        code = stop.code
    shown = capsys.readouterr().err
    assert code == 2
    assert message in shown
    assert shown.count("\n") == 1
    assert "Traceback" not in shown
    assert not list(tmp_path.iterdir())  # nothing was started


def test_an_unwritable_folder_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert main(["run", "maze", "--steps", "1000", "--out", str(tmp_path / "file" / "run")]) == 2
    assert "cannot write to" in capsys.readouterr().err


def test_a_folder_that_holds_a_run_is_refused(tmp_path, capsys):
    for code in (0, 2):
        assert main(["run", "maze", "--steps", "500", "--out", str(tmp_path)]) == code
    shown = capsys.readouterr().err
    assert shown == f"geodesic: {tmp_path} already holds a run; try --resume {tmp_path}, or another --out\n"


def test_a_damaged_checkpoint_exits_2_in_one_line(tmp_path, capsys):
    assert main(["run", "maze", "--steps", "500", "--out", str(tmp_path)]) == 0
    (tmp_path / "summary.json").unlink()
    for name in ("latest.npz", "previous.npz"):
        (tmp_path / "checkpoint" / name).write_bytes(np.random.default_rng(0).bytes(100))
    capsys.readouterr()
    assert main(["run", "--resume", str(tmp_path)]) == 2
    shown = capsys.readouterr().err
    assert "damaged or foreign file" in shown
    assert shown.count("\n") == 1


def test_a_damaged_newest_checkpoint_is_named_and_the_previous_one_used(tmp_path):
    command = [sys.executable, "-m", "geodesic", "run"]
    subprocess.run([*command, "maze", "--steps", "1000", "--out", tmp_path / "run", "--quiet"], check=True)
    whole = {name: (tmp_path / "run" / name).read_bytes() for name in ("episodes.csv", "evaluations.csv")}
    (tmp_path / "run" / "summary.json").unlink()
    latest = tmp_path / "run" / "checkpoint" / "latest.npz"
    latest.write_bytes(latest.read_bytes()[:-1])
    again = [*command, "--resume", str(tmp_path / "run"), "--quiet"]
    done = subprocess.run(again, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.startswith(f"geodesic: damaged or foreign file {latest}: ")
    assert done.stderr.endswith("previous.npz, the checkpoint before it\n")
    assert done.stderr.count("\n") == 1
    assert {name: (tmp_path / "run" / name).read_bytes() for name in whole} == whole


def test_a_run_killed_before_its_figures_draws_them_when_it_is_resumed(tmp_path, capsys):
    assert main(["run", "maze", "--steps", "500", "--out", str(tmp_path), "--quiet"]) == 0
    figures = sorted((tmp_path / "figures").iterdir())
    assert main(["run", "--resume", str(tmp_path)]) == 2
    assert "is finished; nothing to resume" in capsys.readouterr().err
    before = figures[-1].read_bytes()
    figures[-1].unlink()
    (tmp_path / "figures" / ".run.png-abc.tmp").write_bytes(b"half")
    assert main(["run", "--resume", str(tmp_path)]) == 0
    assert f"wrote {figures[-1]}" in capsys.readouterr().out
    assert sorted((tmp_path / "figures").iterdir()) == figures
    assert figures[-1].read_bytes() == before


def test_an_interrupt_during_an_import_is_handled_like_any_other(tmp_path):
    text = """
import sys
from geodesic import cli
cli._console = lambda: exec("raise KeyboardInterrupt")  # as while a dataclass is made
sys.exit(cli.main(["list"]))
"""
    (tmp_path / "interrupted.py").write_text(text)
    done = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "geodesic: stopped; resume with: geodesic list\n")


def test_no_traceback_reaches_a_user_from_a_fresh_process():
    done = subprocess.run(
        [sys.executable, "-m", "geodesic", "run", "maze", "--method", "magic"],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("geodesic: expected method to be one of")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_command_shows_progress_unless_it_is_quiet(tmp_path, monkeypatch, capsys, quiet):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.01)
    assert main(["run", "maze", "--steps", "1500", "--out", str(tmp_path), *["--quiet"] * quiet]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [re.fullmatch(r"maze auto: (\d+) of 1500 steps, (.*)", line) for line in lines if " steps, " in line]
    if quiet:
        assert shown == []
    else:
        steps = [int(match[1]) for match in shown]
        assert steps == sorted(steps)
        assert (steps[0], steps[-1]) == (0, 1500)
        assert shown[0][2] == "compiling"
        assert re.fullmatch(r"stage \d+ alpha \d\.\d\d target -\d+(\.\d+)?", shown[-1][2])
    assert lines[-3].startswith("  wrote ")
