"""Finding tasks: by name, by module:object, by file.py:object, announced by an installed package, or as they are."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import tomllib
from collections.abc import Callable
from functools import cache, partial
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from geodesic import envs
from geodesic.checks import as_name
from geodesic.envs.gymnasium import put_context
from geodesic.errors import GeodesicError, InvalidInput, shown
from geodesic.tasks.drawing import Drawing
from geodesic.tasks.methods import parse
from geodesic.tasks.task import Task

ENTRY_POINTS = "geodesic.tasks"
OF_TASK = ("measure", "discount", "eval_policy", "eval_episodes", "source")  # options of a built-in task itself


def load(reference: str | Task, **options: object) -> Task:
    """The task that is meant: 'maze', 'maze:layout=my.txt', 'package.module:object', 'path/file.py:object', a Task.

    An object may be a Task or a function without arguments that makes one. Options go to a built-in environment; those
    named in OF_TASK change the built-in task itself.
    """
    if isinstance(reference, Task):
        return reference
    if not isinstance(reference, str) or not reference:
        raise InvalidInput(f"expected a task, its name, module:object or file.py:object, got {shown(reference)}")
    place, _, attribute = reference.rpartition(":")
    if place and "=" not in attribute:
        return _from_object(place, attribute)
    if reference in announced():
        return _from_package(reference)
    name, given = parse(reference, "a task")
    if name not in BUILT_IN:
        known = ", ".join([*BUILT_IN, *announced()])
        raise InvalidInput(f"expected a task ({known}), module:object or file.py:object; got {reference!r}")
    return _built_in(name, {**given, **options})


def names() -> dict[str, str]:
    """Every task that has a name, with a line on each."""
    found = {name: envs.REGISTRY[name].summary for name in BUILT_IN}
    return found | {name: f"from {point.value.partition(':')[0]}" for name, point in announced().items()}


def announced() -> dict[str, EntryPoint]:
    """The tasks that installed packages announce."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _from_object(place: str, attribute: str) -> Task:
    module, reference = (_module_of_file if place.endswith(".py") else _module)(place)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            tasks = [name for name, value in vars(module).items() if isinstance(value, Task)]
            hint = f"; it has {', '.join(tasks)}" if tasks else ""
            raise InvalidInput(f"expected {place} to have a task {attribute!r}, found none{hint}")
        found = getattr(found, part)
    where = Path(place).stem if place.endswith(".py") else place.split(".")[-1]
    return _made(found, f"{reference}:{attribute}", where if attribute == "task" else attribute)


def _from_package(name: str) -> Task:
    point = announced()[name]
    try:
        found = point.load()
    except Exception as error:
        raise InvalidInput(f"cannot load task {name} from {point.value}: {type(error).__name__}: {error}") from error
    return _made(found, name, name)


def _made(found: object, reference: str, name: str) -> Task:
    """The task, made if the object is a function; one that fails is an error that names it."""
    if not isinstance(found, Task) and callable(found):
        try:
            found = found()
        except GeodesicError:
            raise
        except (Exception, SystemExit) as error:
            raise InvalidInput(f"cannot make task {reference}: {type(error).__name__}: {error}") from error
    if not isinstance(found, Task):
        raise InvalidInput(f"expected {reference} to be a Task or a function that makes one, got {shown(found)}")
    return found.named(name, reference)


def _module(name: str) -> tuple[ModuleType, str]:
    """A module by its name; the folder that a command is called in counts as importable."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name), name
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"cannot import {name}: {type(error).__name__}: {error}") from error


def _module_of_file(path: str) -> tuple[ModuleType, str]:
    """A module by its file; the reference has the whole path, so that it holds from any folder."""
    file = Path(path).resolve()
    if not file.is_file():
        raise InvalidInput(f"expected a file with a task, found none at {path}")
    name = f"geodesic_task_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise InvalidInput(f"cannot import {path}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise InvalidInput(f"cannot import {path}: {type(error).__name__}: {error}") from error
    return sys.modules[name], str(file)


def _built_in(name: str, options: dict[str, object]) -> Task:
    """A built-in task with the paper's values, its environment made with these options."""
    given = tuple(sorted((key, _whole(value)) for key, value in options.items()))
    for key, value in given:
        if not isinstance(value, (str, int, float)):
            raise InvalidInput(f"expected option {key} of {name} to be a number or a text, got {shown(value)}")
    return _cached(name, given)


def _whole(value: object) -> object:
    """A file by its whole path, so that the reference holds from any folder; other values as they are."""
    return str(Path(value).resolve()) if isinstance(value, str) and os.path.isfile(value) else value


@cache
def _cached(name: str, options: tuple[tuple[str, object], ...]) -> Task:
    given = dict(options)
    values = table(name) | {key: given.pop(key) for key in OF_TASK if key in given}
    made = envs.make(name, **given)
    facts = _on_host(name, made, given) if envs.REGISTRY[name].on_host else {"env": made}
    algorithm, learner = values.pop("algorithm"), values.pop("learner")
    offered = values.pop("metrics")
    task = Task(
        learner=(algorithm, learner),
        offers=tuple(offered),
        source_moments=getattr(made, "source_moments", None),
        target_moments=getattr(made, "target_moments", None),
        drawing=BUILT_IN[name](made),
        name=name,
        **{**facts, **values},
    )
    words = "".join(f":{key}={value}" for key, value in options)
    return task.named(name, f"{name}{words}")


def _on_host(name: str, env: Any, options: dict[str, object]) -> dict[str, Any]:
    """What a Gymnasium environment of ours states of itself, and how another one is made; it shows its context."""
    return {
        "env": partial(envs.make, name, **options),
        "contexts": env.context_space,
        "source": env.source,
        "target": env.target,
        "worst_return": env.worst_return,
        "best_return": env.best_return,
        "apply": put_context,
        "observe": False,
    }


def table(name: str) -> dict[str, Any]:
    """The paper's values for a built-in task."""
    as_name(name, "task", BUILT_IN)
    return tomllib.loads(resources.files("geodesic.tasks").joinpath(f"{name}.toml").read_text())


def _maze_drawing(mdp: Any) -> Drawing:
    return Drawing(
        cells=(mdp.grid == 1).astype(np.int64),
        goals=(tuple(mdp.goal.tolist()),),
        order=mdp.start_distance.astype(np.float64),
        ordered_by="steps to the goal",
    )


def _e_maze_drawing(mdp: Any) -> Drawing:
    return Drawing(
        cells=(mdp.heights > 0).astype(np.int64),
        goals=((0.0, 0.0),),
        star="start",
        order=np.round(mdp.shortest_paths.distances[0], 3),
        ordered_by="the way from the start",
    )


def _walls_drawing(mdp: Any) -> Drawing:
    return Drawing(walls=mdp.walls)


BUILT_IN: dict[str, Callable[[Any], Drawing]] = {
    "maze": _maze_drawing,
    "point-mass": lambda mdp: Drawing(),
    "fetch-push": lambda env: Drawing(goals=(tuple(env.box.tolist()),), star="box"),
    "u-maze": _walls_drawing,
    "e-maze": _e_maze_drawing,
    "sparse-goal": _walls_drawing,
    "point-mass-bimodal": lambda mdp: Drawing(),
    "point-mass-nd": lambda mdp: Drawing(),
}
