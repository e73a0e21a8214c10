"""Optimal plans between every two of many distributions on the same points, kept from one cost to the next."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from geodesic.contexts import FloatArray
from geodesic.coupling.batched import IndexArray, Trees
from geodesic.coupling.simplex import simplex

LARGE, FEW = 12, 15  # supports above this size, and sizes with fewer pairs than this, are solved one by one
CHUNK = 8192  # problems at a time: their costs stay in the cache
Atoms = tuple[IndexArray, IndexArray, FloatArray]


def pairwise_plans(rows: FloatArray, distances: FloatArray) -> list[Atoms]:
    """Optimal plans, as (from, to, mass), between every two of the rows of probabilities (m, n), costs (n, n)."""
    return _one_by_one(rows, distances, zip(*np.triu_indices(len(rows), 1)))


def _one_by_one(rows: FloatArray, distances: FloatArray, pairs: Iterable[tuple[int, int]]) -> list[Atoms]:
    supports = [np.flatnonzero(row) for row in rows]
    weights = [row[support] for row, support in zip(rows, supports)]
    found = []
    for x, y in pairs:
        (i, a), (j, b) = (supports[x], weights[x]), (supports[y], weights[y])
        if len(i) == 1 or len(j) == 1:
            coupling = np.outer(a, b)
        else:
            coupling = simplex(distances[np.ix_(i, j)], a, b).coupling
        low, high = np.nonzero(coupling)
        found.append((i[low], j[high], coupling[low, high]))
    return found


class Couplings:
    """A plan between every two of the rows of probabilities (m, n), kept from one distance to the next.

    Pairs are those of `np.triu_indices`. The first plans are sorted by a value of every point (n,): optimal where
    distances are differences of values, and near it where distances are near those.
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
        """Makes every plan optimal for the distances (n, n); the largest excess cost that rounding may have left."""
        self._write_single(distances)
        worst = 0.0
        for batch in self.batches:
            excess, changed = batch.improve(distances)
            self._write(batch, changed)
            worst = max(worst, excess)
        return worst

    def _lay_out(self, atoms: IndexArray) -> None:
        """Room for the atoms of every pair: `means` maps distances of pairs of points to their means under the plans.

        An optimal plan on a k x l support needs k + l - 1 atoms, so the room never changes. Atoms that stay cost 0.
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
        if not len(self.single):
            return
        found = _one_by_one(self.rows, distances, self.pairs[:, self.single].T)
        for pair, (low, high, mass) in zip(self.single, found):
            start, end = self.means.indptr[pair], self.means.indptr[pair + 1]
            self.means.data[start:end] = 0.0
            self.means.indices[start : start + len(mass)] = self.column[low, high]
            self.means.data[start : start + len(mass)] = np.where(low == high, 0.0, mass)


class _Batch:
    """Pairs (B,) of rows of one size, and how far distances may move in all before a plan of theirs can change."""

    def __init__(self, pairs: IndexArray, trees: Trees) -> None:
        self.pairs, self.trees = pairs, trees
        self.bound = np.zeros(len(pairs))
        self.moved, self.last = 0.0, np.zeros((0, 0))

    def improve(self, distances: FloatArray) -> tuple[float, IndexArray]:
        """The largest excess, and which pairs have another plan; the others were optimal or out of reach."""
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
    """Plans sorted by value between pairs (2, B) of rows, of one support size on each side."""
    sides = []
    for side in pairs:
        distinct, place = np.unique(side, return_inverse=True)
        weights, size = rows[distinct], np.count_nonzero(rows[side[0]])
        points = np.argsort(np.where(weights > 0, values, np.inf), axis=1, kind="stable")[:, :size]
        sides.append((points.T[:, place], np.take_along_axis(weights, points, axis=1).T[:, place]))
    (left, a), (right, b) = sides
    return Trees.sorted(left, right, a, b)
