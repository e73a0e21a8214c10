"""Fixed-support barycenters against the linear program and against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import geodesic as gd
from geodesic.metrics import Graph

few = settings(max_examples=8, deadline=None, derandomize=True)


def problem(seed: int, n: int) -> tuple[Graph, gd.Particles, gd.Particles]:
    rng = np.random.default_rng(seed)
    graph = Graph.knn(rng.uniform(size=(n, 2)), 2)
    ends = (gd.Particles.categorical(rng.dirichlet(np.full(n, 0.5)), graph.support) for _ in range(2))
    return graph, *ends


def objective(z: gd.Particles, a: gd.Particles, b: gd.Particles, t: float, graph: Graph) -> float:
    return (1 - t) * gd.wasserstein(a, z, graph) ** 2 + t * gd.wasserstein(z, b, graph) ** 2


def linear_program(a: gd.Particles, b: gd.Particles, t: float, graph: Graph) -> float:
    """min over plans P (a to z) and Q (z to b) of (1 - t) <C, P> + t <C, Q>."""
    cost, n = graph.distances**2, len(a)
    one, eye = np.ones((1, n)), np.eye(n)
    zero = np.zeros((n, n * n))
    rows = np.block([[np.kron(eye, one), zero], [zero, np.kron(one, eye)], [np.kron(one, eye), -np.kron(eye, one)]])
    right = np.concatenate([a.weights, b.weights, np.zeros(n)])
    return linprog(np.concatenate([(1 - t) * cost.ravel(), t * cost.ravel()]), A_eq=rows, b_eq=right).fun


@few
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.99))
def test_exact_attains_the_linear_programs_objective(seed, t):
    graph, a, b = problem(seed, 6)
    z = gd.barycenter(a, b, t, graph)
    assert objective(z, a, b, t, graph) == pytest.approx(linear_program(a, b, t, graph), abs=1e-8)


@pytest.mark.parametrize("method", ["exact", "sinkhorn"])
def test_ends_are_exact(method):
    graph, a, b = problem(0, 8)
    assert gd.barycenter(a, b, 0, graph, method) == a
    assert gd.barycenter(a, b, 1, graph, method) == b


@few
@given(st.integers(0, 2**32 - 1))
def test_sinkhorn_is_finite_at_every_entropy_and_converges_to_exact(seed):
    graph, a, b = problem(seed, 10)
    best = objective(gd.barycenter(a, b, 0.4, graph), a, b, 0.4, graph)
    gaps = []
    for reg in (1.0, 1e-2, 1e-4):
        z = gd.barycenter(a, b, 0.4, graph, "sinkhorn", reg=reg)
        assert np.isfinite(z.weights).all()
        assert z.weights.sum() == pytest.approx(1)
        gaps.append(objective(z, a, b, 0.4, graph) - best)
    scale = graph.distances.max() ** 2
    assert min(gaps) >= -1e-9
    assert gaps[-1] <= gaps[0] + 1e-9
    assert gaps[-1] <= 1e-3 * scale


def test_sinkhorn_equals_pots_debiased_barycenter():
    import ot

    points = np.linspace(0, 1, 20)[:, None]
    line = Graph(points, [[i, i + 1] for i in range(19)])
    ends = [np.exp(-((points[:, 0] - c) ** 2) / 0.01) for c in (0.2, 0.7)]
    a, b = (gd.Particles.categorical(weights, points) for weights in ends)
    reference = ot.bregman.barycenter_debiased(
        np.stack([a.weights, b.weights], axis=1),
        line.distances**2,
        0.02,
        weights=np.array([0.7, 0.3]),
        numItermax=5000,
        stopThr=1e-12,
        warn=False,
    )
    ours = gd.barycenter(a, b, 0.3, line, "sinkhorn", reg=0.02)
    np.testing.assert_allclose(ours.weights, reference / reference.sum(), atol=1e-3)
