"""Paces: when a stage is over, and how far along the path the next one lies."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np

from geodesic.checks import Count, Fraction, Number, Positive, as_number, check_fields, check_instance, is_number
from geodesic.contexts import ContextSpace, EpisodeBatch, FloatArray, Particles, Score
from geodesic.curricula.base import parameter_names
from geodesic.curricula.regression import NadarayaWatson
from geodesic.errors import InvalidInput, UnknownName, short_repr
from geodesic.registry import is_reference, load_object
from geodesic.transport.geodesic import Knots, Trajectories, Values

if TYPE_CHECKING:
    from geodesic.curricula.gradient.staged import StagedState

Path = Callable[[float], Particles]  # alpha in [0, 1] -> the distribution there; the source at 0 and the target at 1

PROBES = 4  # places ahead, and as many behind, at which an estimate is evaluated
TOLERANCE = 5e-4  # of the alpha that is found between two of them
ITERATIONS = 12
KNOTS = 50  # of a path along which all particles are equally far: alpha in hundredths, two at a time


class Pace(ABC):
    """Decides when a stage is over, and where on the path the next one lies.

    For a pace of your own, subclass it and define `stage_status` and `next_alpha`. The other attributes and methods
    have defaults.

    Attributes:
        window: How many of the stage's latest scores `state.recent` keeps.
        memory: How many of the latest episodes, of any stage, `state.seen` keeps.
        threshold: A stage is mastered above this score; None: the curriculum's.
        space: The space in which contexts are compared; set by the curriculum. None: as they are.
        score: Which score of an episode counts; set by the curriculum.
        individual: Whether particles move separately (`next_knots`) rather than all to one alpha.
        final_target: Whether the curriculum ends when it reaches the target. If not, the target can be left again.

    Example:
        >>> import geodesic as gd
        >>> class Doubling(gd.Pace):
        ...     window = 10
        ...     def stage_status(self, state):
        ...         full = len(state.recent) == self.window
        ...         return "mastered" if full and state.recent.mean() > self.threshold else ""
        ...     def next_alpha(self, state, path):
        ...         return max(2 * state.alpha, 0.1)
        >>> curriculum = gd.Gradient(gd.Particles([[0.0]]), gd.Particles([[1.0]]), pace=Doubling(), threshold=40.0)
    """

    window: int = 20
    memory: int = 0
    threshold: float | None = None
    space: ContextSpace | None = None
    score: Score = "return"
    individual: ClassVar[bool] = False
    final_target: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def stage_status(self, state: StagedState) -> str:
        """Why the stage is over.

        Args:
            state: The state, with the latest episodes.

        Returns:
            A short reason such as "mastered"; "" if the stage is not over.
        """

    @abstractmethod
    def next_alpha(self, state: StagedState, path: Path) -> float:
        """Where the next stage lies, once this one is over.

        Args:
            state: The state.
            path: The distribution at each alpha.

        Returns:
            Its alpha, which is clipped to [0, 1]. It may be lower than `state.alpha`; the same alpha: stay.
        """

    def next_knots(self, state: StagedState, trajectories: Trajectories, knots: Knots) -> Knots:
        """Where each particle moves on its trajectory.

        Args:
            state: The state.
            trajectories: Of the n particles.
            knots: Where each of them is (n,).

        Returns:
            Where each of them goes (n,); by default all to `next_alpha`.
        """
        alpha = self.next_alpha(state, lambda alpha: trajectories.at(level(trajectories, alpha)))
        return level(trajectories, alpha)

    @property
    def path_knots(self) -> int:
        """Under a learned metric, the knots of a path that is kept for many moves; 0: one fit for each move."""
        return 0

    @property
    def reach(self) -> float:
        """How far beyond the alpha of its fit a path is followed that is kept."""
        return 0.0

    def is_stale(self, state: StagedState) -> bool:
        """Whether a path that is kept leads no further, so that the metric needs a new fit.

        Args:
            state: The state of a mastered stage on a path that is kept (`state.segment`).

        Returns:
            Whether it is stale.
        """
        return False

    def bind(self, threshold: float, space: ContextSpace, score: Score) -> Self:
        """This pace, with what a curriculum knows.

        Args:
            threshold: For a pace without a threshold.
            space: The bounded space in which contexts are compared.
            score: Which score of an episode counts.

        Returns:
            A copy.
        """
        bound = copy.copy(self)
        known = {"threshold": threshold if self.threshold is None else self.threshold, "space": space, "score": score}
        for name, value in known.items():
            object.__setattr__(bound, name, value)  # paces may be frozen
        return bound

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        """A pace from a method's options, such as those of `gradient:step=0.05:window=10`.

        Args:
            options: Options by name.

        Returns:
            The pace.
        """
        return cls(**options)

    @classmethod
    def option_names(cls) -> list[str]:
        """The names of the options that `from_options` takes."""
        return parameter_names(cls)

    @property
    def required(self) -> float:
        """The threshold of a pace that has one."""
        if self.threshold is None:
            raise InvalidInput(f"expected a threshold, got none; try {type(self).__name__}(threshold=...)")
        return self.threshold


def as_pace(value: object, name: str = "pace") -> Pace:
    """A pace object."""
    return check_instance(Pace, value, name)  # type: ignore[type-abstract]


def as_step(value: object, name: str) -> float:
    """A fraction of the path, above 0."""
    if not is_number(value) or not 0 < value <= 1:
        raise InvalidInput(f"expected {name} in (0, 1], got {short_repr(value)}")
    return float(value)


Step = Annotated[float, as_step]


@dataclass(frozen=True)
class FixedStep(Pace):
    """The paper's pace (Algorithm 1): alpha_k = min(k * step, 1), a step forward when the mean score is high enough.

    A stage is mastered when the mean score of its last `window` training episodes exceeds the threshold.

    Differs from the paper: a stage also ends after `max_stage_steps` environment steps, where the paper waits forever.

    Args:
        step: How much alpha grows from stage to stage, in (0, 1]; the paper's Delta-alpha.
        window: How many episodes the mean score is taken over.
        max_stage_steps: The environment steps after which a stage ends anyway; None: no limit.
        threshold: The mean score above which a stage is mastered; None: the curriculum's.

    Example:
        >>> import geodesic as gd
        >>> pace = gd.FixedStep(0.25, window=10)
        >>> curriculum = gd.Gradient(gd.Particles([[0.0]]), gd.Particles([[4.0]]), pace=pace, threshold=40.0)
    """

    step: Step = 0.1
    window: Count = 20
    max_stage_steps: Count | None = None
    threshold: Number | None = None

    def stage_status(self, state: StagedState) -> str:
        """Return "mastered", "step cap" or nothing."""
        if len(state.recent) >= self.window and state.recent.mean() > self.required:
            return "mastered"
        if self.max_stage_steps is not None and state.steps >= self.max_stage_steps:
            return "step cap"
        return ""

    def next_alpha(self, state: StagedState, path: Path) -> float:
        """min(k * step, 1), without rounding at the end."""
        alpha = (state.moves + 1) * self.step
        return 1.0 if alpha > 1.0 - 1e-9 else alpha


@dataclass(frozen=True)
class CompoundingStep(FixedStep):
    """The schedule of the paper's Algorithm 4 as printed: stage k goes min(k * step, 1) of the path that remains.

    Algorithm 4 raises alpha by the step and makes the last stage its source as well. Seen from the first source, a step
    of 0.1 leads to alpha = 0.1, 0.28, 0.50, 0.70, 0.85, 0.94 ...: it is uneven, and faster than the step says.
    `FixedStep` goes evenly instead, under a learned metric too.

    Args:
        step: How much longer each move is than the one before, as a fraction of what remains, in (0, 1].
        window: How many episodes the mean score is taken over.
        max_stage_steps: The environment steps after which a stage ends anyway; None: no limit.
        threshold: The mean score above which a stage is mastered; None: the curriculum's.
    """

    def next_alpha(self, state: StagedState, path: Path) -> float:
        """1 - (1 - alpha) (1 - k * step), 1 as soon as k * step is."""
        fraction = super().next_alpha(state, path)
        return 1.0 if fraction == 1.0 else 1 - (1 - state.alpha) * (1 - fraction)


@dataclass(frozen=True)
class AdaptivePace(Pace):
    """The largest alpha, at most `stride` away, at which the agent is estimated to be good enough on average.

        max alpha   with E[J(c)], c from path(alpha), >= threshold and |alpha - here| <= stride

    J is a kernel regression of the last `memory` episodes' scores on their contexts. It is evaluated after every
    `window` episodes of the stage. If no alpha within reach is good enough, the curriculum goes back by a stride. So no
    stage is final: the target is left again if the agent gets worse there.

    Args:
        stride: The farthest that alpha moves at once, in (0, 1].
        window: How many episodes of a stage come between two decisions.
        memory: How many of the latest episodes J is fitted to.
        bandwidth: Of the kernel, in diagonals of the context space.
        success: A success rate that is also required, if it is above 0 and the environment reports successes; a high
            return may be possible without success.
        threshold: The mean score that is good enough; None: the curriculum's.

    Example:
        >>> import geodesic as gd
        >>> pace = gd.AdaptivePace(stride=0.1)
        >>> curriculum = gd.Gradient(gd.Particles([[0.0]]), gd.Particles([[4.0]]), pace=pace, threshold=40.0)
    """

    final_target: ClassVar[bool] = False

    stride: Step = 0.2
    window: Count = 20
    memory: Count = 200
    bandwidth: Positive = 0.04
    success: Fraction = 0.0
    threshold: Number | None = None

    @property
    def path_knots(self) -> int:
        """Under a learned metric, the knots of the path found at a fit."""
        return KNOTS

    @property
    def reach(self) -> float:
        """A path is followed for a stride beyond its fit, hence at most two fits per stride of progress."""
        return self.stride

    def is_stale(self, state: StagedState) -> bool:
        """After `memory` episodes on the path: none is left of those that the estimate had when it was found."""
        return state.segment is not None and state.segment.episodes + state.fresh >= self.memory

    def estimate(self, episodes: EpisodeBatch) -> Callable[[FloatArray], FloatArray]:
        """How far above the threshold the agent is expected to be.

        Args:
            episodes: The latest episodes.

        Returns:
            A function of contexts (n, d) to margins (n, k), a column for each criterion: the agent is good enough where
            all are >= 0.
        """
        seen = episodes[-self.memory :]
        # Without the small constant, rounding puts a mean of scores that all equal the threshold below it.
        margins = [seen.scores(self.score) - self.required + 1e-9 * max(1.0, abs(self.required))]
        if self.success > 0 and not np.isnan(seen.successes).any():
            margins.append(seen.successes - self.success + 1e-9)
        values = np.stack(margins, axis=1)
        if self.space is None:
            return NadarayaWatson(seen.contexts, values, self.bandwidth).predict
        space, unit = self.space, self.space.unit_length
        model = NadarayaWatson(space.relax(seen.contexts), values, self.bandwidth, unit)
        return lambda contexts: model.predict(space.relax(contexts))

    def stage_status(self, state: StagedState) -> str:
        """Return "mastered", "below the threshold", or nothing if there is nowhere to go or too few episodes ended."""
        if state.fresh < self.window:
            return ""
        here = state.distribution.positive()
        if (here.weights @ self.estimate(state.seen)(here.points) >= 0).all():
            return "mastered" if state.alpha < 1.0 else ""
        return "below the threshold" if state.alpha > 0.0 else ""

    def next_alpha(self, state: StagedState, path: Path) -> float:
        """The largest alpha within a stride that is good enough."""
        estimate = self.estimate(state.seen)

        def margin(alpha: float) -> float:
            there = path(alpha).positive()
            return float((there.weights @ estimate(there.points)).min())

        top, bottom = min(state.alpha + self.stride, 1.0), max(state.alpha - self.stride, 0.0)
        top = 1.0 if top > 1.0 - 1e-9 else top
        ahead = np.linspace(top, state.alpha, PROBES + 1)
        back = np.linspace(state.alpha, bottom, PROBES + 1)[1:]
        short: tuple[float, float] | None = None
        for alpha in dict.fromkeys([*ahead.tolist(), *back.tolist()]):
            value = margin(alpha)
            if value >= 0:
                return alpha if short is None else _last_root(margin, (alpha, value), short)
            short = alpha, value
        return bottom


def _last_root(margin: Callable[[float], float], low: tuple[float, float], high: tuple[float, float]) -> float:
    """The last alpha between low and high with a margin >= 0; low has one, high has not. Both: (alpha, margin).

    Alternate secant and bisection steps: on a straight line, one secant step is enough.
    """
    for iteration in range(ITERATIONS):
        gap, fall = high[0] - low[0], low[1] - high[1]
        if gap <= TOLERANCE or low[1] <= TOLERANCE / gap * fall:
            break
        secant = low[0] + gap * low[1] / fall - TOLERANCE / 2
        middle = max(secant, low[0] + gap / 10) if iteration % 2 == 0 else low[0] + gap / 2
        value = margin(middle)
        low, high = ((middle, value), high) if value >= 0 else (low, (middle, value))
    return low[0]


@dataclass(frozen=True)
class PerParticlePace(AdaptivePace):
    """Every particle moves along its own geodesic while the agent is good enough there, and back where it is not.

    The estimate is `AdaptivePace`'s, evaluated at the particles rather than on average. After every `window` episodes
    of the stage, a particle whose context is below the threshold goes back to the nearest place on its path that is
    good enough, or to the source; the others move on, past good places only, by at most `stride` of their path. alpha
    is the mean progress of the particles.

    Args:
        stride: The farthest that a particle moves forward at once, as a fraction of its path.
        window: How many episodes of a stage come between two decisions.
        memory: How many of the latest episodes the estimate is fitted to.
        bandwidth: Of the kernel, in diagonals of the context space.
        success: A success rate that is also required, if it is above 0 and the environment reports successes.
        threshold: The score that is good enough; None: the curriculum's.
        max_stage_steps: Under a learned metric, the environment steps after which a path that blocks some particles is
            given up, once the stage is mastered on average; None: never.
    """

    individual: ClassVar[bool] = True

    stride: Step = 0.1
    max_stage_steps: Count | None = None

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        """As for other paces; `step` is the stride unless there is a `stride`.

        Args:
            options: Options by name.

        Returns:
            The pace.
        """
        rest = {name: value for name, value in options.items() if name != "step"}
        return cls(**({"stride": options["step"]} if "step" in options else {}) | rest)

    @classmethod
    def option_names(cls) -> list[str]:
        """The names of the parameters, and `step`."""
        return [*super().option_names(), "step"]

    @property
    def path_knots(self) -> int:
        """The knots of a whole path: `PROBES` of them make a stride."""
        return int(np.ceil(PROBES / self.stride - 1e-9))

    def is_stale(self, state: StagedState) -> bool:
        """After `max_stage_steps`: a wall blocks only the particles that face it, so others may still move."""
        used = state.steps + (0 if state.segment is None else state.segment.steps)
        return used >= (self.max_stage_steps or math.inf)

    def values(self, episodes: EpisodeBatch) -> Values:
        """The smallest margin in each context.

        Args:
            episodes: The latest episodes.

        Returns:
            A function of contexts (n, d) to margins (n,).
        """
        estimate = self.estimate(episodes)
        return lambda contexts: np.asarray(estimate(contexts).min(axis=1))

    def next_knots(self, state: StagedState, trajectories: Trajectories, knots: Knots) -> Knots:
        """Forward where the agent is good enough, and back elsewhere."""
        value, particles = self.values(state.seen), np.arange(len(trajectories))
        reached = self._forward(trajectories, knots, particles, value)
        low = np.flatnonzero(reached < 0)
        reached[low] = self._back(trajectories, knots[low], low, value)
        return reached

    def _forward(self, trajectories: Trajectories, knots: Knots, particles: Knots, value: Values) -> Knots:
        """The last knots (m,) that the particles (m,) reach past good places only; -1: not good where they are."""
        reached, end = np.full(len(particles), -1), np.minimum(knots + PROBES, trajectories.knots)
        left, at = np.arange(len(particles)), knots
        while left.size:  # knot by knot: particles that are blocked or have arrived cost nothing more
            good = trajectories.values(value, at[left, None], particles[left])[:, 0] >= 0
            left = left[good]
            reached[left] = at[left]
            left = left[at[left] < end[left]]
            at = at + 1
        return reached

    def _back(self, trajectories: Trajectories, knots: Knots, particles: Knots, value: Values) -> Knots:
        """The nearest good knots (m,) below those of the particles (m,); 0 if there are none."""
        found, left = np.zeros(len(particles), dtype=np.intp), np.arange(len(particles))
        knots = knots.copy()
        while left.size:
            probes = (knots[left, None] - np.arange(1, PROBES + 1)).clip(0)
            good = trajectories.values(value, probes, particles[left]) >= 0
            some = good.any(axis=1)
            found[left[some]] = probes[some, good[some].argmax(axis=1)]
            knots[left] = probes[:, -1]
            left = left[~some & (probes[:, -1] > 0)]
        return found


DEFAULT_PACE = FixedStep()
PACES: dict[str, type[Pace]] = {
    "fixed": FixedStep,
    "compounding": CompoundingStep,
    "adaptive": AdaptivePace,
    "particles": PerParticlePace,
}


def find_pace(pace: object) -> object:
    """A pace by its name or a reference such as `path/file.py:MyPace`; a class or an object as it is."""
    if not isinstance(pace, str):
        return pace
    if pace not in PACES and not is_reference(pace):
        raise UnknownName("pace", pace, PACES)
    return PACES[pace] if pace in PACES else load_object(pace)[0]


def make_pace(pace: object, options: dict[str, Any]) -> Pace:
    """A pace from what `find_pace` takes; only a class takes options."""
    found = find_pace(pace)
    return as_pace(found.from_options(options) if isinstance(found, type) and issubclass(found, Pace) else found)


def options_of_pace(pace: object) -> list[str]:
    """The names of a pace's options."""
    found = find_pace(pace)
    return found.option_names() if isinstance(found, type) and issubclass(found, Pace) else []


def level(trajectories: Trajectories, alpha: float) -> Knots:
    """The knots (n,) of particles that are all at alpha, or at the last knot before it."""
    alpha = float(np.clip(as_number(alpha, "the next alpha"), 0.0, 1.0))
    return np.full(len(trajectories), int(np.floor(alpha * trajectories.knots + 1e-9)))
