"""Finding tasks: built-in and announced ones by name, a user's own by reference."""

from __future__ import annotations

import tomllib
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

from geodesic import envs
from geodesic.checks import as_name
from geodesic.envs.gymnasium import put_context
from geodesic.errors import GeodesicError, InvalidInput, UnknownName, format_error, short_repr
from geodesic.registry import Registry, is_reference, load_object
from geodesic.tasks.methods import parse
from geodesic.tasks.task import EvaluationSettings, Task, TrainingSettings

# where a built-in task's table puts its values
TRAINING = ("steps", "segment", "methods", "compare")
EVALUATION = "eval_"  # the beginning of keys of its evaluation
OPTIONS = ("score", "discount", "eval_policy", "eval_episodes", "source")  # options of the task, not its environment

BUILT_IN = tuple(envs.REGISTRY)
REGISTRY: Registry[Any] = Registry("task", "geodesic.tasks")


def load(reference: str | Task, **options: object) -> Task:
    """Find a task.

    Args:
        reference: A name (`"maze"`, `"maze:layout=my.txt"`), `package.module:object`, `path/file.py:object`, or a
            `Task`, which is returned as it is. The object is a `Task` or a function without arguments that makes one.
        **options: Options of a built-in task's environment, or those of the task itself (`score`, `discount`,
            `eval_policy`, `eval_episodes`, `source`).

    Returns:
        The task.

    Raises:
        InvalidInput: If there is no such task, or making it fails.
    """
    if isinstance(reference, Task):
        return reference
    if not isinstance(reference, str) or not reference:
        raise InvalidInput(f"expected a task, its name, module:object or file.py:object, got {short_repr(reference)}")
    if is_reference(reference):
        found, full = load_object(reference)
        place, _, attribute = full.rpartition(":")
        module = Path(place).stem if place.endswith(".py") else place.split(".")[-1]
        return _made(found, full, module if attribute == "task" else attribute)
    name, given = parse(reference, "a task")
    if name in BUILT_IN:
        return _built_in(name, {**given, **options})
    if name in REGISTRY.names():
        return _made(REGISTRY.get(name), name, name)
    raise UnknownName("task", reference, [*BUILT_IN, *REGISTRY.names(), "module:object", "file.py:object"])


def names() -> dict[str, str]:
    """List the tasks that have a name.

    Returns:
        A line of description for each name.
    """
    return REGISTRY.descriptions({name: envs.REGISTRY[name].summary for name in BUILT_IN})


def _made(found: object, reference: str, name: str) -> Task:
    """The task, made if the object is a function; a function that fails is an error that names it."""
    if not isinstance(found, Task) and callable(found):
        try:
            found = found()
        except GeodesicError:
            raise
        except (Exception, SystemExit) as error:
            raise InvalidInput(f"cannot make task {reference}: {format_error(error)}") from error
    if not isinstance(found, Task):
        raise InvalidInput(f"expected {reference} to be a Task or a function that makes one, got {short_repr(found)}")
    return found.named(name, reference)


def _built_in(name: str, options: dict[str, object]) -> Task:
    """A built-in task with the paper's values, its environment made with these options."""
    given = tuple(sorted((key, envs.option_text(key, value)) for key, value in options.items()))
    for key, value in given:
        if not isinstance(value, (str, int, float)):
            raise InvalidInput(f"expected option {key} of {name} to be a number or a string, got {short_repr(value)}")
    return _cached(name, given)


@cache
def _cached(name: str, options: tuple[tuple[str, object], ...]) -> Task:
    given = dict(options)
    values = table(name) | {key: given.pop(key) for key in OPTIONS if key in given}
    env = envs.make(name, **given)
    training = {key: values.pop(key) for key in TRAINING if key in values}
    evaluation = {key.removeprefix(EVALUATION): values.pop(key) for key in [*values] if key.startswith(EVALUATION)}
    learner = values.pop("algorithm"), values.pop("learner")
    for part in ("environment", "benchmark"):  # which `geodesic.envs` and `geodesic.tasks.suites` read
        values.pop(part, None)
    task = Task(
        training=TrainingSettings(learner=learner, **training),
        evaluation=EvaluationSettings(**evaluation),
        available_metrics=tuple(values.pop("metrics")),
        source_moments=getattr(env, "source_moments", None),
        target_moments=getattr(env, "target_moments", None),
        plot=env.plot(),
        name=name,
        **{**(_host_facts(name, env, given) if envs.REGISTRY[name].on_host else {"env": env}), **values},
    )
    text = "".join(f":{key}={value}" for key, value in options)
    return task.named(name, f"{name}{text}")


def _host_facts(name: str, env: Any, options: dict[str, object]) -> dict[str, Any]:
    """What a Gymnasium environment of ours provides, and how another one is made; it observes its context itself."""
    return {
        "env": partial(envs.make, name, **options),
        "contexts": env.context_space,
        "source": env.source,
        "target": env.target,
        "worst_return": env.worst_return,
        "best_return": env.best_return,
        "set_context": put_context,
        "observe_context": False,
    }


def table(name: str) -> dict[str, Any]:
    """Read the paper's values for a built-in task.

    Args:
        name: The task's name.

    Returns:
        The content of its TOML file.
    """
    as_name(name, "task", BUILT_IN)
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text())
