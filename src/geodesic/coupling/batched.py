"""Many small transport problems of one size at once: the transportation simplex, a pivot of every problem at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray

Nodes = NDArray[np.int8]
IndexArray = NDArray[np.intp]
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Trees:
    """Feasible bases of B problems with k sources and l sinks, kept from one cost to the next.

    A basis is a spanning tree of m = k + l - 1 cells on the nodes 0 .. k - 1 (sources) and k .. k + l - 1 (sinks).
    Cell t joins the node `new[t]` to one that earlier cells reached, `known[t]`; node 0 is the root. A change of costs
    leaves the masses feasible, so the next solution starts from the last one, and most trees stay as they are.

    left (k, B) and right (l, B) are points, whose costs are looked up; new, known and mass are (m, B).
    """

    left: IndexArray
    right: IndexArray
    new: Nodes
    known: Nodes
    mass: FloatArray

    @classmethod
    def sorted(cls, left: IndexArray, right: IndexArray, a: FloatArray, b: FloatArray) -> Trees:
        """The north-west corner rule on masses a (k, B), b (l, B): optimal where points are in order along a line."""
        (k, size), sinks = a.shape, len(b)
        every = np.arange(size)
        i, j = np.zeros((2, size), dtype=np.intp)
        new, known = np.empty((2, k + sinks - 1, size), dtype=np.int8)
        mass = np.empty((k + sinks - 1, size))
        given, taken, down = a[0].copy(), b[0].copy(), np.zeros(size, dtype=bool)
        for t in range(k + sinks - 1):
            new[t], known[t] = np.where(down, i, j + k), np.where(down, j + k, i)
            mass[t] = np.maximum(np.minimum(given, taken), 0.0)
            down = (j == sinks - 1) | ((given <= taken) & (i < k - 1))
            i, j = np.minimum(i + down, k - 1), np.minimum(j + ~down, sinks - 1)
            given, taken = np.where(down, a[i, every], given - mass[t]), np.where(down, taken - mass[t], b[j, every])
        return cls(left, right, new, known, mass)

    def cells(self, which: IndexArray) -> tuple[IndexArray, IndexArray]:
        """The points (m, b) that each cell of these problems joins."""
        new, known = self.new[:, which], self.known[:, which]
        return self.left[np.minimum(new, known), which], self.right[np.maximum(new, known) - len(self.left), which]

    def improve(self, costs: FloatArray, which: IndexArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Pivots these problems to an optimum for the costs costs[left, right], from a matrix.

        Returns the excess (b,), by how much the potentials of the last basis are infeasible, which bounds the excess of
        its cost because masses sum to 1: rounding, unless pivots ran in a circle. And the slack (b,), the least reduced
        cost off the basis: a reduced cost sums costs around a cycle, so costs may move by slack / (2 min(k, l)) before
        the basis can lose. And whether (b,) the basis changed.
        """
        excess, slack = np.zeros((2, len(which)))
        changed = np.zeros(len(which), dtype=bool)
        left, m = np.arange(len(which)), len(self.mass)
        for pivots in range(100 * m):
            reduced, scale = self._prices(costs, which[left])
            least = reduced.min(axis=0)
            excess[left], slack[left] = np.maximum(-least, 0.0), np.maximum(least, 0.0)
            more = np.flatnonzero(least < -4 * m * EPS * scale)
            if not len(more):
                break
            left, reduced = left[more], reduced[:, more]
            circling = pivots > 10 * m  # Bland's rule leaves every circle, the steepest cell is faster elsewhere
            enter = (reduced < -4 * m * EPS * scale[more]).argmax(axis=0) if circling else reduced.argmin(axis=0)
            self._pivot(which[left], enter)
            changed[left] = True
        return excess, slack, changed

    def _prices(self, costs: FloatArray, which: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Reduced costs c_ij - u_i - v_j (k * sinks, b), infinite on the basis, and the largest cost (b,)."""
        k, sinks, size = len(self.left), len(self.right), len(which)
        here = costs.take(self.left[:, None, which] * len(costs) + self.right[:, which]).reshape(-1, size)
        every, scale = np.arange(size), here.max(axis=0)
        new, known = self.new[:, which].astype(np.intp), self.known[:, which].astype(np.intp)
        cells = (np.minimum(new, known) * sinks + np.maximum(new, known) - k) * size + every
        on_basis = here.take(cells)
        new, known = new * size + every, known * size + every
        potentials = np.zeros((k + sinks) * size)
        for t in range(k + sinks - 1):
            potentials[new[t]] = on_basis[t] - potentials[known[t]]
        u, v = np.split(potentials.reshape(k + sinks, size), [k])
        reduced = here - (u[:, None] + v).reshape(-1, size)
        reduced.reshape(-1)[cells] = np.inf
        return reduced, scale

    def _pivot(self, which: IndexArray, enter: IndexArray) -> None:
        """Moves as much mass as possible around the cycle that the entering cell closes; an emptied cell leaves."""
        every = np.arange(len(which))
        new, known, mass = self.new[:, which], self.known[:, which], self.mass[:, which]
        source, sink = enter // len(self.right), enter % len(self.right) + len(self.left)
        signs = _cycle(new, known, source, sink)
        room = np.where(signs < 0, mass, np.inf)
        leave = room.argmin(axis=0)
        moved = room[leave, every]
        mass = np.maximum(mass + signs * moved, 0.0)
        mass[leave, every], new[leave, every], known[leave, every] = moved, sink, source
        self.new[:, which], self.known[:, which], self.mass[:, which] = _rooted(new, known, mass)


def _cycle(new: Nodes, known: Nodes, source: IndexArray, sink: IndexArray) -> Nodes:
    """-1 and 1 (m, b) on the cells that lose and gain mass when more goes from source to sink, 0 on the others.

    Both ends walk towards the root, each by the cell that introduced its node, until they meet. A cell introduces its
    node before the cells that build on it, so one pass from the last cell to the first does.
    """
    signs = np.zeros(new.shape, dtype=np.int8)
    ends = [(source.astype(np.int8), np.full(len(source), -1, np.int8)) for source in (source, sink)]
    for t in range(len(new) - 1, -1, -1):
        apart = ends[0][0] != ends[1][0]
        for node, sign in ends:
            here = np.flatnonzero(apart & (new[t] == node))
            signs[t, here] = sign[here]
            node[here] = known[t, here]
            sign[here] *= -1
    return signs


def _rooted(new: Nodes, known: Nodes, mass: FloatArray) -> tuple[Nodes, Nodes, FloatArray]:
    """The trees' cells in an order in which each introduces one node, from node 0 on; bits say which nodes are in."""
    every = np.arange(new.shape[1])
    one = np.int64(1)
    ends = one << new.astype(np.int64), one << known.astype(np.int64)
    reached = np.ones(len(every), dtype=np.int64)
    ordered = np.empty_like(new), np.empty_like(known), np.empty_like(mass)
    for t in range(len(new)):
        first = (reached & ends[0]) != 0
        cell = (first != ((reached & ends[1]) != 0)).argmax(axis=0)
        swap = first[cell, every]
        a, b = new[cell, every], known[cell, every]
        ordered[0][t], ordered[1][t] = np.where(swap, b, a), np.where(swap, a, b)
        ordered[2][t] = mass[cell, every]
        reached |= ends[0][cell, every] | ends[1][cell, every]
    return ordered
