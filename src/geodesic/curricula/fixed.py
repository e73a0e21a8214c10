"""The paper's three simplest baselines: no curriculum, domain randomization, linear interpolation."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from geodesic.checks import Size
from geodesic.contexts import BoundedSpace, ContextSpace, EpisodeBatch, Particles
from geodesic.curricula.base import Curriculum, State
from geodesic.curricula.gradient.paces import DEFAULT_PACE, Pace
from geodesic.curricula.gradient.staged import Staged
from geodesic.errors import InvalidInput


@dataclass(frozen=True)
class TargetOnly(Curriculum[State]):
    """No-Curriculum: train on the target from the start.

    Args:
        target: The contexts to master.
        score: Not used.
    """

    colour: ClassVar[str | None] = "#808080"

    target: Particles

    def init(self, rng: np.random.Generator) -> State:
        """The target."""
        return State(self.target, alpha=1.0, done=True)

    def update(self, state: State, episodes: EpisodeBatch, rng: np.random.Generator) -> State:
        """The same state."""
        self.has_episodes(state, episodes, rng)
        return state


@dataclass(frozen=True, repr=False)
class UniformState(State):
    """A `State` that counts episodes.

    Args:
        fresh: Episodes since the contexts were drawn.
    """

    fresh: int = 0


@dataclass(frozen=True)
class Uniform(Curriculum[UniformState]):
    """Domain-Randomization: train on the whole context space from the start.

    Args:
        space: Where contexts live; bounded.
        particles: How many samples represent a space with too many contexts to list them. After as many episodes they
            are drawn afresh.
        score: Not used.
    """

    colour: ClassVar[str | None] = "#0072B2"

    space: BoundedSpace
    particles: Size = 1000

    def init(self, rng: np.random.Generator) -> UniformState:
        """The uniform distribution on the space."""
        drawn, support = self.space.uniform(self.particles, rng), self.space.support
        return UniformState(drawn, done=support is not None and len(drawn) == len(support))

    def update(self, state: UniformState, episodes: EpisodeBatch, rng: np.random.Generator) -> UniformState:
        """The state after more episodes, on other samples of the space once there were as many episodes as samples."""
        if not self.has_episodes(state, episodes, rng) or state.done:
            return state
        state = state.replace(fresh=state.fresh + len(episodes))
        if state.fresh < self.particles:
            return state
        drawn = self.space.uniform(self.particles, rng)
        return state.replace(distribution=drawn, stage=state.stage + 1, event="drawn afresh", fresh=0)


@dataclass(frozen=True)
class Linear(Staged):
    """Linear-Interpolation: the mixture (1 - alpha) * source + alpha * target, in the same stages as GRADIENT.

    It puts no mass between source and target: W1 grows evenly along it, as along the geodesic, but its mass jumps.

    Args:
        source: Contexts the agent can learn from at the start.
        target: The contexts to master.
        pace: When a stage is over and how far the next one is; not `PerParticlePace`, as no particle moves.
        threshold: A stage is mastered above this score; used by a pace without a threshold.
        space: Where contexts live, in which a pace compares them.
        score: The score of an episode that the pace looks at.
    """

    colour: ClassVar[str | None] = "#009E73"

    source: Particles
    target: Particles
    pace: Pace = DEFAULT_PACE
    threshold: float = 0.0
    _: KW_ONLY
    space: ContextSpace | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pace.individual:
            raise InvalidInput(
                f"expected a pace that moves the whole distribution, got {type(self.pace).__name__}: a mixture has no "
                "particles that move"
            )

    def path(self, alpha: float) -> Particles:
        """The mixture at alpha."""
        if alpha in (0.0, 1.0):
            return self.target if alpha else self.source
        return Particles(
            np.concatenate([self.source.points, self.target.points]),
            np.concatenate([(1 - alpha) * self.source.weights, alpha * self.target.weights]),
        )
