"""GRADIENT: the curriculum along the Wasserstein geodesic (Huang et al., NeurIPS 2022, Algorithms 1 and 4)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from geodesic.checks import as_count, as_flag, check
from geodesic.contexts import Arrays, Episodes, FloatArray
from geodesic.curricula.gradient.auto import Auto
from geodesic.curricula.gradient.gate import Gate, level, mean_progress
from geodesic.curricula.gradient.legs import RUNGS, after, leg, loaded, saved
from geodesic.curricula.gradient.paces import Pace, Path, as_step
from geodesic.curricula.gradient.refit import Onward, picture
from geodesic.curricula.gradient.staged import Staged, StagedState
from geodesic.errors import InvalidInput
from geodesic.metrics.base import Metric, Recipe
from geodesic.transport.geodesic import Geodesic
from geodesic.transport.ways import Rungs, Ways

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
    where it fell. alpha is the mean share of their ways that the atoms have come.

    Under a recipe, `Auto` and the gate move often and a little, so exploring and fitting for each move would be most of
    a run. They keep the way found at a fit (`legs`) and walk it on and back, until a move on would end more than a
    stride past the alpha of that fit: at most two fits for each stride of progress. A way on which the target is not
    reached is given up too, once the stage is mastered: by `Auto` after `memory` episodes, when none is left of those
    that the estimate had when it was found, and by the gate, of which a wall holds up a part only, after
    max_stage_steps.
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
    def reach(self) -> float:
        """How far past a fit of the metric its way is followed."""
        return self.gating.stride if self.gate else self.auto.stride

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
        if state.leg and state.fresh >= self.pace.window:
            return self.along(state, self.metric, verdict, rng)
        return self.explore(state, self.metric, verdict, rng) if verdict else self.looked(state)

    def gated(self, state: StagedState, episodes: Episodes, rng: np.random.Generator) -> StagedState:
        """Each atom on or back along its own way, under a path that is known."""
        if not self.heard(state, episodes, rng):
            return state
        state = state.absorb(episodes, self.pace.window, self.pace.memory)
        return state if state.fresh < self.pace.window else self.looked(self.moved(state, self.ways))

    def moved(self, state: StagedState, ways: Ways, verdict: str = "") -> StagedState:
        """Each atom where the gate lets it go, or all where the pace says; the same state if none moves."""
        here = self.rungs(state, ways)
        if self.gate:
            reached = self.gating.move(ways, here, self.auto.values(state.seen))
            back = int((reached < here).sum())
            verdict = f"moved, {back} of {len(here)} atoms back" if back else "moved"
        else:
            reached = level(ways, self.pace.alpha(state, lambda alpha: ways.at(level(ways, alpha))))
        if np.array_equal(reached, here):
            return state
        progress = reached / ways.rungs
        entered = state.enter(ways.at(reached), mean_progress(progress, ways.mass), verdict)
        entered = entered.replace(moves=state.moves + 1)
        return entered.replace(progress=progress) if self.gate else entered

    def rungs(self, state: StagedState, ways: Ways) -> Rungs:
        """Where each atom (n,) stands on its way."""
        if not self.gate:
            return level(ways, state.alpha)
        return np.rint(self.progress(state, len(ways)) * ways.rungs).astype(np.intp)

    @staticmethod
    def progress(state: StagedState, n: int) -> FloatArray:
        """The share (n,) of its way that each atom has come."""
        if not state.progress.size:
            return np.zeros(n)
        if state.progress.shape != (n,) or not ((state.progress >= 0) & (state.progress <= 1)).all():
            raise InvalidInput(f"expected a state with the progress of {n} atoms in [0, 1], got another one's")
        return state.progress

    def along(self, state: StagedState, recipe: Recipe, verdict: str, rng: np.random.Generator) -> StagedState:
        """On or back on the way found at the last fit, or to the next fit."""
        if not self.gate and not verdict:
            return self.looked(state)
        moved = self.moved(state, loaded(state.leg, self.source, self.target), verdict)
        if moved.alpha > state.alpha and moved.alpha > float(state.leg["alpha"]) + self.reach + 1e-9:
            return self.explore(state, recipe, "mastered", rng)
        if verdict == "mastered" and self.worn(state):
            return self.explore(state, recipe, "no way on", rng)
        return self.looked(moved).replace(
            leg=after(state.leg, state.fresh, state.steps if moved.stage > state.stage else 0)
        )

    def worn(self, state: StagedState) -> bool:
        """Whether a way was followed for as long as it is, short of the target: all are held up by a wall on it.

        Under a gate a wall holds up its own atoms alone, which may be all that is left: that is no hurry.
        """
        if self.gate:
            return int(state.leg["steps"]) + state.steps >= (self.max_stage_steps or math.inf)
        return int(state.leg["heard"]) + state.fresh >= self.pace.memory

    def explore(self, state: StagedState, recipe: Recipe, verdict: str, rng: np.random.Generator) -> StagedState:
        """Hand out uniform contexts, to see returns where the path may lead."""
        moved = state.enter(recipe.space.uniform(UNIFORM, rng), state.alpha, verdict)
        return moved.replace(kind="explore", trained=state.distribution)

    def refit(self, state: StagedState, recipe: Recipe, rng: np.random.Generator) -> StagedState:
        """Fit the metric to the latest episodes and go on under it."""
        trained = state.trained or self.source
        anchors = np.concatenate([trained.points, self.target.points])
        metric = recipe.fit(state.seen[-recipe.memory :], rng, anchors)
        onward = Geodesic(trained, self.target, metric)
        if isinstance(self.pace, Auto):
            moved = self.begin(state, onward, rng)
        else:
            back = Geodesic(trained, self.source, metric)
            moved = self.move(state, Onward(onward, back, state.alpha, self.particles, rng), state.event)
            if moved.stage == state.stage:  # the pace stays: back to training where it was
                moved = state.enter(trained, state.alpha, state.event)
        return moved.replace(picture=picture(metric, onward, recipe.space, self.particles, rng))

    def begin(self, state: StagedState, onward: Geodesic, rng: np.random.Generator) -> StagedState:
        """A new leg from the distribution last trained on, and the first move on it, or none."""
        n, alpha = len(onward.source), state.alpha
        come = self.progress(state, n) if self.gate and 0.0 < alpha < 1.0 else np.full(n, alpha)
        before = loaded(state.leg, self.source, self.target) if state.leg else None
        rungs = self.gating.rungs if self.gate else RUNGS
        ways, come = leg(onward, self.source, come, before, rungs, self.particles, rng)
        state = state.replace(leg=saved(ways, alpha), progress=come if self.gate else state.progress)
        moved = self.moved(state, ways, state.event)
        if moved.stage > state.stage:
            return moved
        return state.enter(ways.at(self.rungs(state, ways)), alpha, state.event)

    def snapshot(self, state: StagedState) -> Arrays:
        if not self.gate or not state.progress.size:
            return state.picture
        mass = state.leg["mass"] if isinstance(self.metric, Recipe) else self.ways.mass
        return {**state.picture, "progress": state.progress, "mass": mass}

    @property
    def particles(self) -> int:
        """The most that a distribution on a refitted path has: as many as source or target."""
        return max(len(self.source), len(self.target))
