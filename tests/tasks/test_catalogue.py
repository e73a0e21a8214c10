"""Finding tasks by name, with options, in modules, files and installed packages; and tasks that are not found."""

import json
import os
import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from problems import walk

import geodesic as gd
from extras import each
from geodesic.errors import InvalidInput, UnknownName
from geodesic.tasks import catalogue
from geodesic.tasks.catalogue import EVALUATION, TRAINING

ROOT = Path(__file__).parents[2]
BUILT_IN = list(catalogue.BUILT_IN)
KNOWN = ", ".join(BUILT_IN)
SOURCE = """
import problems

task = problems.walk()
named = problems.walk(name="mine")
number = 3


def made():
    return problems.walk(threshold=-30.0)


def raises():
    raise RuntimeError("no data")


def refuses():
    return problems.walk(target=None)


class Space:
    inner = task
"""
SMALL = "######\n#..#G#\n#....#\n######\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with files that define tasks."""
    (tmp_path / "own_tasks.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("task = 1 / 0\n")
    (tmp_path / "unready.py").write_text("import geodesic as gd\ntask = gd.Task(env='CartPole-v1', contexts={})\n")
    (tmp_path / "small.txt").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name in ("own_tasks", "broken") or "geodesic_file_" in name]:
        del sys.modules[name]


def test_the_built_in_tasks():
    assert set(BUILT_IN) == {
        "maze", "point-mass", "fetch-push", "u-maze", "e-maze", "sparse-goal", "point-mass-bimodal", "point-mass-nd",
        "mountain-car", "four-rooms", "unlock-pickup", "levels",
    }  # fmt: skip


PAPER = re.findall(  # a row of docs/fidelity.md: what, Maze, PointMass, FetchPush, the name here
    r"^\| [^|]+ \| ([^|]*)\| ([^|]*)\| ([^|]*)\| `([\w:-]+)` \|$",
    (ROOT / "docs" / "fidelity.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(("place", "task"), [(0, "maze"), (1, "point-mass"), (2, "fetch-push")])
def test_hyperparameters_are_those_of_the_papers_tables(place, task):
    values = catalogue.table(task)
    owners = {**values["methods"], "learner": values["learner"]}
    rows = [(row[place], row[-1].rpartition(":")) for row in PAPER if row[place].strip()]
    assert len(rows) == (7, 22, 22)[place]
    for value, (owner, _, name) in rows:
        assert (owners[owner] if owner else values)[name] == json.loads(value), name


def test_a_task_is_returned_as_it_is():
    task = walk()
    assert catalogue.load(task) is task


@pytest.mark.parametrize("name", each(catalogue.BUILT_IN))
def test_a_built_in_task_has_the_values_of_its_table(name):
    task, values = catalogue.load(name), catalogue.table(name)
    assert (task.name, task.reference) == (name, name)
    assert task.training.learner == (values["algorithm"], values["learner"])
    assert task.metric_names == tuple(values["metrics"])
    assert task.metric_names[0] == task.metric == values["metric"]
    for key in set(values) - {"algorithm", "learner", "metrics", "environment", "benchmark"}:
        owner = task.training if key in TRAINING else task.evaluation if key.startswith(EVALUATION) else task
        assert getattr(owner, key.removeprefix(EVALUATION)) == values[key]
    assert catalogue.load(name) is task


def test_tables_are_fresh_and_of_built_in_tasks_only():
    catalogue.table("maze")["learner"]["gamma"] = 0.0
    assert catalogue.table("maze")["learner"]["gamma"] == 0.99
    with pytest.raises(UnknownName) as caught:
        catalogue.table("atari")
    assert str(caught.value) == f"expected task to be one of {KNOWN}; got 'atari'"


def test_options_go_to_the_environment(folder):
    task = catalogue.load("maze:layout=small.txt")
    assert task.env.grid.shape == (4, 6)
    assert task.name == "maze"
    assert task.reference == f"maze:layout={SMALL.strip()}"
    assert catalogue.load("maze", layout=SMALL).env.grid.tolist() == task.env.grid.tolist()
    assert catalogue.load("maze").env.grid.shape == (11, 11)
    assert catalogue.load(task.reference).env.grid.shape == (4, 6)


def test_an_object_of_a_module_or_a_file_is_a_task_or_makes_one(folder):
    for place, reference in (("own_tasks", "own_tasks"), ("own_tasks.py", str(folder / "own_tasks.py"))):
        task = catalogue.load(f"{place}:task")
        assert (task.name, task.reference, task.threshold) == ("own_tasks", f"{reference}:task", -40.0)
        assert catalogue.load(f"{place}:made").threshold == -30.0
        assert catalogue.load(f"{place}:made").reference == f"{reference}:made"
        assert catalogue.load(f"{place}:named").name == "mine"
        assert catalogue.load(f"{place}:Space.inner").reference == f"{reference}:Space.inner"


def test_the_reference_of_a_file_is_valid_from_any_folder(folder, monkeypatch):
    references = [catalogue.load(name).reference for name in ("own_tasks.py:task", "maze:layout=small.txt")]
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert [catalogue.load(reference).reference for reference in references] == references


def test_options_of_the_task_and_of_its_environment_can_be_mixed():
    task = catalogue.load("u-maze:goal_noise=0.1:eval_policy=stochastic")
    assert (task.env.goal_noise, task.evaluation.policy) == (0.1, "stochastic")
    assert catalogue.load(task.reference) is task
    plain = catalogue.load("u-maze")
    assert (plain.env.goal_noise, plain.evaluation.policy) == (0.0, "deterministic")
    assert catalogue.load("point-mass:score=discounted_return:discount=0.95").score == "discounted_return"
    assert catalogue.load("maze:eval_episodes=7").evaluation.episodes == 7


def test_a_run_keeps_the_content_of_a_layout_and_not_its_path(folder, monkeypatch):
    reference = catalogue.load("maze:layout=small.txt").reference
    (folder / "small.txt").unlink()
    catalogue._cached.cache_clear()
    assert catalogue.load(reference).env.grid.shape == (4, 6)


def test_layouts_that_are_long_or_no_regular_file_are_refused(folder):
    os.mkfifo(folder / "pipe")
    (folder / "long.txt").write_text("#" * 5000)
    for place, reason in (("/dev/zero", "regular file"), ("pipe", "regular file"), ("long.txt", "at most 4096")):
        with pytest.raises(InvalidInput, match=reason):
            catalogue.load(f"maze:layout={place}")
    with pytest.raises(InvalidInput, match="a layout of at most 4096 characters, got 5100"):
        catalogue.load("maze", layout="#" * 50 + "\n" + "#" * 5049)
    with pytest.raises(InvalidInput, match="to be a number or a string"):
        catalogue.load("maze", layout=None)


def test_files_of_one_name_in_two_folders_are_two_layouts(folder, monkeypatch):
    (folder / "other").mkdir()
    (folder / "other" / "small.txt").write_text(SMALL.replace("#..#G#", "#...G#"))
    first = catalogue.load("maze:layout=small.txt")
    monkeypatch.chdir(folder / "other")
    assert len(catalogue.load("maze:layout=small.txt").env.starts) == len(first.env.starts) + 1


def test_a_module_in_the_current_folder_is_found(folder, monkeypatch):
    (folder / "deeper").mkdir()
    (folder / "deeper" / "near_tasks.py").write_text(SOURCE)
    monkeypatch.chdir(folder / "deeper")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    assert catalogue.load("near_tasks:task").threshold == -40.0
    del sys.modules["near_tasks"]


def test_two_files_of_one_name_are_two_modules(folder):
    (folder / "other").mkdir()
    (folder / "other" / "own_tasks.py").write_text(SOURCE.replace("-30.0", "-35.0"))
    assert catalogue.load("own_tasks.py:made").threshold == -30.0
    assert catalogue.load("other/own_tasks.py:made").threshold == -35.0


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("", "expected a task, its name, module:object or file.py:object, got ''"),
        (3, "expected a task, its name, module:object or file.py:object, got 3"),
        (
            "atari",
            f"expected task to be one of {KNOWN}, module:object, file.py:object; got 'atari'",
        ),
        (
            "atari:level=3",
            f"expected task to be one of {KNOWN}, module:object, file.py:object; got 'atari:level=3'",
        ),
        (
            "maze:size=3",
            "expected options of the environment maze: TypeError: Maze.__init__() got an unexpected keyword argument "
            "'size'",
        ),
        ("maze:layout=[1, 2]", "expected option layout of maze to be a number or a string, got [1, 2]"),
        (
            "maze:layout=none.txt",
            "expected a layout as a string, or a file that holds one, got 'none.txt': "
            "cannot read it: No such file or directory",
        ),
        (
            "own_tasks:other",
            "expected own_tasks to have 'other', found none; it has task, named, made, raises, refuses, Space",
        ),
        (
            "own_tasks.py:other",
            "expected own_tasks.py to have 'other', found none; it has task, named, made, raises, refuses, Space",
        ),
        ("own_tasks:number", "expected own_tasks:number to be a Task or a function that makes one, got 3"),
        ("own_tasks:raises", "cannot make task own_tasks:raises: RuntimeError: no data"),
        ("own_tasks:refuses", 'expected target=, such as {"place": (low, high)} or Particles(points)'),
        ("nowhere:task", "cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'"),
        ("nowhere.py:task", "expected a Python file at nowhere.py, found none"),
        ("broken:task", "cannot import broken: ZeroDivisionError: division by zero"),
        ("broken.py:task", "cannot import broken.py: ZeroDivisionError: division by zero"),
        (
            "unready.py:task",
            "cannot import unready.py: expected set_context=, a function set_context(env, **context) "
            "that puts a context into the environment, or contexts with the names of its attributes",
        ),
    ],
)
def test_a_task_that_is_not_found_is_reported_in_one_line(folder, reference, message):
    with pytest.raises(InvalidInput) as caught:
        catalogue.load(reference)
    assert str(caught.value) == message


def test_a_file_that_failed_is_read_again_when_it_is_repaired(folder):
    with pytest.raises(InvalidInput, match="ZeroDivisionError"):
        catalogue.load("broken.py:task")
    (folder / "broken.py").write_text(SOURCE)
    assert catalogue.load("broken.py:task").threshold == -40.0


@pytest.fixture
def package(folder, monkeypatch):
    """An installed package that announces three tasks."""
    info = folder / "labyrinths-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: labyrinths\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        textwrap.dedent("""\
        [geodesic.tasks]
        labyrinth = own_tasks:made
        absent = own_tasks:absent
        number = own_tasks:number
        """)
    )


def test_installed_packages_announce_tasks(package):
    task = catalogue.load("labyrinth")
    assert (task.name, task.reference, task.threshold) == ("labyrinth", "labyrinth", -30.0)
    assert list(catalogue.names()) == [*BUILT_IN, "labyrinth", "absent", "number"]
    assert catalogue.names()["labyrinth"] == "from own_tasks"
    assert "gate position and width" in catalogue.names()["point-mass"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "absent",
            "cannot load task absent from own_tasks:absent: AttributeError: "
            "module 'own_tasks' has no attribute 'absent'",
        ),
        ("number", "expected number to be a Task or a function that makes one, got 3"),
        (
            "atari",
            f"expected task to be one of {KNOWN}, labyrinth, absent, number, module:object, file.py:object; "
            "got 'atari'",
        ),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_reported_in_one_line(package, name, message):
    with pytest.raises(InvalidInput) as caught:
        catalogue.load(name)
    assert str(caught.value) == message


def test_without_such_packages_only_built_in_tasks_have_names():
    assert list(catalogue.names()) == list(gd.tasks.names()) == BUILT_IN


def test_loaded_tasks_pass_their_check(folder):
    gd.check_task(catalogue.load("own_tasks.py:made"))
    small = catalogue.load("maze:layout=small.txt")
    assert small.reachable() == pytest.approx(-np.sort(small.env.start_distance)[-3:].mean())
