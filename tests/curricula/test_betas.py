"""Beta distributions: divergences against integrals, exact gradients, and steps whose answer is known."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from geodesic.curricula.betas import SAFER, Step, to_uniform

BOUNDS = (1.0, 110.0)
OLD = np.array([[3.0, 8.0], [5.0, 2.0]])


def drawn(n=400, seed=0):
    return np.random.default_rng(seed).beta(*OLD, (n, 2))


def by_differences(function, params, offset=1e-6):
    gradient = np.zeros_like(params)
    for place in np.ndindex(params.shape):
        moved = [params.copy(), params.copy()]
        moved[0][place] += offset
        moved[1][place] -= offset
        gradient[place] = (function(moved[0])[0] - function(moved[1])[0]) / 2 / offset
    return gradient


def kl(p, q):
    return quad(lambda u: p.pdf(u) * (p.logpdf(u) - q.logpdf(u)), 0, 1)[0]


def test_divergences_are_their_integrals():
    new = np.array([[2.0, 6.0], [4.0, 3.0]])
    old, other = ([beta(a, b) for a, b in params.T] for params in (OLD, new))
    assert to_uniform(OLD)[0] == pytest.approx(sum(kl(each, beta(1, 1)) for each in old), rel=1e-6)
    assert to_uniform(np.ones((2, 3)))[0] == 0.0
    step = Step(OLD, drawn(), np.ones(400))
    assert step.distance(new)[0] == pytest.approx(sum(map(kl, old, other)), rel=1e-6)
    assert step.distance(OLD)[0] == pytest.approx(0.0, abs=1e-12)


def test_the_rate_is_importance_weighted():
    points = drawn(200_000)
    step = Step(OLD, points, (points[:, 0] < 0.4).astype(float))
    assert step.rate(OLD)[0] == (points[:, 0] < 0.4).mean()
    new = np.array([[2.5, 8.0], [5.0, 2.0]])
    assert step.rate(new)[0] == pytest.approx(beta(2.5, 5.0).cdf(0.4), abs=0.01)


def test_gradients_are_exact():
    points = drawn()
    step = Step(OLD, points, (points[:, 0] < 0.4).astype(float))
    params = np.array([[2.0, 6.0], [4.0, 3.0]])
    for function in (to_uniform, step.rate, step.distance):
        np.testing.assert_allclose(function(params)[1], by_differences(function, params), rtol=1e-5, atol=1e-8)


def test_where_all_succeed_the_step_ends_at_the_trust_region():
    step = Step(OLD, drawn(), np.ones(400))
    wider, event = step.solve(0.5, 0.1, BOUNDS)
    assert event == "wider"
    assert step.distance(wider)[0] == pytest.approx(0.1, abs=1e-4)
    assert to_uniform(wider)[0] < to_uniform(OLD)[0] - 0.2
    assert Step(np.ones((2, 2)), drawn(), np.ones(400)).solve(0.5, 0.1, BOUNDS)[0].tolist() == [[1.0, 1.0]] * 2


def test_the_success_rate_is_kept():
    points = drawn()
    step = Step(OLD, points, (points[:, 0] < 0.4).astype(float))
    assert step.rate(OLD)[0] > 0.5
    wider, event = step.solve(step.rate(OLD)[0] - 0.02, 0.1, BOUNDS)
    assert event == "wider"
    assert step.rate(wider)[0] == pytest.approx(step.rate(OLD)[0] - 0.02, abs=1e-4)
    assert step.distance(wider)[0] <= 0.1 + 1e-4


def test_too_low_a_rate_is_raised_first():
    points = drawn()
    step = Step(OLD, points, (points[:, 0] < 0.3).astype(float))
    rate = step.rate(OLD)[0]
    safer, event = step.solve(0.9, 0.1, BOUNDS)
    assert event == SAFER
    assert step.rate(safer)[0] > rate + 0.1
    assert step.distance(safer)[0] == pytest.approx(0.1, abs=1e-4)
    enough, event = step.solve(rate + 0.05, 0.1, BOUNDS)
    assert event == "wider"
    assert step.rate(enough)[0] == pytest.approx(rate + 0.05, abs=1e-4)
    assert to_uniform(enough)[0] < to_uniform(safer)[0]


def test_parameters_stay_in_their_bounds():
    sharp = np.array([[100.0], [100.0]])
    points = np.random.default_rng(0).beta(*sharp, (200, 1))
    found = Step(sharp, points, np.zeros(200)).solve(0.5, 0.1, BOUNDS)[0]
    assert found is None or ((found >= 1) & (found <= 110)).all()
    pulled = Step(sharp, points, (abs(points[:, 0] - 0.5) < 0.01).astype(float)).solve(0.99, 5.0, BOUNDS)[0]
    assert pulled.max() <= 110
