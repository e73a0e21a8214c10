"""Legs: the way through where a curriculum stands, kept from one fit of a metric to the next."""

from __future__ import annotations

import numpy as np

from geodesic.contexts import Arrays, FloatArray, Particles
from geodesic.errors import InvalidInput
from geodesic.transport.geodesic import Geodesic
from geodesic.transport.ways import Ways

RUNGS = 50  # of a way on which all atoms are equally far: alpha in hundredths, two at a time


def leg(
    on: Geodesic,
    source: Particles,
    come: FloatArray,
    before: Ways | None,
    rungs: int,
    particles: int,
    rng: np.random.Generator,
) -> tuple[Ways, FloatArray]:
    """Ways through the points that a geodesic begins at, on along it; and where (m,) these points lie on their ways.

    come (n,): the share of its way at which each point lies, a whole number of rungs. What lies before it is the way
    that it came, on the leg before this one, whose atoms these points are: a new geodesic to the source would lead back
    through contexts that were never trained on. An atom is one point, on a graph the node that most of it is on; there
    are at most `particles` of them.
    """
    rows, mass, atoms = on.plan.rows, on.plan.mass, np.arange(len(on.plan.rows))
    if len(atoms) > particles:
        atoms = Particles(on.ends[0], mass).drawn(particles, rng)
        mass = np.full(particles, 1 / particles)
    rows = rows[atoms]
    shares, start = np.arange(rungs + 1)[:, None] / rungs, come[rows]
    gone = np.rint(rungs * (shares - start) / np.maximum(1 - start, 1e-12)).clip(0, rungs).astype(np.intp)
    points = _nearest(Ways.of(on, rungs))[gone, atoms]
    if before is not None and len(before) == len(come):
        points = np.where((shares < start)[..., None], before.points[:, rows, 0], points)
    return _ways(points, mass, source, on.target), start


def _nearest(ways: Ways) -> FloatArray:
    """Points (rungs + 1, n, d): of each atom the one with most of it."""
    most = ways.shares.argmax(axis=2)[..., None, None]
    return np.asarray(np.take_along_axis(ways.points, most, axis=2)[:, :, 0])


def _ways(points: FloatArray, mass: FloatArray, source: Particles, target: Particles) -> Ways:
    return Ways(points[:, :, None], np.ones((*points.shape[:2], 1)), mass, (source, target))


def saved(ways: Ways, alpha: float) -> Arrays:
    """A leg as arrays, with the alpha of its fit, episodes heard on it, and the steps of its stages that are over."""
    counts = {"alpha": np.asarray(alpha), "heard": np.asarray(0), "steps": np.asarray(0)}
    return {"points": ways.points[:, :, 0], "mass": ways.mass, **counts}


def after(arrays: Arrays, heard: int, steps: int) -> Arrays:
    """The same leg after so many more."""
    return {**arrays, "heard": arrays["heard"] + heard, "steps": arrays["steps"] + steps}


def loaded(arrays: Arrays, source: Particles, target: Particles) -> Ways:
    points, mass = arrays["points"], arrays["mass"]
    if points.ndim != 3 or points.shape[1:] != (len(mass), source.dim):
        raise InvalidInput(f"expected a leg of {len(mass)} atoms in {source.dim} dimensions, got shape {points.shape}")
    return _ways(points, mass, source, target)
