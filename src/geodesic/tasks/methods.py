"""Methods on a task: 'gradient:step=0.05' read, and built with what the task states."""

from __future__ import annotations

import tomllib
from typing import Any

from geodesic import curricula
from geodesic.checks import as_a, as_number
from geodesic.curricula import Curriculum, Problem
from geodesic.curricula.base import AUTO, is_auto
from geodesic.errors import InvalidInput, shown
from geodesic.metrics.base import Recipe
from geodesic.tasks.task import Task

Options = dict[str, Any]


def parse(text: str, what: str = "a method") -> tuple[str, Options]:
    """'gradient:step=0.05:window=10' -> ('gradient', {'step': 0.05, 'window': 10})."""
    if not isinstance(text, str):
        raise InvalidInput(f"expected {what} as name:option=value, got {shown(text)}")
    name, *parts = text.split(":")
    options = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise InvalidInput(f"expected {what} as name:option=value, got {text!r}")
        options[key] = _value(value)
    return name, options


def _value(text: str) -> Any:
    """A number, a truth value or a list as TOML writes them; anything else is a word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        try:
            return float(text)
        except ValueError:
            return text


def resolve(
    task: Task, method: str, metric: str | None = None, threshold: float | None = None
) -> tuple[str, Options, str | None]:
    """A method's name, its options with the task's defaults, and the name of the metric it uses, if it uses one.

    `metric` is also an option of the method: gradient:metric=embedding:step=0.1. A threshold that is given for the run
    takes the place of one that the task has for this method. The task may have options for "gradient", and others for
    "gradient:gate=true", which then come before those.
    """
    as_a(Task, task, "task")
    name, options = parse(method)
    known = curricula.options_of(name)
    usual = _usual(task, name, options if metric is None else {"metric": metric, **options})
    if threshold is not None:
        usual.pop("threshold", None)
    asked = options.pop("metric", None)
    if None not in (asked, metric) and asked != metric:
        raise InvalidInput(f"expected one metric, got {metric!r} and {method!r}")
    chosen = asked or metric
    if "metric" not in known:
        if chosen is not None:
            raise InvalidInput(f"expected a method that uses a metric (gradient), got {name} with metric {chosen}")
        return name, {**usual, **options}, None
    if curricula.REGISTRY[name].on_support and (task.space.support is None or not task.metric_names):
        if chosen is not None:
            raise InvalidInput(f"expected discrete contexts for {name} with a metric, got {task.name} with {chosen}")
        return name, {**usual, **options}, None
    if not task.metric_names:
        task.make_metric()  # says what to add
    if chosen is not None:
        task.check_metric(chosen)
        if curricula.REGISTRY[name].on_support and isinstance(task.make_metric(chosen), Recipe):
            raise InvalidInput(f"expected a metric that is known before training for {name}, got {chosen}")
    return name, {**usual, **options}, chosen or task.metric_names[0]


def _usual(task: Task, name: str, options: Options) -> Options:
    """What the task has for this method and for this method with some of these options; what asks for more, wins."""
    usual: Options = {}
    for label in sorted(task.methods, key=lambda label: label.count(":")):
        head, asked = parse(label)
        if head == name and asked.items() <= options.items():
            usual |= task.methods[label]
    return usual


def problem(task: Task, metric: str | None, threshold: float) -> Problem:
    """Source and target (the same for every seed), their space, the metric and the threshold."""
    best = task.reachable()
    if threshold == threshold:  # NaN is refused with what the target can reach
        as_number(threshold, "threshold")
    if not threshold < best:
        raise InvalidInput(f"expected a threshold that the target can reach (below {best:g}), got {threshold:g}")
    return Problem(
        source=AUTO if is_auto(task.source) else task.source_particles,
        target=task.target_particles,
        space=task.space,
        threshold=threshold,
        metric=None if metric is None else task.make_metric(metric, threshold),
        worst_return=0.0 if task.least is None else task.least,
        source_moments=task.source_moments,
        target_moments=task.target_moments,
    )


def build(task: Task, name: str, options: Options, metric: str | None, threshold: float) -> Curriculum[Any]:
    """The curriculum of a run."""
    if "worst_return" in curricula.options_of(name) and task.least is None and "worst_return" not in options:
        raise InvalidInput(f"expected worst_return= in task {task.name} for the method {name}")
    return curricula.build(name, problem(task, metric, threshold), **options)
