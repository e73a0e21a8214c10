"""Shortest paths between the points of a finite support: given edges, nearest neighbours, or a cost matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import FloatArray, as_array, as_count, as_points, as_vector
from geodesic.errors import InvalidInput
from geodesic.metrics.base import as_ways

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.spatial import cKDTree

IntArray = NDArray[np.intp]


class Finite(ABC):
    """Shortest paths on a graph whose nodes are the support; shared by Graph and Matrix.

    Geodesics are W1's: mass moves along shortest paths and is split linearly between the two nodes it lies between.
    A context that is not on the support counts as its nearest node.
    """

    support: FloatArray

    def __init__(self, support: ArrayLike) -> None:
        self.support = as_points(support, "support")
        if len(np.unique(self.support, axis=0)) < len(self.support):
            raise InvalidInput("expected distinct support points, got repeated ones")

    @property
    @abstractmethod
    def edges(self) -> csr_array:
        """Edge lengths, the upper triangle (n, n)."""

    @cached_property
    def _paths(self) -> tuple[FloatArray, IntArray]:
        """Distances (n, n) along shortest paths, and each node's predecessor (n, n) on the way from the row's node."""
        from scipy.sparse.csgraph import dijkstra

        distances, before = dijkstra(self.edges, directed=False, return_predecessors=True)
        return distances, before

    @cached_property
    def _tree(self) -> cKDTree:
        from scipy.spatial import cKDTree

        return cKDTree(self.support)

    @cached_property
    def distances(self) -> FloatArray:
        """All distances (n, n) between support points."""
        return self._paths[0]

    def index(self, x: FloatArray) -> IntArray:
        points = as_points(x, "contexts", self.support.shape[1])
        return np.asarray(self._tree.query(points)[1], dtype=np.intp)

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return self.distances[np.ix_(self.index(x), self.index(y))]

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """The distance itself (W1); transport breaks its many ties by the squared distance."""
        return self.pairwise(x, y)

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        x, y, t = as_ways(x, y, t)
        distances, before = self._paths
        start, after = self.index(x), self.index(y)
        position = t * distances[start, after]
        node = np.where(start == after, after, before[start, after])
        while (far := distances[start, node] > position).any():
            after = np.where(far, node, after)
            node = np.where(far, before[start, node], node)
        near, gap = distances[start, node], distances[start, after] - distances[start, node]
        share = np.divide(position - near, gap, out=np.zeros_like(gap), where=gap > 0)
        return self.support[np.stack([node, after], axis=1)], np.stack([1 - share, share], axis=1)

    def length(self, distances: FloatArray, mass: FloatArray) -> float:
        return float(mass @ distances)


class Graph(Finite):
    """Shortest paths on an undirected connected graph: points (n, d), edges (m, 2), lengths (m,).

    Without lengths, an edge is as long as the straight line between its points.
    """

    def __init__(self, points: ArrayLike, edges: ArrayLike, lengths: ArrayLike | None = None) -> None:
        super().__init__(points)
        n = len(self.support)
        as_array(edges, "edges")
        pairs = np.array(edges)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
            raise InvalidInput(f"expected edges as whole numbers of shape (m, 2), got {pairs.dtype} {pairs.shape}")
        if pairs.size and (pairs.min() < 0 or pairs.max() >= n):
            raise InvalidInput(f"expected edges between nodes 0 and {n - 1}, got {pairs.min()} to {pairs.max()}")
        i, j = pairs.T
        if lengths is None:
            sizes = np.linalg.norm(self.support[i] - self.support[j], axis=1)
        else:
            sizes = as_vector(lengths, "lengths", len(pairs))
        if (sizes[i != j] <= 0).any():
            raise InvalidInput(f"expected lengths to be positive, got {sizes[i != j].min():g}")
        self._edges = undirected(i, j, sizes, n)
        self._check_connected()

    def _check_connected(self) -> None:
        from scipy.sparse.csgraph import connected_components

        components = connected_components(self._edges, directed=False)[0]
        if components > 1:
            raise InvalidInput(f"expected a connected graph, got {components} components")

    @property
    def edges(self) -> csr_array:
        return self._edges

    @classmethod
    def knn(cls, points: ArrayLike, k: int) -> Graph:
        """Each point joined to its k nearest; parts without a link are joined by the shortest one between them."""
        from sklearn.neighbors import kneighbors_graph

        nodes = as_points(points)
        if as_count(k, "k") >= len(nodes):
            raise InvalidInput(f"expected k below the number of points {len(nodes)}, got {k}")
        near = kneighbors_graph(nodes, k).tocoo()
        return cls(nodes, bridged(nodes, np.stack([near.row, near.col], axis=1)))


class Matrix(Finite):
    """Any symmetric cost matrix M (n, n) on a finite support (n, d); without one, on the indices 0 ... n - 1.

    Geodesics run on its skeleton, the pairs that no third point lies between. Where M breaks the triangle inequality,
    the distance is its shortest-path closure, the largest metric below it: W is a distance, and paths have constant
    speed, for no other.
    """

    def __init__(self, M: ArrayLike, support: ArrayLike | None = None) -> None:
        cost = as_points(M, "M")
        n = len(cost)
        if cost.shape != (n, n):
            raise InvalidInput(f"expected M of shape (n, n), got shape {cost.shape}")
        if (cost < 0).any():
            raise InvalidInput(f"expected M to be non-negative, got a smallest entry of {cost.min():g}")
        if np.diagonal(cost).any():
            raise InvalidInput(f"expected M to have a zero diagonal, got {np.abs(np.diagonal(cost)).max():g} on it")
        if np.abs(cost - cost.T).max() > 1e-9 * cost.max():
            raise InvalidInput(f"expected M to be symmetric, got a difference of {np.abs(cost - cost.T).max():g}")
        super().__init__(np.arange(n, dtype=np.float64)[:, None] if support is None else support)
        if len(self.support) != n:
            raise InvalidInput(f"expected a support of {n} points for M, got {len(self.support)}")
        self.M = (cost + cost.T) / 2

    @cached_property
    def edges(self) -> csr_array:
        i, j = skeleton(self.M)
        return undirected(i, j, self.M[i, j], len(self.M))

    @cached_property
    def distances(self) -> FloatArray:
        closed = self._paths[0]
        return np.where(closed < self.M * (1 - 1e-9), closed, self.M)


def skeleton(M: FloatArray) -> tuple[IntArray, IntArray]:
    """Pairs (i < j) without a k such that M_ik + M_kj <= M_ij.

    Only a k nearer to both ends than they are to each other can replace a pair: twins at distance 0 would otherwise
    replace each other's pairs, and the graph would fall apart. By induction on M_ij every pair keeps its distance.
    """
    nearest = np.argsort(np.where(M > 0, M, np.inf), axis=1, kind="stable")[:, :16]
    ends = []
    for i in range(len(M)):
        j = np.arange(i + 1, len(M))
        j = j[~_replaceable(M, i, j, nearest[i])]  # most pairs of a graph go here, at a fraction of the full test
        ends.append(j[~_replaceable(M, i, j, np.arange(len(M)))])
    return np.repeat(np.arange(len(M)), [len(j) for j in ends]), np.concatenate(ends)


def _replaceable(M: FloatArray, i: int, j: IntArray, k: IntArray) -> NDArray[np.bool_]:
    """Whether one of the points k lies between i and each of the points j."""
    whole, first, second = M[i, j][:, None], M[i, k], M[np.ix_(j, k)]
    return np.asarray(((first + second <= whole * (1 + 1e-12)) & (np.maximum(first, second) < whole)).any(axis=1))


def undirected(i: IntArray, j: IntArray, lengths: FloatArray, n: int) -> csr_array:
    """The graph as the upper triangle of a sparse matrix; of parallel edges the shortest stays, loops go."""
    from scipy.sparse import csr_array

    low, high = np.minimum(i, j), np.maximum(i, j)
    order = np.lexsort((lengths, high, low))
    low, high, lengths = low[order], high[order], lengths[order]
    kept = np.diff(low * n + high, prepend=-1) != 0
    kept &= low < high
    return csr_array((lengths[kept], (low[kept], high[kept])), shape=(n, n))


def bridged(nodes: FloatArray, edges: IntArray) -> IntArray:
    """The edges, and the shortest links that join what they leave apart: one by one, the nearest part first."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    while True:
        i, j = edges.T
        count, part = connected_components(
            csr_array((np.ones(len(i)), (i, j)), shape=2 * (len(nodes),)), directed=False
        )
        if count == 1:
            return edges
        inside, outside = np.flatnonzero(part == part[0]), np.flatnonzero(part != part[0])
        gaps, nearest = cKDTree(nodes[inside]).query(nodes[outside])
        link = gaps.argmin()
        edges = np.vstack([edges, [inside[nearest[link]], outside[link]]])
