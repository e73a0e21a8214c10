"""Methods on a task: a method given by name, as an object or as a function, built with what the task states."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from geodesic import curricula
from geodesic.checks import check_instance
from geodesic.curricula import Curriculum, Problem
from geodesic.curricula.base import AUTO, Threshold, as_threshold, is_auto
from geodesic.errors import InvalidInput, short_repr
from geodesic.metrics.base import LearnedMetric
from geodesic.metrics.standard import Maker
from geodesic.registry import is_reference, load_object
from geodesic.tasks.task import Task

Options = dict[str, Any]
Method = str | Curriculum[Any] | Callable[[Problem], Curriculum[Any]]


def parse(text: str, what: str = "a method") -> tuple[str, Options]:
    """Split `name:option=value:...` into the name and its options.

    The name, and the value of an option, may be a reference such as `file.py:MyMethod`.

    Args:
        text: For example `"gradient:step=0.05:window=10"` or `"my_file.py:MyMethod:rate=3"`.
        what: What is parsed, for messages.

    Returns:
        The name and its options, `("gradient", {"step": 0.05, "window": 10})`.

    Raises:
        InvalidInput: If the text has another form.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"expected {what} as name:option=value, got {short_repr(text)}")
    parts: list[str] = []
    for part in text.split(":"):
        if parts and "=" not in part and _is_place(parts[-1].rpartition("=")[2]):
            parts[-1] += f":{part}"  # the object in a file or module
        else:
            parts.append(part)
    name, *rest = parts
    options = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise InvalidInput(f"expected {what} as name:option=value, got {text!r}")
        options[key] = _value(value)
    return name, options


def expand(text: str) -> list[str]:
    """Expand a grid of options, in which `|` separates the values of an option.

    Args:
        text: For example `"gradient:step=0.1|0.2:window=10|20"`.

    Returns:
        The product of all values as methods; a string without `|` alone.

    Raises:
        InvalidInput: If a value is empty.
    """
    choices = []
    for part in text.split(":"):
        key, equals, values = part.partition("=")
        choices.append([f"{key}{equals}{value}" for value in values.split("|")] if equals else [part])
        if equals and "" in values.split("|"):
            raise InvalidInput(f"expected a value on both sides of each | in a method, got {text!r}")
    return [":".join(parts) for parts in product(*choices)]


def _is_place(text: str) -> bool:
    """Whether this can be the file or the module of a reference."""
    if not all(part.isidentifier() for part in text.removesuffix(".py").split(".")):
        return text.endswith(".py")
    if "." in text or text in sys.modules or Path(f"{text}.py").is_file():
        return True
    found = find_spec(text)
    return found is not None and found.origin is not None  # any folder of this name is found, too


def _is_in_file(value: object) -> bool:
    """Whether an option refers to an object in a file, such as `pace=my_file.py:MyPace`."""
    return is_reference(value) and str(value).rpartition(":")[0].endswith(".py")


def _value(text: str) -> Any:
    """A number, a boolean or a list as TOML writes them; anything else is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        try:
            return float(text)
        except ValueError:
            return text


def resolve(
    task: Task, method: Method, metric: str | Maker | None = None, threshold: Threshold | None = None
) -> tuple[str, Options, str | None]:
    """Resolve a method on a task.

    Args:
        task: The task; it may have options for `"gradient"`, and others for `"gradient:pace=particles"`, which win.
        method: A name with options, a reference, a `Curriculum`, or a function `Problem -> Curriculum`.
        metric: The metric of the run, which can also be an option: `"gradient:metric=embedding"`.
        threshold: The threshold of the run; it replaces one that the task has for this method.

    Returns:
        The method's name, its options together with the task's defaults, and the name of its metric or None.

    Raises:
        InvalidInput: If the method or an option is unknown, or the method cannot use the metric.
    """
    check_instance(Task, task, "task")
    if not isinstance(method, str):
        if not isinstance(method, Curriculum) and not callable(method):
            raise InvalidInput(f"expected a method as a name, a Curriculum or a function, got {short_repr(method)}")
        name = name_of_object(method)
        return name, {}, _metric_of(task, name, method, metric)
    name, options = parse(method)
    if is_reference(name):
        name = load_object(name)[1]
    options = {key: load_object(value)[1] if _is_in_file(value) else value for key, value in options.items()}
    usual = _defaults(task, name, options if not isinstance(metric, str) else {"metric": metric, **options})
    if threshold is not None:
        usual.pop("threshold", None)
    asked = options.pop("metric", None)
    if asked is not None and metric is not None and asked != metric:
        raise InvalidInput(f"expected one metric, got {short_repr(metric)} and {method!r}")
    chosen = metric if asked is None else asked
    return name, {**usual, **options}, _metric_of(task, name, curricula.REGISTRY.get(name), chosen)


def _metric_of(task: Task, name: str, method: Any, metric: Any) -> str | None:
    """The name under which a run records the metric that its method is built with; None if there is none."""
    is_class, on_support = isinstance(method, type), getattr(method, "on_support", False)
    refusal = None
    if isinstance(method, Curriculum):
        refusal = "expected no metric= with a Curriculum object, which has a metric, got metric= as well"
    elif is_class and "metric" not in curricula.options_of(method):
        refusal = f"expected a method that uses a metric (auto, gradient), got {name} with metric {metric}"
    elif on_support and task.space.support is None:
        refusal = f"expected discrete contexts for {name} with a metric, got {task.name} with {metric}"
    if refusal and metric is not None:
        raise InvalidInput(refusal)
    if refusal or (metric is None and not task.metric_names and (on_support or not is_class)):
        return None
    if metric is not None and on_support and isinstance(task.make_metric(metric), LearnedMetric):
        raise InvalidInput(f"expected a metric that is known before training for {name}, got {metric}")
    return _metric_name(task, metric)


def _metric_name(task: Task, metric: Any) -> str:
    """The name under which a run records a metric, the task's default if it is None."""
    if not isinstance(metric, str) and (metric is not None or not task.metric_names):
        task.make_metric(metric)  # raises: the message says what to add
    chosen = task.metric_names[0] if metric is None else metric
    known = isinstance(chosen, str) and is_reference(task.check_metric(chosen))
    return load_object(chosen)[1] if known else name_of_metric(chosen)


def name_of_metric(metric: object) -> str:
    """What a metric is called: its name, or that of its class or function."""
    return metric if isinstance(metric, str) else str(getattr(metric, "__name__", type(metric).__name__))


def name_of_object(value: Any) -> str:
    """The name of a class or a function, or of an object's class."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return str(named.__qualname__)


def _defaults(task: Task, name: str, options: Options) -> Options:
    """The task's options for this method, and for this method with some of these options; the more specific win."""
    found: Options = {}
    for label in sorted(task.training.methods, key=lambda label: label.count(":")):
        head, asked = parse(label)
        if head == name and asked.items() <= options.items():
            found |= task.training.methods[label]
    used = curricula.options_of(name, **{**found, **options})  # such as those of another pace are not
    return {key: value for key, value in found.items() if key in used or key not in curricula.options_of(name)}


def problem(task: Task, metric: str | Maker | None, threshold: Threshold) -> Problem:
    """State the problem that a curriculum solves.

    Args:
        task: The task.
        metric: The metric, by name or as an object.
        threshold: The score above which a stage is mastered.

    Returns:
        Source and target (the same for every seed), their space, the metric and the threshold.

    Raises:
        InvalidInput: If the target cannot reach the threshold.
    """
    best = task.reachable()
    if not is_auto(as_threshold(threshold, "threshold")) and not threshold < best:  # type: ignore[operator]
        raise InvalidInput(f"expected a threshold that the target can reach (below {best:g}), got {threshold:g}")
    return Problem(
        source=AUTO if task.searches else task.source_particles,
        target=task.target_particles,
        space=task.space,
        threshold=threshold,
        score=task.score,
        metric=None if metric is None else task.make_metric(metric, threshold),
        worst_return=0.0 if task.least is None else task.least,
        source_moments=task.source_moments,
        target_moments=task.target_moments,
    )


def build(task: Task, name: str, options: Options, metric: Any, threshold: Threshold) -> Curriculum[Any]:
    """Build a method by name.

    Args:
        task: The task.
        name: The method's name or a reference to it.
        options: Its options.
        metric: Its metric, by name or as an object, or None.
        threshold: The score above which a stage is mastered.

    Returns:
        The curriculum.

    Raises:
        InvalidInput: If the task lacks something that the method needs, or an option is invalid.
    """
    if "worst_return" in curricula.options_of(name) and task.least is None and "worst_return" not in options:
        raise InvalidInput(f"expected worst_return= in task {task.name} for the method {name}")
    return curricula.build(name, problem(task, metric, threshold), **options)
