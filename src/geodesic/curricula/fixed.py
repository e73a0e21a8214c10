"""The paper's three simplest baselines: no curriculum, domain randomization, linear interpolation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geodesic.checks import as_size, check
from geodesic.contexts import ContextSpace, Episodes, Particles, as_bounded
from geodesic.curricula.base import Curriculum, State
from geodesic.curricula.gradient.paces import Path
from geodesic.curricula.gradient.staged import Staged


@dataclass(frozen=True)
class TargetOnly(Curriculum[State]):
    """No-Curriculum: the target from the first step on."""

    target: Particles

    def init(self, rng: np.random.Generator) -> State:
        return State(self.target, alpha=1.0, done=True)

    def update(self, state: State, episodes: Episodes, rng: np.random.Generator) -> State:
        self.heard(state, episodes, rng)
        return state


@dataclass(frozen=True)
class Uniform(Curriculum[State]):
    """Domain-Randomization: the whole context space from the first step on.

    A continuous space is represented by `particles` samples drawn once.
    """

    space: ContextSpace
    particles: int = 4000

    def __post_init__(self) -> None:
        check(self, space=as_bounded, particles=as_size)

    def init(self, rng: np.random.Generator) -> State:
        return State(self.space.uniform(self.particles, rng), done=True)

    def update(self, state: State, episodes: Episodes, rng: np.random.Generator) -> State:
        self.heard(state, episodes, rng)
        return state


@dataclass(frozen=True)
class Linear(Staged):
    """Linear-Interpolation: the mixture (1 - alpha) * source + alpha * target, staged as GRADIENT is.

    It puts no mass between source and target: it has the geodesic's W1 speed, but its mass jumps.
    """

    @property
    def path(self) -> Path:
        return self.mixture

    def mixture(self, alpha: float) -> Particles:
        if alpha in (0.0, 1.0):
            return self.target if alpha else self.source
        return Particles(
            np.concatenate([self.source.points, self.target.points]),
            np.concatenate([(1 - alpha) * self.source.weights, alpha * self.target.weights]),
        )
