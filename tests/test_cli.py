"""The command line: what it prints, and that every refusal is one line and exit code 2."""

import os
import subprocess
import sys

import numpy as np
import pytest
from geodesic.experiments.config import LEARNERS, METRICS

from geodesic import curricula, envs
from geodesic.cli import main


def test_list_names_everything(capsys):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for name in [*envs.REGISTRY, *curricula.REGISTRY, *LEARNERS, *METRICS]:
        assert f"  {name} " in shown


def test_plan_draws_the_maze(tmp_path, capsys):
    assert main(["plan", "maze", "--alphas", "0,.5,1", "--out", str(tmp_path)]) == 0
    assert "W(source, target) = 13.05 under contextual" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["distances.png", "plan.png"]


def test_run_prints_a_summary_and_what_it_wrote(tmp_path, capsys):
    assert main(["run", "maze", "--steps", "1000", "--out", str(tmp_path / "r")]) == 0
    shown = capsys.readouterr().out
    assert "gradient on maze, seed 0: target return" in shown
    for name in (tmp_path / "r", tmp_path / "r" / "figures" / "run.png"):
        assert f"wrote {name}" in shown
        assert name.exists()


REFUSALS = {
    "unknown environment": (["run", "nowhere"], "expected environment to be one of"),
    "unknown method": (["run", "maze", "--method", "magic"], "expected method to be one of"),
    "unknown learner": (["run", "maze", "--learner", "abacus"], "expected learner to be one of"),
    "unknown metric": (["run", "maze", "--metric", "taxi"], "expected metric of maze to be one of"),
    "bad option": (["run", "maze", "--method", "gradient:speed=1"], "expected an option of Gradient"),
    "step of zero": (["run", "maze", "--method", "gradient:step=0"], "expected step in (0, 1], got 0"),
    "unreachable threshold": (["run", "maze", "--threshold", "-3"], "expected a threshold that the target can reach"),
    "threshold NaN": (["run", "maze", "--threshold", "nan"], "expected a threshold that the target can reach"),
    "no environment": (["run"], "expected an environment"),
    "no steps": (["run", "maze", "--steps", "0"], "expected steps to be a positive integer"),
    "steps in words": (["run", "maze", "--steps", "many"], "invalid int value"),
    "alpha outside": (["plan", "maze", "--alphas", "0,2"], "expected t in [0, 1]"),
    "alpha NaN": (["plan", "maze", "--alphas", "nan"], "expected t in [0, 1]"),
    "alphas in words": (["plan", "maze", "--alphas", "some"], "expected --alphas as numbers separated by commas"),
    "resume nothing": (["run", "--resume", "no/such/folder"], "found no config.json"),
    "unknown command": (["dance"], "invalid choice"),
    "no seeds": (["compare", "maze", "--seeds", "0"], "expected at least one seed"),
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


def test_an_unwritable_folder_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert main(["run", "maze", "--steps", "1000", "--out", str(tmp_path / "file" / "run")]) == 2
    assert "cannot write to" in capsys.readouterr().err


def test_a_damaged_checkpoint_exits_2_in_one_line(tmp_path, capsys):
    assert main(["run", "maze", "--steps", "500", "--out", str(tmp_path)]) == 0
    (tmp_path / "summary.json").unlink()
    (tmp_path / "checkpoint" / "latest.npz").write_bytes(np.random.default_rng(0).bytes(100))
    capsys.readouterr()
    assert main(["run", "--resume", str(tmp_path)]) == 2
    shown = capsys.readouterr().err
    assert "damaged or foreign checkpoint" in shown
    assert shown.count("\n") == 1


def test_no_traceback_reaches_a_user_from_a_fresh_process():
    done = subprocess.run(
        [sys.executable, "-m", "geodesic.cli", "run", "maze", "--method", "magic"],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("geodesic: expected method to be one of")
