"""The pace that follows an estimate of what the agent can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geodesic.checks import FloatArray, as_count, as_number, as_positive, as_share, as_vector, check
from geodesic.contexts import Episodes
from geodesic.curricula.gradient.paces import Path, as_step
from geodesic.curricula.regression import NadarayaWatson

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

    A return above the threshold may be earned without ever doing what is asked. With `success` above 0, where the
    environment says which episodes succeeded, their share has to reach that as well.
    """

    threshold: float
    unit: FloatArray
    stride: float = 0.2
    window: int = 20
    memory: int = 200
    width: float = 0.04
    success: float = 0.0

    def __post_init__(self) -> None:
        check(self, threshold=as_number, unit=as_vector, stride=as_step, window=as_count, memory=as_count)
        check(self, width=as_positive, success=as_share)

    def estimate(self, episodes: Episodes) -> Callable[[FloatArray], FloatArray]:
        """contexts (n, d) -> what the agent is expected to be above each criterion by (n, k): good where none is < 0.

        Up to rounding: without that, a mean of scores that all equal the threshold would fall short of it.
        """
        seen = episodes[-self.memory :]
        above = [seen.returns - self.threshold + 1e-9 * max(1.0, abs(self.threshold))]
        if self.success > 0 and not np.isnan(seen.successes).any():
            above.append(seen.successes - self.success + 1e-9)
        return NadarayaWatson(seen.contexts, np.stack(above, axis=1), self.width, self.unit).predict

    def values(self, episodes: Episodes) -> Callable[[FloatArray], FloatArray]:
        """contexts (n, d) -> the least of these in each (n,)."""
        estimate = self.estimate(episodes)
        return lambda contexts: np.asarray(estimate(contexts).min(axis=1))

    def verdict(self, state: StagedState) -> str:
        if state.fresh < self.window:
            return ""
        here = state.distribution.positive()
        if (here.weights @ self.estimate(state.seen)(here.points) >= 0).all():
            return "mastered" if state.alpha < 1.0 else ""
        return "below the threshold" if state.alpha > 0.0 else ""

    def alpha(self, state: StagedState, path: Path) -> float:
        estimate = self.estimate(state.seen)

        def good(alpha: float) -> bool:
            there = path(alpha).positive()
            return bool((there.weights @ estimate(there.points) >= 0).all())

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
