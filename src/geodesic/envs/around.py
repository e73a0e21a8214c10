"""Ways around a box that nothing passes through."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray


def way_around(
    starts: FloatArray, ends: FloatArray, low: FloatArray, high: FloatArray, corners: FloatArray
) -> FloatArray:
    """Length (n,) of the shortest way from starts to ends (n, 2) off the open box, infinite from or to its inside.

    It is a straight line, or turns at one or two of the box's corners (k, 2); low and high (2,) may be infinite.
    """

    def leg(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.where(blocked(a, b, low, high), np.inf, np.linalg.norm(b - a, axis=1))

    ways = [leg(starts, ends)]
    for first in corners:
        for last in corners:
            turn, leave = (np.broadcast_to(corner, starts.shape) for corner in (first, last))
            ways.append(leg(starts, turn) + leg(turn[:1], leave[:1]) + leg(leave, ends))
    return np.asarray(np.min(ways, axis=0))


def blocked(a: FloatArray, b: FloatArray, low: FloatArray, high: FloatArray) -> NDArray[np.bool_]:
    """Which lines a-b (n, 2) run through the open box."""
    enter, leave = np.zeros(len(a)), np.ones(len(a))
    # In shares of the way: where each half-plane  value + share * slope > 0  begins and ends, cut with the others.
    for axis in range(2):
        for bound, side in ((low[axis], 1.0), (high[axis], -1.0)):
            value, slope = side * (a[:, axis] - bound), side * (b[:, axis] - a[:, axis])
            root = -value / np.where(slope == 0, 1.0, slope)
            none = (slope == 0) & (value <= 1e-12)
            enter = np.maximum(enter, np.where(slope > 0, root, np.where(none, np.inf, 0.0)))
            leave = np.minimum(leave, np.where(slope < 0, root, 1.0))
    return np.asarray(leave - enter > 1e-9)
