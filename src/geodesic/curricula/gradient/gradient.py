"""GRADIENT: the curriculum along the Wasserstein geodesic (Huang et al., NeurIPS 2022, Algorithms 1 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from geodesic.checks import as_count, check
from geodesic.contexts import ContextSpace, Episodes
from geodesic.curricula.gradient.paces import Path
from geodesic.curricula.gradient.refit import Onward, picture
from geodesic.curricula.gradient.staged import Staged, StagedState
from geodesic.errors import InvalidInput
from geodesic.metrics.base import Metric, Recipe
from geodesic.transport.geodesic import Geodesic

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
    """

    metric: Metric | Recipe | None = None
    explore_steps: int = 10_000
    space: ContextSpace | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, explore_steps=as_count)
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
    def path(self) -> Path:
        return self.geodesic

    @cached_property
    def geodesic(self) -> Geodesic:
        """The path from source to target under a metric that is known."""
        if isinstance(self.metric, Recipe):
            raise InvalidInput("expected a metric that is known before training, got one that is fitted to episodes")
        return Geodesic(self.source, self.target, self.metric)

    def update(self, state: StagedState, episodes: Episodes, rng: np.random.Generator) -> StagedState:
        if not isinstance(self.metric, Recipe):
            return super().update(state, episodes, rng)
        if not self.heard(state, episodes, rng) or state.done:
            return state
        state = state.absorb(episodes, self.pace.window, max(self.metric.memory, self.pace.memory))
        if state.kind == "explore":
            return self.refit(state, self.metric, rng) if state.steps >= self.explore_steps else state
        verdict = self.pace.verdict(state)
        return self.explore(state, self.metric, verdict, rng) if verdict else state

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
        path = Onward(onward, back, state.alpha, self.particles, rng)
        moved = self.move(state, path, state.event)
        if moved is state:  # the pace stays: back to training where it was
            moved = state.enter(trained, state.alpha, state.event)
        return moved.replace(picture=picture(metric, onward, recipe.space, self.particles, rng))

    @property
    def particles(self) -> int:
        """The most that a distribution on a refitted path has: as many as source or target."""
        return max(len(self.source), len(self.target))
