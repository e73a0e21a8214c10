"""Shortest paths between finitely many contexts, given by edges, nearest neighbours or a cost matrix."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import FloatArray, as_array, as_count, as_points, as_vector
from geodesic.coupling.plans import IndexArray
from geodesic.errors import InvalidInput
from geodesic.metrics.base import Metric, check_endpoints

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.spatial import cKDTree


class Finite(Metric):
    """Shortest paths on a graph whose nodes are the support; the base of `Graph` and `Matrix`.

    Geodesics are those of W1: mass moves along shortest paths and is split linearly between the two nodes around it.
    A context off the support counts as its nearest node. `edges` are their lengths, as the upper triangle of a sparse
    matrix (n, n).

    Args:
        support: Distinct contexts (n, d).

    Raises:
        InvalidInput: If a context is repeated.
    """

    edges: csr_array

    def __init__(self, support: ArrayLike) -> None:
        self.support = as_points(support, "support")
        if len(np.unique(self.support, axis=0)) < len(self.support):
            raise InvalidInput("expected distinct support points, got repeated ones")

    @cached_property
    def _paths(self) -> tuple[FloatArray, IndexArray]:
        """Distances (n, n) along shortest paths, and each node's predecessor (n, n) on the path from the row's node."""
        from scipy.sparse.csgraph import dijkstra

        distances, before = dijkstra(self.edges, directed=False, return_predecessors=True)
        return distances, before

    @cached_property
    def _tree(self) -> cKDTree:
        from scipy.spatial import cKDTree

        return cKDTree(self.support)

    @cached_property
    def distances(self) -> FloatArray:
        """The distances (n, n) between all support points."""
        return self._paths[0]

    def index(self, x: FloatArray) -> IndexArray:
        """Find the row of the nearest support point for each context (n, d)."""
        points = as_points(x, "contexts", self.support.shape[1])
        return np.asarray(self._tree.query(points)[1], dtype=np.intp)

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the distances (n, m) between contexts x (n, d) and y (m, d)."""
        return self.distances[np.ix_(self.index(x), self.index(y))]

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the distances themselves, as in W1; transport breaks ties by the squared distances."""
        return self.pairwise(x, y)

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        """Find the two nodes (n, 2, d) around the mass at t on each shortest path, and its fractions (n, 2) at them."""
        x, y, t = check_endpoints(x, y, t)
        distances, before = self._paths
        start, after = self.index(x), self.index(y)
        position = t * distances[start, after]
        node = np.where(start == after, after, before[start, after])
        while (far := distances[start, node] > position).any():
            after = np.where(far, node, after)
            node = np.where(far, before[start, node], node)
        near, gap = distances[start, node], distances[start, after] - distances[start, node]
        fraction = np.divide(position - near, gap, out=np.zeros_like(gap), where=gap > 0)
        return self.support[np.stack([node, after], axis=1)], np.stack([1 - fraction, fraction], axis=1)

    def length(self, distances: FloatArray, mass: FloatArray) -> float:
        """Compute W1, the mean distance that the mass moves."""
        return float(mass @ distances)


class Graph(Finite):
    """Shortest paths on an undirected, connected graph.

    Args:
        points: The nodes (n, d), all different.
        edges: Pairs (m, 2) of rows of `points`.
        lengths: The length (m,) of each edge (default: the straight line between its points).

    Raises:
        InvalidInput: If the graph is not connected, or an edge or a length is invalid.

    Example:
        >>> import numpy as np
        >>> from geodesic.metrics import Graph
        >>> path = Graph([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]], edges=[[0, 1], [1, 2]])
        >>> path.pairwise(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]]))
        array([[2.]])
    """

    def __init__(self, points: ArrayLike, edges: ArrayLike, lengths: ArrayLike | None = None) -> None:
        from scipy.sparse.csgraph import connected_components

        super().__init__(points)
        n = len(self.support)
        as_array(edges, "edges")
        pairs = np.array(edges)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
            raise InvalidInput(f"expected edges as integers of shape (m, 2), got {pairs.dtype} {pairs.shape}")
        if pairs.size and (pairs.min() < 0 or pairs.max() >= n):
            raise InvalidInput(f"expected edges between nodes 0 and {n - 1}, got {pairs.min()} to {pairs.max()}")
        i, j = pairs.T
        straight = np.linalg.norm(self.support[i] - self.support[j], axis=1)
        sizes = straight if lengths is None else as_vector(lengths, "lengths", len(pairs))
        if (sizes[i != j] <= 0).any():
            raise InvalidInput(f"expected lengths to be positive, got {sizes[i != j].min():g}")
        self.edges = undirected(i, j, sizes, n)
        components = connected_components(self.edges, directed=False)[0]
        if components > 1:
            raise InvalidInput(f"expected a connected graph, got {components} components")

    @classmethod
    def knn(cls, points: ArrayLike, k: int) -> Graph:
        """Connect each point with its nearest neighbours.

        Components that are left apart are joined by the shortest edge between them.

        Args:
            points: The nodes (n, d), all different.
            k: The number of neighbours of each node.

        Returns:
            The graph.

        Raises:
            InvalidInput: If there are too few points for k neighbours.
        """
        from sklearn.neighbors import kneighbors_graph

        nodes = as_points(points)
        if as_count(k, "k") >= len(nodes):
            raise InvalidInput(f"expected k below the number of points {len(nodes)}, got {k}")
        near = kneighbors_graph(nodes, k).tocoo()
        return cls(nodes, connect_components(nodes, np.stack([near.row, near.col], axis=1)))


class Matrix(Finite):
    """A distance given as a symmetric cost matrix on a finite support.

    Geodesics run on its skeleton: the pairs without a third point between them. Where M breaks the triangle inequality,
    the distance is its shortest-path closure, the largest metric below it. For any other choice W would not be a
    distance and paths would not have constant speed.

    Args:
        M: Costs (n, n): symmetric, non-negative, zero on the diagonal.
        support: The contexts (n, d) of its rows (default: the indices 0 ... n - 1).

    Raises:
        InvalidInput: If M or the support is invalid.

    Example:
        >>> from geodesic.metrics import Matrix
        >>> Matrix([[0, 1, 5], [1, 0, 1], [5, 1, 0]]).distances
        array([[0., 1., 2.],
               [1., 0., 1.],
               [2., 1., 0.]])
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
        """The costs of the skeleton's pairs, as the upper triangle of a sparse matrix (n, n)."""
        i, j = skeleton(self.M)
        return undirected(i, j, self.M[i, j], len(self.M))

    @cached_property
    def distances(self) -> FloatArray:
        """The distances (n, n) between all support points; M itself where it is a metric."""
        closed = self._paths[0]
        return np.where(closed < self.M * (1 - 1e-9), closed, self.M)


def skeleton(M: FloatArray) -> tuple[IndexArray, IndexArray]:
    """Find the pairs (i < j) without a k such that M_ik + M_kj <= M_ij.

    Only a k nearer to both ends than they are to each other can replace a pair: twins at distance 0 would otherwise
    replace each other's pairs and disconnect the graph. By induction on M_ij every pair keeps its distance.
    """
    nearest = np.argsort(np.where(M > 0, M, np.inf), axis=1, kind="stable")[:, :16]
    ends = []
    for i in range(len(M)):
        j = np.arange(i + 1, len(M))
        j = j[~_replaceable(M, i, j, nearest[i])]  # drops most pairs at a fraction of the full test's cost
        ends.append(j[~_replaceable(M, i, j, np.arange(len(M)))])
    return np.repeat(np.arange(len(M)), [len(j) for j in ends]), np.concatenate(ends)


def _replaceable(M: FloatArray, i: int, j: IndexArray, k: IndexArray) -> NDArray[np.bool_]:
    """Whether one of the points k lies between i and each of the points j."""
    whole, first, second = M[i, j][:, None], M[i, k], M[np.ix_(j, k)]
    return np.asarray(((first + second <= whole * (1 + 1e-12)) & (np.maximum(first, second) < whole)).any(axis=1))


def undirected(i: IndexArray, j: IndexArray, lengths: FloatArray, n: int) -> csr_array:
    """Build the upper triangle of a sparse matrix of edge lengths; keep the shortest parallel edge, drop loops."""
    from scipy.sparse import csr_array

    low, high = np.minimum(i, j), np.maximum(i, j)
    order = np.lexsort((lengths, high, low))
    low, high, lengths = low[order], high[order], lengths[order]
    kept = (np.diff(low * n + high, prepend=-1) != 0) & (low < high)
    return csr_array((lengths[kept], (low[kept], high[kept])), shape=(n, n))


def connect_components(nodes: FloatArray, edges: IndexArray) -> IndexArray:
    """Add the shortest edges that connect the components, one at a time, nearest component first."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    while True:
        links = csr_array((np.ones(len(edges)), tuple(edges.T)), shape=2 * (len(nodes),))
        count, part = connected_components(links, directed=False)
        if count == 1:
            return edges
        inside, outside = np.flatnonzero(part == part[0]), np.flatnonzero(part != part[0])
        gaps, nearest = cKDTree(nodes[inside]).query(nodes[outside])
        link = gaps.argmin()
        edges = np.vstack([edges, [inside[nearest[link]], outside[link]]])
