"""The pi-contextual-distance of tabular contextual MDPs, exact (the paper's Algorithm 3)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import FloatArray, as_a, as_array, as_nonnegative, as_points, as_share
from geodesic.coupling import Couplings
from geodesic.errors import InvalidInput, shown
from geodesic.metrics.fixed_point import IntArray, Table, square, state_distance, take, upper
from geodesic.metrics.graph import Finite, Matrix

__all__ = ["IntArray", "TabularCMDP", "contextual_distance", "state_distance"]


@dataclass(frozen=True, eq=False)
class TabularCMDP:
    """A contextual MDP by tables, on n states x = (s, c), A actions and C contexts.

    rewards (n, A); transitions (n, A) of next states, or (n, A, n) of probabilities; initial (C,) of start states, or
    (C, n) of probabilities; contexts (C, d), the indices if not given. The end of an episode is a state that leads to
    itself with reward 0. Where contexts share their dynamics, as in a maze whose context is the start cell, x = s.
    """

    rewards: FloatArray
    transitions: Table
    initial: Table
    contexts: FloatArray

    def __init__(
        self, rewards: ArrayLike, transitions: ArrayLike, initial: ArrayLike, contexts: ArrayLike | None = None
    ) -> None:
        table = as_points(rewards, "rewards")
        n, actions = table.shape
        steps = _kernel(transitions, (n, actions), n, "transitions")
        starts = _kernel(initial, np.atleast_1d(as_array(initial, "initial")).shape[:1], n, "initial")
        support = np.arange(len(starts), dtype=np.float64)[:, None] if contexts is None else contexts
        for name, value in (("rewards", table), ("transitions", steps), ("initial", starts)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "contexts", as_points(support, "contexts"))
        if len(self.contexts) != len(starts):
            raise InvalidInput(f"expected one context for each of {len(starts)} starts, got {len(self.contexts)}")

    @property
    def deterministic(self) -> bool:
        return self.transitions.ndim == 2

    def under(self, policy: ArrayLike) -> tuple[FloatArray, Table]:
        """Rewards (n,) and the chain, next states (n,) or probabilities (n, n), that a policy makes of the CMDP.

        The policy is one action per state (n,), or probabilities (n, A).
        """
        n, actions = self.rewards.shape
        choice = _kernel(policy, (n,), actions, "policy")
        rows = np.arange(n)
        if choice.ndim == 1:
            return self.rewards[rows, choice], self.transitions[rows, choice]
        steps = _spread(self.transitions, n) if self.deterministic else self.transitions
        return (choice * self.rewards).sum(axis=1), np.einsum("xa,xay->xy", choice, steps)


def contextual_distance(
    cmdp: TabularCMDP,
    policy: ArrayLike,
    gamma: float,
    strict: float = 0.0,
    graph: Finite | ArrayLike | None = None,
) -> Matrix:
    """The exact distance between contexts under a policy, as a Matrix on the contexts.

    d(x, y) = |R_x - R_y| + gamma W_d(P_x, P_y) on states, then
    d(c, c') = W_d(p0(c), p0(c')) + strict * graph(c, c') on contexts.

    Differs from Algorithm 3: the diagonal is zero, since with an offset staying costs more than moving to a twin at
    distance 0; twins are told apart by `strict` times a strictly positive distance (n, n) instead. The paper's
    expectation over independent starts gives d(c, c) > 0; W_d does not. Nor is the largest distance scaled to 1.

    gamma = 1 is allowed where the sum converges, as under a policy that ends every episode; on unit step costs it gives
    the difference of hitting times, which discounting compresses far from the goal.
    """
    gamma = as_share(gamma, "gamma")
    rewards, chain = as_a(TabularCMDP, cmdp, "cmdp").under(policy)
    if _sparse_goal(rewards, chain):
        warnings.warn(
            "the reward is zero off the goal: every path between contexts then runs through the goal; try a step cost",
            UserWarning,
            stacklevel=2,
        )
    states = state_distance(rewards, chain, gamma)
    distances = _wasserstein_pairs(cmdp.initial, states) if cmdp.initial.ndim == 2 else take(states, cmdp.initial)
    return Matrix(distances + _strictness(strict, graph, cmdp.contexts), cmdp.contexts)


def _wasserstein_pairs(starts: FloatArray, distances: FloatArray) -> FloatArray:
    """W_d between every two rows of probabilities (C, n), shape (C, C)."""
    couplings = Couplings(starts, distances[0])
    couplings.improve(distances)
    return square(couplings.means @ upper(distances), len(starts))


def _spread(index: IntArray, n: int) -> FloatArray:
    """Indices as probabilities, one more axis of size n."""
    return np.asarray(index[..., None] == np.arange(n), dtype=np.float64)


def _kernel(values: ArrayLike, shape: tuple[int, ...], n: int, name: str) -> Table:
    """A table of indices below n, of this shape, or of probabilities with one more axis of size n."""
    as_array(values, name)
    table = np.array(values)
    if not table.size:
        raise InvalidInput(f"expected {name} for at least one state, got shape {table.shape}")
    if table.shape == shape and np.issubdtype(table.dtype, np.integer):
        if table.min() < 0 or table.max() >= n:
            raise InvalidInput(f"expected {name} between 0 and {n - 1}, got {table.min()} to {table.max()}")
        return table.astype(np.intp)
    if table.shape != (*shape, n):
        raise InvalidInput(
            f"expected {name} as whole numbers {shape} or probabilities {(*shape, n)}, got {table.shape}"
        )
    table = as_array(table, name)
    if not np.isfinite(table).all() or (table < 0).any() or not np.allclose(table.sum(axis=-1), 1, rtol=0, atol=1e-8):
        raise InvalidInput(f"expected {name} to be probabilities that sum to 1 over the last axis")
    return np.asarray(table / table.sum(axis=-1, keepdims=True))


def _sparse_goal(rewards: FloatArray, chain: Table) -> bool:
    """Whether reward comes only in an absorbing state or on the step into one, though other states exist."""
    n = len(rewards)
    if chain.ndim == 1:
        ends = chain == np.arange(n)
        enters = ends[chain]
    else:
        ends = np.diagonal(chain) == 1
        enters = chain[:, ends].sum(axis=1) > 0
    return bool(ends.any() and (rewards != 0).any() and (~enters).any() and (rewards[~enters] == 0).all())


def _strictness(strict: float, graph: Finite | ArrayLike | None, contexts: FloatArray) -> FloatArray:
    """strict * graph distances (C, C), which must be positive between different contexts."""
    n = len(contexts)
    strict = as_nonnegative(strict, "strict")
    if (strict > 0) != (graph is not None):
        raise InvalidInput(f"expected strict > 0 and a graph together, got strict {strict} and graph {shown(graph)}")
    if graph is None:
        return np.zeros((n, n))
    distances = graph.pairwise(contexts, contexts) if isinstance(graph, Finite) else Matrix(graph, contexts).distances
    if n > 1 and distances[~np.eye(n, dtype=bool)].min() <= 0:
        raise InvalidInput("expected a graph with positive distances between different contexts, got a zero")
    return np.asarray(strict * distances)
