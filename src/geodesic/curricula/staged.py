"""Curricula that walk a path from source to target, one stage on whenever the agent has mastered the last."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from geodesic.curricula.base import Curriculum, Episodes, State
from geodesic.distributions import FloatArray, Particles, as_count
from geodesic.errors import InvalidInput


@dataclass(frozen=True)
class StagedState(State):
    """recent: the returns of this stage's last episodes; steps: environment steps of this stage's episodes."""

    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    steps: int = 0

    def absorb(self, episodes: Episodes, window: int) -> Self:
        """Take note of the episodes that began in this stage; those of earlier stages do not count."""
        own = episodes.of_stage(self.stage)
        if not len(own):
            return self
        recent = np.concatenate([self.recent, own.returns])[-window:]
        return self.replace(recent=recent, steps=self.steps + int(own.lengths.sum()))

    def enter(self, distribution: Particles, alpha: float, event: str) -> Self:
        """The next stage, with nothing seen of it yet."""
        return self.replace(
            distribution=distribution,
            stage=self.stage + 1,
            alpha=alpha,
            done=alpha >= 1.0,
            event=event,
            recent=np.zeros(0),
            steps=0,
        )


@dataclass(frozen=True)
class Staged(Curriculum):
    """Algorithm 1's loop: alpha_k = min(k * step, 1), one stage on when the return is good enough.

    A stage is mastered when the mean return of its last `window` training episodes exceeds the threshold. The paper
    waits for that without end; here a stage also ends after `max_stage_steps` environment steps, and says so in
    `state.event`.
    """

    state_type: ClassVar[type[State]] = StagedState

    source: Particles
    target: Particles
    step: float = 0.1
    threshold: float = 0.0
    window: int = 20
    max_stage_steps: int | None = None

    def __post_init__(self) -> None:
        if self.source.dim != self.target.dim:
            raise InvalidInput(
                f"expected source and target of one dimension, got {self.source.dim} and {self.target.dim}"
            )
        if not (isinstance(self.step, (int, float)) and 0 < self.step <= 1):
            raise InvalidInput(f"expected step in (0, 1], got {self.step!r}")
        if not math.isfinite(self.threshold):
            raise InvalidInput(f"expected a finite threshold, got {self.threshold!r}")
        as_count(self.window, "window")
        if self.max_stage_steps is not None:
            as_count(self.max_stage_steps, "max_stage_steps")

    @abstractmethod
    def distribution(self, alpha: float) -> Particles:
        """The distribution at alpha on the way; the source at 0 and the target at 1, exactly."""

    def init(self, rng: np.random.Generator) -> StagedState:
        return StagedState(self.distribution(0.0))

    def update(self, state: StagedState, episodes: Episodes, rng: np.random.Generator) -> StagedState:
        if state.done:
            return state
        state = state.absorb(episodes, self.window)
        verdict = self.verdict(state)
        if not verdict:
            return state
        alpha = self.alpha(state.stage + 1)
        return state.enter(self.distribution(alpha), alpha, verdict)

    def verdict(self, state: StagedState) -> str:
        """Why this stage is over, or nothing if it is not."""
        if len(state.recent) >= self.window and state.recent.mean() > self.threshold:
            return "mastered"
        if self.max_stage_steps is not None and state.steps >= self.max_stage_steps:
            return "step cap"
        return ""

    def alpha(self, stage: int) -> float:
        """min(stage * step, 1), free of rounding at the end."""
        alpha = stage * self.step
        return 1.0 if alpha > 1.0 - 1e-9 else alpha
