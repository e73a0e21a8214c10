"""The pi-contextual-distance of tabular contextual MDPs, exact (the paper's Algorithm 3)."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from geodesic.distributions import FloatArray
from geodesic.metrics.graph import Matrix


@dataclass(frozen=True, eq=False)
class TabularCMDP:
    """A contextual MDP on x = (s, c): rewards (n, A), transitions (n, A, n) or next states (n, A), initial (C, n)."""

    rewards: FloatArray
    transitions: FloatArray
    initial: FloatArray


def contextual_distance(cmdp: TabularCMDP, policy: ArrayLike, gamma: float) -> Matrix:
    """d(x, y) = |R_x - R_y| + gamma W_d(P_x, P_y), then d(c, c') = W_d(p0(c), p0(c'))."""
    raise NotImplementedError
