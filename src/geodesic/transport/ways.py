"""The atoms of a geodesic, each somewhere on its own way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import FloatArray, as_count
from geodesic.contexts import Particles
from geodesic.metrics.base import Discrete, Metric
from geodesic.transport.geodesic import Geodesic

Rungs = NDArray[np.intp]
Values = Callable[[FloatArray], FloatArray]  # contexts (n, d) -> a value each (n,)


class Ways:
    """Where each of the n atoms of a geodesic's plan lies at t = 0, 1 / rungs, ..., 1 of its own way.

    A path moves all atoms by one t. Here each has a rung of its own, 0 ... rungs. Under a metric on a finite support
    an atom lies on up to two points, by shares; then it is as good as the worse of them.
    """

    def __init__(
        self,
        points: FloatArray,
        shares: FloatArray,
        mass: FloatArray,
        ends: tuple[Particles, Particles],
        metric: Metric | None = None,
    ) -> None:
        """points (rungs + 1, n, k, d) and shares (rungs + 1, n, k) of atoms of mass (n,); ends: source and target."""
        self.points, self.shares, self.mass, self.ends = points, shares, mass, ends
        self.rungs = len(points) - 1
        self.support: FloatArray | None = None
        self.index: Rungs = np.zeros(0, dtype=np.intp)
        if isinstance(metric, Discrete):
            self.support = metric.support
            self.index = metric.index(points.reshape(-1, points.shape[-1])).reshape(shares.shape)

    @classmethod
    def of(cls, geodesic: Geodesic, rungs: int) -> Ways:
        metric, (start, end) = geodesic.metric, geodesic.ends
        places = [metric.interpolate(start, end, t / rungs) for t in range(as_count(rungs, "rungs") + 1)]
        points, shares = (np.stack(part) for part in zip(*places))
        if not isinstance(metric, Discrete):  # a learned way need not begin where it should
            points[0], points[-1] = start[:, None], end[:, None]
        return cls(points, shares, geodesic.plan.mass, (geodesic.source, geodesic.target), metric)

    def __len__(self) -> int:
        return len(self.mass)

    def at(self, rungs: Rungs) -> Particles:
        """All atoms, each at its own of the rungs (n,); at the ends the given distributions themselves."""
        if (rungs == 0).all() or (rungs == self.rungs).all():
            return self.ends[1] if rungs.any() else self.ends[0]
        points, mass, _ = self.placed(rungs, np.arange(len(self)))
        if self.support is None:
            return Particles(points, mass)
        index = self.index[rungs, np.arange(len(self))].ravel()
        return Particles(self.support, np.bincount(index, mass, len(self.support)))

    def placed(self, rungs: Rungs, atoms: Rungs) -> tuple[FloatArray, FloatArray, Rungs]:
        """Points (m, d) and mass (m,) of these atoms at their rungs, and the atom (m,) that each belongs to."""
        points, shares = self.points[rungs, atoms], self.shares[rungs, atoms]
        mass = (self.mass[atoms, None] * shares).ravel()
        return points.reshape(len(mass), points.shape[-1]), mass, np.repeat(atoms, shares.shape[1])

    def values(self, value: Values, rungs: Rungs, atoms: Rungs) -> FloatArray:
        """The value (m, r) of each of the atoms (m,) at each of its rungs (m, r): the least among its points."""
        atoms = np.broadcast_to(atoms[:, None], rungs.shape)
        if self.support is None:
            points = self.points[rungs, atoms]
            found = value(points.reshape(-1, points.shape[-1])).reshape(points.shape[:-1])
        else:
            found = value(self.support)[self.index[rungs, atoms]]
        return np.asarray(np.where(self.shares[rungs, atoms] > 0, found, np.inf).min(axis=-1))
