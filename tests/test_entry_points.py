"""Tasks, methods, metrics and learners that an installed package announces are known by their names everywhere."""

import json
import os
import subprocess
import sys

import pytest

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "corridors"
version = "1.0"
[project.entry-points."geodesic.tasks"]
corridor = "corridors:corridor"
broken = "corridors:nothing"
[project.entry-points."geodesic.curricula"]
halfway = "corridors:Halfway"
[project.entry-points."geodesic.metrics"]
far = "corridors:Far"
[project.entry-points."geodesic.learners"]
patient-ppo = "corridors:PatientPPO"
[tool.setuptools]
py-modules = ["corridors"]
"""

MODULE = '''
from dataclasses import dataclass

import numpy as np

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
    return gd.Task(
        Maze(LAYOUT),
        threshold=-50.0,
        metric="graph",
        available_metrics=("graph",),
        training=gd.TrainingSettings(learner=gd.PPO(rollout=100, batch_size=50), steps=1000),
    )


@dataclass(frozen=True)
class Halfway(gd.curricula.Uniform):
    """A method of another package."""


class Far(gd.metrics.Euclidean):
    """A metric of another package."""


@dataclass(frozen=True)
class PatientPPO(gd.PPO):
    """A learner of another package."""

    learning_rate: float = 1e-5
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package, installed by pip in a separate folder; an environment that sees it."""
    work = tmp_path_factory.mktemp("package")
    (work / "pyproject.toml").write_text(PROJECT)
    (work / "corridors.py").write_text(MODULE)
    site = work / "site"
    flags = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, str(work)], check=True)
    return {**os.environ, "PYTHONPATH": str(site)}


def geodesic(environment, folder, *arguments):
    command = [sys.executable, "-m", "geodesic", *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)


def test_they_are_listed(installed, tmp_path):
    listed = geodesic(installed, tmp_path, "list").stdout
    sections, current = {}, ""
    for line in listed.splitlines():
        if line.startswith(" "):
            sections[current] += [line.split()]
        else:
            current = line
            sections[current] = []
    for section, name in (
        ("tasks", "corridor"), ("methods", "halfway"), ("metrics", "far"), ("learners", "patient-ppo"),
    ):  # fmt: skip
        (line,) = [words for words in sections[section] if words[0] == name]
        assert line[1] == "from"
        assert line[2].startswith("corridors")


def test_an_announced_task_is_checked_and_planned(installed, tmp_path):
    planned = geodesic(installed, tmp_path, "plan", "corridor")
    assert (planned.returncode, "corridor: W(source, target)" in planned.stdout) == (0, True)
    checked = geodesic(installed, tmp_path, "check", "corridor").stdout
    *_, last = checked.splitlines()
    assert last.startswith("Task('corridor'")
    assert last.endswith(" is valid")


def test_an_announced_task_is_run_and_compared(installed, tmp_path):
    ran = geodesic(installed, tmp_path, "run", "corridor", "--quiet")
    assert ran.returncode == 0, ran.stderr
    assert "auto on corridor, seed 0" in ran.stdout
    assert (tmp_path / "runs" / "corridor" / "auto" / "seed-0" / "summary.json").exists()
    compared = geodesic(installed, tmp_path, "compare", "corridor", "--methods", "gradient,halfway", "--seeds", "1")
    assert compared.returncode == 0, compared.stderr
    runs = (tmp_path / "runs" / "corridor" / "compare" / "runs").glob("*/seed-0/summary.json")
    assert sorted(path.parent.parent.name for path in runs) == ["gradient", "halfway"]


def test_announced_method_metric_and_learner_are_used_by_name(installed, tmp_path):
    """In a run, and in another process that extends it."""
    code = """
import json
import geodesic as gd
from geodesic.records import read_config
first = gd.train("corridor", "halfway:particles=50", learner="patient-ppo:n_envs=2", out="first", steps=400)
second = gd.train("corridor", "gradient:step=0.5", metric="far", learner="patient-ppo", out="second", steps=400)
folders = [str(result.runs[0].folder) for result in (first, second)]
print(json.dumps([folders, [read_config(result.runs[0].folder).to_json() for result in (first, second)]]))
"""
    done = subprocess.run([sys.executable, "-c", code], env=installed, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folders, (first, second) = json.loads(done.stdout.splitlines()[-1])
    assert (first["task"], first["method"], first["options"]) == ("corridor", "halfway", {"particles": 50})
    assert (first["learner"], first["learner_options"]) == ("patient-ppo", {"n_envs": 2})
    assert (second["method"], second["metric"], second["learner"]) == ("gradient", "far", "patient-ppo")
    assert first["objects"] == second["objects"] == {}
    for folder in folders:
        extended = geodesic(installed, tmp_path, "run", "--resume", folder, "--steps", "3000", "--quiet")
        assert extended.returncode == 0, extended.stderr
        assert json.loads((tmp_path / folder / "summary.json").read_text())["steps"] >= 3000


def test_one_that_cannot_be_loaded_is_an_error_in_one_line(installed, tmp_path):
    done = geodesic(installed, tmp_path, "run", "broken")
    assert done.returncode == 2
    assert done.stderr.startswith("geodesic: cannot load task broken from corridors:nothing: AttributeError")
    assert done.stderr.count("\n") == 1
