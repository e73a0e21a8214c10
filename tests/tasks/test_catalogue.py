"""Tasks found by name, with options, in modules, in files, in installed packages; and what is not found."""

import sys
import textwrap

import numpy as np
import pytest
from problems import walk

import geodesic as gd
from extras import each
from geodesic.errors import InvalidInput, UnknownName
from geodesic.tasks import catalogue

BUILT_IN = [
    "maze",
    "point-mass",
    "fetch-push",
    "u-maze",
    "e-maze",
    "sparse-goal",
    "point-mass-bimodal",
    "point-mass-nd",
]
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
    """A folder with files of tasks in it, in which a command is called."""
    (tmp_path / "own_tasks.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("task = 1 / 0\n")
    (tmp_path / "unready.py").write_text("import geodesic as gd\ntask = gd.Task(env='CartPole-v1', contexts={})\n")
    (tmp_path / "small.txt").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name in ("own_tasks", "broken") or "geodesic_task_" in name]:
        del sys.modules[name]


def test_a_task_is_itself():
    task = walk()
    assert catalogue.load(task) is task


@pytest.mark.parametrize("name", each(catalogue.BUILT_IN))
def test_a_built_in_task_has_the_values_of_its_table(name):
    task, values = catalogue.load(name), catalogue.table(name)
    assert (task.name, task.reference) == (name, name)
    assert task.learner == (values["algorithm"], values["learner"])
    assert task.metric_names == tuple(values["metrics"])
    assert task.metric_names[0] == task.metric == values["metric"]
    for key in set(values) - {"algorithm", "learner", "metrics"}:
        assert getattr(task, key) == values[key]
    assert catalogue.load(name) is task


def test_tables_are_fresh_and_of_built_in_tasks_only():
    catalogue.table("maze")["learner"]["gamma"] = 0.0
    assert catalogue.table("maze")["learner"]["gamma"] == 0.99
    with pytest.raises(UnknownName) as caught:
        catalogue.table("atari")
    assert (
        str(caught.value) == "expected task to be one of maze, point-mass, fetch-push, u-maze, e-maze, "
        "sparse-goal, point-mass-bimodal, point-mass-nd; got 'atari'"
    )


def test_options_go_to_the_environment(folder):
    task = catalogue.load("maze:layout=small.txt")
    assert task.env.grid.shape == (4, 6)
    assert task.name == "maze"
    assert task.reference == f"maze:layout={folder / 'small.txt'}"
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


def test_the_reference_of_a_file_holds_from_any_folder(folder, monkeypatch):
    references = [catalogue.load(name).reference for name in ("own_tasks.py:task", "maze:layout=small.txt")]
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert [catalogue.load(reference).reference for reference in references] == references


def test_options_of_the_task_itself_go_beside_those_of_its_environment():
    task = catalogue.load("u-maze:goal_noise=0.1:eval_policy=stochastic")
    assert (task.env.goal_noise, task.eval_policy) == (0.1, "stochastic")
    assert catalogue.load(task.reference) is task
    assert (catalogue.load("u-maze").env.goal_noise, catalogue.load("u-maze").eval_policy) == (0.0, "deterministic")
    assert catalogue.load("point-mass:measure=discounted:discount=0.95").measure == "discounted"


def test_files_of_one_name_in_two_folders_are_two_layouts(folder, monkeypatch):
    (folder / "other").mkdir()
    (folder / "other" / "small.txt").write_text(SMALL.replace("#..#G#", "#...G#"))
    first = catalogue.load("maze:layout=small.txt")
    monkeypatch.chdir(folder / "other")
    assert len(catalogue.load("maze:layout=small.txt").env.starts) == len(first.env.starts) + 1


def test_a_module_beside_the_command_is_found(folder, monkeypatch):
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
            "expected a task (maze, point-mass, fetch-push, u-maze, e-maze, "
            "sparse-goal, point-mass-bimodal, point-mass-nd), module:object or file.py:object; got 'atari'",
        ),
        (
            "atari:level=3",
            "expected a task (maze, point-mass, fetch-push, u-maze, e-maze, "
            "sparse-goal, point-mass-bimodal, point-mass-nd), module:object or file.py:object; "
            "got 'atari:level=3'",
        ),
        (
            "maze:size=3",
            "expected options of the environment maze: Maze.__init__() got an unexpected keyword argument 'size'",
        ),
        ("maze:layout=[1, 2]", "expected option layout of maze to be a number or a text, got [1, 2]"),
        (
            "maze:layout=none.txt",
            "expected a layout in text, or a file that holds one, got 'none.txt': "
            "[Errno 2] No such file or directory: 'none.txt'",
        ),
        ("own_tasks:other", "expected own_tasks to have a task 'other', found none; it has task, named"),
        ("own_tasks.py:other", "expected own_tasks.py to have a task 'other', found none; it has task, named"),
        ("own_tasks:number", "expected own_tasks:number to be a Task or a function that makes one, got 3"),
        ("own_tasks:raises", "cannot make task own_tasks:raises: RuntimeError: no data"),
        ("own_tasks:refuses", 'expected target=, such as {"place": (low, high)} or Particles(points)'),
        ("nowhere:task", "cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'"),
        ("nowhere.py:task", "expected a file with a task, found none at nowhere.py"),
        ("broken:task", "cannot import broken: ZeroDivisionError: division by zero"),
        ("broken.py:task", "cannot import broken.py: ZeroDivisionError: division by zero"),
        (
            "unready.py:task",
            "cannot import unready.py: InvalidInput: expected apply=, a function apply(env, **context) that puts a "
            "context into the environment",
        ),
    ],
)
def test_what_is_not_found_is_said_in_one_line(folder, reference, message):
    with pytest.raises(InvalidInput) as caught:
        catalogue.load(reference)
    assert str(caught.value) == message


def test_a_file_that_failed_is_read_again_once_it_is_mended(folder):
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
            "expected a task (maze, point-mass, fetch-push, u-maze, e-maze, "
            "sparse-goal, point-mass-bimodal, point-mass-nd, labyrinth, absent, number), module:object or "
            "file.py:object; got 'atari'",
        ),
    ],
)
def test_an_announcement_that_leads_nowhere_is_said_in_one_line(package, name, message):
    with pytest.raises(InvalidInput) as caught:
        catalogue.load(name)
    assert str(caught.value) == message


def test_without_such_packages_only_the_built_in_ones_have_names():
    assert list(catalogue.names()) == list(gd.tasks.names()) == BUILT_IN


def test_loaded_tasks_pass_their_check(folder):
    gd.check_task(catalogue.load("own_tasks.py:made"))
    small = catalogue.load("maze:layout=small.txt")
    assert small.reachable() == pytest.approx(-np.sort(small.env.start_distance)[-3:].mean())
