"""A task that an installed package announces is known by its name everywhere, without an edit of this one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "someones-tasks"
version = "1.0"
[project.entry-points."geodesic.tasks"]
corridor = "someones_tasks:corridor"
broken = "someones_tasks:nothing"
[tool.setuptools]
py-modules = ["someones_tasks"]
"""

MODULE = '''
import geodesic as gd
from geodesic.envs.maze import Maze

LAYOUT = """
#######
#....G#
#.###.#
#.....#
#######
"""

def corridor():
    return gd.Task(Maze(LAYOUT), threshold=-50.0, metric="graph", offers=("graph",), steps=1000,
                   learner=gd.PPO(rollout=100, batch_size=50))
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package in a folder of its own, installed by pip; an environment that sees it."""
    work = tmp_path_factory.mktemp("package")
    (work / "pyproject.toml").write_text(PROJECT)
    (work / "someones_tasks.py").write_text(MODULE)
    site = work / "site"
    flags = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, str(work)], check=True)
    return {**os.environ, "PYTHONPATH": str(site)}


def geodesic(environment, folder, *arguments):
    command = [sys.executable, "-m", "geodesic", *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)


def test_it_is_listed_checked_and_planned(installed, tmp_path):
    assert "  corridor      from someones_tasks" in geodesic(installed, tmp_path, "list").stdout
    planned = geodesic(installed, tmp_path, "plan", "corridor")
    assert (planned.returncode, "corridor: W(source, target)" in planned.stdout) == (0, True)
    checked = geodesic(installed, tmp_path, "check", "corridor").stdout
    assert checked.startswith("Task('corridor'")
    assert checked.endswith(" is fine\n")


def test_it_is_run_and_compared(installed, tmp_path):
    ran = geodesic(installed, tmp_path, "run", "corridor", "--quiet")
    assert ran.returncode == 0, ran.stderr
    assert "gradient on corridor, seed 0" in ran.stdout
    assert (tmp_path / "runs" / "corridor" / "gradient" / "seed-0" / "summary.json").exists()
    compared = geodesic(installed, tmp_path, "compare", "corridor", "--methods", "gradient,uniform", "--seeds", "1")
    assert compared.returncode == 0, compared.stderr
    assert len(list(Path(tmp_path / "runs" / "corridor" / "compare" / "runs").glob("*/seed-0/summary.json"))) == 2


def test_one_that_cannot_be_loaded_is_an_error_in_one_line(installed, tmp_path):
    done = geodesic(installed, tmp_path, "run", "broken")
    assert done.returncode == 2
    assert done.stderr.startswith("geodesic: cannot load task broken from someones_tasks:nothing: AttributeError")
    assert done.stderr.count("\n") == 1
