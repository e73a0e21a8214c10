"""A source that nobody has to state: found by search, in front of any method that takes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from geodesic.checks import as_count, as_function, as_size, check
from geodesic.contexts import Arrays, ContextSpace, Episodes, FloatArray, Particles, as_bounded
from geodesic.curricula.base import Curriculum, State

SPREAD = 0.25  # of the space's sides: the noise where the agent earns no more than the worst seen
INNER = "inner/"


@dataclass(frozen=True, repr=False)
class SearchState(State):
    """seen: the latest episodes; recent: the scores of this stage's last ones; found: the source, once there is one;

    inner: where the method stands that goes on from it, whose distribution, stage, alpha and event are this state's.
    """

    seen: Episodes = field(default_factory=lambda: Episodes.empty(1))
    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    found: Particles | None = None
    inner: State | None = None

    @property
    def failures(self) -> int:
        return int(getattr(self.inner, "failures", 0))

    def follow(self, inner: State) -> SearchState:
        """Stand where the method does."""
        return self.replace(
            distribution=inner.distribution,
            stage=inner.stage,
            alpha=inner.alpha,
            done=inner.done,
            event=inner.event,
            kind=inner.kind,
            inner=inner,
        )


@dataclass(frozen=True)
class Search(Curriculum[SearchState]):
    """CURROT's search before the first success: from the whole space to where the agent is good enough, then a method.

        c = c_i + s SPREAD sides z,   s = (threshold - mean) / (threshold - worst),   z from N(0, 1)

    c_i is one of the better half of the last `memory` episodes, mean is the stage's mean score and worst the worst one
    seen, so that the noise shrinks with what the agent falls short by. A stage is drawn anew every `window` episodes;
    one whose mean reaches the threshold becomes the source, and `method(source)` goes on from there. Stages of the
    search are of kind "explore".

    Differs from CURROT: where the worse half all earned the worst, the better half are those that earned more, so that
    rare successes are not lost among failures.
    """

    state_type: ClassVar[type[State]] = SearchState

    method: Callable[[Particles], Curriculum[Any]]
    space: ContextSpace
    threshold: float
    particles: int = 200
    window: int = 20
    memory: int = 200

    def __post_init__(self) -> None:
        check(self, method=as_function, space=as_bounded, particles=as_size, window=as_count, memory=as_count)
        super().__post_init__()

    def init(self, rng: np.random.Generator) -> SearchState:
        everywhere = self.space.uniform(self.particles, rng)
        return SearchState(everywhere, kind="explore", seen=Episodes.empty(self.space.dim))

    def update(self, state: SearchState, episodes: Episodes, rng: np.random.Generator) -> SearchState:
        if not self.heard(state, episodes, rng):
            return state
        if state.found is not None and state.inner is not None:
            return state.follow(self.after(state.found).update(state.inner, episodes, rng))
        own = episodes.of_stage(state.stage).returns
        state = state.replace(
            seen=state.seen.followed_by(episodes)[-self.memory :],
            recent=np.concatenate([state.recent, own])[-self.window :],
        )
        if len(state.recent) < self.window:
            return state
        return self.begin(state, rng) if state.recent.mean() >= self.threshold else self.draw(state, rng)

    def begin(self, state: SearchState, rng: np.random.Generator) -> SearchState:
        """The method, on the source that was found."""
        found = Particles(state.distribution.points, state.distribution.weights)
        inner = self.after(found).init(rng)
        return state.replace(found=found).follow(inner.replace(stage=state.stage + 1, event="source found"))

    def draw(self, state: SearchState, rng: np.random.Generator) -> SearchState:
        """The next contexts to try: around the better ones so far."""
        scores = state.seen.returns
        worst, middle = float(scores.min()), float(np.median(scores))
        better = scores > middle if middle == worst and scores.max() > worst else scores >= middle
        short = (self.threshold - float(state.recent.mean())) / max(self.threshold - worst, 1e-300)
        around = state.seen.contexts[better]
        chosen = around[rng.integers(len(around), size=self.particles)]
        noise = min(short, 1.0) * SPREAD * self.space.sides * rng.standard_normal(chosen.shape)
        return state.replace(
            distribution=self.space.inside(chosen + noise),
            stage=state.stage + 1,
            event=f"searching, {int(better.sum())} of {len(scores)} episodes kept",
            recent=np.zeros(0),
        )

    def after(self, found: Particles) -> Curriculum[Any]:
        """The method on this source; the last one is kept, with the plan that it solved."""
        key = found.points.tobytes() + found.weights.tobytes()
        if key not in self._made:
            self._made.clear()
            self._made[key] = self.method(found)
        return self._made[key]

    @cached_property
    def _made(self) -> dict[bytes, Curriculum[Any]]:
        return {}

    def snapshot(self, state: SearchState) -> Arrays:
        if state.found is None or state.inner is None:
            return {}
        return self.after(state.found).snapshot(state.inner)

    def save(self, state: SearchState) -> Arrays:
        arrays = super().save(state.replace(inner=None))
        if state.found is None or state.inner is None:
            return arrays
        inner = self.after(state.found).save(state.inner)
        return {**arrays, **{INNER + name: value for name, value in inner.items()}}

    def load(self, arrays: Arrays) -> SearchState:
        state = super().load({name: value for name, value in arrays.items() if not name.startswith(INNER)})
        if state.found is None:
            return state
        own = {name.removeprefix(INNER): value for name, value in arrays.items() if name.startswith(INNER)}
        return state.follow(self.after(state.found).load(own))
