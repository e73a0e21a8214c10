"""Curricula that follow a path from source to target at a pace."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from geodesic.checks import as_count, as_integer, as_number
from geodesic.contexts import Arrays, ContextSpace, EpisodeBatch, FloatArray, Particles, Score
from geodesic.curricula.base import Curriculum, Problem, State, check_options, parameter_names
from geodesic.curricula.gradient.paces import PACES, Pace, Path, as_pace, make_pace, options_of_pace
from geodesic.errors import InvalidInput
from geodesic.transport.displacement import displacement, is_jump
from geodesic.transport.geodesic import Geodesic, Trajectories

# Names of numbers that describe a stage.
HOP, DISTANCE, JUMP, BLOCKED = "hop", "distance to target", "jump", "blocked"


@dataclass(frozen=True, eq=False)
class PathSegment:
    """The path that was found at one fit of a metric, from the source through the distribution of that time.

    Args:
        points: Where each of n particles is at each of k + 1 knots of its path, (k + 1, n, d).
        mass: The mass (n,) of the particles.
        start: The alpha at which the metric was fitted.
        episodes: How many episodes have been observed on the segment.
        steps: The environment steps of the stages on it that are over.
    """

    points: FloatArray
    mass: FloatArray
    start: float
    episodes: int = 0
    steps: int = 0

    @classmethod
    def through(
        cls,
        geodesic: Geodesic,
        start: float,
        progress: FloatArray,
        before: PathSegment | None,
        knots: int,
        particles: int,
        rng: np.random.Generator,
    ) -> tuple[PathSegment, FloatArray]:
        """A segment through the source of a geodesic and on along it, and the progress (m,) of its particles.

        `progress` (n,) is that of the geodesic's source points, in whole knots. Below it, a trajectory is the one that
        the point came along on the segment before: a new geodesic back to the source would lead through contexts that
        were never trained on. A particle is a single point, on a graph the node that has most of it; there are at most
        `particles` of them.
        """
        rows, mass, atoms = geodesic.plan.rows, geodesic.plan.mass, np.arange(len(geodesic.plan.rows))
        if len(atoms) > particles:
            atoms = Particles(geodesic.ends[0], mass).drawn(particles, rng)
            mass = np.full(particles, 1 / particles)
        rows = rows[atoms]
        fractions, reached = np.arange(knots + 1)[:, None] / knots, progress[rows]
        ahead = np.rint(knots * (fractions - reached) / np.maximum(1 - reached, 1e-12)).clip(0, knots).astype(np.intp)
        points = main_points(geodesic, knots)[ahead, atoms]
        if before is not None and len(before.mass) == len(progress):
            points = np.where((fractions < reached)[..., None], before.points[:, rows], points)
        return cls(points, mass, start), reached

    def with_ways(self, ways: dict[int, FloatArray], space: ContextSpace) -> PathSegment:
        """The segment with new ways (m, d) for some particles, each divided into equal hops."""
        points = self.points.copy()
        for i, way in ways.items():
            hops = np.linalg.norm(np.diff(way, axis=0) / space.unit_length, axis=1)
            length = np.concatenate([[0.0], hops.cumsum()])
            marks = np.linspace(0.0, length[-1], len(points))
            points[:, i] = np.stack([np.interp(marks, length, values) for values in way.T], axis=1)
        return replace(self, points=points)

    def trajectories(self, source: Particles, target: Particles) -> Trajectories:
        """The trajectories of the particles between the two ends of a curriculum."""
        if self.points.ndim != 3 or self.points.shape[1:] != (len(self.mass), source.dim):
            expected = f"{len(self.mass)} particles in {source.dim} dimensions"
            raise InvalidInput(f"expected a path segment of {expected}, got shape {self.points.shape}")
        whole = np.ones((*self.points.shape[:2], 1))
        return Trajectories(self.points[:, :, None], whole, self.mass, (source, target))


def main_points(geodesic: Geodesic, knots: int) -> FloatArray:
    """Points (knots + 1, n, d) along a geodesic: of each atom of its plan the one that has most of it."""
    trajectories = Trajectories.of(geodesic, knots)
    most = trajectories.fractions.argmax(axis=2)[..., None, None]
    return np.asarray(np.take_along_axis(trajectories.points, most, axis=2)[:, :, 0])


@dataclass(frozen=True, repr=False)
class StagedState(State):
    """A `State` on a path.

    Args:
        recent: The latest scores of this stage's episodes, as many as the pace's `window`.
        steps: Environment steps of this stage's episodes.
        moves: How often alpha has changed.
        fresh: This stage's episodes since the pace last decided.
        seen: The latest episodes of any stage, as many as path and pace need.
        trained: Under a learned metric, the distribution last trained on, where the next path begins.
        picture: Arrays that describe the last fit of the metric.
        segment: The path found at that fit, if the pace keeps it.
        progress: The fraction of its path that each particle has covered, if particles move individually; empty:
            none has moved.
        position: The place on the path, as the pace counts it. alpha is the same under a known metric.
        behind: Under a learned metric, the length of the path from the source to this stage.
        ahead: Likewise, that of the path from here to the target.
        hop: How far the contexts moved into this stage.
        distance: How far they are from the target.
        jumped: Whether the hop jumped over most of the path.
        counts: Under `metrics.Practice`, its counts of episodes (4, nodes).
        blocked: Under `metrics.Practice`, the fraction of particles for which all ways lead through contexts practised
            in vain.

    Lengths and distances are in diagonals of the context space (`geodesic.transport.displacement`).
    """

    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    steps: int = 0
    moves: int = 0
    fresh: int = 0
    seen: EpisodeBatch = field(default_factory=lambda: EpisodeBatch.empty(1))
    trained: Particles | None = None
    picture: Arrays = field(default_factory=dict)
    segment: PathSegment | None = None
    progress: FloatArray = field(default_factory=lambda: np.zeros(0))
    position: float = 0.0
    behind: float = 0.0
    ahead: float = 0.0
    hop: float = 0.0
    distance: float = 0.0
    jumped: bool = False
    counts: FloatArray = field(default_factory=lambda: np.zeros((4, 0)))
    blocked: float = 0.0

    def absorb(self, episodes: EpisodeBatch, window: int, memory: int, score: Score) -> Self:
        """Add episodes; those of earlier stages are only seen, they do not count for this one.

        Args:
            episodes: Episodes that ended.
            window: How many scores to keep.
            memory: How many episodes to keep.
            score: Which score.

        Returns:
            The state with them.
        """
        own = episodes.of_stage(self.stage)
        return self.replace(
            recent=np.concatenate([self.recent, own.scores(score)])[-window:],
            steps=self.steps + int(own.lengths.sum()),
            fresh=self.fresh + len(own),
            seen=self.seen.concatenate(episodes)[-memory:] if memory else self.seen,
        )

    def enter(self, distribution: Particles, alpha: float, event: str, **changes: Any) -> Self:
        """The next stage, to train in, without any episodes yet.

        Args:
            distribution: Its contexts.
            alpha: Its place on the path.
            event: Why it begins.
            **changes: Other values that change.

        Returns:
            Its state.
        """
        begin = {"kind": "train", "recent": np.zeros(0), "steps": 0, "fresh": 0, **changes}
        return self.replace(distribution=distribution, stage=self.stage + 1, alpha=alpha, event=event, **begin)


class Staged(Curriculum[StagedState]):
    """A curriculum that moves along `path` from stage to stage as its `pace` decides; at alpha = 1 the target itself.

    Subclasses are dataclasses that have these fields.

    Attributes:
        source: The distribution at alpha = 0.
        target: The distribution at alpha = 1.
        pace: When a stage is over, and where the next one lies.
        threshold: For a pace without a threshold.
        space: Where contexts live, in which a pace compares them.
    """

    follows_threshold: ClassVar[bool] = True

    source: Particles
    target: Particles
    pace: Pace
    threshold: float
    space: ContextSpace | None

    def __post_init__(self) -> None:
        super().__post_init__()
        as_count(as_pace(self.pace).window, "window")
        as_integer(self.pace.memory, "memory")

    @classmethod
    def from_problem(cls, problem: Problem, **options: Any) -> Self:
        """A curriculum for a problem, whose source is known.

        Args:
            problem: Fills the parameters named like its fields.
            **options: Other parameters and those of the pace. `pace` is `"fixed"` (the default), `"compounding"`,
                `"adaptive"`, `"particles"`, a reference such as `"path/file.py:MyPace"`, a class or an object.

        Returns:
            The curriculum.

        Raises:
            InvalidInput: If an option is unknown or has an invalid value.
        """
        check_options(cls.__name__, options, cls.option_names(**options))
        own = {name: value for name, value in options.items() if name in parameter_names(cls)}
        others = {name: value for name, value in options.items() if name not in own}
        return super().from_problem(problem, **{**own, "pace": make_pace(own.get("pace", "fixed"), others)})

    @classmethod
    def option_names(cls, **options: Any) -> list[str]:
        """The names of the parameters that `from_problem` takes, those of the pace or of all built-in ones included."""
        paces = [options.get("pace", "fixed")] if options else PACES
        return list(dict.fromkeys([*parameter_names(cls), *(name for each in paces for name in options_of_pace(each))]))

    def bound_pace(self, state: StagedState) -> Pace:
        """The pace with the threshold of a state, and the curriculum's space and score.

        Args:
            state: The state.

        Returns:
            A copy of the pace.
        """
        return self.pace.bind(self.required(state), self.box, self.score)

    @cached_property
    def box(self) -> ContextSpace:
        """The bounded space in which contexts are compared; if there is none, a box around source and target."""
        if self.space is not None and self.space.bounded:
            return self.space
        ends = np.concatenate([self.source.points, self.target.points])
        values = None if self.space is None else self.space.values
        return ContextSpace(ends.min(axis=0), ends.max(axis=0), values=values)

    @abstractmethod
    def path(self, alpha: float) -> Particles:
        """The distribution at alpha: exactly the source at 0 and the target at 1.

        Args:
            alpha: In [0, 1].

        Returns:
            The distribution.
        """

    @property
    def memory(self) -> int:
        """How many episodes the state keeps."""
        return self.pace.memory

    @cached_property
    def length(self) -> float:
        """The length of the path, in diagonals of the context space."""
        return displacement(self.source, self.target, self.box)

    def init(self, rng: np.random.Generator) -> StagedState:
        """The source."""
        distance = displacement(self.source, self.target, self.box)
        return StagedState(self.source, seen=EpisodeBatch.empty(self.source.dim), distance=distance)

    def update(self, state: StagedState, episodes: EpisodeBatch, rng: np.random.Generator) -> StagedState:
        """The state after more episodes: a move along the path when the pace says that the stage is over."""
        if not self.has_episodes(state, episodes, rng) or state.done:
            return state
        placed = state.replace(alpha=state.position)  # paces count places on the path
        return self._measured(state, self._decide(self._absorb(placed, episodes), rng))

    def _absorb(self, state: StagedState, episodes: EpisodeBatch) -> StagedState:
        """The state with more episodes."""
        return state.absorb(episodes, self.pace.window, self.memory, self.score)

    def _measured(self, before: StagedState, after: StagedState) -> StagedState:
        """The new state with its alpha, and with how far its contexts moved."""
        if after.stage == before.stage or after.kind == "explore":
            return after.replace(alpha=before.alpha)
        left = before.trained if before.kind == "explore" and before.trained else before.distribution
        hop = displacement(left, after.distribution, self.box)
        return after.replace(
            alpha=self._alpha(after),
            position=after.alpha,
            hop=hop,
            distance=displacement(after.distribution, self.target, self.box),
            jumped=is_jump(hop, abs(after.alpha - before.position), self._length(after)),
        )

    def _alpha(self, state: StagedState) -> float:
        """The alpha of a state whose place on the path is known."""
        return state.alpha

    def _length(self, state: StagedState) -> float:
        """The length of the path of a move."""
        return self.length

    def scalars(self, state: StagedState) -> dict[str, float]:
        """How far the contexts moved into this stage and are from the target, and what is wrong with the path."""
        wrong = {JUMP: float(state.jumped), BLOCKED: state.blocked}
        return {HOP: state.hop, DISTANCE: state.distance, **{name: value for name, value in wrong.items() if value}}

    def snapshot(self, state: StagedState) -> Arrays:
        """Arrays that describe the last fit of a learned metric."""
        return state.picture

    def _decide(self, state: StagedState, rng: np.random.Generator) -> StagedState:
        """The next stage if this one is over, else the same."""
        status = self.bound_pace(state).stage_status(state)
        return self._move(state, self.path, status) if status else self._waiting(state)

    def _waiting(self, state: StagedState) -> StagedState:
        """The same stage; after a whole window of episodes the pace waits for another one."""
        return state.replace(fresh=0) if state.fresh >= self.pace.window else state

    def _move(self, state: StagedState, path: Path, status: str) -> StagedState:
        """The stage at the pace's alpha, if that is elsewhere."""
        alpha = float(np.clip(as_number(self.bound_pace(state).next_alpha(state, path), "the next alpha"), 0.0, 1.0))
        if alpha == state.alpha:
            return state.replace(fresh=0)
        distribution = self.target if alpha == 1.0 else path(alpha)
        done = alpha == 1.0 and self.pace.final_target
        return state.enter(distribution, alpha, status, moves=state.moves + 1, done=done)
