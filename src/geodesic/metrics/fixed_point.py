"""The fixed point d(x, y) = |R_x - R_y| + gamma W_d(P_x, P_y) of a Markov chain with rewards, exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.coupling import Couplings
from geodesic.errors import InvalidInput, SolverFailed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

IntArray = NDArray[np.intp]
Table = NDArray[Any]  # whole numbers or probabilities
TOLERANCE = 1e-10
EPS = float(np.finfo(np.float64).eps)
ROUNDS = 200
DIRECT = 5000  # pairs up to which a sparse factorisation is quick, whatever its fill
DEPTH = 12  # sweeps that one extrapolation combines


def state_distance(rewards: FloatArray, chain: Table, gamma: float) -> FloatArray:
    """The fixed point (n, n), for a chain of next states (n,) or of probabilities (n, n)."""
    gaps = np.abs(rewards[:, None] - rewards)
    if chain.ndim == 1:
        return _deterministic(gaps, chain, gamma)
    if gamma == 1:
        raise InvalidInput("expected gamma < 1 for stochastic transitions or policies, got 1")
    return _stochastic(rewards, gaps, chain, gamma)


def _deterministic(gaps: FloatArray, next_state: IntArray, gamma: float) -> FloatArray:
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
    """Policy iteration on couplings: the best coupling of every pair, then the distance that these couplings give.

    It starts from |V - V'|, a lower bound that is nearly tight and whose couplings are sorted by V, and ends where no
    coupling improves, at the only fixed point. Rounds on the way need no exact evaluation: it stops at a hundredth of
    the residual that it found.
    """
    n = len(rewards)
    values = np.asarray(np.linalg.solve(np.eye(n) - gamma * chain, rewards), dtype=np.float64)
    distances, gap = upper(np.abs(values[:, None] - values)), upper(gaps)
    couplings, excess = Couplings(chain, values), np.inf
    means = couplings.means  # changes as couplings improve
    for _ in range(ROUNDS):
        residual = _largest(gap + gamma * (means @ distances) - distances)
        enough = _enough(gap, means, gamma, distances)
        if residual + gamma * excess <= enough:
            return square(distances, n)
        distances = _evaluate(gap, means, gamma, distances, max(residual / 100, enough / 4))
        excess = couplings.improve(square(distances, n))
    raise SolverFailed(f"expected a residual of {enough:g} in {ROUNDS} rounds, got {residual:g}")


def _enough(gap: FloatArray, means: csr_array, gamma: float, distances: FloatArray) -> float:
    """The Bellman residual to reach; the error of the distance is at most 1 / (1 - gamma) times as large.

    1e-10 of the largest reward gap in the distance, or what rounding leaves where that is more: a residual sums one
    product per atom of a coupling, each with an error of eps times the largest distance, up to gap / (1 - gamma).
    """
    atoms = int(np.diff(means.indptr).max(initial=1))
    return max(TOLERANCE * (1 - gamma) * _largest(gap), 8 * atoms * EPS * _largest(distances))


def _evaluate(gap: FloatArray, means: csr_array, gamma: float, start: FloatArray, enough: float) -> FloatArray:
    """The distances d = gap + gamma C d of fixed couplings C, one row per pair of states, to a residual of `enough`.

    A few pairs are solved for. With more, sweeps d <- gap + gamma C d are extrapolated: residuals of successive sweeps
    are r, gamma C r, (gamma C)^2 r ..., and the combination of them with the least residual is taken (the same as
    restarted GMRES), or the plain sweeps where these leave less. So no cycle contracts by less than gamma^DEPTH.
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
        if left <= enough or left >= best:  # sweeps contract: no progress is rounding
            return distances
        best = left
        for k in range(DEPTH):
            powers[k + 1] = gamma * (means @ powers[k])
        distances = distances + _extrapolated(powers)


def _extrapolated(powers: FloatArray) -> FloatArray:
    """The step sum_k a_k (gamma C)^k r that leaves the least residual, given (gamma C)^k r for k = 0 .. DEPTH."""
    changes = powers[:-1] - powers[1:]
    norms = np.maximum(np.linalg.norm(changes, axis=1), 1e-300)
    gram = (changes @ changes.T) / norms[:, None] / norms
    shares = np.linalg.lstsq(gram, (changes @ powers[0]) / norms, rcond=1e-14)[0] / norms
    if _largest(powers[0] - shares @ changes) < _largest(powers[-1]):
        return np.asarray(shares @ powers[:-1])
    return np.asarray(powers[:-1].sum(axis=0))


def _largest(values: FloatArray) -> float:
    return float(np.abs(values).max(initial=0.0))


def upper(matrix: FloatArray) -> FloatArray:
    """The upper triangle (n (n - 1) / 2,) of a symmetric matrix with a zero diagonal."""
    return np.asarray(matrix[np.triu_indices(len(matrix), 1)])


def square(triangle: FloatArray, n: int) -> FloatArray:
    """The symmetric matrix (n, n) with this upper triangle and a zero diagonal."""
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n, 1)] = triangle
    return matrix + matrix.T


def take(distances: FloatArray, index: IntArray) -> FloatArray:
    return np.take(np.take(distances, index, axis=0), index, axis=1)
