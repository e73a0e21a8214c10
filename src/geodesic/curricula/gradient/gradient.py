"""GRADIENT: the curriculum along the Wasserstein geodesic (Huang et al., NeurIPS 2022, Algorithms 1 and 4)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from geodesic.checks import Count
from geodesic.contexts import Arrays, ContextSpace, EpisodeBatch, FloatArray, Particles
from geodesic.curricula.gradient.paces import DEFAULT_PACE, Pace, level
from geodesic.curricula.gradient.staged import PathSegment, Staged, StagedState, main_points
from geodesic.errors import InvalidInput
from geodesic.metrics.base import Euclidean, Fitted, LearnedMetric, Metric
from geodesic.metrics.graph import Finite
from geodesic.metrics.practice import Practice, PracticeGraph
from geodesic.metrics.product import default_metric
from geodesic.transport.barycenter import barycenter as fixed_support_barycenter
from geodesic.transport.displacement import hop_lengths
from geodesic.transport.geodesic import Geodesic, Knots, Trajectories

UNIFORM = 1000  # particles that represent the uniform distribution on a continuous space
HEAT = 40  # cells a side of the heat map of returns
CLOUD = 100  # most particles of a distribution in a snapshot
ALPHAS = tuple(k / 10 for k in range(11))
KNOTS = 20  # of a path whose length is measured
WALKERS = 100  # particles, at most, whose ways are planned under `metrics.Practice`,
WAYPOINTS = 64  # knots of these ways,
REHEARSED = 8  # and places on the mastered part of each that are rehearsed


@dataclass(frozen=True)
class RemainingPath:
    """The path from a distribution at alpha = `start` to the target, and back from there to the source below `start`.

    Args:
        geodesic: From the distribution to the target.
        back: From the distribution to the source.
        start: Its alpha.
        particles: The most points that a distribution on the path has.
        rng: Draws the points that are kept if there are more.
    """

    geodesic: Geodesic
    back: Geodesic
    start: float
    particles: int
    rng: np.random.Generator

    def __call__(self, alpha: float) -> Particles:
        """The distribution at alpha."""
        if alpha < self.start:
            distribution = self.back(1 - alpha / self.start)
        else:
            distribution = self.geodesic(self.fraction(alpha))
        if (distribution.weights > 0).all() and len(distribution) <= self.particles:
            return distribution
        return distribution.positive().thinned(self.particles, self.rng)

    def lengths(self, alpha: float, space: ContextSpace) -> tuple[float, float]:
        """The lengths of the path from the source to alpha, and from there to the target."""
        past = cumulative_length(self.back, space)[-1] if self.start > 0 else 0.0
        onward = cumulative_length(self.geodesic, space)
        if alpha < self.start:
            behind = past * alpha / self.start
        else:
            behind = past + np.interp(self.fraction(alpha), np.linspace(0, 1, len(onward)), onward)
        return float(behind), float(past + onward[-1] - behind)

    def fraction(self, alpha: float) -> float:
        """The fraction of the remaining path at alpha; 1 / 3 where rounding would give 0.33333333333333337."""
        fraction = (alpha - self.start) / (1 - self.start) if self.start < 1 else 1.0
        whole = round(1 / fraction) if fraction > 0 else 0
        return 1 / whole if whole and abs(fraction * whole - 1) < 1e-9 else fraction


@dataclass(frozen=True)
class Gradient(Staged):
    """The Wasserstein geodesic from source to target under a metric, from stage to stage at a pace.

    Under a known metric this is the paper's Algorithm 1. The paper solves a barycenter at every stage; here one optimal
    plan is solved once, and every stage is read off it.

    Under a learned metric it is Algorithm 4: train until the stage is over, explore uniform contexts for
    `explore_steps`, fit the metric to the latest episodes, move. Exploration is a stage of kind "explore" at the same
    alpha. The metric differs from stage to stage, so no plan outlives one: a move from alpha to beta goes
    (beta - alpha) / (1 - alpha) of the path that remains from the distribution last trained on, which gives even
    stages. (The paper moves the source and raises alpha as well, which gives uneven ones.) The alpha that is reported
    is progress that was made: the length of the path from the source to the stage, as a fraction of the whole path to
    the target, both as the latest fit has them and in plain distances.

    `AdaptivePace` and `PerParticlePace` move often and a little, so that exploration and a fit for every move would
    take most of a run. They keep the path found at a fit and follow it until a move would end more than a stride past
    the alpha of that fit: at most two fits for each stride of progress. A path that does not lead to the target is
    given up as well, once the stage is mastered (`Pace.is_stale`).

    Under `metrics.Practice` there is no exploration, and the pace does not matter: each particle is at the first
    context of its way that is not mastered, and a share of the episodes rehearses contexts on the way to there.

    Args:
        source: Contexts the agent can learn from at the start.
        target: The contexts to master.
        metric: The distance between contexts; None: Euclidean, or `metrics.Product` on a space with integers or
            categories. A `LearnedMetric` is fitted during training.
        pace: When a stage is over and where the next one lies: `FixedStep` (the paper's), `AdaptivePace`,
            `PerParticlePace` or your own `Pace`.
        threshold: A stage is mastered above this score; used by a pace without a threshold.
        space: Where contexts live. A pace compares contexts in it, and it says whether they are discrete, or have
            integers or categories.
        explore_steps: Environment steps of an exploration under a learned metric.
        barycenter: How the distribution of a stage is found under a known metric: `"plan"` reads it off one optimal
            plan; `"sinkhorn"` solves the paper's Algorithm 2 for discrete contexts, which spreads it by an entropy.
        score: The score of an episode that the pace looks at.

    Raises:
        InvalidInput: If an argument is invalid, contexts are discrete and there is no metric, or the metric's paths
            leave the space.

    Example:
        >>> import numpy as np
        >>> import geodesic as gd
        >>> near, far = gd.Particles([[0.0], [1.0]]), gd.Particles([[4.0], [5.0]])
        >>> curriculum = gd.Gradient(near, far, pace=gd.FixedStep(0.25, window=2), threshold=40.0)
        >>> rng = np.random.default_rng(0)
        >>> state = curriculum.init(rng)
        >>> episodes = gd.EpisodeBatch([[0.0], [1.0]], returns=[50.0, 45.0], lengths=[9, 9], stages=[0, 0])
        >>> state = curriculum.update(state, episodes, rng)
        >>> state.alpha, state.event, state.distribution.points.ravel()
        (0.25, 'mastered', array([1., 2.]))
    """

    colour: ClassVar[str | None] = "#D55E00"

    source: Particles
    target: Particles
    metric: Metric | LearnedMetric | None = None
    pace: Pace = DEFAULT_PACE
    threshold: float = 0.0
    _: KW_ONLY
    space: ContextSpace | None = None
    explore_steps: Count = 10_000
    barycenter: Literal["plan", "sinkhorn"] = "plan"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric is None and self.discrete:
            raise InvalidInput(
                "expected a metric between discrete contexts, got none: straight lines leave the support; "
                "try metric=geodesic.metrics.Graph(...) or Matrix(...)"
            )
        if self.barycenter == "sinkhorn" and (not isinstance(self.metric, Finite) or self.pace.individual):
            needed = "a metric on discrete contexts that is known before training and a pace without separate particles"
            got = f"{type(self.metric).__name__} and {type(self.pace).__name__}"
            raise InvalidInput(f'expected barycenter="sinkhorn" with {needed}, got {got}')
        if self.space is not None and self.space.mixed and isinstance(self.metric, Metric):
            _check_paths(self.metric, self.box, self.target)

    @property
    def discrete(self) -> bool:
        """Whether contexts live on a support: the space says so, or source and target have the same points."""
        if self.space is not None:
            return self.space.support is not None
        return np.array_equal(self.source.points, self.target.points) and self.source != self.target

    @cached_property
    def box(self) -> ContextSpace:
        """The bounded space in which contexts are compared."""
        return self.metric.space if isinstance(self.metric, LearnedMetric) else super().box

    def path(self, alpha: float) -> Particles:
        """The distribution at alpha on the geodesic under a metric that is known, or Algorithm 2's barycenter."""
        if self.barycenter == "sinkhorn" and isinstance(self.metric, Finite):
            return fixed_support_barycenter(self.source, self.target, alpha, self.metric, "sinkhorn")
        return self.geodesic(alpha)

    @cached_property
    def geodesic(self) -> Geodesic:
        """The geodesic from source to target under a metric that is known."""
        if isinstance(self.metric, LearnedMetric):
            raise InvalidInput("expected a metric that is known before training, got one that is fitted to episodes")
        return Geodesic(self.source, self.target, self.metric or default_metric(self.space))

    @cached_property
    def length(self) -> float:
        """The length of the path under a metric that is known, in diagonals of the context space."""
        return float(cumulative_length(self.geodesic, self.box)[-1])

    @cached_property
    def trajectories(self) -> Trajectories:
        """The trajectories of the particles that move individually along the geodesic under a metric that is known."""
        return Trajectories.of(self.geodesic, self.pace.path_knots)

    @property
    def memory(self) -> int:
        """How many episodes the state keeps."""
        learned = self.metric.memory if isinstance(self.metric, LearnedMetric) else 0
        return max(learned, self.pace.memory)

    @property
    def particles(self) -> int:
        """The most particles of a distribution under a learned metric: as many as source or target."""
        most = max(len(self.source), len(self.target))
        return min(most, WALKERS) if isinstance(self.metric, Practice) else most

    def init(self, rng: np.random.Generator) -> StagedState:
        """The source."""
        state = super().init(rng)
        return state.replace(counts=self.metric.counts()) if isinstance(self.metric, Practice) else state

    def _absorb(self, state: StagedState, episodes: EpisodeBatch) -> StagedState:
        state = super()._absorb(state, episodes)
        if isinstance(self.metric, Practice):
            return state.replace(counts=self.metric.count(state.counts, episodes))
        return state

    def _alpha(self, state: StagedState) -> float:
        length = state.behind + state.ahead
        if not isinstance(self.metric, LearnedMetric) or state.alpha in (0.0, 1.0) or length == 0.0:
            return state.alpha
        return float(np.clip(state.behind / length, 1e-9, 1.0 - 1e-9))

    def _length(self, state: StagedState) -> float:
        return state.behind + state.ahead if isinstance(self.metric, LearnedMetric) else self.length

    def snapshot(self, state: StagedState) -> Arrays:
        """The last fit of a learned metric, and the progress of particles that move individually."""
        if not state.progress.size:
            return state.picture
        mass = self.trajectories.mass if state.segment is None else state.segment.mass
        return {**state.picture, "progress": state.progress, "mass": mass}

    def _decide(self, state: StagedState, rng: np.random.Generator) -> StagedState:
        metric, pace = self.metric, self.bound_pace(state)
        ready = state.fresh >= pace.window
        if not isinstance(metric, LearnedMetric):
            if not pace.individual:
                return super()._decide(state, rng)
            return self._waiting(self._walk(state, self.trajectories)) if ready else state
        if isinstance(metric, Practice):
            return self._practise(state, metric, rng) if state.fresh >= metric.every else state
        if state.kind == "explore":
            return self._refit(state, metric, rng) if state.steps >= self.explore_steps else state
        status = pace.stage_status(state)
        if state.segment is not None and ready:
            return self._follow(state, state.segment, metric, status, rng)
        return self._explore(state, metric, status, rng) if status else self._waiting(state)

    def _practise(self, state: StagedState, metric: Practice, rng: np.random.Generator) -> StagedState:
        """Plan the particles' ways again; train at the first place of each that is not mastered, and before it."""
        segment, known = state.segment, PracticeGraph(metric, state.counts)
        if segment is None:
            straight = Geodesic(self.source, self.target, Euclidean(metric.space.sides))
            none = np.zeros(len(self.source))
            segment, _ = PathSegment.through(straight, 0.0, none, None, WAYPOINTS, self.particles, rng)
        ways, blocked = known.detours(segment.points)
        segment = segment.with_ways(ways, self.box)
        trajectories = segment.trajectories(self.source, self.target)
        knots = known.frontier(segment.points)
        state = state.enter(
            _with_rehearsal(trajectories, knots, metric.rehearse),
            _mean_progress(knots / trajectories.knots, segment.mass),
            f"{len(ways)} of {len(knots)} ways planned again",
            moves=state.moves + 1,
            segment=segment,
            progress=knots / trajectories.knots,
            blocked=blocked,
            picture={**_heat_map(known, metric.space), **_clouds(segment)},
        )
        return self._on_segment(state, segment, knots)

    def _walk(self, state: StagedState, trajectories: Trajectories, status: str = "") -> StagedState:
        """The stage in which each particle is where the pace sends it; the same state if none moves."""
        here = self._knots(state, trajectories)
        reached = self.bound_pace(state).next_knots(state, trajectories, here)
        if np.array_equal(reached, here):
            return state
        progress = reached / trajectories.knots
        changes: dict[str, FloatArray] = {}
        if self.pace.individual:
            back = int((reached < here).sum())
            status = f"moved, {back} of {len(here)} atoms back" if back else "moved"
            changes = {"progress": progress}
        alpha = _mean_progress(progress, trajectories.mass)
        return state.enter(trajectories.at(reached), alpha, status, moves=state.moves + 1, **changes)

    def _knots(self, state: StagedState, trajectories: Trajectories) -> Knots:
        """The knot (n,) at which each particle is."""
        if not self.pace.individual:
            return level(trajectories, state.alpha)
        return np.rint(_progress(state, len(trajectories)) * trajectories.knots).astype(np.intp)

    def _follow(
        self, state: StagedState, segment: PathSegment, metric: LearnedMetric, status: str, rng: np.random.Generator
    ) -> StagedState:
        """A move along the path found at the last fit, or an exploration for the next fit."""
        pace = self.bound_pace(state)
        if not (status or pace.individual):
            return self._waiting(state)
        moved = self._walk(state, segment.trajectories(self.source, self.target), status)
        if moved.alpha > state.alpha and moved.alpha > segment.start + pace.reach + 1e-9:
            return self._explore(state, metric, "mastered", rng)
        if status == "mastered" and pace.is_stale(state):
            return self._explore(state, metric, "path is stale", rng)
        steps = state.steps if moved.stage > state.stage else 0
        segment = replace(segment, episodes=segment.episodes + state.fresh, steps=segment.steps + steps)
        state = self._waiting(moved).replace(segment=segment)
        return self._on_segment(state, segment, self._knots(state, segment.trajectories(self.source, self.target)))

    def _on_segment(self, state: StagedState, segment: PathSegment, knots: Knots) -> StagedState:
        """The state with the lengths of the path behind and ahead of its particles, which are at knots (n,)."""
        hops = hop_lengths(segment.points, segment.mass, self.box)
        covered = np.arange(len(hops))[:, None] < knots
        return state.replace(behind=float(hops[covered].sum()), ahead=float(hops[~covered].sum()))

    def _explore(self, state: StagedState, metric: LearnedMetric, status: str, rng: np.random.Generator) -> StagedState:
        """A stage on uniform contexts, to observe scores wherever the path may lead."""
        everywhere = metric.space.uniform(UNIFORM, rng)
        return state.enter(everywhere, state.alpha, status, kind="explore", trained=state.distribution)

    def _refit(self, state: StagedState, metric: LearnedMetric, rng: np.random.Generator) -> StagedState:
        """Fit the metric to the latest episodes and move under it."""
        trained = state.trained or self.source
        anchors = np.concatenate([trained.points, self.target.points])
        fitted = metric.fit(state.seen[-metric.memory :], rng, anchors)
        if metric.space.mixed:
            _check_paths(fitted, metric.space, self.target)
        onward = Geodesic(trained, self.target, fitted)
        if self.pace.path_knots:
            moved = self._begin_segment(state, onward, rng)
        else:
            path = RemainingPath(onward, Geodesic(trained, self.source, fitted), state.alpha, self.particles, rng)
            moved = self._move(state, path, state.event)
            if moved.stage == state.stage:  # the pace stays: train where it was before the exploration
                moved = state.enter(trained, state.alpha, state.event)
            behind, ahead = path.lengths(moved.alpha, self.box)
            moved = moved.replace(behind=behind, ahead=ahead)
        return moved.replace(picture=picture(fitted, onward, metric.space, self.particles, rng))

    def _begin_segment(self, state: StagedState, onward: Geodesic, rng: np.random.Generator) -> StagedState:
        """A new segment from the distribution last trained on, and the first move along it, if there is one."""
        n, alpha, individual = len(onward.source), state.alpha, self.pace.individual
        progress = _progress(state, n) if individual and 0.0 < alpha < 1.0 else np.full(n, alpha)
        segment, progress = PathSegment.through(
            onward, alpha, progress, state.segment, self.pace.path_knots, self.particles, rng
        )
        state = state.replace(segment=segment, progress=progress if individual else state.progress)
        trajectories = segment.trajectories(self.source, self.target)
        moved = self._walk(state, trajectories, state.event)
        if moved.stage == state.stage:
            moved = state.enter(trajectories.at(self._knots(state, trajectories)), alpha, state.event)
        return self._on_segment(moved, segment, self._knots(moved, trajectories))


def _with_rehearsal(trajectories: Trajectories, knots: Knots, fraction: float) -> Particles:
    """The particles at their knots (n,), and a fraction of the mass on the way to there; none at the target."""
    here = trajectories.at(knots)
    if (knots == trajectories.knots).all():
        return here
    past = [trajectories.at(knots * k // REHEARSED) for k in range(REHEARSED)]
    weights = [(1 - fraction) * here.weights, *(fraction / REHEARSED * each.weights for each in past)]
    points = np.concatenate([here.points, *(each.points for each in past)])
    return Particles(points, np.concatenate(weights)).positive()


def _clouds(segment: PathSegment) -> Arrays:
    """Where the ways lead, as `picture` has it."""
    places = np.rint(np.array(ALPHAS) * (len(segment.points) - 1)).astype(int)
    return {"potential": segment.points[places], "potential_alphas": np.asarray(ALPHAS)}


def cumulative_length(geodesic: Geodesic, space: ContextSpace) -> FloatArray:
    """The length (KNOTS + 1,) of a geodesic up to evenly spaced places on it, in diagonals of a bounded space."""
    hops = hop_lengths(main_points(geodesic, KNOTS), geodesic.plan.mass, space)
    return np.concatenate([[0.0], hops.sum(axis=1).cumsum()])


def _progress(state: StagedState, n: int) -> FloatArray:
    """The fraction (n,) of its path that each particle has covered."""
    if not state.progress.size:
        return np.zeros(n)
    if state.progress.shape != (n,) or not ((state.progress >= 0) & (state.progress <= 1)).all():
        raise InvalidInput(f"expected the progress of {n} particles in [0, 1], got the state of another curriculum")
    return state.progress


def _mean_progress(progress: FloatArray, mass: FloatArray) -> float:
    """Alpha of particles that move individually: 1 only if all have arrived, 0 only if none has left."""
    if (progress == progress[0]).all():
        return float(progress[0])
    return float(np.clip(mass @ progress / mass.sum(), 1e-9, 1.0 - 1e-9))


def picture(metric: Metric, path: Geodesic, space: ContextSpace, particles: int, rng: np.random.Generator) -> Arrays:
    """A fit for figures: its return model, where its path leads, the path's length, and the stress if it has one."""
    heat = _heat_map(metric, space) if isinstance(metric, Fitted) else {}
    clouds = [path(alpha).thinned(min(particles, CLOUD), rng).points for alpha in ALPHAS]
    potential = {"potential": np.stack(clouds), "potential_alphas": np.asarray(ALPHAS)}
    stress = {"stress": np.asarray(metric.stress)} if hasattr(metric, "stress") else {}
    return {**heat, **potential, **stress, "length": np.asarray(path.length)}


def _check_paths(metric: Metric, space: ContextSpace, target: Particles) -> None:
    """Refuse a metric whose paths lead through contexts that are between two integers or categories."""
    start = space.uniform(CLOUD, np.random.default_rng(0)).points
    end = target.points[np.arange(len(start)) % len(target)]
    for t in (0.25, 0.5):
        points, fractions = metric.interpolate(start, end, t)
        if not space.contains(points[fractions > 0]).all():
            raise InvalidInput(
                f"expected a metric whose paths keep to integers and categories, got {type(metric).__name__}; try "
                "geodesic.metrics.Product(space, distances), or a subclass of it with its own pairwise"
            )


def _heat_map(metric: Fitted, space: ContextSpace) -> Arrays:
    """J on a grid over the first two dimensions, the others at their middle: heat (rows y, columns x)."""
    cells = (np.arange(HEAT) + 0.5) / HEAT
    low, sides = space.low - space.steps / 2, space.high - space.low + space.steps  # as figures draw them
    second = min(1, space.dim - 1)
    x, y = low[0] + cells * sides[0], low[second] + cells * sides[second]
    grid = np.tile((space.low + space.high) / 2, (HEAT * HEAT, 1))
    grid[:, second], grid[:, 0] = np.repeat(y, HEAT), np.tile(x, HEAT)
    heat = metric.returns(space.clip(grid) if space.mixed else grid)
    return {"heat": heat.reshape(HEAT, HEAT), "heat_x": x, "heat_y": y}
