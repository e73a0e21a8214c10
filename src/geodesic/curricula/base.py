"""The contract every curriculum keeps: distributions out, episodes back, nothing else.

A curriculum is a frozen dataclass of hyperparameters. Everything that changes lives in an explicit state:

    state = curriculum.init(rng)
    state = curriculum.update(state, episodes, rng)

`update` is pure: the same state, episodes and generator state give the same result, and inputs are never changed.
"""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np

from geodesic.contexts import Arrays, ContextSpace, Episodes, FloatArray, Particles
from geodesic.contexts.episodes import COLUMNS
from geodesic.metrics.base import Metric, Recipe

Kind = Literal["train", "explore"]
S = TypeVar("S", bound="State")


@dataclass(frozen=True, repr=False)
class State:
    """Where a curriculum stands. Subclasses add what their method has to remember.

    stage counts the distributions handed out, alpha is the share of the way to the target (methods without a path
    report their own measure of it, or 0), done says that the distribution will not change any more, event says why
    this stage began, and kind what it is for: to train on the way to the target, or to explore for a metric.
    """

    distribution: Particles
    stage: int = 0
    alpha: float = 0.0
    done: bool = False
    event: str = "start"
    kind: Kind = "train"

    def __repr__(self) -> str:
        event = self.event if len(self.event) <= 30 else f"{self.event[:27]}..."
        words = (f"stage {self.stage}", f"alpha {self.alpha:.3g}", self.kind, repr(event), "done" if self.done else "")
        points = f"{len(self.distribution)} points"
        return f"{type(self).__name__}({', '.join(word for word in (*words, points) if word)})"

    def replace(self, **changes: Any) -> Self:
        return replace(self, **changes)


@dataclass(frozen=True)
class Problem:
    """What a user states once and every method can be built from (`geodesic.curricula.build`).

    Gaussian-only methods read source_moments and target_moments (mean, covariance) where they are given, and fit
    Gaussians to the particles otherwise.
    """

    source: Particles
    target: Particles
    space: ContextSpace
    threshold: float
    metric: Metric | Recipe | None = None
    worst_return: float = 0.0
    source_moments: tuple[FloatArray, FloatArray] | None = None
    target_moments: tuple[FloatArray, FloatArray] | None = None

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            self.space.check(getattr(self, name).points, name)


@dataclass(frozen=True)
class Curriculum(ABC, Generic[S]):
    """Frozen hyperparameters of a method. Fields named like a field of Problem are filled from it by `build`."""

    state_type: ClassVar[type[State]] = State

    @abstractmethod
    def init(self, rng: np.random.Generator) -> S:
        """The first stage."""

    @abstractmethod
    def update(self, state: S, episodes: Episodes, rng: np.random.Generator) -> S:
        """The state after the agent reported these episodes. No episodes: the same state."""

    def snapshot(self, state: S) -> Arrays:
        """Arrays that picture this stage beyond its distribution, kept in the run folder for the figures."""
        return {}

    def save(self, state: S) -> Arrays:
        """The state as named arrays, without pickle."""
        arrays: Arrays = {}
        for field in fields(state):
            _pack(field.name, getattr(state, field.name), arrays)
        return arrays

    def load(self, arrays: Arrays) -> S:
        """The state that `save` gave."""
        hints = typing.get_type_hints(self.state_type)
        values = {field.name: _unpack(field.name, hints[field.name], arrays) for field in fields(self.state_type)}
        return typing.cast(S, self.state_type(**values))


def _pack(name: str, value: Any, arrays: Arrays) -> None:
    if value is None:
        return
    if isinstance(value, Particles):
        value = {"points": value.points, "weights": value.weights}
    elif isinstance(value, Episodes):
        value = dict(zip(COLUMNS, value.columns()))
    if isinstance(value, dict):
        for key, item in value.items():
            _pack(f"{name}/{key}", item, arrays)
    else:
        arrays[name] = np.asarray(value)


def _unpack(name: str, hint: Any, arrays: Arrays) -> Any:
    choices = typing.get_args(hint)
    if type(None) in choices:
        if not any(key == name or key.startswith(name + "/") for key in arrays):
            return None
        hint = next(choice for choice in choices if choice is not type(None))
    if hint is Particles:
        return Particles(arrays[f"{name}/points"], arrays[f"{name}/weights"])
    if hint is Episodes:
        return Episodes(*(arrays[f"{name}/{column}"] for column in COLUMNS))
    if hint in (int, float, bool, str):
        return hint(arrays[name].item())
    if typing.get_origin(hint) is Literal:
        return str(arrays[name].item())
    if hint is dict or typing.get_origin(hint) is dict:
        return _nested(name + "/", arrays)
    return arrays[name]


def _nested(prefix: str, arrays: Arrays) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in arrays.items():
        if key.startswith(prefix):
            *parents, leaf = key[len(prefix) :].split("/")
            branch = tree
            for parent in parents:
                branch = branch.setdefault(parent, {})
            branch[leaf] = value
    return tree
