"""The pi-contextual-distance of tabular contextual MDPs, exact (the paper's Algorithm 3)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import FloatArray, as_array, as_fraction, as_nonnegative, as_points, check_instance
from geodesic.coupling.pairwise import Couplings
from geodesic.coupling.plans import IndexArray
from geodesic.errors import InvalidInput, SolverFailed, short_repr
from geodesic.metrics.graph import Finite, Matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Table = NDArray[Any]  # integers or probabilities
TOLERANCE = 1e-10
ROUNDS = 200
DIRECT = 5000  # pairs up to which a sparse factorisation is fast, whatever its fill-in
DEPTH = 12  # sweeps that one extrapolation combines


@dataclass(frozen=True, eq=False)
class TabularCMDP:
    """A contextual MDP given by tables on n states x = (s, c), A actions and C contexts.

    The end of an episode is a state that leads to itself with reward 0. Where contexts share their dynamics, as in a
    maze whose context is the start cell, x = s.

    Args:
        rewards: Rewards (n, A).
        transitions: Next states (n, A), or probabilities (n, A, n).
        initial: Start states (C,), or probabilities (C, n).
        contexts: Contexts (C, d) (default: the indices).

    Raises:
        InvalidInput: If shapes do not match, an index is out of range, or probabilities do not sum to 1.
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
        support = as_points(np.arange(len(starts))[:, None] if contexts is None else contexts, "contexts")
        if len(support) != len(starts):
            raise InvalidInput(f"expected one context for each of {len(starts)} starts, got {len(support)}")
        vars(self).update(rewards=table, transitions=steps, initial=starts, contexts=support)  # the class is frozen

    @property
    def deterministic(self) -> bool:
        """Whether transitions are a table of next states."""
        return self.transitions.ndim == 2

    def under(self, policy: ArrayLike) -> tuple[FloatArray, Table]:
        """Reduce the CMDP to the Markov chain that a policy follows.

        Args:
            policy: One action per state (n,), or probabilities (n, A).

        Returns:
            The rewards (n,), and the chain: next states (n,) or probabilities (n, n).

        Raises:
            InvalidInput: If the policy is invalid.
        """
        n, actions = self.rewards.shape
        choice = _kernel(policy, (n,), actions, "policy")
        rows = np.arange(n)
        if choice.ndim == 1:
            return self.rewards[rows, choice], self.transitions[rows, choice]
        steps = np.eye(n)[self.transitions] if self.deterministic else self.transitions
        return (choice * self.rewards).sum(axis=1), np.einsum("xa,xay->xy", choice, steps)


def contextual_distance(
    cmdp: TabularCMDP, policy: ArrayLike, gamma: float, strict: float = 0.0, graph: Finite | ArrayLike | None = None
) -> Matrix:
    """Compute the exact pi-contextual-distance of a tabular contextual MDP.

        d(x, y) = |R_x - R_y| + gamma W_d(P_x, P_y)  on states, then
        d(c, c') = W_d(p0(c), p0(c')) + strict * graph(c, c')  on contexts.

    Differs from Algorithm 3: the diagonal is zero, since with an offset staying would cost more than moving to a twin
    at distance 0; `strict` times a positive distance separates twins instead. The paper's expectation over independent
    starts gives d(c, c) > 0; W_d does not. The largest distance is not scaled to 1: that changes no path.

    Args:
        cmdp: The tables.
        policy: One action per state (n,), or probabilities (n, A).
        gamma: The discount. 1 is allowed where the sum converges, as under a policy that ends every episode; on unit
            step costs it gives the difference of hitting times, which discounting compresses far from the goal.
        strict: The weight of `graph`; positive if there is one.
        graph: A strictly positive distance between contexts: a `Graph`, a `Matrix`, or an array (C, C).

    Returns:
        The distance, on the contexts of the CMDP.

    Raises:
        InvalidInput: If an argument is invalid, or gamma is 1 with stochastic transitions.
        SolverFailed: If the sum does not converge for gamma = 1.

    Example:
        A corridor of three cells with a cost of 1 per step, walked to the left:

        >>> from geodesic.metrics import TabularCMDP, contextual_distance
        >>> corridor = TabularCMDP(rewards=[[0.0], [-1.0], [-1.0]], transitions=[[0], [0], [1]], initial=[0, 1, 2])
        >>> contextual_distance(corridor, policy=[0, 0, 0], gamma=1.0).M
        array([[0., 1., 2.],
               [1., 0., 1.],
               [2., 1., 0.]])
    """
    gamma = as_fraction(gamma, "gamma")
    rewards, chain = check_instance(TabularCMDP, cmdp, "cmdp").under(policy)
    if _sparse_goal(rewards, chain):
        through = "the reward is zero off the goal, so every path between contexts runs through the goal"
        warnings.warn(f"{through}; try a step cost", UserWarning, stacklevel=2)
    states = state_distance(rewards, chain, gamma)
    distances = _wasserstein_pairs(cmdp.initial, states) if cmdp.initial.ndim == 2 else take(states, cmdp.initial)
    return Matrix(distances + _strictness(strict, graph, cmdp.contexts), cmdp.contexts)


def _wasserstein_pairs(starts: FloatArray, distances: FloatArray) -> FloatArray:
    """W_d between every two rows of probabilities (C, n), shape (C, C)."""
    from scipy.spatial.distance import squareform

    couplings = Couplings(starts, distances[0])
    couplings.improve(distances)
    return np.asarray(squareform(couplings.means @ squareform(distances, checks=False)))


def _kernel(values: ArrayLike, shape: tuple[int, ...], n: int, name: str) -> Table:
    """Validate a table of indices below n, or of probabilities with one more axis of size n."""
    as_array(values, name)
    table = np.array(values)
    if not table.size:
        raise InvalidInput(f"expected {name} for at least one state, got shape {table.shape}")
    if table.shape == shape and np.issubdtype(table.dtype, np.integer):
        if table.min() < 0 or table.max() >= n:
            raise InvalidInput(f"expected {name} between 0 and {n - 1}, got {table.min()} to {table.max()}")
        return table.astype(np.intp)
    if table.shape != (*shape, n):
        raise InvalidInput(f"expected {name} as integers {shape} or probabilities {(*shape, n)}, got {table.shape}")
    table = as_array(table, name)
    if not np.isfinite(table).all() or (table < 0).any() or not np.allclose(table.sum(axis=-1), 1, rtol=0, atol=1e-8):
        raise InvalidInput(f"expected {name} to be probabilities that sum to 1 over the last axis")
    return np.asarray(table / table.sum(axis=-1, keepdims=True))


def _sparse_goal(rewards: FloatArray, chain: Table) -> bool:
    """Whether all reward is in absorbing states or on steps into them, though other states exist."""
    n = len(rewards)
    if chain.ndim == 1:
        ends = chain == np.arange(n)
        enters = ends[chain]
    else:
        ends = np.diagonal(chain) == 1
        enters = chain[:, ends].sum(axis=1) > 0
    return bool(ends.any() and (rewards != 0).any() and (~enters).any() and (rewards[~enters] == 0).all())


def _strictness(strict: float, graph: Finite | ArrayLike | None, contexts: FloatArray) -> FloatArray:
    """The term strict * graph distances (C, C), which must be positive between different contexts."""
    n = len(contexts)
    strict = as_nonnegative(strict, "strict")
    if (strict > 0) != (graph is not None):
        got = f"strict {strict} and graph {short_repr(graph)}"
        raise InvalidInput(f"expected strict > 0 and a graph together, got {got}")
    if graph is None:
        return np.zeros((n, n))
    distances = graph.pairwise(contexts, contexts) if isinstance(graph, Finite) else Matrix(graph, contexts).distances
    if n > 1 and distances[~np.eye(n, dtype=bool)].min() <= 0:
        raise InvalidInput("expected a graph with positive distances between different contexts, got a zero")
    return np.asarray(strict * distances)


def state_distance(rewards: FloatArray, chain: Table, gamma: float) -> FloatArray:
    """Compute the fixed point d(x, y) = |R_x - R_y| + gamma W_d(P_x, P_y) of a Markov chain with rewards, exactly.

    Args:
        rewards: Rewards (n,).
        chain: Next states (n,), or probabilities (n, n).
        gamma: The discount; below 1 for probabilities.

    Returns:
        The distances (n, n).

    Raises:
        InvalidInput: If gamma is 1 for probabilities.
        SolverFailed: If the sum does not converge for gamma = 1.
    """
    gaps = np.abs(rewards[:, None] - rewards)
    if chain.ndim == 1:
        return _deterministic(gaps, chain, gamma)
    if gamma == 1:
        raise InvalidInput("expected gamma < 1 for stochastic transitions or policies, got 1")
    return _stochastic(rewards, gaps, chain, gamma)


def _deterministic(gaps: FloatArray, next_state: IndexArray, gamma: float) -> FloatArray:
    """d_2K = d_K + gamma^K d_K(f^K, f^K): the sum over 2^k steps takes k gathers instead of 2^k sweeps."""
    distances, discount = gaps, gamma
    for _ in range(64):
        rest = discount * take(distances, next_state)
        distances = distances + rest
        if rest.max() <= 1e-15 * distances.max():
            return distances
        next_state, discount = next_state[next_state], discount**2
    raise SolverFailed("expected every episode to end under the policy for gamma = 1, got a sum that does not converge")


def _stochastic(rewards: FloatArray, gaps: FloatArray, chain: FloatArray, gamma: float) -> FloatArray:
    """Policy iteration on couplings: find the best coupling of every pair, then the distance under these couplings.

    It starts from |V - V'|, a nearly tight lower bound whose couplings are sorted by V, and ends at the only fixed
    point, where no coupling improves. Evaluation is exact in the end only: each round stops at a hundredth of the
    residual that it starts from.
    """
    from scipy.spatial.distance import squareform

    values = np.asarray(np.linalg.solve(np.eye(len(rewards)) - gamma * chain, rewards), dtype=np.float64)
    distances, gap = (squareform(each, checks=False) for each in (np.abs(values[:, None] - values), gaps))
    couplings, excess = Couplings(chain, values), np.inf
    means = couplings.means  # a view: `couplings.improve` changes it in place
    for _ in range(ROUNDS):
        residual = _largest(gap + gamma * (means @ distances) - distances)
        enough = _enough(gap, means, gamma, distances)
        if residual + gamma * excess <= enough:
            return np.asarray(squareform(distances))
        distances = _evaluate(gap, means, gamma, distances, max(residual / 100, enough / 4))
        excess = couplings.improve(squareform(distances))
    raise SolverFailed(f"expected a residual of {enough:g} in {ROUNDS} rounds, got {residual:g}")


def _enough(gap: FloatArray, means: csr_array, gamma: float, distances: FloatArray) -> float:
    """The Bellman residual to reach; the error of the distance is at most 1 / (1 - gamma) times as large.

    It is the larger of 1e-10 of the largest reward gap and the rounding error: a residual sums one product per atom of
    a coupling, each with an error of eps times the largest distance, up to gap / (1 - gamma).
    """
    atoms = int(np.diff(means.indptr).max(initial=1))
    return max(TOLERANCE * (1 - gamma) * _largest(gap), 8 * atoms * np.finfo(float).eps * _largest(distances))


def _evaluate(gap: FloatArray, means: csr_array, gamma: float, start: FloatArray, enough: float) -> FloatArray:
    """The distances d = gap + gamma C d under fixed couplings C, one row per pair of states, to a residual of `enough`.

    Few pairs are solved directly. With more, sweeps d <- gap + gamma C d are extrapolated: residuals of successive
    sweeps are r, gamma C r, (gamma C)^2 r ..., and the step is their combination of least residual (as in restarted
    GMRES), or the plain sweeps where these leave less. So every cycle contracts at least by gamma^DEPTH.
    """
    if len(gap) <= DIRECT:
        from scipy.sparse import eye_array
        from scipy.sparse.linalg import spsolve

        start = np.asarray(spsolve(eye_array(len(gap), format="csc") - gamma * means.tocsc(), gap)).reshape(-1)
    distances, best = start, np.inf
    powers = np.empty((DEPTH + 1, len(gap)))
    while True:
        powers[0] = gap + gamma * (means @ distances) - distances
        left = _largest(powers[0])
        if left <= enough or left >= best:  # sweeps contract, so a residual that does not fall is rounding
            return distances
        best = left
        for k in range(DEPTH):
            powers[k + 1] = gamma * (means @ powers[k])
        distances = distances + _extrapolated(powers)


def _extrapolated(powers: FloatArray) -> FloatArray:
    """The step sum_k a_k (gamma C)^k r of least residual, given (gamma C)^k r for k = 0 .. DEPTH."""
    changes = powers[:-1] - powers[1:]
    norms = np.maximum(np.linalg.norm(changes, axis=1), 1e-300)
    gram = (changes @ changes.T) / norms[:, None] / norms
    fractions = np.linalg.lstsq(gram, (changes @ powers[0]) / norms, rcond=1e-14)[0] / norms
    if _largest(powers[0] - fractions @ changes) < _largest(powers[-1]):
        return np.asarray(fractions @ powers[:-1])
    return np.asarray(powers[:-1].sum(axis=0))


def _largest(values: FloatArray) -> float:
    return float(np.abs(values).max(initial=0.0))


def take(distances: FloatArray, index: IndexArray) -> FloatArray:
    """Select the distances (k, k) between the points of an index (k,)."""
    return np.take(np.take(distances, index, axis=0), index, axis=1)
