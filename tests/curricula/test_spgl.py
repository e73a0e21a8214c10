"""SPGL: its step against the optimum that SLSQP finds, closed forms, and where a quadratic value is not enough."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula.gaussians import Gaussian, Step, unpack
from geodesic.curricula.spgl import SPGL, Quadratic

PLANE = gd.ContextSpace([-4.0, 0.5], [4.0, 8.0])
POINT_MASS = {
    "source_moments": (np.array([0.0, 4.25]), np.diag([2.0, 1.875]) ** 2),
    "target_moments": (np.array([2.5, 0.5]), np.diag([4e-3, 3.75e-3]) ** 2),
    "std_lower_bound": (0.2, 0.1875),
    "kl_threshold": 8000.0,
    "zeta": 1.1,
}


def curriculum(**options):
    points = gd.Particles.uniform(PLANE.low, PLANE.high, 10, np.random.default_rng(0))
    return SPGL(points, points, PLANE, **{**POINT_MASS, "steps_per_iteration": 100, **options})


def feed(state, rng, value, n=40):
    contexts = state.distribution.sample(rng, n)
    return gd.EpisodeBatch(contexts, value(contexts), np.full(n, 5), np.full(n, state.stage))


def wavy(contexts):
    return np.abs(np.sin(contexts.sum(axis=1)))


def test_the_value_is_the_expectation_of_the_fitted_quadratic():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2, 4000))
    truth = 3 + points[0] - 2 * points[1] + points[0] * points[1] - 0.5 * points[1] ** 2
    value = Quadratic(points, truth)
    np.testing.assert_allclose(value.slope, [1.0, -2.0], atol=0.01)
    np.testing.assert_allclose(value.curvature, [[0.0, 1.0], [1.0, -1.0]], atol=0.01)
    u, a = np.array([0.5, -1.0]), np.array([[0.7, 0.0], [0.3, 1.2]])
    there = u[:, None] + a @ rng.normal(size=(2, 400_000))
    expected = 3 + there[0] - 2 * there[1] + there[0] * there[1] - 0.5 * there[1] ** 2
    assert value(u, a)[0] == pytest.approx(expected.mean(), abs=0.05)


def test_the_gradients_of_the_value_are_its_slopes():
    rng = np.random.default_rng(1)
    value = Quadratic(rng.normal(size=(3, 50)), rng.normal(size=50))
    u, a = rng.normal(size=3), np.tril(rng.normal(size=(3, 3))) + 3 * np.eye(3)
    _, by_u, by_a = value(u, a)
    tiny = 1e-6
    for k in range(3):
        step = tiny * np.eye(3)[k]
        assert (value(u + step, a)[0] - value(u - step, a)[0]) / (2 * tiny) == pytest.approx(by_u[k], abs=1e-6)
        for j in range(3):
            step = tiny * np.outer(np.eye(3)[k], np.eye(3)[j])
            assert (value(u, a + step)[0] - value(u, a - step)[0]) / (2 * tiny) == pytest.approx(by_a[k, j], abs=1e-6)


@pytest.mark.parametrize("options", [{}, {"alpha_offset": 9}, {"max_kl": 0.3}, {"zeta": 0.1}, {"max_kl": 5.0}])
@pytest.mark.parametrize("seed", range(3))
def test_the_step_is_the_optimum_that_slsqp_finds(options, seed):
    rng = np.random.default_rng(seed)
    method = curriculum(std_lower_bound=None, **options)
    state = method.init(rng)
    closed = method.step(state.absorb(feed(state, rng, wavy)))
    numeric = Step(**{entry.name: getattr(closed, entry.name) for entry in fields(closed)})
    found, other = closed.solve(), numeric.solve()
    assert closed.slack(found) >= -1e-9
    assert closed.objective(found)[0] <= closed.objective(other)[0] + 1e-6
    assert closed.objective(found)[0] < closed.objective(np.zeros_like(found))[0]


def test_without_a_value_the_step_is_along_the_geometric_mean_of_old_and_target():
    """In one dimension: precision (eta + alpha Q) / (eta + alpha), mean alpha Q c / (eta + alpha Q)."""
    line = gd.ContextSpace([-20.0], [20.0])
    points = gd.Particles([[0.0]])
    ends = {"source_moments": (np.zeros(1), np.eye(1)), "target_moments": (np.array([3.0]), 0.25 * np.eye(1))}
    method = SPGL(points, points, line, steps_per_iteration=100, max_kl=0.1, **ends)
    rng = np.random.default_rng(0)
    state = method.init(rng)
    step = method.step(state.absorb(feed(state, rng, lambda c: np.full(len(c), 7.0))))
    u, a = unpack(step.solve(), 1)
    ratio = (1 / a[0, 0] ** 2 - 1) / (4 - 1 / a[0, 0] ** 2)  # alpha / eta, from the precision
    assert u[0] == pytest.approx(ratio * 4 * 3.0 / (1 + ratio * 4), rel=1e-6)
    new = Gaussian(state.mean + state.chol @ u, state.chol @ a)
    assert new.kl(state.gaussian) == pytest.approx(0.1, rel=1e-6)


def test_every_step_is_within_the_bound_and_uses_it():
    rng = np.random.default_rng(2)
    method = curriculum()
    states = [method.init(rng)]
    for _ in range(60):
        states.append(method.update(states[-1], feed(states[-1], rng, wavy), rng))
    steps = [after.gaussian.kl(before.gaussian) for before, after in pairwise(states)]
    assert max(steps) <= 0.05 + 1e-9
    assert np.median(steps) > 0.04
    assert states[-1].iteration == 60


def test_a_competent_agent_is_led_to_the_target():
    rng = np.random.default_rng(3)
    method = curriculum(max_kl=0.2)
    state = method.init(rng)
    while state.iteration < 90:
        state = method.update(state, feed(state, rng, lambda c: np.full(len(c), 50.0)), rng)
    np.testing.assert_allclose(state.mean, [2.5, 0.5], atol=0.01)
    np.testing.assert_allclose(np.diag(state.chol), [4e-3, 3.75e-3], rtol=0.1)
    assert state.alpha > 0.99


def test_an_agent_that_only_manages_wide_gates_stays_at_wide_gates():
    """Where it must wait: no value below a width of 3 makes alpha small against the loss of value."""
    rng = np.random.default_rng(4)
    method = curriculum(zeta=0.2)
    state = method.init(rng)
    for _ in range(60):
        state = method.update(state, feed(state, rng, lambda c: 10.0 * (c[:, 1] > 3)), rng)
    assert state.mean[1] > 3


def test_standard_deviations_stay_above_their_bound():
    rng = np.random.default_rng(5)
    method = curriculum(max_kl=0.5)
    state = method.init(rng)
    for _ in range(40):
        state = method.update(state, feed(state, rng, lambda c: np.full(len(c), 50.0)), rng)
        if state.gaussian.kl(method.goal) > 8000:
            assert (np.diag(state.chol) >= np.array([0.2, 0.1875]) - 1e-9).all()


def test_options_of_spdl_without_effect_are_refused():
    problem = gd.Problem(gd.Particles([[0.0]]), gd.Particles([[1.0]]), gd.ContextSpace([0.0], [1.0]), 5.0)
    assert "baseline" not in gd.curricula.options_of("spgl")
    with pytest.raises(gd.GeodesicError, match="expected an option of SPGL .* got 'bound'"):
        gd.curricula.build("spgl", problem, bound="old-new")
