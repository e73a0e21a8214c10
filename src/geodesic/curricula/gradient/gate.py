"""The gate: each atom of the plan goes its own way, as far as the agent is good enough there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geodesic.contexts import FloatArray, Particles
from geodesic.transport.geodesic import Geodesic
from geodesic.transport.ways import Rungs, Values, Ways

PROBES = 4  # places on the stretch that an atom may go at once, at which the estimate is looked up


@dataclass(frozen=True)
class Gate:
    """Each atom moves on along its own geodesic while the agent is good enough there, and back where it no longer is.

    What it is above the threshold by is given as a value of contexts, J - threshold. An atom that stands where that is
    below 0 goes back to the nearest place of its way that is good enough, or to its source if there is none; the others
    go on by at most `stride` of their way. After a move, then, no atom stands where J < threshold unless it has nowhere
    to go back to.
    """

    stride: float

    @property
    def rungs(self) -> int:
        """Of a whole way: PROBES of them make a stride."""
        return int(np.ceil(PROBES / self.stride - 1e-9))

    def ways(self, geodesic: Geodesic) -> Ways:
        return Ways(geodesic, self.rungs)

    def move(self, ways: Ways, rungs: Rungs, value: Values) -> Rungs:
        """The rungs (n,) that the atoms go to from theirs (n,), under a path that is known."""
        atoms = np.arange(len(ways))
        reached = self.onward(ways, rungs, np.full(len(ways), PROBES), value, atoms)
        low = np.flatnonzero(reached < 0)
        reached[low] = self.retreat(ways, rungs[low], low, -1, value)
        return reached

    def onward(self, ways: Ways, rungs: Rungs, most: Rungs, value: Values, atoms: Rungs) -> Rungs:
        """The rungs (m,) up to which each of the atoms (m,) is good enough without a gap; -1: not where it stands."""
        reached, end = np.full(len(atoms), -1), np.minimum(rungs + most, ways.rungs)
        left, at = np.arange(len(atoms)), rungs
        while left.size:  # rung by rung: what is blocked or has arrived costs nothing more
            good = ways.values(value, at[left, None], atoms[left])[:, 0] >= 0
            left = left[good]
            reached[left] = at[left]
            left = left[at[left] < end[left]]
            at = at + 1
        return reached

    def retreat(self, ways: Ways, rungs: Rungs, atoms: Rungs, sign: int, value: Values) -> Rungs:
        """The nearest good rungs (m,) below the atoms (m,), or above them (sign 1); the end if there are none."""
        end = ways.rungs if sign > 0 else 0
        found, left = np.full(len(atoms), end), np.arange(len(atoms))
        rungs = rungs.copy()
        while left.size:
            probes = (rungs[left, None] + sign * np.arange(1, PROBES + 1)).clip(0, ways.rungs)
            good = ways.values(value, probes, atoms[left]) >= 0
            some = good.any(axis=1)
            found[left[some]] = probes[some, good[some].argmax(axis=1)]
            rungs[left] = probes[:, -1]
            left = left[~some & (probes[:, -1] != end)]
        return found

    def refitted(
        self, on: Geodesic, back: Geodesic, progress: FloatArray, value: Values
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Points (m, d), mass (m,) and progress (m,) after a move under a metric that was fitted anew.

        Both geodesics begin at the same distribution, whose points (n,) have come this far: one goes to the target, on
        which a stride is a larger share of the way the less of it is left, the other back to the source.
        """
        ahead, behind = self.ways(on), self.ways(back)
        come = progress[ahead.rows]
        room = np.minimum(1.0, self.stride / np.maximum(1.0 - come, 1e-9))
        most = np.floor(room * ahead.rungs + 1e-9).astype(np.intp)
        atoms = np.arange(len(ahead))
        reached = self.onward(ahead, np.zeros(len(ahead), dtype=np.intp), most, value, atoms)
        low = np.unique(ahead.rows[reached < 0])  # the same for all atoms of a point: they stand in one place
        atoms, fallen = atoms[reached >= 0], np.flatnonzero(np.isin(behind.rows, low))
        returned = self.retreat(behind, np.zeros(len(fallen), dtype=np.intp), fallen, 1, value)
        share = reached[atoms] / ahead.rungs
        parts = (
            _placed(ahead, reached[atoms], atoms, 1.0 - (1.0 - come[atoms]) * (1.0 - share)),
            _placed(behind, returned, fallen, progress[behind.rows[fallen]] * (1.0 - returned / behind.rungs)),
        )
        points, mass, gone = (np.concatenate(part) for part in zip(*parts))
        return points, mass, gone


def _placed(ways: Ways, rungs: Rungs, atoms: Rungs, progress: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The points of these atoms that have mass, each with its atom's progress."""
    points, mass, whose = ways.placed(rungs, atoms)
    spread = np.zeros(len(ways))
    spread[atoms] = progress
    some = mass > 0
    return points[some], mass[some], spread[whose][some]


def mean_progress(progress: FloatArray, mass: FloatArray) -> float:
    """Alpha of atoms on their ways; 1 only if all of them have arrived, 0 only if none has left."""
    if (progress == progress[0]).all():
        return float(progress[0])
    return float(np.clip(mass @ progress / mass.sum(), 1e-9, 1.0 - 1e-9))


def thinned(
    points: FloatArray, mass: FloatArray, progress: FloatArray, n: int, rng: np.random.Generator
) -> tuple[Particles, FloatArray]:
    """A distribution of at most n points, and the progress of each."""
    whole = Particles(points, mass)
    if len(whole) <= n:
        return whole, progress
    rows = whole.drawn(n, rng)
    return Particles(points[rows]), progress[rows]
