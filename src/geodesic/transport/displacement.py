"""How far contexts move, in diagonals of their space: plain distances, whatever the metric that a path follows."""

from __future__ import annotations

import numpy as np

from geodesic.checks import FloatArray
from geodesic.contexts import ContextSpace, Particles
from geodesic.transport.geodesic import wasserstein

CLOUD = 64  # most points of a distribution that are compared
STEEP = 3.0  # a move that covers this many times its even share of a path,
LARGE = 0.25  # and this fraction of the whole path, is a jump


def displacement(a: Particles, b: Particles, space: ContextSpace) -> float:
    """How far mass moves at least from one distribution to another: W1 in diagonals of the space.

    Args:
        a: A distribution.
        b: Another one. At most 64 points, chosen systematically, stand for a distribution.
        space: Their bounded space.

    Returns:
        The distance; 1 is the diagonal.

    Example:
        >>> import geodesic as gd
        >>> from geodesic.transport.displacement import displacement
        >>> space = gd.ContextSpace([0.0, 0.0], [3.0, 40.0])
        >>> round(displacement(gd.Particles([[0.0, 0.0]]), gd.Particles([[3.0, 40.0]]), space), 6)
        1.0
    """
    here, there = (_scaled(each.positive(), space) for each in (a, b))
    return wasserstein(here, there, p=1)


def _scaled(distribution: Particles, space: ContextSpace) -> Particles:
    if len(distribution) > CLOUD:
        distribution = distribution.thinned(CLOUD, np.random.default_rng(0))
    return Particles(space.relax(distribution.points) / space.unit_length, distribution.weights)


def hop_lengths(points: FloatArray, mass: FloatArray, space: ContextSpace) -> FloatArray:
    """The mass times the length of each hop of each particle.

    Args:
        points: The positions (k + 1, n, d) of n particles at k + 1 knots.
        mass: Their mass (n,).
        space: Their bounded space.

    Returns:
        The products (k, n), in diagonals of the space; their sum is the length of the path.
    """
    flat = space.relax(points.reshape(-1, points.shape[-1])) / space.unit_length
    hops = np.diff(flat.reshape(*points.shape[:2], -1), axis=0)
    return np.asarray(np.linalg.norm(hops, axis=2) * mass / mass.sum())


def is_jump(hop: float, fraction: float, length: float) -> bool:
    """Whether a move along a path jumps over contexts that were never trained on.

    It covers three times its even share of the path, and at least a quarter of it.

    Args:
        hop: How far the contexts moved.
        fraction: How much of the path the move was meant to cover.
        length: The length of the path.

    Returns:
        Whether it jumps.
    """
    return hop > length * max(STEEP * fraction, LARGE)
