"""The gate: each atom of the plan goes its own way, as far as the agent is good enough there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geodesic.contexts import FloatArray
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
        return Ways.of(geodesic, self.rungs)

    def move(self, ways: Ways, rungs: Rungs, value: Values) -> Rungs:
        """The rungs (n,) that the atoms go to from theirs (n,), under a path that is known."""
        atoms = np.arange(len(ways))
        reached = self.onward(ways, rungs, value, atoms)
        low = np.flatnonzero(reached < 0)
        reached[low] = self.retreat(ways, rungs[low], low, value)
        return reached

    def onward(self, ways: Ways, rungs: Rungs, value: Values, atoms: Rungs) -> Rungs:
        """The rungs (m,) up to which each of the atoms (m,) is good enough without a gap; -1: not where it stands."""
        reached, end = np.full(len(atoms), -1), np.minimum(rungs + PROBES, ways.rungs)
        left, at = np.arange(len(atoms)), rungs
        while left.size:  # rung by rung: what is blocked or has arrived costs nothing more
            good = ways.values(value, at[left, None], atoms[left])[:, 0] >= 0
            left = left[good]
            reached[left] = at[left]
            left = left[at[left] < end[left]]
            at = at + 1
        return reached

    def retreat(self, ways: Ways, rungs: Rungs, atoms: Rungs, value: Values) -> Rungs:
        """The nearest good rungs (m,) below the atoms (m,); the source if there are none."""
        found, left = np.zeros(len(atoms), dtype=np.intp), np.arange(len(atoms))
        rungs = rungs.copy()
        while left.size:
            probes = (rungs[left, None] - np.arange(1, PROBES + 1)).clip(0)
            good = ways.values(value, probes, atoms[left]) >= 0
            some = good.any(axis=1)
            found[left[some]] = probes[some, good[some].argmax(axis=1)]
            rungs[left] = probes[:, -1]
            left = left[~some & (probes[:, -1] > 0)]
        return found


def mean_progress(progress: FloatArray, mass: FloatArray) -> float:
    """Alpha of atoms on their ways; 1 only if all of them have arrived, 0 only if none has left."""
    if (progress == progress[0]).all():
        return float(progress[0])
    return float(np.clip(mass @ progress / mass.sum(), 1e-9, 1.0 - 1e-9))


def level(ways: Ways, alpha: float) -> Rungs:
    """The rungs (n,) of atoms that are all as far as alpha, or as the last rung before it."""
    return np.full(len(ways), int(np.floor(alpha * ways.rungs + 1e-9)))
