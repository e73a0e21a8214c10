"""What the environments in the plane share: distances, walls and pictures, and shortest paths around a box."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from geodesic.contexts import Box, ContextSpace, FloatArray, Particles, Plot
from geodesic.envs.cmdp import ContextualMDP, EnvState
from geodesic.metrics import Euclidean, Metric


class PlanarMDP(ContextualMDP):
    """Base class of environments in the plane; an episode ends with success, unless a subclass says otherwise.

    Attributes:
        context_space: The space that contexts lie in.
        walls: Boxes (x0, y0, x1, y1) that are drawn.
    """

    context_space: ContextSpace
    walls: tuple[Box, ...] = ()

    def terminal(self, state: EnvState, rng: Array, params: Array | None = None) -> Array:
        """Return whether the task is solved."""
        return self.success(state, jnp.asarray(params))

    def metric(self, name: str) -> Metric | None:
        """Return the distance "l2", in the units of the contexts, or None."""
        return Euclidean() if name == "l2" else None

    def plot(self) -> Plot:
        """Describe how its contexts are drawn: with the walls."""
        return Plot(walls=self.walls)

    def gaussian(self, mean: ArrayLike, spread: float | FloatArray, n: int, rng: np.random.Generator) -> Particles:
        """Return n particles of a Gaussian, clipped to the context space; see `Particles.gaussian`."""
        return Particles.gaussian(mean, spread, n, rng, self.context_space.low, self.context_space.high)

    def canvas(self, low: float, high: float, size: int) -> tuple[FloatArray, FloatArray, NDArray[np.uint8]]:
        """Return x and y at each pixel of a picture of the square [low, high]^2, and it, white with grey walls."""
        ticks = low + (np.arange(size) + 0.5) * (high - low) / size
        x, y = np.meshgrid(ticks, ticks[::-1])
        picture = np.full((size, size, 3), 255, np.uint8)
        for x0, y0, x1, y1 in self.walls:
            picture[(x > x0) & (x < x1) & (y > y0) & (y < y1)] = 90
        return x, y, picture


def path_length_around(
    starts: FloatArray, ends: FloatArray, low: FloatArray, high: FloatArray, corners: FloatArray
) -> FloatArray:
    """Return the lengths (n,) of the shortest paths around an open box, infinite from or to its inside.

    A shortest path is a straight line, or turns at one or two of the box's corners.

    Args:
        starts: Where the paths start (n, 2).
        ends: Where they end (n, 2).
        low: Lower corner (2,) of the box; may be infinite.
        high: Upper corner (2,) of the box; may be infinite.
        corners: The finite corners (k, 2) of the box.
    """

    def straight(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.where(crosses_box(a, b, low, high), np.inf, np.linalg.norm(b - a, axis=1))

    lengths = [straight(starts, ends)]
    for first in corners:
        for last in corners:
            turn, leave = (np.broadcast_to(corner, starts.shape) for corner in (first, last))
            lengths.append(straight(starts, turn) + straight(turn[:1], leave[:1]) + straight(leave, ends))
    return np.asarray(np.min(lengths, axis=0))


def crosses_box(a: FloatArray, b: FloatArray, low: FloatArray, high: FloatArray) -> NDArray[np.bool_]:
    """Return which straight lines a-b (n, 2) run through the open box."""
    enter, leave = np.zeros(len(a)), np.ones(len(a))
    # Intersect the four intervals of the fraction in which  value + fraction * slope > 0,  one for each half-plane.
    for axis in range(2):
        for bound, side in ((low[axis], 1.0), (high[axis], -1.0)):
            value, slope = side * (a[:, axis] - bound), side * (b[:, axis] - a[:, axis])
            root = -value / np.where(slope == 0, 1.0, slope)
            none = (slope == 0) & (value <= 1e-12)
            enter = np.maximum(enter, np.where(slope > 0, root, np.where(none, np.inf, 0.0)))
            leave = np.minimum(leave, np.where(slope < 0, root, 1.0))
    return np.asarray(leave - enter > 1e-9)
