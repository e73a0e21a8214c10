"""Curricula that walk a path from source to target at a pace."""

from __future__ import annotations

import typing
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np

from geodesic.checks import as_count, as_integer, as_number
from geodesic.contexts import Arrays, ContextSpace, Episodes, FloatArray, Particles
from geodesic.curricula.base import Curriculum, State
from geodesic.curricula.gradient.auto import Auto
from geodesic.curricula.gradient.paces import FixedStep, Pace, Path
from geodesic.errors import InvalidInput


@dataclass(frozen=True, repr=False)
class StagedState(State):
    """recent: the returns of this stage's last episodes; steps: environment steps of this stage's episodes;

    moves: how often alpha changed; seen: the latest episodes of any stage, as many as path and pace ask for; fresh:
    this stage's episodes since the pace last looked. Under a metric that is refitted: trained, the distribution last
    trained on, which the next move starts from, picture, what `snapshot` shows of the last refit, and leg, the way that
    a pace which follows an estimate keeps until the next one (`legs`). Under a gate: progress, the share of its way
    that each atom has come; empty: none has left.
    """

    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    steps: int = 0
    moves: int = 0
    fresh: int = 0
    seen: Episodes = field(default_factory=lambda: Episodes.empty(1))
    trained: Particles | None = None
    picture: Arrays = field(default_factory=dict)
    leg: Arrays = field(default_factory=dict)
    progress: FloatArray = field(default_factory=lambda: np.zeros(0))

    def absorb(self, episodes: Episodes, window: int, memory: int) -> Self:
        """Take note of the episodes that began in this stage; those of earlier stages only count as seen."""
        own = episodes.of_stage(self.stage)
        return self.replace(
            recent=np.concatenate([self.recent, own.returns])[-window:],
            steps=self.steps + int(own.lengths.sum()),
            fresh=self.fresh + len(own),
            seen=self.seen.followed_by(episodes)[-memory:] if memory else self.seen,
        )

    def enter(self, distribution: Particles, alpha: float, event: str) -> Self:
        """The next stage, with nothing seen of it yet."""
        return self.replace(
            distribution=distribution,
            stage=self.stage + 1,
            alpha=alpha,
            event=event,
            kind="train",
            recent=np.zeros(0),
            steps=0,
            fresh=0,
        )


@dataclass(frozen=True)
class Staged(Curriculum[StagedState]):
    """One stage on along `path` whenever `pace` says so; at alpha = 1 the target itself.

    `step` is the paper's: a number, with which go threshold, window and max_stage_steps (`FixedStep`); or "auto", with
    which go threshold, success, window, stride, memory and width (`Auto`; contexts are compared in units in which the
    diagonal of the space, or of a box around both ends, has length 1); or a pace of one's own (`Pace`), which has all
    of them itself.
    """

    state_type: ClassVar[type[State]] = StagedState

    source: Particles
    target: Particles
    step: float | Literal["auto"] | Pace = 0.1
    threshold: float = 0.0
    window: int = 20
    max_stage_steps: int | None = None
    _: KW_ONLY
    stride: float = 0.2
    memory: int = 200
    width: float = 0.04
    success: float = 0.0
    space: ContextSpace | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        as_count(self.pace.window, "window")  # and refuses what is no pace
        as_integer(self.pace.memory, "memory")

    @cached_property
    def pace(self) -> Pace:
        if isinstance(self.step, Pace) and not isinstance(self.step, type):  # a class has its parts too
            return self.step
        if isinstance(self.step, str):
            return self.auto
        return FixedStep(typing.cast(float, self.step), self.threshold, self.window, self.max_stage_steps)

    @cached_property
    def auto(self) -> Auto:
        if isinstance(self.step, str) and self.step != "auto":
            raise InvalidInput(f"expected step in (0, 1], 'auto' or a pace, got {self.step!r}")
        return Auto(self.threshold, self.unit, self.stride, self.window, self.memory, self.width, self.success)

    @property
    def unit(self) -> FloatArray:
        """What contexts are divided by before the estimate compares them, shape (d,)."""
        if self.space is not None and self.space.bounded:
            return self.space.unit_length
        ends = np.concatenate([self.source.points, self.target.points])
        return ContextSpace(ends.min(axis=0), ends.max(axis=0)).unit_length

    @property
    @abstractmethod
    def path(self) -> Path:
        """The distribution at each alpha; the source at 0 and the target at 1, exactly."""

    def init(self, rng: np.random.Generator) -> StagedState:
        return StagedState(self.source, seen=Episodes.empty(self.source.dim))

    def update(self, state: StagedState, episodes: Episodes, rng: np.random.Generator) -> StagedState:
        if not self.heard(state, episodes, rng) or state.done:
            return state
        state = state.absorb(episodes, self.pace.window, self.pace.memory)
        verdict = self.pace.verdict(state)
        return self.move(state, self.path, verdict) if verdict else self.looked(state)

    def looked(self, state: StagedState) -> StagedState:
        """The same stage; one that was long enough to be looked at is looked at again after as many episodes."""
        return state.replace(fresh=0) if state.fresh >= self.pace.window else state

    def move(self, state: StagedState, path: Path, verdict: str) -> StagedState:
        """To where the pace says, if that is elsewhere; it may overshoot either end."""
        alpha = float(np.clip(as_number(self.pace.alpha(state, path), "the next alpha"), 0.0, 1.0))
        if alpha == state.alpha:
            return state.replace(fresh=0)
        distribution = self.target if alpha == 1.0 else path(alpha)
        done = alpha == 1.0 and not isinstance(self.pace, Auto)
        return state.enter(distribution, alpha, verdict).replace(moves=state.moves + 1, done=done)

    def snapshot(self, state: StagedState) -> Arrays:
        return state.picture
