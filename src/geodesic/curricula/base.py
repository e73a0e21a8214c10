"""The interface of a curriculum: distributions out, finished episodes in.

A curriculum is an object with fixed hyperparameters. Everything that changes is kept in an explicit state:

    state = curriculum.init(rng)
    state = curriculum.update(state, episodes, rng)

`update` is pure: the same state, episodes and generator state give the same result, and arguments are never modified.
"""

from __future__ import annotations

import copy
import inspect
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np

from geodesic.checks import (
    Rule,
    as_covariance,
    as_name,
    as_number,
    as_rng,
    as_vector,
    check,
    check_fields,
    check_instance,
)
from geodesic.contexts import SCORES, Array, Arrays, ContextSpace, EpisodeBatch, Moments, Particles, Score
from geodesic.errors import CheckpointError, InvalidInput, short_repr
from geodesic.metrics.base import LearnedMetric, Metric, as_any_metric

Kind = Literal["train", "explore"]  # what a stage is for; explore: to fit a metric, or to find a source or a threshold
AUTO: Literal["auto"] = "auto"  # in place of a source or a threshold: found during training
Threshold = float | Literal["auto"]
ENOUGH = 0.8  # the threshold of successes where it is "auto"
S = TypeVar("S", bound="State")
INNER = "inner/"  # before the names of the arrays of the state inside


def is_auto(value: object) -> bool:
    """Whether a source or a threshold is to be found during training."""
    return isinstance(value, str) and value == AUTO  # arrays and Particles define == themselves


def as_threshold(value: object, name: str) -> Threshold:
    """A threshold: a number, or "auto"."""
    return AUTO if is_auto(value) else as_number(value, name)


@dataclass(frozen=True, repr=False)
class State:
    """The state of a curriculum. Subclasses add what their method has to remember.

    Args:
        distribution: The contexts to train on.
        stage: How many distributions came before this one.
        alpha: The fraction of the way from source to target, in [0, 1]. Methods without a path report a comparable
            fraction, or 0.
        done: Whether the distribution is final.
        event: Why this stage began.
        kind: `"train"`, or `"explore"` if the stage serves to fit a metric, or to find a source or a threshold.
        threshold: The score that is good enough, if it changes during training; None: the curriculum's.
    """

    distribution: Particles
    stage: int = 0
    alpha: float = 0.0
    done: bool = False
    event: str = "start"
    kind: Kind = "train"
    threshold: float | None = None

    def __post_init__(self) -> None:
        check_instance(Particles, self.distribution, "distribution")

    def __repr__(self) -> str:
        event = self.event if len(self.event) <= 30 else f"{self.event[:27]}..."
        words = (f"stage {self.stage}", f"alpha {self.alpha:.3g}", self.kind, repr(event), "done" if self.done else "")
        points = f"{len(self.distribution)} points"
        return f"{type(self).__name__}({', '.join(word for word in (*words, points) if word)})"

    def replace(self, **changes: Any) -> Self:
        """A copy with other values.

        Args:
            **changes: Values by the name of their field.

        Returns:
            The copy.
        """
        return replace(self, **changes)


@dataclass(frozen=True, repr=False)
class WrapperState(State):
    """The state of a `Wrapper`.

    Args:
        inner: The state of the curriculum inside; None: it has not begun.
    """

    inner: State | None = None

    @property
    def failures(self) -> int:
        """How many updates of the curriculum inside have failed, if it counts them."""
        return int(getattr(self.inner, "failures", 0))

    def follow(self, inner: State) -> Self:
        """This state with all that the state inside says.

        Args:
            inner: The state inside.

        Returns:
            The state.
        """
        return self.replace(inner=inner, **{entry.name: getattr(inner, entry.name) for entry in fields(State)})


@dataclass(frozen=True, repr=False)
class RecentState(State):
    """A `State` with the latest episodes.

    Args:
        recent: The latest episodes, oldest first.
        fresh: Episodes since the last update of the distribution.
        low: The lowest of all scores so far.
        high: The highest of all scores so far.
    """

    recent: EpisodeBatch = field(default_factory=lambda: EpisodeBatch.empty(1))
    fresh: int = 0
    low: float = math.inf
    high: float = -math.inf

    def absorb(self, episodes: EpisodeBatch, memory: int, score: Score) -> Self:
        """Add episodes.

        Args:
            episodes: Episodes that ended.
            memory: How many of the latest ones to keep.
            score: Which score.

        Returns:
            The state with them.
        """
        scores = episodes.scores(score)
        return self.replace(
            recent=self.recent.concatenate(episodes)[-memory:],
            fresh=self.fresh + len(episodes),
            low=min(self.low, float(scores.min())),
            high=max(self.high, float(scores.max())),
        )


@dataclass(frozen=True)
class Problem:
    """The facts that every method can be built from (`geodesic.curricula.build`).

    Args:
        source: Contexts the agent can learn from at the start, or `"auto"` to search for them
            (`geodesic.curricula.Search`).
        target: The contexts to master.
        space: Where contexts live.
        threshold: A stage is mastered above this mean score. `"auto"`: it follows what the agent has shown that it can
            earn (`geodesic.curricula.AutoThreshold`).
        metric: The distance between contexts; a `LearnedMetric` is fitted during training.
        worst_return: The lowest return an episode can have.
        source_moments: Mean (d,) and covariance (d, d) of the source, for methods that use Gaussians. They fit
            Gaussians to the particles if there are none.
        target_moments: Mean and covariance of the target.
        score: What thresholds and curricula look at: `"return"`, `"discounted_return"` or `"success"`.

    Raises:
        InvalidInput: If a value has the wrong type or dimension, or contexts lie outside the space.
    """

    source: Particles | Literal["auto"]
    target: Particles
    space: ContextSpace
    threshold: Threshold
    metric: Metric | LearnedMetric | None = None
    worst_return: float = 0.0
    source_moments: Moments | None = None
    target_moments: Moments | None = None
    score: Score = "return"

    def __post_init__(self) -> None:
        _check_facts(self)
        for name in ("source", "target"):
            if isinstance(getattr(self, name), Particles):
                self.space.check(getattr(self, name).points, name)


RULES: dict[str, Rule] = {
    "source": Particles,
    "target": Particles,
    "space": ContextSpace,
    "threshold": as_number,
    "metric": as_any_metric,
    "worst_return": as_number,
}


def _check_facts(owner: Problem | Curriculum[Any]) -> None:
    """The facts of a problem, which a curriculum has under the same names: their types, and one dimension for all."""
    searched = is_auto(getattr(owner, "source", None))
    if searched and not (isinstance(owner, Problem) or owner.searches):
        raise InvalidInput(
            f"expected source to be Particles, got {AUTO!r}; try geodesic.curricula.build(name, problem, "
            f"source={AUTO!r}), which searches for a source first"
        )
    check_fields(owner)
    defaults = {entry.name: entry.default for entry in fields(owner)}
    given = {name for name, default in defaults.items() if default is not None or getattr(owner, name) is not None}
    if isinstance(owner, Problem):
        as_threshold(owner.threshold, "threshold")
        given.remove("threshold")
    if searched:
        given.remove("source")
    check(owner, **{name: rule for name, rule in RULES.items() if name in given})
    ends = [name for name in ("source", "target", "space") if getattr(owner, name, None) not in (None, AUTO)]
    dims = [getattr(owner, name).dim for name in ends]
    if len(set(dims)) > 1:
        raise InvalidInput(f"expected {' and '.join(ends)} of one dimension, got {' and '.join(map(str, dims))}")
    for name in ("source_moments", "target_moments"):
        if getattr(owner, name, None) is not None:
            _check_moments(getattr(owner, name), dims[0], name)


def _check_moments(value: object, d: int, name: str) -> None:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InvalidInput(f"expected {name} as (mean, covariance), got {short_repr(value)}")
    as_vector(value[0], f"the mean of {name}", d)
    as_covariance(value[1], d, f"covariance of {name}")


@dataclass(frozen=True)
class Curriculum(ABC, Generic[S]):
    """Base class of all curricula.

    Subclass it, define `init` and `update`, and pass the class, or an object of it, as `method`. `build` fills
    parameters of the class that are named like a field of `Problem`. The state is a `State`; a method that has to
    remember more derives its own from it and names it: `class Mine(Curriculum[MyState])`.

    Args:
        score: The score of an episode that the curriculum looks at.

    Attributes:
        description: One line for lists of methods; by default the first line of the class's docstring.
        colour: The method's colour in figures, as a hex string, or None for the next free one.
        state_type: The class of its states.
        on_support: Whether a metric is used on discrete spaces only.
        searches: Whether it takes `"auto"` as a source and finds one by itself.
        follows_threshold: Whether it follows a threshold that changes (`required`).
        needs_value_losses: Whether it needs `EpisodeBatch.value_losses`, which learners then report.

    Example:
        >>> import numpy as np
        >>> import geodesic as gd
        >>> class HalfAndHalf(gd.Curriculum):
        ...     def __init__(self, source, target):
        ...         self.source, self.target = source, target
        ...     def init(self, rng):
        ...         return gd.State(self.source)
        ...     def update(self, state, episodes, rng):
        ...         if state.done or not self.has_episodes(state, episodes, rng):
        ...             return state
        ...         return state.replace(distribution=self.target, stage=1, alpha=1.0, done=True, event="half time")
        >>> problem = gd.Problem(gd.Particles([[0.0]]), gd.Particles([[1.0]]), gd.ContextSpace([0.0], [1.0]), 5.0)
        >>> gd.curricula.build(HalfAndHalf, problem).init(np.random.default_rng(0))
        State(stage 0, alpha 0, train, 'start', 1 points)
    """

    score: Score = field(default="return", kw_only=True)

    description: ClassVar[str] = ""
    colour: ClassVar[str | None] = None
    state_type: ClassVar[type[State]] = State
    on_support: ClassVar[bool] = False
    searches: ClassVar[bool] = False
    follows_threshold: ClassVar[bool] = False
    needs_value_losses: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "description" not in vars(cls) and cls.__doc__:
            cls.description = cls.__doc__.strip().split("\n")[0]
        for base in vars(cls).get("__orig_bases__", ()):
            for argument in typing.get_args(base):
                if isinstance(argument, type) and issubclass(argument, State):
                    cls.state_type = argument

    def __post_init__(self) -> None:
        _check_facts(self)

    @abstractmethod
    def init(self, rng: np.random.Generator) -> S:
        """The state of the first stage.

        Args:
            rng: The source of randomness.

        Returns:
            The state.
        """

    @abstractmethod
    def update(self, state: S, episodes: EpisodeBatch, rng: np.random.Generator) -> S:
        """The state after more episodes; without episodes, the same state.

        Args:
            state: The state so far. It is not changed.
            episodes: Episodes that ended since the last update, of this and of earlier stages.
            rng: The source of randomness.

        Returns:
            The next state.
        """

    @classmethod
    def from_problem(cls, problem: Problem, **options: Any) -> Self:
        """A curriculum for a problem, whose source is known. Override it to treat options in another way.

        Args:
            problem: Fills the parameters named like its fields.
            **options: Other parameters; they take precedence over the problem's.

        Returns:
            The curriculum.

        Raises:
            InvalidInput: If an option is unknown or has an invalid value.
        """
        names = cls.option_names()
        check_options(cls.__name__, options, names)
        facts = {entry.name: getattr(problem, entry.name) for entry in fields(problem) if entry.name in names}
        return cls(**{**facts, **options})

    @classmethod
    def option_names(cls, **options: Any) -> list[str]:
        """The names of the parameters that `from_problem` takes.

        Args:
            **options: Options that are chosen: those that have no effect beside them are left out.

        Returns:
            The names.
        """
        return parameter_names(cls)

    def with_score(self, score: Score) -> Self:
        """This curriculum, looking at another score.

        Args:
            score: `"return"`, `"discounted_return"` or `"success"`.

        Returns:
            A copy; the object itself if it looks at this score already.
        """
        if self.score == as_name(score, "score", SCORES):
            return self
        made = copy.copy(self)
        for name in [name for name in vars(made) if isinstance(getattr(type(made), name, None), cached_property)]:
            del vars(made)[name]  # cached values may depend on the score
        object.__setattr__(made, "score", score)
        return made

    def required(self, state: S) -> float:
        """The score that is good enough.

        Args:
            state: The state; one with a threshold comes first.

        Returns:
            The threshold.
        """
        own: float = getattr(self, "threshold", math.nan)
        return own if state.threshold is None else state.threshold

    def has_episodes(self, state: S, episodes: EpisodeBatch, rng: np.random.Generator) -> bool:
        """Check the arguments of `update`.

        Args:
            state: A state of this curriculum.
            episodes: Episodes in contexts of its dimension.
            rng: A NumPy generator.

        Returns:
            Whether there are any episodes.

        Raises:
            InvalidInput: If an argument has the wrong type or dimension.
        """
        as_rng(rng)
        dim = check_instance(self.state_type, state, "state").distribution.dim
        if not len(check_instance(EpisodeBatch, episodes, "episodes")):
            return False
        if episodes.contexts.shape[1] != dim:
            raise InvalidInput(
                f"expected episodes in contexts of dimension {dim}, got dimension {episodes.contexts.shape[1]}"
            )
        return True

    def snapshot(self, state: S) -> Arrays:
        """Arrays that describe a stage beyond its distribution; the run folder keeps them for figures.

        Args:
            state: The state of the stage.

        Returns:
            Arrays by name.
        """
        return {}

    def scalars(self, state: S) -> dict[str, float]:
        """Numbers that describe a state, for trackers such as TensorBoard.

        Args:
            state: The state.

        Returns:
            Numbers by name.
        """
        return {}

    def save(self, state: S) -> Arrays:
        """A state as arrays, which can be stored without pickle.

        Args:
            state: The state.

        Returns:
            Arrays by name.
        """
        return dict(_flat(state))

    def load(self, arrays: Arrays) -> S:
        """The state that `save` stored.

        Args:
            arrays: Arrays by name.

        Returns:
            The state.

        Raises:
            CheckpointError: If the arrays are not those of a state of this curriculum.
        """
        kind = self.state_type
        try:
            return typing.cast(S, _restored(kind, _nested(arrays)))
        except KeyError as error:
            raise CheckpointError(f"expected a saved {kind.__name__}, got one without {error}") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"expected a saved {kind.__name__}: {error}") from error


W = TypeVar("W", bound=WrapperState)


class Wrapper(Curriculum[W]):
    """A curriculum around another one, whose state it keeps as `state.inner`."""

    @abstractmethod
    def inside(self, state: W) -> Curriculum[Any] | None:
        """The curriculum inside.

        Args:
            state: The state, of which `inner` is not looked at.

        Returns:
            The curriculum; None if it has not begun.
        """

    def snapshot(self, state: W) -> Arrays:
        """Arrays that describe a stage of the curriculum inside."""
        inside = self.inside(state)
        return {} if inside is None or state.inner is None else inside.snapshot(state.inner)

    def scalars(self, state: W) -> dict[str, float]:
        """Numbers that describe the curriculum inside, and the threshold if it changes."""
        inside = self.inside(state)
        own = {} if state.threshold is None else {"threshold": state.threshold}
        return {**({} if inside is None or state.inner is None else inside.scalars(state.inner)), **own}

    def save(self, state: W) -> Arrays:
        """A state as arrays, with those of the state inside."""
        arrays, inside = super().save(state.replace(inner=None)), self.inside(state)
        own = {} if inside is None or state.inner is None else inside.save(state.inner)
        return {**arrays, **{INNER + name: value for name, value in own.items()}}

    def load(self, arrays: Arrays) -> W:
        """The state that `save` stored."""
        inner = {name.removeprefix(INNER): value for name, value in arrays.items() if name.startswith(INNER)}
        state = super().load({name: value for name, value in arrays.items() if not name.startswith(INNER)})
        inside = self.inside(state)
        return state if inside is None else state.replace(inner=inside.load(inner))


def check_options(owner: str, options: Iterable[str], known: Sequence[str]) -> None:
    """Refuse an option that its owner does not have."""
    for option in options:
        if option not in known:
            raise InvalidInput(f"expected an option of {owner} ({', '.join(known)}), got {option!r}")


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """The names under which a function or a class takes arguments."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, entry in inspect.signature(function).parameters.items() if entry.kind not in variadic]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Array]]:
    """The arrays of a value; fields of dataclasses and entries of dictionaries become name/key."""
    if is_dataclass(value):
        value = {entry.name: getattr(value, entry.name) for entry in fields(value)}
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{name}/{key}" if name else key)
    elif value is not None:
        yield name, np.asarray(value)


def _nested(arrays: Arrays) -> dict[str, Any]:
    """Arrays by name/key as dictionaries in dictionaries."""
    tree: dict[str, Any] = {}
    for name, value in arrays.items():
        *parents, leaf = name.split("/")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[leaf] = value
    return tree


def _restored(hint: Any, value: Any, name: str = "") -> Any:
    """The value of a field of this type, from what `_nested` has under its name."""
    choices = typing.get_args(hint)
    if type(None) in choices:
        kind = next(choice for choice in choices if choice is not type(None))
        return None if value is None else _restored(kind, value, name)
    if is_dataclass(hint):
        hints, prefix, found = typing.get_type_hints(hint), f"{name}/" if name else "", value or {}
        parts = {
            entry.name: _restored(hints[entry.name], found.get(entry.name), prefix + entry.name)
            for entry in fields(hint)
        }
        return typing.cast(type, hint)(**parts)
    if hint is dict or typing.get_origin(hint) is dict:
        return value if isinstance(value, dict) else {}
    if value is None or isinstance(value, dict):
        raise KeyError(name)
    if hint in (int, float, bool, str):
        return hint(value.item())
    return str(value.item()) if typing.get_origin(hint) is Literal else value
