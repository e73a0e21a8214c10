"""Plans of all pairs, updated from one distance to the next, against POT's plan of each pair."""

import numpy as np
import ot
import pytest

from geodesic.coupling.pairwise import Couplings, Trees


def distributions(rng: np.random.Generator, even: bool, m: int = 12, n: int = 20) -> np.ndarray:
    """Rows with supports of 1 to 14 points, uneven or even weights; most pairs have frequent sizes."""
    rows = np.zeros((m, n))
    for row, size in zip(rows, [1, 3, 3, 3, 3, 3, 3, 6, 6, 6, 6, 14]):
        row[rng.choice(n, size, replace=False)] = 1 / size if even else rng.dirichlet(np.ones(size))
    return rows


def costs(rng: np.random.Generator, integer: bool) -> np.ndarray:
    points = rng.normal(size=(20, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    return np.round(2 * distances) if integer else distances


def means(couplings: Couplings, distances: np.ndarray) -> np.ndarray:
    return couplings.means @ distances[np.triu_indices(len(distances), 1)]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("unit", [1.0, 1e-100, 1e100])
def test_every_plan_is_optimal_for_each_of_a_series_of_distances(tied, unit):
    """Even weights and integer distances make ties between plans, and pivots that move no mass."""
    rng = np.random.default_rng(0)
    rows, distances = distributions(rng, tied), costs(rng, tied)
    couplings = Couplings(rows, distances[0])
    for size in (1.0, 0.3, 0.01, 1e-4, 1e-4):
        assert couplings.improve(unit * distances) <= 1e-13 * unit * distances.max()
        best = [ot.emd2(rows[x], rows[y], distances) for x, y in zip(*np.triu_indices(12, 1))]
        np.testing.assert_allclose(means(couplings, distances), best, atol=1e-12)
        distances = distances + size * costs(rng, tied)


def test_the_first_plans_are_optimal_on_a_line():
    rng = np.random.default_rng(1)
    rows, values = distributions(rng, even=False), rng.normal(size=20)
    line = np.abs(values[:, None] - values)
    best = [ot.emd2(rows[x], rows[y], line) for x, y in zip(*np.triu_indices(12, 1))]
    np.testing.assert_allclose(means(Couplings(rows, values), line), best, atol=1e-14)


def test_only_plans_that_can_change_are_solved(monkeypatch):
    rng = np.random.default_rng(2)
    rows, distances = distributions(rng, even=False), costs(rng, integer=False)
    couplings, solved, improve = Couplings(rows, distances[0]), [], Trees.improve

    def counted(trees: Trees, costs: np.ndarray, which: np.ndarray):
        solved.append(len(which))
        return improve(trees, costs, which)

    monkeypatch.setattr(Trees, "improve", counted)
    couplings.improve(distances)
    assert sum(solved) == 15 + 24  # pairs of 3 and 3, of 3 and 6
    solved.clear()
    couplings.improve(distances + 1e-6 * (1 - np.eye(20)))
    assert sum(solved) < 5
