"""A search for the source, in front of any method that takes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from geodesic.checks import Count, Size, as_function
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray, Particles
from geodesic.curricula.base import Curriculum, Wrapper, WrapperState

SPREAD = 0.25  # of the space's sides: the noise where the agent earns no more than the worst score


@dataclass(frozen=True, repr=False)
class SearchState(WrapperState):
    """A `State` with what the search has seen, and the state of the method that follows it.

    Args:
        seen: The latest episodes of the search.
        recent: The latest scores of this stage of the search.
        found: The source, once it is found.
        inner: The state of the method that starts there; distribution, stage, alpha and event are copied from it.
    """

    seen: EpisodeBatch = field(default_factory=lambda: EpisodeBatch.empty(1))
    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    found: Particles | None = None


@dataclass(frozen=True)
class Search(Wrapper[SearchState]):
    """CURROT's search before the first success: from the whole space to where the agent is good enough, then a method.

        c = c_i + s SPREAD sides z,   s = (threshold - mean) / (threshold - worst),   z from N(0, 1)

    c_i is one of the better half of the last `memory` episodes, mean is the stage's mean score and worst the worst
    score seen, so that the noise shrinks as the agent gets closer to the threshold. New contexts are drawn every
    `window` episodes. A stage whose mean reaches the threshold becomes the source, from which `method(source)`
    continues. Stages of the search are of kind "explore".

    Differs from CURROT: where the worse half all earned the worst score, the better half are those that earned more, so
    that a few successes are not lost among failures.

    Args:
        method: Makes the curriculum that starts at a source.
        space: Where contexts live; bounded.
        threshold: The mean score at which contexts become the source.
        particles: How many contexts a stage of the search has.
        window: How many episodes a stage of the search takes.
        memory: How many of the latest episodes the search draws from.
        score: The score of an episode that the search looks at.
    """

    follows_threshold: ClassVar[bool] = True

    method: Annotated[Callable[[Particles], Curriculum[Any]], as_function]
    space: BoundedSpace
    threshold: float
    particles: Size = 200
    window: Count = 20
    memory: Count = 200

    def init(self, rng: np.random.Generator) -> SearchState:
        """The whole space."""
        everywhere = self.space.uniform(self.particles, rng)
        return SearchState(everywhere, kind="explore", seen=EpisodeBatch.empty(self.space.dim))

    def update(self, state: SearchState, episodes: EpisodeBatch, rng: np.random.Generator) -> SearchState:
        """The state after more episodes: of the search, or of the method once there is a source."""
        if not self.has_episodes(state, episodes, rng):
            return state
        if state.found is not None and state.inner is not None:
            inner = state.inner.replace(threshold=state.threshold)
            return state.follow(self.after(state.found).update(inner, episodes, rng))
        own = episodes.of_stage(state.stage).scores(self.score)
        state = state.replace(
            seen=state.seen.concatenate(episodes)[-self.memory :],
            recent=np.concatenate([state.recent, own])[-self.window :],
        )
        if len(state.recent) < self.window:
            return state
        return self._begin(state, rng) if state.recent.mean() >= self.required(state) else self._draw(state, rng)

    def after(self, found: Particles) -> Curriculum[Any]:
        """The method with a source. The last one is kept, so that its transport plan is solved once.

        Args:
            found: The source.

        Returns:
            The curriculum.
        """
        key = found.points.tobytes() + found.weights.tobytes()
        if key not in self._made:
            self._made.clear()
            self._made[key] = self.method(found)
        return self._made[key]

    @cached_property
    def _made(self) -> dict[bytes, Curriculum[Any]]:
        return {}

    def _begin(self, state: SearchState, rng: np.random.Generator) -> SearchState:
        """The method's first stage, on the source that was found."""
        found = Particles(state.distribution.points, state.distribution.weights)
        inner = self.after(found).init(rng).replace(threshold=state.threshold)
        return state.replace(found=found).follow(inner.replace(stage=state.stage + 1, event="source found"))

    def _draw(self, state: SearchState, rng: np.random.Generator) -> SearchState:
        """The next contexts to try: near the better ones so far."""
        scores = state.seen.scores(self.score)
        worst, middle = float(scores.min()), float(np.median(scores))
        better = scores > middle if middle == worst and scores.max() > worst else scores >= middle
        required = self.required(state)
        short = (required - float(state.recent.mean())) / max(required - worst, 1e-300)
        centres = self.space.relax(state.seen.contexts[better])
        chosen = centres[rng.integers(len(centres), size=self.particles)]
        noise = min(short, 1.0) * SPREAD * self.space.relaxed.sides * rng.standard_normal(chosen.shape)
        return state.replace(
            distribution=self.space.inside(chosen + noise),
            stage=state.stage + 1,
            event=f"searching, {int(better.sum())} of {len(scores)} episodes kept",
            recent=np.zeros(0),
        )

    def inside(self, state: SearchState) -> Curriculum[Any] | None:
        """The method, if there is a source."""
        return None if state.found is None else self.after(state.found)
