"""GRADIENT: the curriculum along the Wasserstein geodesic (Huang et al., NeurIPS 2022, Algorithms 1 and 4)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from geodesic.checks import as_count, as_flag, check
from geodesic.contexts import Arrays, Episodes, FloatArray
from geodesic.curricula.gradient.gate import Gate, mean_progress, thinned
from geodesic.curricula.gradient.paces import Pace, Path, as_step
from geodesic.curricula.gradient.refit import Onward, picture
from geodesic.curricula.gradient.staged import Staged, StagedState
from geodesic.errors import InvalidInput
from geodesic.metrics.base import Metric, Recipe
from geodesic.transport.geodesic import Geodesic
from geodesic.transport.ways import Ways

UNIFORM = 1000  # particles that stand for the uniform distribution on a continuous space


@dataclass(frozen=True)
class Gradient(Staged):
    """Stages path(0), path(step), ..., path(1) of the geodesic from source to target under a metric.

    Algorithm 1, under a metric that is known. The paper solves a barycenter anew at every stage; here one optimal plan
    is solved once, and each stage reads its alpha off it. Without a metric, contexts are compared by their Euclidean
    distance.

    Algorithm 4, under a recipe (`metrics.Embedding`, `metrics.ReturnLift`): train until the stage is over, explore
    uniform contexts for `explore_steps`, refit the metric to the latest episodes, move on. The metric changes between
    stages, so no plan outlives one: a move from alpha to beta goes (beta - alpha) / (1 - alpha) of the way that is
    left from the distribution last trained on to the target, which makes even stages. (The paper moves the source and
    raises alpha as well: uneven ones.) Exploration is a stage of its own, of kind "explore"; alpha stays.

    With a gate, every `window` episodes each atom of the plan moves for itself (`Gate`): on along its own geodesic, at
    most `step` of it (`stride` if that is "auto"), while the estimate of `Auto` stays above the threshold, and back
    where it fell. alpha is the mean share of their ways that the atoms have come. Under a recipe they move when the
    metric is refitted, which is when the estimate's mean over the stage is on the other side of the threshold than
    where it should be: above it before the target, below it after the source.
    """

    metric: Metric | Recipe | None = None
    explore_steps: int = 10_000
    _: KW_ONLY
    gate: bool = False

    def __post_init__(self) -> None:
        check(self, explore_steps=as_count, gate=as_flag)
        super().__post_init__()
        if self.gate:
            self.gating  # noqa: B018  refuses a pace of one's own
        if self.metric is None and self.discrete:
            raise InvalidInput(
                "expected a metric between discrete contexts, got none: straight lines leave the support; "
                "try metric=geodesic.metrics.Graph(...) or Matrix(...)"
            )

    @property
    def discrete(self) -> bool:
        """Whether contexts live on a support: the space says so, or source and target share their points."""
        if self.space is not None:
            return self.space.support is not None
        return np.array_equal(self.source.points, self.target.points) and self.source != self.target

    @cached_property
    def pace(self) -> Pace:
        return self.auto if self.gate else super().pace

    @cached_property
    def gating(self) -> Gate:
        return Gate(self.stride if self.step == "auto" else as_step(self.step, "step"))

    @property
    def unit(self) -> FloatArray:
        return self.metric.space.unit_length if isinstance(self.metric, Recipe) else super().unit

    @cached_property
    def path(self) -> Path:
        return self.geodesic

    @cached_property
    def ways(self) -> Ways:
        """Of the atoms of a path that is known."""
        return self.gating.ways(self.geodesic)

    @cached_property
    def geodesic(self) -> Geodesic:
        """The path from source to target under a metric that is known."""
        if isinstance(self.metric, Recipe):
            raise InvalidInput("expected a metric that is known before training, got one that is fitted to episodes")
        return Geodesic(self.source, self.target, self.metric)

    def update(self, state: StagedState, episodes: Episodes, rng: np.random.Generator) -> StagedState:
        if not isinstance(self.metric, Recipe):
            return super().update(state, episodes, rng) if not self.gate else self.gated(state, episodes, rng)
        if not self.heard(state, episodes, rng) or state.done:
            return state
        state = state.absorb(episodes, self.pace.window, max(self.metric.memory, self.pace.memory))
        if state.kind == "explore":
            return self.refit(state, self.metric, rng) if state.steps >= self.explore_steps else state
        verdict = self.pace.verdict(state)
        return self.explore(state, self.metric, verdict, rng) if verdict else self.looked(state)

    def gated(self, state: StagedState, episodes: Episodes, rng: np.random.Generator) -> StagedState:
        """Each atom on or back along its own way, under a path that is known."""
        if not self.heard(state, episodes, rng):
            return state
        state = state.absorb(episodes, self.pace.window, self.pace.memory)
        if state.fresh < self.pace.window:
            return state
        rungs = np.rint(self.progress(state, len(self.ways)) * self.ways.rungs).astype(np.intp)
        reached = self.gating.move(self.ways, rungs, self.auto.values(state.seen))
        if np.array_equal(reached, rungs):
            return self.looked(state)
        progress = reached / self.ways.rungs
        back = int((reached < rungs).sum())
        event = f"moved, {back} of {len(rungs)} atoms back" if back else "moved"
        moved = state.enter(self.ways.at(reached), mean_progress(progress, self.ways.mass), event)
        return moved.replace(moves=state.moves + 1, progress=progress)

    @staticmethod
    def progress(state: StagedState, n: int) -> FloatArray:
        """The share (n,) of its way that each atom has come."""
        if not state.progress.size:
            return np.zeros(n)
        if state.progress.shape != (n,) or not ((state.progress >= 0) & (state.progress <= 1)).all():
            raise InvalidInput(f"expected a state with the progress of {n} atoms in [0, 1], got another one's")
        return state.progress

    def explore(self, state: StagedState, recipe: Recipe, verdict: str, rng: np.random.Generator) -> StagedState:
        """Hand out uniform contexts, to see returns where the path may lead."""
        moved = state.enter(recipe.space.uniform(UNIFORM, rng), state.alpha, verdict)
        return moved.replace(kind="explore", trained=state.distribution)

    def refit(self, state: StagedState, recipe: Recipe, rng: np.random.Generator) -> StagedState:
        """Fit the metric to the latest episodes and go on under it."""
        trained = state.trained or self.source
        anchors = np.concatenate([trained.points, self.target.points])
        metric = recipe.fit(state.seen[-recipe.memory :], rng, anchors)
        onward, back = (Geodesic(trained, end, metric) for end in (self.target, self.source))
        if self.gate:
            moved = self.gated_anew(state, onward, back, rng)
        else:
            moved = self.move(state, Onward(onward, back, state.alpha, self.particles, rng), state.event)
        if moved.stage == state.stage:  # the pace stays: back to training where it was
            moved = state.enter(trained, state.alpha, state.event)
        return moved.replace(picture=picture(metric, onward, recipe.space, self.particles, rng))

    def gated_anew(self, state: StagedState, onward: Geodesic, back: Geodesic, rng: np.random.Generator) -> StagedState:
        """Each point of the distribution last trained on moves for itself under the metric just fitted."""
        come, value = self.progress(state, len(onward.source)), self.auto.values(state.seen)
        points, mass, progress = self.gating.refitted(onward, back, come, value)
        alpha = mean_progress(progress, mass)
        if alpha in (0.0, 1.0):
            there = self.target if alpha else self.source
            progress = np.full(len(there), alpha)
        else:
            there, progress = thinned(points, mass, progress, self.particles, rng)
        if there == state.trained:
            return state
        return state.enter(there, alpha, state.event).replace(moves=state.moves + 1, progress=progress)

    def snapshot(self, state: StagedState) -> Arrays:
        if not self.gate or not state.progress.size:
            return state.picture
        if not isinstance(self.metric, Recipe):
            mass = self.ways.mass
        else:  # an exploration keeps what it goes on from
            mass = (state.trained if state.kind == "explore" and state.trained else state.distribution).weights
        return {**state.picture, "progress": state.progress, "mass": mass}

    @property
    def particles(self) -> int:
        """The most that a distribution on a refitted path has: as many as source or target."""
        return max(len(self.source), len(self.target))
