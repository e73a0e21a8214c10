"""Paces: when a stage is over, and how far along the path the next one lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from geodesic.checks import as_count, as_integer, as_number, check, is_number, optional
from geodesic.contexts import Particles
from geodesic.errors import InvalidInput, shown

if TYPE_CHECKING:
    from geodesic.curricula.gradient.staged import StagedState

Path = Callable[[float], Particles]  # alpha in [0, 1] -> the distribution there; the source at 0 and the target at 1


@runtime_checkable
class Pace(Protocol):
    """What decides about a staged curriculum's next step. Anything with these four can be given as `step`."""

    @property
    def window(self) -> int:
        """How many of this stage's returns `state.recent` keeps."""

    @property
    def memory(self) -> int:
        """How many episodes of any stage `state.seen` keeps."""

    def verdict(self, state: StagedState) -> str:
        """Why this stage is over, or nothing if it is not."""

    def alpha(self, state: StagedState, path: Path) -> float:
        """Where the next stage lies, once this one is over; the same alpha: stay. It may lie before this one."""


@dataclass(frozen=True)
class FixedStep:
    """Algorithm 1's: alpha_k = min(k * step, 1), one stage on when the return is good enough.

    A stage is mastered when the mean return of its last `window` training episodes exceeds the threshold. The paper
    waits for that without end; here a stage also ends after `max_stage_steps` environment steps, and says so.
    """

    step: float = 0.1
    threshold: float = 0.0
    window: int = 20
    max_stage_steps: int | None = None
    memory: int = 0

    def __post_init__(self) -> None:
        check(self, step=as_step, threshold=as_number, window=as_count, max_stage_steps=optional(as_count))
        check(self, memory=as_integer)

    def verdict(self, state: StagedState) -> str:
        if len(state.recent) >= self.window and state.recent.mean() > self.threshold:
            return "mastered"
        if self.max_stage_steps is not None and state.steps >= self.max_stage_steps:
            return "step cap"
        return ""

    def alpha(self, state: StagedState, path: Path) -> float:
        """min(k * step, 1), free of rounding at the end."""
        alpha = (state.moves + 1) * self.step
        return 1.0 if alpha > 1.0 - 1e-9 else alpha


def as_step(value: object, name: str) -> float:
    """A share of the way, above 0; a pace of one's own has been told apart before."""
    if not is_number(value) or not 0 < value <= 1:
        raise InvalidInput(f"expected {name} in (0, 1], got {shown(value)}")
    return float(value)
