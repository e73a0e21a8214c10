"""Shortest paths between the points of a finite support: given edges, nearest neighbours, or a cost matrix."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from geodesic.distributions import FloatArray, as_count, as_points, as_vector
from geodesic.errors import InvalidInput

IntArray = NDArray[np.intp]
TIE = 1e-4


class Finite:
    """Shortest paths on a graph whose nodes are the support; shared by Graph and Matrix.

    Geodesics are W1's: mass moves along shortest paths and is split linearly between the two nodes it lies between.
    A context that is not on the support counts as its nearest node.
    """

    support: FloatArray

    def __init__(self, support: ArrayLike) -> None:
        self.support = as_points(support, "support")
        if len(np.unique(self.support, axis=0)) < len(self.support):
            raise InvalidInput("expected distinct support points, got repeated ones")

    @cached_property
    def edges(self) -> csr_array:
        raise NotImplementedError

    @cached_property
    def _paths(self) -> tuple[FloatArray, IntArray]:
        """Distances (n, n) along shortest paths, and each node's predecessor (n, n) on the way from the row's node."""
        distances, before = dijkstra(self.edges, directed=False, return_predecessors=True)
        return distances, before

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.support)

    @property
    def distances(self) -> FloatArray:
        """All distances (n, n) between support points."""
        return self._paths[0]

    def index(self, x: FloatArray) -> IntArray:
        if x.shape[1] != self.support.shape[1]:
            raise InvalidInput(f"expected contexts of dimension {self.support.shape[1]}, got dimension {x.shape[1]}")
        return np.asarray(self._tree.query(x)[1], dtype=np.intp)

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return self.distances[np.ix_(self.index(x), self.index(y))]

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """d + 1e-4 d^2: among the many plans that W1 allows, the one without needlessly long hops."""
        d = self.pairwise(x, y)
        return np.asarray(d + TIE * d**2)

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
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
    """Shortest paths on an undirected graph: points (n, d), edges (m, 2), lengths (m,), Euclidean if not given."""

    def __init__(self, points: ArrayLike, edges: ArrayLike, lengths: ArrayLike | None = None) -> None:
        super().__init__(points)
        n = len(self.support)
        pairs = np.array(edges)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
            raise InvalidInput(f"expected edges of shape (m, 2) and whole numbers, got shape {pairs.shape}")
        if pairs.min() < 0 or pairs.max() >= n:
            raise InvalidInput(f"expected edges between nodes 0 and {n - 1}, got {pairs.min()} and {pairs.max()}")
        i, j = pairs.T
        if lengths is None:
            sizes = np.linalg.norm(self.support[i] - self.support[j], axis=1)
        else:
            sizes = as_vector(lengths, "lengths", len(pairs))
        self._edges = symmetric(i, j, sizes, n)
        components = connected_components(self._edges, directed=False)[0]
        if components > 1:
            raise InvalidInput(f"expected a connected graph, got {components} components")

    @cached_property
    def edges(self) -> csr_array:
        return self._edges

    @classmethod
    def knn(cls, points: ArrayLike, k: int) -> Graph:
        from sklearn.neighbors import kneighbors_graph

        nodes = as_points(points)
        graph = kneighbors_graph(nodes, as_count(k, "k")).tocoo()
        return cls(nodes, np.stack([graph.row, graph.col], axis=1))


class Matrix(Finite):
    """Any symmetric cost matrix M (n, n) on a finite support (n, d); without one, on the indices 0 ... n - 1."""

    def __init__(self, M: ArrayLike, support: ArrayLike | None = None) -> None:
        cost = as_points(M, "M")
        super().__init__(np.arange(len(cost), dtype=np.float64)[:, None] if support is None else support)
        self.M = cost

    @property
    def distances(self) -> FloatArray:
        return self.M

    @cached_property
    def edges(self) -> csr_array:
        i, j = np.triu_indices(len(self.M), 1)
        return symmetric(i, j, self.M[i, j], len(self.M))


def symmetric(i: IntArray, j: IntArray, lengths: FloatArray, n: int) -> csr_array:
    """The undirected graph as a sparse matrix; of parallel edges the shortest stays."""
    order = np.lexsort((lengths, np.maximum(i, j), np.minimum(i, j)))
    low, high = np.minimum(i, j)[order], np.maximum(i, j)[order]
    first = np.concatenate([[True], (np.diff(low) != 0) | (np.diff(high) != 0)]) & (low != high)
    return csr_array((lengths[order][first], (low[first], high[first])), shape=(n, n))
