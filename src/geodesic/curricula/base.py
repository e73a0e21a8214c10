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
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.distributions import ContextSpace, FloatArray, Particles, as_points, as_vector
from geodesic.errors import InvalidInput
from geodesic.metrics.base import Metric

IntArray = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Episodes:
    """What an agent reports back: the episodes that ended, oldest first.

    contexts (n, d); returns (n,), undiscounted; lengths (n,), in environment steps; stages (n,), the stage in which
    each episode began; successes (n,), 0 or 1, NaN where the environment does not say.
    """

    contexts: FloatArray
    returns: FloatArray
    lengths: IntArray
    stages: IntArray
    successes: FloatArray

    def __init__(
        self,
        contexts: ArrayLike,
        returns: ArrayLike,
        lengths: ArrayLike,
        stages: ArrayLike,
        successes: ArrayLike | None = None,
    ) -> None:
        points = np.array(contexts, dtype=np.float64)
        if points.size:
            points = as_points(points, "contexts")
        elif points.ndim != 2:
            points = points.reshape(0, 1)
        n = len(points)
        for name, values, dtype in (
            ("returns", returns, np.float64),
            ("lengths", lengths, np.int64),
            ("stages", stages, np.int64),
        ):
            object.__setattr__(self, name, (as_vector(values, name, n) if n else np.zeros(0)).astype(dtype))
        flags = np.full(n, np.nan) if successes is None else np.array(successes, dtype=np.float64)
        if flags.shape != (n,):
            raise InvalidInput(f"expected successes of shape ({n},), got shape {flags.shape}")
        object.__setattr__(self, "contexts", points)
        object.__setattr__(self, "successes", flags)

    def __len__(self) -> int:
        return len(self.returns)

    def __getitem__(self, which: Any) -> Episodes:
        return Episodes(
            self.contexts[which], self.returns[which], self.lengths[which], self.stages[which], self.successes[which]
        )

    @classmethod
    def empty(cls, dim: int) -> Episodes:
        return cls(np.zeros((0, dim)), [], [], [])

    def of_stage(self, stage: int) -> Episodes:
        """The episodes that began in this stage."""
        return self[self.stages == stage]

    def followed_by(self, other: Episodes) -> Episodes:
        if not len(self) or not len(other):
            return other if len(other) else self
        pairs = zip(self._columns(), other._columns())
        return Episodes(*(np.concatenate(pair) for pair in pairs))

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.contexts, self.returns, self.lengths, self.stages, self.successes


@dataclass(frozen=True)
class State:
    """Where a curriculum stands. Subclasses add what their method has to remember.

    stage counts the distributions handed out, alpha is the share of the way to the target (methods without a path
    report their own measure of it, or 0), done says that the distribution will not change any more, and event says
    why this stage began.
    """

    distribution: Particles
    stage: int = 0
    alpha: float = 0.0
    done: bool = False
    event: str = "start"

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
    metric: Metric | None = None
    worst_return: float = 0.0
    source_moments: tuple[FloatArray, FloatArray] | None = None
    target_moments: tuple[FloatArray, FloatArray] | None = None

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            self.space.check(getattr(self, name).points, name)


@dataclass(frozen=True)
class Curriculum(ABC):
    """Frozen hyperparameters of a method. Fields named like a field of Problem are filled from it by `build`."""

    state_type: ClassVar[type[State]] = State

    @abstractmethod
    def init(self, rng: np.random.Generator) -> State:
        """The first stage."""

    @abstractmethod
    def update(self, state: Any, episodes: Episodes, rng: np.random.Generator) -> State:
        """The state after the agent reported these episodes. No episodes: the same state."""

    def snapshot(self, state: Any) -> Arrays:
        """Arrays that picture this stage beyond its distribution, kept in the run folder for the figures."""
        return {}

    def save(self, state: State) -> Arrays:
        """The state as named arrays, without pickle."""
        arrays: Arrays = {}
        for field in fields(state):
            _pack(field.name, getattr(state, field.name), arrays)
        return arrays

    def load(self, arrays: Arrays) -> State:
        """The state that `save` gave."""
        hints = typing.get_type_hints(self.state_type)
        return self.state_type(
            **{field.name: _unpack(field.name, hints[field.name], arrays) for field in fields(self.state_type)}
        )


def _pack(name: str, value: Any, arrays: Arrays) -> None:
    if value is None:
        return
    if isinstance(value, Particles):
        value = {"points": value.points, "weights": value.weights}
    elif isinstance(value, Episodes):
        value = dict(zip(_EPISODE_COLUMNS, value._columns()))
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
        return Episodes(*(arrays[f"{name}/{column}"] for column in _EPISODE_COLUMNS))
    if hint in (int, float, bool, str):
        return hint(arrays[name].item())
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


_EPISODE_COLUMNS = ("contexts", "returns", "lengths", "stages", "successes")
