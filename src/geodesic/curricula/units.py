"""The unit that baselines measure contexts in: the size of the context space."""

from __future__ import annotations

import numpy as np

from geodesic.distributions import ContextSpace, FloatArray, Particles


def unit_length(space: ContextSpace) -> FloatArray:
    """What to divide contexts by so that the diagonal of the space has length 1, shape (d,)."""
    return np.asarray(space.sides * np.sqrt(space.dim))


def draw_uniform(space: ContextSpace, n: int, rng: np.random.Generator) -> FloatArray:
    """n contexts (n, d) drawn from the whole space."""
    return space.uniform(n, rng).sample(rng, n) if space.support is not None else space.uniform(n, rng).points


def inside(space: ContextSpace, points: FloatArray) -> Particles:
    """Equally weighted particles at the points, moved into the space."""
    return Particles(space.clip(points))
