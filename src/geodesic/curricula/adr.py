"""ADR: automatic domain randomization, ranges that grow where the agent is good at their bounds (OpenAI, 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import Count, Fraction, IntArray, Positive, Size
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray, Particles
from geodesic.curricula.base import Curriculum, State
from geodesic.errors import InvalidInput

OUTWARD = (-1.0, 1.0)  # the direction in which the lower and the upper bound of a range move away from each other


@dataclass(frozen=True, repr=False)
class ADRState(State):
    """A `State` with the ranges, and the scores at their bounds since each was last tested.

    Args:
        bounds: The lower and the upper bound (2, d) of each context value.
        sums: The sum (2, d) of the scores of the episodes at each bound.
        counts: Their number (2, d).
        worst: The worst of all scores so far.
    """

    bounds: FloatArray = field(default_factory=lambda: np.zeros((2, 0)))
    sums: FloatArray = field(default_factory=lambda: np.zeros((2, 0)))
    counts: IntArray = field(default_factory=lambda: np.zeros((2, 0), np.int64))
    worst: float = np.inf


@dataclass(frozen=True)
class ADR(Curriculum[ADRState]):
    """Automatic domain randomization: ranges that widen where the agent is good at their bounds, and else narrow.

    With probability `boundary` a context has one of its values, chosen uniformly, at the lower or the upper bound of
    its range; the other values are uniform in theirs. The mean score m of `window` episodes at a bound moves it by
    `step` sides of the space:

        m >= threshold:                             outward, at most to the end of the space
        m <= worst + narrow * (threshold - worst):  inward, at most to the other bound of the range

    worst is the worst score so far. Then the next `window` episodes at the bound are counted.

    The goal is the widest range that can be solved, so the target plays no part. Ranges begin as the box around the
    source (`start="range"`), or as the single context at its mean (`start="point"`), the original's calibrated
    environment. alpha is the fraction of the way from these ranges to the whole space, averaged over the values that
    have any. There is no end: a bound may move back at any time.

    Differs from the original: `window` is 10 as in TeachMyAgent's version, theirs is 240; a step is a fraction of the
    space; the lower threshold is relative to the upper one; episodes at a bound train the agent, as in TeachMyAgent,
    while theirs are evaluations by separate workers. Integers move by at least one. On a discrete space, a bound moves
    between the coordinates of contexts that are within the other ranges. Categories have no order and are refused.

    Args:
        source: Contexts the agent can learn from at the start.
        space: Where contexts live; bounded.
        threshold: A bound moves outward from this mean score on.
        narrow: How far from the worst score so far to the threshold a bound moves inward.
        start: Where ranges begin: `"range"`, the box around the source, or `"point"`, its mean.
        boundary: The probability that one of a context's values is at a bound.
        window: How many episodes at a bound decide about it.
        step: How far a bound moves, in sides of the space.
        particles: How many contexts a stage has.
        score: The score of an episode that is compared with the thresholds.
    """

    colour: ClassVar[str | None] = "#A6761D"
    follows_threshold: ClassVar[bool] = True

    source: Particles
    space: BoundedSpace
    threshold: float
    narrow: Fraction = 0.5
    start: Literal["range", "point"] = "range"
    boundary: Fraction = 0.5
    window: Count = 10
    step: Positive = 0.05
    particles: Size = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.space.categories:
            raise InvalidInput(
                f"expected contexts without categories for ADR, which moves the bounds of ranges, got "
                f"{', '.join(self.space.categories)}; try the methods auto, gradient or learning-progress"
            )

    def init(self, rng: np.random.Generator) -> ADRState:
        """The ranges around the source."""
        none = np.zeros((2, self.space.dim))
        bounds = self._first
        alpha = self._gained(bounds)
        return ADRState(self._draw(bounds, rng), alpha=alpha, bounds=bounds, sums=none, counts=none.astype(np.int64))

    def update(self, state: ADRState, episodes: EpisodeBatch, rng: np.random.Generator) -> ADRState:
        """The state after more episodes, with other ranges if a bound has moved."""
        if not self.has_episodes(state, episodes, rng):
            return state
        scores = episodes.scores(self.score)
        upper, worst = self.required(state), min(state.worst, float(scores.min()))
        bounds, sums, counts, moves = state.bounds, state.sums.copy(), state.counts.copy(), set()
        for context, score in zip(episodes.contexts.astype(np.float32), scores.tolist()):
            at = context == bounds.astype(np.float32)  # the precision in which environments get contexts
            sums[at] += score
            counts[at] += 1
            for side, k in np.argwhere(at & (counts >= self.window)).tolist():
                mean = sums[side, k] / counts[side, k]
                sums[side, k] = counts[side, k] = 0
                if mean >= upper or mean <= worst + self.narrow * (upper - worst):
                    moved = self._moved(bounds, side, k, mean >= upper)
                    if not np.array_equal(moved, bounds):
                        bounds = moved
                        moves.add("widened" if mean >= upper else "narrowed")
        state = state.replace(bounds=bounds, sums=sums, counts=counts, worst=worst)
        if not moves:
            return state
        return state.replace(
            distribution=self._draw(bounds, rng),
            stage=state.stage + 1,
            alpha=self._gained(bounds),
            event=" and ".join(sorted(moves, reverse=True)),
        )

    @cached_property
    def _first(self) -> FloatArray:
        """The ranges at the start, (2, d)."""
        source = self.source.positive()
        points = self.space.clip(source.points if self.start == "range" else source.mean()[None])
        return _box(points)

    def _gained(self, bounds: FloatArray) -> float:
        """The fraction of the way from the first ranges to the whole space."""
        size, first, whole = (np.diff(ends, axis=0)[0] for ends in (bounds, self._first, self._ends))
        gained = (size - first)[whole > first] / (whole - first)[whole > first]
        return float(np.clip(gained, 0.0, 1.0).mean()) if len(gained) else 1.0

    @property
    def _ends(self) -> FloatArray:
        """The bounds of the space, (2, d)."""
        return np.stack([self.space.low, self.space.high])

    def _moved(self, bounds: FloatArray, side: int, k: int, outward: bool) -> FloatArray:
        """The ranges after one bound has moved: the lower (side 0) or the upper (1) one of the value k."""
        direction = OUTWARD[side] if outward else -OUTWARD[side]
        here, end = bounds[side, k], self._ends[side, k] if outward else bounds[1 - side, k]
        reach, whole = self.step * self.space.sides[k], self.space.steps[k]
        if whole:
            reach = whole * max(1.0, np.rint(reach / whole))
        goal = direction * min(direction * (here + direction * reach), direction * end)
        moved, support = bounds.copy(), self.space.support
        if support is not None:
            others = np.delete(_within(support, bounds), k, axis=1).all(axis=1)
            ahead = np.unique(direction * support[others, k])
            ahead = ahead[(ahead > direction * here) & (ahead <= direction * end)]
            if not len(ahead):
                return bounds
            goal = direction * ahead[max(ahead.searchsorted(direction * goal, side="right") - 1, 0)]
        moved[side, k] = goal
        return moved if support is None else _box(support[_within(support, moved).all(axis=1)])

    def _draw(self, bounds: FloatArray, rng: np.random.Generator) -> Particles:
        """Contexts in the ranges, a part of them at each bound."""
        d, steps, support = self.space.dim, self.space.steps, self.space.support
        if support is not None:
            points = support[_within(support, bounds).all(axis=1)]
            at = (points[:, None] == bounds).reshape(len(points), 2 * d)
            pinned = (at / at.sum(axis=0)).mean(axis=1)
            return Particles(points, (1 - self.boundary) / len(points) + self.boundary * pinned)
        offsets = rng.random((self.particles, d)) * (np.diff(bounds, axis=0) + steps)
        whole = steps > 0
        offsets[:, whole] = steps[whole] * np.floor(offsets[:, whole] / steps[whole])
        points = np.clip(bounds[0] + offsets, *bounds)
        rows = np.arange(round(self.boundary * self.particles))
        points[rows, rows // 2 % d] = bounds[rows % 2, rows // 2 % d]
        return Particles(points)


def _box(points: FloatArray) -> FloatArray:
    """The smallest and the largest of each value, (2, d)."""
    return np.stack([points.min(axis=0), points.max(axis=0)])


def _within(points: FloatArray, bounds: FloatArray) -> NDArray[np.bool_]:
    """Which values (n, d) are within their ranges."""
    return np.asarray((points >= bounds[0]) & (points <= bounds[1]))
