"""Optimal plans between every two of many distributions on the same points, updated from one cost to the next.

Many small problems of one size are solved together: a transportation simplex that pivots all of them at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.coupling.plans import Atoms, IndexArray, atoms, simplex

LARGE, FEW = 12, 15  # supports above this size, and sizes with fewer pairs than this, are solved one by one
CHUNK = 8192  # problems at a time, so that their costs stay in the cache
Nodes = NDArray[np.int8]


def pairwise_plans(rows: FloatArray, distances: FloatArray, pairs: IndexArray | None = None) -> list[Atoms]:
    """Find the optimal plans between pairs of the rows.

    Args:
        rows: Distributions (m, n) on n points.
        distances: Costs (n, n).
        pairs: Pairs (2, k) of rows (default: every two, in the order of `np.triu_indices`).

    Returns:
        (from, to, mass) of each plan.
    """
    supports = [np.flatnonzero(row) for row in rows]
    weights = [row[support] for row, support in zip(rows, supports)]
    found = []
    for x, y in zip(*(np.triu_indices(len(rows), 1) if pairs is None else pairs)):
        (i, a), (j, b) = (supports[x], weights[x]), (supports[y], weights[y])
        single = len(i) == 1 or len(j) == 1
        found.append(atoms(np.outer(a, b) if single else simplex(distances[np.ix_(i, j)], a, b).coupling, i, j))
    return found


class Couplings:
    """Plans between every two of the rows, updated from one distance to the next.

    Pairs are those of `np.triu_indices`. The first plans sort the points by value. They are optimal if distances are
    differences of values, and nearly optimal if distances are close to those.

    Args:
        rows: Distributions (m, n) on n points.
        values: A value (n,) of every point.
    """

    def __init__(self, rows: FloatArray, values: FloatArray) -> None:
        self.rows, self.pairs = rows, np.array(np.triu_indices(len(rows), 1))
        sizes = np.count_nonzero(rows, axis=1)[self.pairs]
        kind = np.where(sizes.max(axis=0) > LARGE, 0, sizes[0] * (LARGE + 1) + sizes[1])
        kinds, counts = np.unique(kind, return_counts=True)
        batched = kinds[(counts >= FEW) & (kinds > 0)]
        members = [np.flatnonzero(kind == one) for one in batched]
        self.batches = [_Batch(part, _sorted(rows, values, self.pairs[:, part])) for part in members]
        self.single = np.flatnonzero(~np.isin(kind, batched))
        self._lay_out(sizes.sum(axis=0) - 1)
        self._write_single(np.abs(values[:, None] - values))
        for batch in self.batches:
            self._write(batch, np.arange(len(batch.pairs)))

    def improve(self, distances: FloatArray) -> float:
        """Make every plan optimal for the distances (n, n); return the largest excess cost that rounding may leave."""
        self._write_single(distances)
        worst = 0.0
        for batch in self.batches:
            excess, changed = batch.improve(distances)
            self._write(batch, changed)
            worst = max(worst, excess)
        return worst

    def _lay_out(self, atoms: IndexArray) -> None:
        """Allocate `means`, which maps distances of pairs of points to their means under the plans.

        An optimal plan on a k x l support has at most k + l - 1 atoms, so the sparsity never changes and plans are
        written in place. Atoms that stay at their point cost 0.
        """
        from scipy.sparse import csr_array

        n = self.rows.shape[1]
        self.column = np.zeros((n, n), dtype=np.int32)
        self.column[np.triu_indices(n, 1)] = np.arange(n * (n - 1) // 2)
        self.column += self.column.T
        ends = np.concatenate([[0], np.cumsum(atoms)])
        shape = (len(atoms), n * (n - 1) // 2)
        self.means = csr_array((np.zeros(ends[-1]), np.zeros(ends[-1], dtype=np.int32), ends), shape=shape)

    def _write(self, batch: _Batch, which: IndexArray) -> None:
        low, high = batch.trees.cells(which)
        place = self.means.indptr[batch.pairs[which]] + np.arange(len(low))[:, None]
        self.means.indices[place] = self.column[low, high]
        self.means.data[place] = np.where(low == high, 0.0, batch.trees.mass[:, which])

    def _write_single(self, distances: FloatArray) -> None:
        found = pairwise_plans(self.rows, distances, self.pairs[:, self.single])
        for pair, (low, high, mass) in zip(self.single, found):
            start, end = self.means.indptr[pair], self.means.indptr[pair + 1]
            self.means.data[start:end] = 0.0
            self.means.indices[start : start + len(mass)] = self.column[low, high]
            self.means.data[start : start + len(mass)] = np.where(low == high, 0.0, mass)


class _Batch:
    """Pairs (B,) of rows of one size, and how far distances may move in total before their plans can change."""

    def __init__(self, pairs: IndexArray, trees: Trees) -> None:
        self.pairs, self.trees = pairs, trees
        self.bound = np.zeros(len(pairs))
        self.moved, self.last = 0.0, np.zeros((0, 0))

    def improve(self, distances: FloatArray) -> tuple[float, IndexArray]:
        """Update the plans that can change; return the largest excess, and the pairs whose plan changed."""
        if self.last.size:
            self.moved += float(np.abs(distances - self.last).max())
        self.last, worst, changed = distances, 0.0, [np.zeros(0, dtype=np.intp)]
        due = np.flatnonzero(self.bound <= self.moved)
        for which in (due[start : start + CHUNK] for start in range(0, len(due), CHUNK)):
            excess, slack, pivoted = self.trees.improve(distances, which)
            self.bound[which] = self.moved + slack / (2 * min(len(self.trees.left), len(self.trees.right)))
            worst = max(worst, float(excess.max()))
            changed.append(which[pivoted])
        return worst, np.concatenate(changed)


def _sorted(rows: FloatArray, values: FloatArray, pairs: IndexArray) -> Trees:
    """Plans sorted by value between pairs (2, B) of rows with one support size on each side."""
    sides = []
    for side in pairs:
        distinct, place = np.unique(side, return_inverse=True)
        weights, size = rows[distinct], np.count_nonzero(rows[side[0]])
        points = np.argsort(np.where(weights > 0, values, np.inf), axis=1, kind="stable")[:, :size]
        sides.append((points.T[:, place], np.take_along_axis(weights, points, axis=1).T[:, place]))
    (left, a), (right, b) = sides
    return Trees.sorted(left, right, a, b)


@dataclass(frozen=True, eq=False)
class Trees:
    """Feasible bases of B problems with k sources and l sinks, updated from one cost to the next.

    A basis is a spanning tree of m = k + l - 1 cells on the nodes 0 .. k - 1 (sources) and k .. k + l - 1 (sinks).
    Cell t connects the node `new[t]` with a node `known[t]` that previous cells reached; node 0 is the root. Masses
    stay feasible when costs change, so the next solution starts from the last one, and most trees do not change.

    Args:
        left: The points (k, B) of the sources.
        right: The points (l, B) of the sinks.
        new: The node (m, B) that each cell adds.
        known: The node (m, B) that it connects with.
        mass: The mass (m, B) of each cell.
    """

    left: IndexArray
    right: IndexArray
    new: Nodes
    known: Nodes
    mass: FloatArray

    @classmethod
    def sorted(cls, left: IndexArray, right: IndexArray, a: FloatArray, b: FloatArray) -> Trees:
        """Apply the north-west corner rule to masses a (k, B), b (l, B); optimal for points in order along a line."""
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
        """Look up the points (m, b) that each cell of these problems connects."""
        new, known = self.new[:, which], self.known[:, which]
        return self.left[np.minimum(new, known), which], self.right[np.maximum(new, known) - len(self.left), which]

    def improve(self, costs: FloatArray, which: IndexArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Pivot problems to an optimum.

        Args:
            costs: The matrix of costs between all points.
            which: The problems (b,) to solve.

        Returns:
            The excess (b,), by how much the potentials of the last basis are infeasible. It bounds the excess of the
            cost, because masses sum to 1, and is rounding unless pivots cycled. The slack (b,), the least reduced cost
            off the basis. A reduced cost sums costs around a cycle, so the basis stays optimal until costs have moved
            by slack / (2 min(k, l)). And whether (b,) the basis changed.
        """
        excess, slack = np.zeros((2, len(which)))
        changed = np.zeros(len(which), dtype=bool)
        left, m = np.arange(len(which)), len(self.mass)
        rounding = -4 * m * float(np.finfo(float).eps)
        for pivots in range(100 * m):
            reduced, scale = self._prices(costs, which[left])
            least = reduced.min(axis=0)
            excess[left], slack[left] = np.maximum(-least, 0.0), np.maximum(least, 0.0)
            more = np.flatnonzero(least < rounding * scale)
            if not len(more):
                break
            left, reduced = left[more], reduced[:, more]
            circling = pivots > 10 * m  # Bland's rule ends every cycle; otherwise the steepest cell is faster
            enter = (reduced < rounding * scale[more]).argmax(axis=0) if circling else reduced.argmin(axis=0)
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
        """Move as much mass as possible around the cycle that the entering cell closes; an emptied cell leaves."""
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
    """-1 and 1 (m, b) on the cells that lose and gain mass when more moves from source to sink, 0 on the others.

    Both ends walk towards the root, each along the cell that added its node, until they meet. A cell adds its node
    before the cells that build on it, so one pass from the last cell to the first suffices.
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
    """Order the trees' cells so that each adds one node, starting at node 0; bits mark the nodes that are reached."""
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
