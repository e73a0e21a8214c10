"""The command line: what it prints, what it is told, and that every refusal is one line and exit code 2."""

import argparse
import os
import re
import subprocess
import sys
import time
from io import BytesIO, StringIO, TextIOWrapper

import numpy as np
import pytest
from rich.console import Console

import geodesic
from geodesic import curricula, learners, tasks
from geodesic.cli import main, parser
from geodesic.records import load_run
from geodesic.report import progress
from geodesic.report.progress import Display, JobBars, standing
from geodesic.runs.config import BACKENDS, METRICS, configure
from geodesic.runs.executors import Job, Update

FAILING = """
import geodesic as gd

def put(env, gravity):
    raise RuntimeError("no such knob")

task = gd.Task(
    env="CartPole-v1", contexts={"gravity": (5.0, 15.0)}, source={"gravity": 9.0}, target={"gravity": 12.0},
    threshold=100.0, apply=put,
)
"""


def test_list_names_everything(capsys):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for name in [*tasks.names(), *curricula.REGISTRY, *learners.REGISTRY, *BACKENDS, *METRICS]:
        assert f"  {name} " in shown


def test_a_terminal_without_unicode_gets_letters_that_it_has(monkeypatch):
    written = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(written, encoding="ascii"))
    assert main(["list"]) == 0
    sys.stdout.write("α 0.5 ± ▁█ \udcff")
    sys.stdout.flush()
    assert written.getvalue().decode("ascii").endswith("alpha 0.5 +- _# ?")


def test_the_version_is_the_packages(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"geodesic {geodesic.__version__}\n"


def subparsers(root):
    """A parser and all below it."""
    yield root
    for action in root._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from subparsers(sub)


def test_every_option_says_its_default():
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


def test_a_task_that_keeps_the_contract_is_fine(capsys):
    assert main(["check", "maze"]) == 0
    assert capsys.readouterr().out == "Task('maze', contexts row, column, threshold -15 on the return) is fine\n"


def test_a_task_that_does_not_is_told_what_to_add(tmp_path, capsys):
    (tmp_path / "knobless.py").write_text(FAILING)
    assert main(["check", f"{tmp_path / 'knobless.py'}:task"]) == 2
    shown = capsys.readouterr().err
    assert "no such knob" in shown
    assert shown.count("\n") == 1


def test_run_prints_a_summary_and_what_it_wrote(tmp_path, capsys):
    assert main(["run", "maze", "--steps", "1000", "--out", str(tmp_path / "r")]) == 0
    shown = capsys.readouterr().out
    assert "gradient on maze, seed 0: target return" in shown
    for name in (tmp_path / "r", tmp_path / "r" / "figures" / "run.png"):
        assert f"wrote {name}" in shown
        assert name.exists()


def test_a_run_without_a_folder_is_named_by_what_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    told = ["--metric", "graph", "--threshold", "-50", "--learner", "ppo:gamma=0.9", "--seed", "2"]
    assert main(["run", "maze", "--steps", "500", *told]) == 0
    folder = "runs/maze/gradient-metric=graph-threshold=-50-ppo-gamma=0.9-steps=500/seed-2"
    assert f"  wrote {folder}\n" in capsys.readouterr().out
    run = load_run(tmp_path / folder)
    assert run.label == "gradient:metric=graph:threshold=-50:ppo:gamma=0.9"
    assert run.finished


def test_a_finished_run_is_extended_by_a_command(tmp_path, capsys):
    common = ["run", "maze", "--seed", "1", "--quiet"]
    assert main([*common, "--steps", "1000", "--out", str(tmp_path / "a")]) == 0
    assert main([*common, "--steps", "2000", "--out", str(tmp_path / "b")]) == 0
    assert main(["run", "--resume", str(tmp_path / "a"), "--steps", "2000", "--quiet"]) == 0
    assert "after 2000 steps" in capsys.readouterr().out
    for name in ("episodes.csv", "evaluations.csv", "stages.csv", "curriculum.npz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


REFUSALS = {
    "unknown task": (
        ["run", "nowhere"],
        "expected a task (maze, point-mass, fetch-push, u-maze, e-maze, sparse-goal, point-mass-bimodal, point-mass-nd",
    ),
    "unknown module": (["run", "no.such.module:task"], "cannot import no.such.module: ModuleNotFoundError"),
    "unknown file": (["run", "no/such/file.py:task"], "expected a file with a task, found none at no/such/file.py"),
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
    "threshold NaN": (["run", "maze", "--threshold", "nan"], "expected a threshold that the target can reach"),
    "no task": (["run"], "expected a task: geodesic run TASK (or --resume DIR, or --config FILE)"),
    "no steps": (["run", "maze", "--steps", "0"], "expected steps to be a positive integer"),
    "steps in words": (["run", "maze", "--steps", "many"], "invalid int value"),
    "save in the past": (["run", "maze", "--save-every", "-1"], "expected --save-every of at least 0 seconds, got -1"),
    "alpha outside": (["plan", "maze", "--alphas", "0,2"], "expected alphas in [0, 1], got 2"),
    "alpha NaN": (["plan", "maze", "--alphas", "nan"], "expected alphas in [0, 1], got nan"),
    "alphas in words": (["plan", "maze", "--alphas", "some"], "expected --alphas as numbers separated by commas"),
    "plan of a learned metric": (["plan", "u-maze", "--metric", "embedding"], "is learned while training"),
    "resume nothing": (["run", "--resume", "no/such/folder"], "found no config.json"),
    "config of nothing": (["run", "--config", "no/such/file.json"], "expected a run"),
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
    "check nothing": (
        ["check", "nowhere"],
        "expected a task (maze, point-mass, fetch-push, u-maze, e-maze, sparse-goal, point-mass-bimodal, point-mass-nd",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_usage_is_one_line_and_exit_code_2(case, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, message = REFUSALS[case]
    try:
        code = main(arguments)
    except SystemExit as stop:  # argparse's own way out
        code = stop.code
    shown = capsys.readouterr().err
    assert code == 2
    assert message in shown
    assert shown.count("\n") == 1
    assert "Traceback" not in shown
    assert not list(tmp_path.iterdir())  # nothing was begun


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


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_used(tmp_path):
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


def test_an_interrupt_in_the_middle_of_an_import_ends_as_any_other(tmp_path):
    text = """
import sys
from geodesic import cli
cli._console = lambda: exec("raise KeyboardInterrupt")  # as where a dataclass is being made
sys.exit(cli.main(["list"]))
"""
    (tmp_path / "interrupted.py").write_text(text)
    done = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "geodesic: stopped; go on with: geodesic list\n")


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


# --- progress ------------------------------------------------------------------------------------------------------

LONG = "u-maze gradient:metric=return-lift:step=0.2:explore_steps=4000"
NOTES = [
    "compiling",
    standing(0, 0.0, float("nan")),
    standing(123, 0.95, -99.73),
    standing(12, 1.0, -1234567.8),
    "CheckpointError: damaged or foreign checkpoint /a/very/long/path/that/goes/on/and/on/checkpoint/latest.npz",
]


def shown_lines(text):
    """What was on the terminal, line by line, without the codes that colour it and move about."""
    return [line for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)) if line]


@pytest.mark.parametrize("soft_wrap", [False, True])
@pytest.mark.parametrize("note", NOTES)
def test_progress_fits_80_columns(note, soft_wrap):
    out = StringIO()
    console = Console(width=80, force_terminal=True, file=out, markup=False, highlight=False, soft_wrap=soft_wrap)
    with Display(console) as display:
        whole = display.add(LONG, 10**7)
        part = display.add("point-mass gradient seed 10", 300_000)
        display.update(whole, 5_000_000, note)
        display.update(part, 299_999, note)
    lines = shown_lines(out.getvalue())
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("u-maze gradi") and "…" in line for line in lines)
    assert any(note[:15] in line for line in lines)


def test_a_bar_tells_step_stage_alpha_and_return():
    out = StringIO()
    with Display(Console(width=80, force_terminal=True, file=out)) as display:
        line = display.add("maze gradient", 1000)
        display.update(line, 250, standing(3, 0.3, -54.321))
    last = shown_lines(out.getvalue())[-1]
    assert last.startswith("maze gradient ")
    assert " 25% stage 3 α 0.30 target -54.3" in last


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by hand."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_plain_lines_where_there_is_no_terminal(clock):
    out = StringIO()
    with Display(Console(file=out, width=200)) as display:
        whole = display.add("all runs", 1000)
        whole.began = clock[0]
        part = display.add("one of them", 500)
        display.update(whole, 100, "just begun")  # too early for a line
        clock[0] += progress.EVERY + 1
        display.update(part, 200, "not the whole")
        display.update(whole, 250, "2 jobs done")
        display.update(whole, 251, "2 jobs done")  # too soon after the last
        clock[0] += progress.EVERY + 1
        display.update(whole, 1000, "4 jobs done")
    assert out.getvalue() == (
        "all runs: 250 of 1000 steps, 2 jobs done, about 18 s left\nall runs: 1000 of 1000 steps, 4 jobs done\n"
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_quiet_is_quiet(clock, terminal):
    out = StringIO()
    with Display(Console(file=out, force_terminal=terminal), quiet=True) as display:
        line = display.add("all runs", 1000)
        clock[0] += 100
        display.update(line, 500, "half of it")
    assert out.getvalue() == ""


@pytest.mark.parametrize("quiet", [False, True])
def test_a_command_says_where_it_stands_unless_told_not_to(tmp_path, monkeypatch, capsys, quiet):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    assert main(["run", "maze", "--steps", "1500", "--out", str(tmp_path), *["--quiet"] * quiet]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if " steps, " in line]
    if quiet:
        assert told == []
    else:
        assert [line.split(",")[0] for line in told] == [
            f"maze gradient: {done} of 1500 steps" for done in (500, 1000, 1500)
        ]
        assert all(re.search(r"stage \d+ α \d\.\d\d target -\d", line) for line in told)
    assert lines[-3].startswith("  wrote ")


def test_a_comparison_has_a_line_for_all_and_one_for_each_job(tmp_path):
    config = configure("maze", steps=1000)
    jobs = [Job((config.replace(seed=seed),), (tmp_path / str(seed),)) for seed in range(2)]
    bars = JobBars(Display(Console(file=StringIO()), quiet=True), 2000)
    bars(jobs[0], Update(0, 400, "stage 1"))
    bars(jobs[1], Update(1, 100, "stage 0"))
    assert (bars.whole.done, bars.whole.note) == (500, "0 jobs done")
    assert (bars.lines[0].name, bars.lines[0].total) == ("gradient seed 0", 1000)
    bars(jobs[1], Update(1, 0, "taken up again"))  # a worker that was replaced does not go back
    assert bars.lines[1].done == 100
    bars(jobs[0], Update(0, 1000, ended=True))
    assert (bars.whole.done, bars.whole.note) == (1100, "1 jobs done")
    bars(jobs[1], Update(1, ended=True, failed={"gradient seed 1": "RunFailed: no room"}))
    assert bars.lines[1].shown
    assert bars.lines[1].note == "RunFailed: no room"
