"""Metrics by name: those that this library provides, registered ones, and a user's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from geodesic.contexts import ContextSpace, Score
from geodesic.errors import InvalidInput, format_error
from geodesic.metrics.base import Euclidean, LearnedMetric, Metric, as_any_metric
from geodesic.metrics.practice import DIMENSIONS, Practice
from geodesic.metrics.product import Product
from geodesic.registry import Registry, is_reference


class TaskFacts(Protocol):
    """The facts of a task that metrics are made from."""

    @property
    def space(self) -> ContextSpace:
        """The context space."""

    @property
    def least(self) -> float | None:
        """The lowest score an episode can have, if it is known."""

    @property
    def threshold(self) -> float | str:
        """The score above which a stage is mastered, or "auto"."""

    @property
    def score(self) -> Score:
        """The score that the task uses."""


Maker = Metric | LearnedMetric | Callable[..., Metric | LearnedMetric]


@dataclass(frozen=True)
class StandardMetric:
    """A metric that this library provides by name.

    Args:
        description: One line for `geodesic list`.
        make: How every task that is not on a discrete space makes it, from (task, threshold); None if only some
            environments have it.
        learned: Whether it is fitted while training. It then needs bounded contexts and a worst return.
        needs_threshold: Whether it needs a number as the threshold.
        colour: The colour in figures of a gradient curriculum that uses it (default: the method's).
        dimensions: The most dimensions of a context; None: any number.
        mixed: Whether it is for spaces with integers or categories only (True), or not for them (False); None: for
            boxes and for them.
    """

    description: str
    make: Callable[[TaskFacts, float], Metric | LearnedMetric] | None = None
    learned: bool = False
    needs_threshold: bool = False
    colour: str | None = None
    mixed: bool | None = None
    dimensions: int | None = None


def _l2(task: TaskFacts, threshold: float) -> Metric:
    return Euclidean(task.space.sides if task.space.bounded else None)


def _product(task: TaskFacts, threshold: float) -> Metric:
    return Product(task.space)


def _embedding(task: TaskFacts, threshold: float, raw: bool = False) -> LearnedMetric:
    from geodesic.metrics.embedding import Embedding

    return Embedding(task.space, task.least or 0.0, raw=raw, score=task.score)


def _return_lift(task: TaskFacts, threshold: float) -> LearnedMetric:
    from geodesic.metrics.returns import ReturnLift

    if math.isnan(threshold):
        raise InvalidInput("expected a number as the threshold for metric return-lift, got 'auto'; try threshold=...")
    return ReturnLift(task.space, task.least or 0.0, threshold, score=task.score)


def _practice(task: TaskFacts, threshold: float) -> LearnedMetric:
    if math.isnan(threshold):
        raise InvalidInput("expected a number as the threshold for metric practice, got 'auto'; try threshold=...")
    return Practice(task.space, threshold, score=task.score)


STANDARD = {
    "l2": StandardMetric("straight lines between contexts", _l2, mixed=False),
    "product": StandardMetric("each number, integer and category along its own way", _product, mixed=True),
    "graph": StandardMetric("shortest paths between discrete contexts"),
    "edit": StandardMetric("edits between levels: walls are added and removed, start and goal move"),
    "contextual": StandardMetric("the exact contextual distance of a tabular environment (Algorithm 3)"),
    "optimal-returns": StandardMetric("difference of the best returns of a tabular environment, from value iteration"),
    "policy-returns": StandardMetric("difference of the agent's returns, refitted while training"),
    "embedding": StandardMetric(
        "a latent space fitted to return differences while training (Algorithms 4 and 5)",
        _embedding,
        learned=True,
        colour="#8E6BBF",
    ),
    "return-lift": StandardMetric(
        "shortest paths on a graph lifted by the return, refitted while training",
        _return_lift,
        learned=True,
        needs_threshold=True,
        colour="#882255",
        mixed=False,
    ),
    "practice": StandardMetric(
        "shortest paths around contexts that were practised in vain, planned again while training",
        _practice,
        learned=True,
        needs_threshold=True,
        colour="#117733",
        mixed=False,
        dimensions=DIMENSIONS,
    ),
    "embedding-raw": StandardMetric(
        "the embedding in units of contexts and returns, as in the authors' code", partial(_embedding, raw=True), True
    ),
}

REGISTRY: Registry[Maker] = Registry(
    "metric", "geodesic.metrics", {name: metric.make for name, metric in STANDARD.items() if metric.make}
)


def register(name: str, maker: Maker) -> Maker:
    """Make a metric available by name in this process, as in `gradient:metric=NAME`.

    Args:
        name: The name, without ":", "=" and ",".
        maker: A metric; a class of metrics that takes no arguments; or a function (task, threshold) -> metric. The
            first line of its docstring is the description in `geodesic list`.

    Returns:
        The maker.

    Raises:
        InvalidInput: If the name is taken or invalid, or the maker cannot make a metric.
    """
    if not callable(maker):
        as_any_metric(maker, f"metric {name!r}")
    return REGISTRY.register(name, maker)


def make(maker: Maker | str, task: TaskFacts, threshold: float, name: str | None = None) -> Metric | LearnedMetric:
    """Make a metric for a task.

    Args:
        maker: A name or a reference (`package.module:Name`, `path/file.py:Name`), or what `register` takes.
        task: The task; its context space, lowest score and kind of score are used.
        threshold: The score above which a stage is mastered.
        name: The metric's name in messages (default: the name or reference given as `maker`).

    Returns:
        The metric, or one that is fitted while training.

    Raises:
        UnknownName: If there is no metric of this name.
        InvalidInput: If the maker fails, or makes something else.
    """
    name = maker if name is None and isinstance(maker, str) else name
    what = "metric" if name is None else f"metric {name!r}"
    found = REGISTRY.get(maker) if isinstance(maker, str) else maker
    if isinstance(found, type):
        try:
            found = found()
        except TypeError as error:
            got = f"{format_error(error)}; try a function (task, threshold) that makes it"
            raise InvalidInput(f"expected {what} to be a class without arguments, got {got}") from error
    elif not isinstance(found, (Metric, LearnedMetric)) and callable(found):
        found = found(task, threshold)
    return as_any_metric(found, what)


def standard_names(task: TaskFacts) -> tuple[str, ...]:
    """List the metrics that every task with such contexts has: none on a discrete space."""
    if task.space.support is not None:
        return ()
    known = {
        name: metric
        for name, metric in STANDARD.items()
        if metric.mixed in (None, task.space.mixed) and task.space.dim <= (metric.dimensions or task.space.dim)
    }
    return tuple(name for name, metric in known.items() if metric.make and not missing(name, task))


def missing(name: str, task: TaskFacts) -> str | None:
    """Say what a task with box contexts lacks for a standard metric; None if nothing."""
    metric = STANDARD.get(name)
    if metric is None or not metric.learned or task.space.support is not None:
        return None
    if metric.mixed is False and task.space.mixed:
        return "contexts without integers and categories"
    if metric.dimensions is not None and task.space.dim > metric.dimensions:
        return f"contexts of at most {metric.dimensions} numbers"
    if not task.space.bounded:
        return "bounded contexts"
    if task.least is None:
        return "worst_return="
    return "a number as threshold=" if metric.needs_threshold and isinstance(task.threshold, str) else None


def is_custom(name: str) -> bool:
    """Whether a name is of a metric that a user or an installed package has added, or a reference to one."""
    provided = name in STANDARD and STANDARD[name].make is not None
    return not provided and (name in REGISTRY.names() or is_reference(name))


def descriptions() -> dict[str, str]:
    """Describe every known metric in one line, by name.

    Returns:
        The standard metrics, then registered ones, then those that installed packages announce.
    """
    return REGISTRY.descriptions({name: metric.description for name, metric in STANDARD.items()})
