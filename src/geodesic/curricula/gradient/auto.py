"""The pace that follows an estimate of what the agent can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geodesic.checks import FloatArray, as_count, as_number, as_positive, as_vector, check
from geodesic.contexts import Episodes
from geodesic.curricula.gradient.paces import Path, as_step
from geodesic.curricula.regression import NadarayaWatson, reaches

if TYPE_CHECKING:
    from geodesic.curricula.gradient.staged import StagedState

PROBES = 4  # alphas between here and the farthest, each way, at which the estimate is looked up
HALVINGS = 6  # of the gap between two of them


@dataclass(frozen=True, eq=False)
class Auto:
    """Root search: the largest alpha, at most `stride` further, at which the agent is good enough on average.

        max alpha   with E[J(c)], c from path(alpha), >= threshold and |alpha - here| <= stride

    J is the kernel regression of the last `memory` episodes' scores on their contexts, `width` wide in units of
    `unit` (d,). It is looked at when `window` episodes of this stage have come in, and again after as many. Where no
    alpha in reach is good enough, back by a stride. So nothing is final, the target neither: lost, it is left again.
    """

    threshold: float
    unit: FloatArray
    stride: float = 0.2
    window: int = 20
    memory: int = 200
    width: float = 0.04

    def __post_init__(self) -> None:
        check(self, threshold=as_number, unit=as_vector, stride=as_step, window=as_count, memory=as_count)
        check(self, width=as_positive)

    def estimate(self, episodes: Episodes) -> Callable[[FloatArray], FloatArray]:
        """J: contexts (n, d) -> expected scores (n,)."""
        seen = episodes[-self.memory :]
        return NadarayaWatson(seen.contexts, seen.returns, self.width, self.unit).predict

    def verdict(self, state: StagedState) -> str:
        if state.fresh < self.window:
            return ""
        here = state.distribution.positive()
        if reaches(here.weights @ self.estimate(state.seen)(here.points), self.threshold):
            return "mastered" if state.alpha < 1.0 else ""
        return "below the threshold" if state.alpha > 0.0 else ""

    def alpha(self, state: StagedState, path: Path) -> float:
        value = self.estimate(state.seen)

        def good(alpha: float) -> bool:
            there = path(alpha).positive()
            return bool(reaches(there.weights @ value(there.points), self.threshold))

        top, bottom = min(state.alpha + self.stride, 1.0), max(state.alpha - self.stride, 0.0)
        top = 1.0 if top > 1.0 - 1e-9 else top
        ahead = np.linspace(top, state.alpha, PROBES + 1)
        back = np.linspace(state.alpha, bottom, PROBES + 1)[1:]
        above: float | None = None
        for each in dict.fromkeys([*ahead.tolist(), *back.tolist()]):
            if good(each):
                return each if above is None else _edge(good, each, above)
            above = each
        return bottom


def _edge(good: Callable[[float], bool], low: float, high: float) -> float:
    """The end of what is good between an alpha that is and a higher one that is not."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return low
