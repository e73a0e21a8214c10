"""A metric learned from practice: contexts count as free until they have been practised in vain."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import Count, Number, Positive, as_rng, check_fields, check_instance
from geodesic.contexts import BoundedSpace, EpisodeBatch, FloatArray, Score
from geodesic.coupling.plans import IndexArray
from geodesic.errors import InvalidInput
from geodesic.metrics.graph import Finite, undirected

TICKS = 32  # of the lattice that covers the space, along each side
DIMENSIONS = 2  # of the space, at most: in more, walls have too many places to be practised at in vain
BANDWIDTH = 0.6  # of the kernel by which an episode counts at the nodes around it, in steps of the lattice
RECENT = 50.0  # episodes at a node after which an earlier one counts 1 / e
ENOUGH = 0.5  # fraction of successes from which on a context is as good as free
POWER = 6.0  # by which the length of an edge grows as successes get rarer
MARGIN = 1.3  # a particle leaves its way for another one if that is shorter by this factor
SAMPLES = 3  # contexts of each hop at which its length is evaluated
import os
MB, MRECENT, MPRIOR, UNKNOWN, MARGINK = float(os.environ.get("MB", "1.2")), float(os.environ.get("MRECENT", "15")), float(os.environ.get("MPRIOR", "0.5")), float(os.environ.get("UNKNOWN", "1.3")), 0
VAIN = 0.15  # fraction of successes below which the way through a context is longer than any detour


@dataclass(frozen=True)
class Practice:
    """Learned: shortest paths around contexts that have been practised without success.

    The path is planned as a robot plans in unknown terrain: assume that all is free, walk, note what is blocked, plan
    again. It needs no exploration of uniform contexts. Training episodes are counted on a lattice over the space, and
    an edge is

        |dx| max(1, (1 / 2) / p)^6,   p = (s + patience) / (n + patience)

    long, with n of the latest episodes around it and s of them successes: their score is above the threshold. Without
    episodes p = 1. Where the agent is learning, a few successes keep p up; p falls to a few percent only where many
    recent episodes have all failed, and there an edge becomes longer than any detour.

    `Gradient` uses it with `PerParticlePace`. Every `every` episodes, a particle whose way has become more than 1.3
    times as long as the best one leaves it, and the others keep theirs: ways that change more often are never
    practised. A new way is divided into equal hops, so that a detour does not make them longer.

    Args:
        space: The bounded context space, of one or two numbers.
        threshold: The score above which an episode is a success.
        patience: How many successes are assumed everywhere at first. The more, the later a way is given up.
        every: How many episodes come between two plans.
        memory: The number of most recent episodes that a plan uses. What is older is tried again.
        score: The score that counts: "return", "discounted_return" or "success".

    Raises:
        InvalidInput: If the space has more dimensions, integers, categories or a support, or an option is invalid.
    """

    space: BoundedSpace
    threshold: Number
    _: KW_ONLY
    patience: Positive = 2.0
    every: Count = int(__import__("os").environ.get("EVERY", "400"))
    memory: Count = 10_000
    score: Score = "return"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.space.mixed or self.space.support is not None or self.space.dim > DIMENSIONS:
            raise InvalidInput(
                f"expected at most {DIMENSIONS} numbers as contexts for metric practice, got {self.space}; try l2"
            )

    @cached_property
    def lattice(self) -> tuple[FloatArray, IndexArray, float]:
        """The nodes (n, d) in units of the space's sides, edges (m, 2) between neighbours, and the step."""
        d = self.space.dim
        axes = [np.linspace(0.0, 1.0, TICKS)] * d
        nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
        cells = np.arange(len(nodes)).reshape((TICKS,) * d)
        edges = []
        for step in product((-1, 0, 1), repeat=d):
            if step > (0,) * d:
                here = tuple(slice(max(0, -move), TICKS - max(0, move)) for move in step)
                there = tuple(slice(max(0, move), TICKS + min(0, move)) for move in step)
                edges.append(np.stack([cells[here].ravel(), cells[there].ravel()], axis=1))
        return nodes, np.concatenate(edges), 1 / (TICKS - 1)

    def fit(self, episodes: EpisodeBatch, rng: np.random.Generator, anchors: ArrayLike | None = None) -> PracticeGraph:
        """Count the most recent episodes; see `LearnedMetric.fit`. Anchors are not used."""
        as_rng(rng)
        dim = check_instance(EpisodeBatch, episodes, "episodes").contexts.shape[1]
        if not len(episodes):
            return PracticeGraph(self, np.ones(len(self.lattice[0])))
        if dim != self.space.dim:
            raise InvalidInput(f"expected episodes in contexts of dimension {self.space.dim}, got dimension {dim}")
        latest = episodes[-self.memory :][::-1]
        won = latest.scores(self.score) > self.threshold
        known = ~np.isnan(latest.achieved).any(axis=1)
        places = np.stack([latest.contexts, np.where(known[:, None], latest.achieved, latest.contexts)], axis=1)
        counted = np.stack([~won, won | known], axis=1)
        wins = np.broadcast_to([False, True], counted.shape)
        rates = self._rates(places[counted], wins[counted])
        made = PracticeGraph(self, rates, MARGINK)
        recent = latest[:3000]
        made.mastery = self._mastery(recent.contexts, recent.scores(self.score) > self.threshold)
        seen = made.mastery >= 0.5
        made.recost(np.where(seen, 1.0, UNKNOWN))
        return made

    def _mastery(self, contexts, won):
        tries, wins = self._counts(contexts, won, MB, 16, MRECENT)
        return wins / (tries + MPRIOR)

    def _rates(self, contexts, won):
        tries, wins = self._counts(contexts, won, BANDWIDTH, 2 ** (self.space.dim + 1), RECENT)
        return np.asarray((wins + self.patience) / (tries + self.patience))

    def _counts(self, contexts: FloatArray, won: NDArray[np.bool_], bandwidth, neighbours, recent_mass) -> FloatArray:
        """p at each node (n,), from contexts (m, d) and whether each was a success (m,), the latest first."""
        from scipy.spatial import cKDTree

        nodes, _, step = self.lattice
        gaps, near = cKDTree(nodes).query(self.space.to_unit(contexts), neighbours)
        mass = np.exp(-0.5 * (gaps / (bandwidth * step)) ** 2)
        order = np.argsort(near.ravel(), kind="stable")  # by node, the latest episode first
        node, mass, won = near.ravel()[order], mass.ravel()[order], np.repeat(won, near.shape[1])[order]
        before = np.cumsum(mass) - mass
        since = before - before[np.searchsorted(node, node)]  # the mass at the same node that came later
        mass = mass * np.exp(-since / recent_mass)
        return tuple(np.bincount(node, weights, len(nodes)) for weights in (mass, mass * won))


class PracticeGraph(Finite):
    """The lattice of a `Practice` metric, with edges that are long where practice was in vain.

    Args:
        metric: The metric that was fitted.
        rates: p at each node (n,).
    """

    def recost(self, factor):
        nodes, pairs, _ = self.metric.lattice
        self.costs = np.maximum(1.0, ENOUGH / self.rates) ** POWER * factor
        i, j = pairs.T
        lengths = np.linalg.norm(nodes[i] - nodes[j], axis=1) * (self.costs[i] + self.costs[j]) / 2
        self.edges = undirected(i, j, lengths, len(nodes))

    def plan(self, points):
        """New ways from source to target for particles with points (k+1, n, d), {i: way}, blocked."""
        return self.detours(points, np.zeros(points.shape[1], dtype=int))

    def frontier(self, points, threshold):
        good = self.mastery[self.index(points.reshape(-1, points.shape[-1]))].reshape(points.shape[:2]) >= threshold
        good[0] = True
        return np.where(good.all(axis=0), len(points) - 1, np.argmin(good, axis=0))

    def __init__(self, metric: Practice, rates: FloatArray, k=0) -> None:
        self.metric, self.rates = metric, rates
        nodes, pairs, _ = metric.lattice
        super().__init__(metric.space.low + nodes * (metric.space.high - metric.space.low))
        self.costs = np.maximum(1.0, ENOUGH / rates) ** POWER
        i, j = pairs.T
        lengths = np.linalg.norm(nodes[i] - nodes[j], axis=1) * (self.costs[i] + self.costs[j]) / 2
        self.edges = undirected(i, j, lengths, len(nodes))

    def returns(self, contexts: FloatArray) -> FloatArray:
        """The fraction of successes p (n,) at the nodes next to contexts (n, d)."""
        return np.asarray(self.rates[self.index(contexts)])

    def hop_lengths(self, points: FloatArray) -> FloatArray:
        """The lengths (k, n) under this metric of the straight hops between positions (k + 1, n, d)."""
        places = [points[:-1] + t * (points[1:] - points[:-1]) for t in (np.arange(SAMPLES) + 0.5) / SAMPLES]
        flat = np.stack(places).reshape(-1, points.shape[-1])
        costs = self.costs[self.index(flat)].reshape(SAMPLES, len(points) - 1, -1).mean(axis=0)
        sides = np.diff(self.metric.space.to_unit(points.reshape(-1, points.shape[-1])).reshape(points.shape), axis=0)
        return np.asarray(np.linalg.norm(sides, axis=2) * costs)

    def detours(self, points: FloatArray, knots: IndexArray) -> tuple[dict[int, FloatArray], float]:
        """New ways for particles whose own way has become too long.

        Args:
            points: The positions (k + 1, n, d) of n particles along their ways.
            knots: Where each of them is (n,).

        Returns:
            The contexts (m, d) of the new way of each particle that gets one, from where it is to the end of its way;
            and the fraction of particles for which all ways that are left lead through contexts practised in vain.
        """
        from scipy.sparse.csgraph import dijkstra

        particles = np.arange(points.shape[1])
        here, ends = points[knots, particles], points[-1]
        roots, rows = np.unique(self.index(ends), return_inverse=True)
        distances, before = dijkstra(self.edges, directed=False, indices=roots, return_predecessors=True)
        start = self.index(here)
        left = np.where(np.arange(len(points) - 1)[:, None] >= knots, self.hop_lengths(points), 0.0).sum(axis=0)
        late = left > MARGIN * distances[rows, start] + self.metric.lattice[2]
        ways, blocked = {}, 0
        for k in particles:
            nodes = [start[k]]
            while before[rows[k], nodes[-1]] >= 0:
                nodes.append(before[rows[k], nodes[-1]])
            blocked += bool((self.rates[nodes] < VAIN).any())
            if late[k]:
                ways[int(k)] = np.concatenate([here[k : k + 1], self.support[nodes[1:-1]], ends[k : k + 1]])
        return ways, blocked / len(particles)
