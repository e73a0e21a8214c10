"""A metric learned from practice: contexts count as free until they have been practised without success."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import Count, Fraction, Number, Positive, as_points, as_rng, check_fields, check_instance
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray, Score
from geodesic.coupling.plans import IndexArray
from geodesic.errors import InvalidInput
from geodesic.metrics.graph import Finite, undirected

TICKS = 32  # of the lattice that covers the space, along each side
DIMENSIONS = 2  # of the space, at most: in more, walls have too many places to be practised at in vain
BANDWIDTHS = 0.6, 1.2  # in steps of the lattice, of what was practised in vain, and of what is mastered
RECENT = 50.0, 15.0  # episodes at a node after which an earlier one counts 1 / e, for each of the two
FEW = 0.5  # episodes without success that are assumed at first where mastery is concerned
ENOUGH = 0.5  # fraction of successes from which on a context is as good as free
MOST = 0.9  # fraction of successes that is required at most
POWER = 6.0  # by which the length of an edge grows as successes get rarer
UNMASTERED = 1.3  # times as long is an edge where the agent does not succeed yet
MARGIN = 1.3  # a particle leaves its way for another one if that is shorter by this factor
SAMPLES = 3  # contexts of each hop at which its length is evaluated
BLOCK = 2  # ends in a block of so many nodes a side share their shortest paths
VAIN = 0.15  # fraction of successes below which the way through a context is longer than any detour


@dataclass(frozen=True)
class Practice:
    """Learned: shortest paths around contexts that have been practised without success.

    The path is planned the way a robot plans in unknown terrain: assume that everything is free, walk, note what is
    blocked, and replan. The metric needs no exploration in uniform contexts. Training episodes are counted on a lattice
    over the space, and an edge is

        |dx| max(1, (1 / 2) / p)^6,   p = (s + patience) / (s + f + patience)

    long, and 1.3 times as long where the agent does not succeed yet, with s successes and f failures among the latest
    episodes near it. Without episodes, p = 1. Where the agent is learning, a few successes keep p up; p falls to a few
    percent only where many recent episodes have all failed, and there an edge becomes longer than any detour.

    `Gradient` trains each particle at the first context on its route that is not mastered, and rehearses the route up
    to there. A context is mastered if its fraction of successes is above the threshold (if the score is success) or
    above one half (for other scores). Every `every` episodes, a particle whose route has become more than 1.3 times as
    long as the best one gets a new route.

    Args:
        space: The bounded context space, of one or two numbers.
        threshold: The score above which an episode is a success.
        patience: The number of successes assumed everywhere at first. Higher values give up a route later.
        every: The number of episodes between two plans.
        rehearse: The share of training episodes on mastered contexts, in [0, 1). An agent that only fails forgets what
            it has learned.
        score: The score that counts: "return", "discounted_return" or "success".

    Raises:
        InvalidInput: If the space has more than two dimensions, integers, categories or a support, or if an option is
            invalid.
    """

    space: BoundedSpace
    threshold: Number
    _: KW_ONLY
    patience: Positive = 2.0
    every: Count = 100
    rehearse: Fraction = 0.5
    score: Score = "return"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.space.mixed or self.space.support is not None or self.space.dim > DIMENSIONS:
            raise InvalidInput(
                f"expected at most {DIMENSIONS} numbers as contexts for metric practice, got {self.space}; try l2"
            )
        if self.rehearse == 1:
            raise InvalidInput("expected rehearse below 1, got 1: nothing new would be trained on")

    @property
    def memory(self) -> int:
        """No episodes have to be kept: they are counted once."""
        return 0

    @property
    def ticks(self) -> tuple[int, ...]:
        """The shape of the lattice."""
        return (TICKS,) * self.space.dim

    @cached_property
    def lattice(self) -> tuple[FloatArray, IndexArray, float]:
        """The nodes (n, d) in units of the space's sides, edges (m, 2) between neighbours, and the step."""
        d = self.space.dim
        nodes = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, TICKS)] * d, indexing="ij"), axis=-1).reshape(-1, d)
        cells = np.arange(len(nodes)).reshape(self.ticks)
        edges = []
        for step in product((-1, 0, 1), repeat=d):
            if step > (0,) * d:
                here = tuple(slice(max(0, -move), TICKS - max(0, move)) for move in step)
                there = tuple(slice(max(0, move), TICKS + min(0, move)) for move in step)
                edges.append(np.stack([cells[here].ravel(), cells[there].ravel()], axis=1))
        return nodes, np.concatenate(edges), 1 / (TICKS - 1)

    @cached_property
    def _offsets(self) -> IndexArray:
        """Steps (k, d) from the node next to a context to those at which it counts."""
        return np.array(list(product((-2, -1, 0, 1, 2), repeat=self.space.dim)))

    def fit(self, episodes: EpisodeBatch, rng: np.random.Generator, anchors: ArrayLike | None = None) -> PracticeGraph:
        """Count all episodes; see `LearnedMetric.fit`. Anchors are not used."""
        as_rng(rng)
        return PracticeGraph(self, self.count(self.counts(), episodes))

    def counts(self) -> FloatArray:
        """Counts (4, n) of no episodes, at each node: tries and successes, those of what is mastered last."""
        return np.zeros((4, len(self.lattice[0])))

    def count(self, counts: FloatArray, episodes: EpisodeBatch) -> FloatArray:
        """Add episodes.

        Args:
            counts: Counts (4, n) so far.
            episodes: More episodes.

        Returns:
            The new counts (4, n).

        Raises:
            InvalidInput: If the counts are of another lattice, or the episodes of another dimension.
        """
        if counts.shape != (4, len(self.lattice[0])):
            raise InvalidInput(f"expected counts of shape (4, {len(self.lattice[0])}), got shape {counts.shape}")
        if not len(check_instance(EpisodeBatch, episodes, "episodes")):
            return counts
        dim = episodes.contexts.shape[1]
        if dim != self.space.dim:
            raise InvalidInput(f"expected episodes in contexts of dimension {self.space.dim}, got dimension {dim}")
        won = episodes.scores(self.score) > self.threshold
        return np.concatenate(
            [
                self._added(part, episodes.contexts, won, bandwidth, recent)
                for part, bandwidth, recent in zip((counts[:2], counts[2:]), BANDWIDTHS, RECENT)
            ]
        )

    def _added(
        self, counts: FloatArray, places: FloatArray, won: NDArray[np.bool_], bandwidth: float, recent: float
    ) -> FloatArray:
        """Tries and successes (2, n) after more of them at places (m, d), the latest last."""
        nodes, _, step = self.lattice
        place = self.space.to_unit(places[::-1]) / step
        cells = np.rint(place).astype(np.intp).clip(0, TICKS - 1)[:, None] + self._offsets
        inside = ((cells >= 0) & (cells < TICKS)).all(axis=2)
        gaps = np.linalg.norm(cells - place[:, None], axis=2)[inside]
        node = np.ravel_multi_index(tuple(cells[inside].T), self.ticks)
        order = np.argsort(node, kind="stable")  # by node, the latest first
        mass, won = np.exp(-0.5 * (gaps / bandwidth) ** 2)[order], won[::-1][np.nonzero(inside)[0]][order]
        node = node[order]
        before = np.cumsum(mass) - mass
        since = before - before[np.searchsorted(node, node)]  # the mass at the same node that came later
        total = np.bincount(node, mass, len(nodes))
        mass = mass * np.exp(-since / recent)
        new = [np.bincount(node, weights, len(nodes)) for weights in (mass, mass * won)]
        return np.asarray(counts * np.exp(-total / recent) + new)


class PracticeGraph(Finite):
    """The lattice of a `Practice` metric, with edges that are long where practice was unsuccessful.

    Args:
        metric: The fitted metric.
        counts: Its episode counts, (4, n).
    """

    def __init__(self, metric: Practice, counts: FloatArray) -> None:
        self.metric = metric
        nodes, pairs, _ = metric.lattice
        super().__init__(metric.space.low + nodes * (metric.space.high - metric.space.low))
        tries, wins, tried, succeeded = counts
        self.rates = (wins + metric.patience) / (tries + metric.patience)
        self.mastery = succeeded / (tried + FEW)
        self.costs = np.maximum(1.0, ENOUGH / self.rates) ** POWER * np.where(self.mastery < ENOUGH, UNMASTERED, 1.0)
        i, j = pairs.T
        lengths = np.linalg.norm(nodes[i] - nodes[j], axis=1) * (self.costs[i] + self.costs[j]) / 2
        self.edges = undirected(i, j, lengths, len(nodes))

    def index(self, x: FloatArray) -> IndexArray:
        """Find the row of the nearest node for each context (n, d)."""
        points = as_points(x, "contexts", self.metric.space.dim)
        cells = np.rint(self.metric.space.to_unit(points) * (TICKS - 1)).astype(np.intp).clip(0, TICKS - 1)
        return np.asarray(np.ravel_multi_index(tuple(cells.T), self.metric.ticks), dtype=np.intp)

    def returns(self, contexts: FloatArray) -> FloatArray:
        """The fraction of successes p (n,) at the nodes next to contexts (n, d)."""
        return np.asarray(self.rates[self.index(contexts)])

    def frontier(self, points: FloatArray) -> IndexArray:
        """The first place on each way that is not mastered.

        Args:
            points: Positions (k + 1, n, d) along the ways of n particles.

        Returns:
            Its knot (n,); k where all are mastered.
        """
        flat = self.mastery[self.index(points.reshape(-1, points.shape[-1]))]
        needed = min(self.metric.threshold, MOST) if self.metric.score == "success" else ENOUGH
        missing = flat.reshape(points.shape[:2]) < needed
        return np.where(missing.any(axis=0), missing.argmax(axis=0), len(points) - 1)

    def detours(self, points: FloatArray) -> tuple[dict[int, FloatArray], float]:
        """New ways for particles whose own way has become too long.

        Args:
            points: The positions (k + 1, n, d) of n particles along their ways.

        Returns:
            The contexts (m, d) of the new way of each particle that gets one; and the fraction of particles for which
            all ways lead through contexts practised in vain.
        """
        from scipy.sparse.csgraph import dijkstra

        ends, start, step = self.index(points[-1]), self.index(points[0]), self.metric.lattice[2]
        ticks = self.metric.ticks
        blocks = np.ravel_multi_index(np.array(np.unravel_index(ends, ticks)) // BLOCK, ticks)
        _, first, rows = np.unique(blocks, return_index=True, return_inverse=True)
        distances, before = dijkstra(self.edges, directed=False, indices=ends[first], return_predecessors=True)
        late = self.lengths(points) > MARGIN * distances[rows, start] + BLOCK * step
        ways = {}
        for k in np.flatnonzero(late):
            nodes = [start[k]]
            while before[rows[k], nodes[-1]] >= 0:
                nodes.append(before[rows[k], nodes[-1]])
            ways[int(k)] = np.concatenate([points[:1, k], self.support[nodes[1:-1]], points[-1:, k]])
        return ways, float((distances[rows, start] > step * (ENOUGH / VAIN) ** POWER).mean())

    def lengths(self, points: FloatArray) -> FloatArray:
        """The lengths (n,) under this metric of ways with positions (k + 1, n, d)."""
        places = [points[:-1] + t * (points[1:] - points[:-1]) for t in (np.arange(SAMPLES) + 0.5) / SAMPLES]
        flat = np.stack(places).reshape(-1, points.shape[-1])
        costs = self.costs[self.index(flat)].reshape(SAMPLES, len(points) - 1, -1).mean(axis=0)
        sides = np.diff(self.metric.space.to_unit(points.reshape(-1, points.shape[-1])).reshape(points.shape), axis=0)
        return np.asarray((np.linalg.norm(sides, axis=2) * costs).sum(axis=0))
