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

from geodesic.checks import Rule, as_a, as_covariance, as_number, as_rng, as_vector, check
from geodesic.contexts import Arrays, ContextSpace, Episodes, FloatArray, Particles
from geodesic.contexts.episodes import COLUMNS
from geodesic.errors import CheckpointError, InvalidInput, shown
from geodesic.metrics.base import Metric, Recipe, as_metric_or_recipe

Kind = Literal["train", "explore"]
AUTO: Literal["auto"] = "auto"  # in place of a source: found by a search
S = TypeVar("S", bound="State")


def is_auto(source: object) -> bool:
    """Whether a source is to be found; arrays have an `==` of their own."""
    return isinstance(source, str) and source == AUTO


@dataclass(frozen=True, repr=False)
class State:
    """Where a curriculum stands. Subclasses add what their method has to remember.

    stage counts the distributions handed out, alpha is the share of the way to the target (methods without a path
    report their own measure of it, or 0), done says that the distribution will not change any more, event says why
    this stage began, and kind what it is for: to train on the way to the target, or to explore for a metric or for a
    source.
    """

    distribution: Particles
    stage: int = 0
    alpha: float = 0.0
    done: bool = False
    event: str = "start"
    kind: Kind = "train"

    def __post_init__(self) -> None:
        as_a(Particles, self.distribution, "distribution")

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
    Gaussians to the particles otherwise. The source "auto" is found by a search (`geodesic.curricula.Search`).
    """

    source: Particles | Literal["auto"]
    target: Particles
    space: ContextSpace
    threshold: float
    metric: Metric | Recipe | None = None
    worst_return: float = 0.0
    source_moments: tuple[FloatArray, FloatArray] | None = None
    target_moments: tuple[FloatArray, FloatArray] | None = None

    def __post_init__(self) -> None:
        _check_stated(self)
        for name in ("source", "target"):
            if isinstance(getattr(self, name), Particles):
                self.space.check(getattr(self, name).points, name)


def _check_stated(owner: Problem | Curriculum[Any]) -> None:
    """What a problem states, and a curriculum takes over from it: each of its type, all of one dimension."""
    known = {field.name: field.default for field in fields(owner)}
    given = [name for name, default in known.items() if default is not None or getattr(owner, name) is not None]
    if is_auto(getattr(owner, "source", None)):
        if not isinstance(owner, Problem):
            raise InvalidInput(
                f"expected source to be Particles, got {AUTO!r}; try geodesic.curricula.build(name, problem, "
                f"source={AUTO!r}), which puts a search in front of the method"
            )
        given.remove("source")
    check(owner, **{name: rule for name, rule in STATED.items() if name in given})
    ends = [name for name in ("source", "target", "space") if getattr(owner, name, None) not in (None, AUTO)]
    dims = [getattr(owner, name).dim for name in ends]
    if len(set(dims)) > 1:
        raise InvalidInput(f"expected {' and '.join(ends)} of one dimension, got {' and '.join(map(str, dims))}")
    for name in ("source_moments", "target_moments"):
        if getattr(owner, name, None) is not None:
            _check_moments(getattr(owner, name), dims[0], name)


def _check_moments(value: object, d: int, name: str) -> None:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InvalidInput(f"expected {name} as (mean, covariance), got {shown(value)}")
    as_vector(value[0], f"the mean of {name}", d)
    as_covariance(value[1], d, f"covariance of {name}")


STATED: dict[str, Rule] = {
    "source": Particles,
    "target": Particles,
    "space": ContextSpace,
    "threshold": as_number,
    "metric": as_metric_or_recipe,
    "worst_return": as_number,
}


@dataclass(frozen=True)
class Curriculum(ABC, Generic[S]):
    """Frozen hyperparameters of a method. Fields named like a field of Problem are filled from it by `build`."""

    state_type: ClassVar[type[State]] = State
    on_support: ClassVar[bool] = False  # whether a metric, if it takes one, counts on discrete spaces only

    def __post_init__(self) -> None:
        _check_stated(self)

    @abstractmethod
    def init(self, rng: np.random.Generator) -> S:
        """The first stage."""

    @abstractmethod
    def update(self, state: S, episodes: Episodes, rng: np.random.Generator) -> S:
        """The state after the agent reported these episodes. No episodes: the same state."""

    def heard(self, state: S, episodes: Episodes, rng: np.random.Generator) -> bool:
        """Whether there are episodes at all; arguments of `update` that are not what they should be are refused."""
        as_rng(rng)
        dim = as_a(self.state_type, state, "state").distribution.dim
        if not len(as_a(Episodes, episodes, "episodes")):
            return False
        if episodes.contexts.shape[1] != dim:
            raise InvalidInput(
                f"expected episodes in contexts of dimension {dim}, got dimension {episodes.contexts.shape[1]}"
            )
        return True

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
        try:
            values = {field.name: _unpack(field.name, hints[field.name], arrays) for field in fields(self.state_type)}
            return typing.cast(S, self.state_type(**values))
        except KeyError as error:
            raise CheckpointError(f"expected a saved {self.state_type.__name__}, got one without {error}") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"expected a saved {self.state_type.__name__}: {error}") from error


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
