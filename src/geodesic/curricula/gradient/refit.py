"""Paths under a metric that is fitted anew at every stage, and what is shown of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geodesic.contexts import Arrays, ContextSpace, Particles
from geodesic.metrics.base import Fitted, Metric
from geodesic.transport.geodesic import Geodesic

HEAT = 40  # cells a side of the pictured return
CLOUD = 100  # most particles of a pictured distribution
ALPHAS = tuple(k / 10 for k in range(11))


@dataclass(frozen=True)
class Onward:
    """The way from where the curriculum stands (alpha = `start`) to the target, on at most `particles` points.

    What lies before `start` is on the way back from there to the source.
    """

    geodesic: Geodesic
    back: Geodesic
    start: float
    particles: int
    rng: np.random.Generator

    def __call__(self, alpha: float) -> Particles:
        if alpha < self.start:
            distribution = self.back(1 - alpha / self.start)
        else:
            distribution = self.geodesic(self.share(alpha))
        if (distribution.weights > 0).all() and len(distribution) <= self.particles:
            return distribution
        return distribution.positive().thinned(self.particles, self.rng)

    def share(self, alpha: float) -> float:
        """The share of the way that is left; 1 / 3 is meant where rounding gives 0.33333333333333337."""
        share = (alpha - self.start) / (1 - self.start) if self.start < 1 else 1.0
        whole = round(1 / share) if share > 0 else 0
        return 1 / whole if whole and abs(share * whole - 1) < 1e-9 else share


def picture(metric: Metric, path: Geodesic, space: ContextSpace, particles: int, rng: np.random.Generator) -> Arrays:
    """What a refit looked like: its return model, where it would lead, how far, and how well it fits if it says so."""
    heat = heat_map(metric, space) if isinstance(metric, Fitted) else {}
    stress = {"stress": np.asarray(metric.stress)} if hasattr(metric, "stress") else {}
    return {**heat, **potential(path, min(particles, CLOUD), rng), **stress, "length": np.asarray(path.length)}


def heat_map(metric: Fitted, space: ContextSpace) -> Arrays:
    """J on a grid over the first two dimensions, the others at their middle: heat (rows y, columns x)."""
    cells = (np.arange(HEAT) + 0.5) / HEAT
    sides = space.high - space.low
    x = space.low[0] + cells * sides[0]
    y = space.low[min(1, space.dim - 1)] + cells * sides[min(1, space.dim - 1)]
    grid = np.tile((space.low + space.high) / 2, (HEAT * HEAT, 1))
    grid[:, min(1, space.dim - 1)], grid[:, 0] = np.repeat(y, HEAT), np.tile(x, HEAT)
    return {"heat": metric.returns(grid).reshape(HEAT, HEAT), "heat_x": x, "heat_y": y}


def potential(path: Geodesic, n: int, rng: np.random.Generator) -> Arrays:
    """Where this refit would lead for alpha = 0, 0.1, ..., 1: potential (11, n, d), points of equal weight."""
    clouds = [path(alpha).thinned(n, rng).points for alpha in ALPHAS]
    return {"potential": np.stack(clouds), "potential_alphas": np.asarray(ALPHAS)}
