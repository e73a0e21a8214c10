"""Legs: the way through where a curriculum stands, kept from one fit of a metric to the next."""

from __future__ import annotations

import numpy as np

from geodesic.contexts import Arrays, FloatArray, Particles
from geodesic.coupling import sorted_plan
from geodesic.errors import InvalidInput
from geodesic.transport.geodesic import Geodesic
from geodesic.transport.ways import Rungs, Ways

RUNGS = 50  # of a way on which all atoms are equally far: alpha in hundredths, two at a time
LEAST = 1e-12  # mass of an atom that is more than rounding


def leg(
    on: Geodesic, back: Geodesic, come: FloatArray, rungs: int, particles: int, rng: np.random.Generator
) -> tuple[Ways, FloatArray]:
    """Ways from the source to the target through the points that both geodesics begin at, and where these lie on them.

    come (n,): the share of its way at which each of these points is to lie, a whole number of rungs. Before it is the
    way back to the source, behind it that on to the target. An atom is one point, on a graph the node that most of it
    is on; there are at most `particles` of them.
    """
    ahead, behind = on.plan, back.plan
    # Both plans split the same points, so that in the order of these their atoms pair up point by point.
    rows, cols = ahead.rows.astype(np.float64), behind.rows.astype(np.float64)
    pairs = sorted_plan(rows, cols, ahead.mass, behind.mass)
    real = (pairs.mass > LEAST) & (ahead.rows[pairs.rows] == behind.rows[pairs.cols])
    first, second, mass = pairs.rows[real], pairs.cols[real], pairs.mass[real]
    if len(mass) > particles:
        drawn = Particles(on.ends[0][first], mass).drawn(particles, rng)
        first, second, mass = first[drawn], second[drawn], np.full(particles, 1 / particles)
    shares, start = np.arange(rungs + 1)[:, None] / rungs, come[ahead.rows[first]]
    gone = _whole(rungs * (shares - start) / np.maximum(1 - start, LEAST), rungs)
    left = _whole(rungs * (start - shares) / np.maximum(start, LEAST), rungs)
    onward, backward = (_nearest(Ways.of(path, rungs)) for path in (on, back))
    points = np.where((shares >= start)[..., None], onward[gone, first], backward[left, second])
    return _ways(points, mass, back.target, on.target), start


def _whole(rungs: FloatArray, most: int) -> Rungs:
    return np.rint(rungs).clip(0, most).astype(np.intp)


def _nearest(ways: Ways) -> FloatArray:
    """Points (rungs + 1, n, d): of each atom the one with most of it."""
    most = ways.shares.argmax(axis=2)[..., None, None]
    return np.asarray(np.take_along_axis(ways.points, most, axis=2)[:, :, 0])


def _ways(points: FloatArray, mass: FloatArray, source: Particles, target: Particles) -> Ways:
    return Ways(points[:, :, None], np.ones((*points.shape[:2], 1)), mass, (source, target))


def saved(ways: Ways, alpha: float) -> Arrays:
    """A leg as arrays, with the alpha at which the metric was fitted and the steps of its stages that are over."""
    return {"points": ways.points[:, :, 0], "mass": ways.mass, "alpha": np.asarray(alpha), "steps": np.asarray(0)}


def after(arrays: Arrays, steps: int) -> Arrays:
    """The same leg at the end of a stage of so many steps."""
    return {**arrays, "steps": arrays["steps"] + steps} if arrays else arrays


def loaded(arrays: Arrays, source: Particles, target: Particles) -> Ways:
    points, mass = arrays["points"], arrays["mass"]
    if points.ndim != 3 or points.shape[1:] != (len(mass), source.dim):
        raise InvalidInput(f"expected a leg of {len(mass)} atoms in {source.dim} dimensions, got shape {points.shape}")
    return _ways(points, mass, source, target)
