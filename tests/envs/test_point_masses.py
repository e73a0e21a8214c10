"""PointMass with a target of two modes, and with gates of many dimensions behind a thick wall."""

import warnings

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import geodesic as gd
from geodesic.envs.point_mass import SUBSTEPS, PointMass, simulate
from geodesic.envs.point_masses import BimodalPointMass, PointMassND, into_the_wall
from geodesic.tasks import catalogue

QUIET = jnp.zeros((SUBSTEPS, 2))
KEY = jax.random.key(0)
walled = jax.jit(into_the_wall)


def fall(mdp, context, x=0.0, y=1.0, vx=0.0, vy=-5.0, actions=5):
    """The state after so many actions without a force."""
    state = jnp.array([x, vx, y, vy, 0.0])
    for _ in range(actions):
        state = simulate(state, jnp.zeros(2), QUIET, jnp.asarray(context, jnp.float32), mdp.first_crash)
    return np.asarray(state)


def test_bimodal_source_and_target_are_the_benchmarks():
    mdp, rng = BimodalPointMass(), np.random.default_rng(0)
    source, target = mdp.source(rng).points, mdp.target(rng).points
    assert len(source) == len(target) == 100
    right = target[target[:, 0] > 0]
    assert len(right) == 50
    for half, place in ((right, 3.0), (target[target[:, 0] < 0], -3.0)):
        np.testing.assert_allclose(half[:, 0].mean(), place, atol=0.005)
        np.testing.assert_allclose(half[:, 0].std(), 0.01, rtol=0.3)
        assert (half[:, 1] >= 0.5).all()
    np.testing.assert_allclose(source.mean(axis=0), [0.0, 4.25], atol=0.8)
    assert (source.std(axis=0) > 1.8).all()


def test_the_moments_for_gaussian_methods_are_those_of_the_distributions():
    for mdp in (BimodalPointMass(), PointMassND(2)):
        rng = np.random.default_rng(0)
        target = np.concatenate([mdp.target(rng).points for _ in range(20)])
        mean, cov = mdp.target_moments
        np.testing.assert_allclose(target.mean(axis=0), mean, atol=0.01)
        np.testing.assert_allclose(np.cov(target.T), cov, atol=0.05)
    source = np.concatenate([mdp.source(rng).points for _ in range(100)])
    np.testing.assert_allclose(source.mean(axis=0), mdp.source_moments[0], atol=0.1)
    np.testing.assert_allclose(np.cov(source.T), mdp.source_moments[1], atol=0.25)


def test_bimodal_dynamics_are_point_masses():
    state, action, context = jnp.array([1.0, 2.0, 0.3, -4.0, 0.0]), jnp.array([3.0, -1.0]), jnp.array([3.0, 0.5])
    one, other = (mdp.transition(state, action, KEY, context) for mdp in (PointMass(), BimodalPointMass()))
    np.testing.assert_array_equal(one, other)
    assert BimodalPointMass().observation_space == PointMass().observation_space


@pytest.mark.parametrize("k", [1, 3, 10])
def test_a_context_has_3_values_for_each_k(k):
    task = catalogue.load(f"point-mass-nd:k={k}")
    assert task.space.dim == 3 * k
    assert task.reference == f"point-mass-nd:k={k}"
    np.testing.assert_array_equal(task.space.low, np.repeat([-4.0, 0.25, 0.25], k))
    np.testing.assert_array_equal(task.space.high, np.repeat([4.0, 4.0, 4.0], k))
    target = task.target_particles.points
    assert (np.sign(target[:, :k]) == np.sign(target[:, :1])).all()
    np.testing.assert_allclose(np.abs(target[:, :k]), 3.0, atol=0.006)
    np.testing.assert_allclose(target[:, k:], 0.26, atol=0.006)
    assert (target[:, 0] > 0).sum() == 50
    assert task.env.observation_space.shape == (7,)


def test_the_gate_in_force_is_the_farthest_one_at_its_narrowest():
    mdp = PointMassND(3)
    context = jnp.array([1.0, -2.0, 0.5, 3.0, 1.0, 2.0, 0.5, 0.75, 4.0])
    np.testing.assert_allclose(mdp.in_force(context), [-2.0, 1.0, 0.5])
    assert mdp.gate(np.asarray(context)) == (-3.0, -1.5)
    seen = mdp.observation(jnp.array([1.0, 2.0, 3.0, 4.0, 0.0]), KEY, context)
    np.testing.assert_allclose(seen, [0.5, 1.0, 1.5, 2.0, -2.0, 1.0, 0.5])


@pytest.mark.parametrize("k", [0, -1, 1.5, "three"])
def test_a_number_of_gates_that_is_none_is_refused(k):
    with pytest.raises(gd.GeodesicError, match="expected k to be a positive integer"):
        PointMassND(k)


def test_a_mass_passes_the_thick_wall_inside_the_gate_only():
    mdp, gate = PointMassND(1), [0.0, 0.5, 1.0]
    np.testing.assert_allclose(fall(mdp, gate, x=0.9), [0.9, 0.0, -1.5, -5.0, 0.0], atol=1e-5)
    np.testing.assert_allclose(fall(mdp, gate, x=-0.6), [-0.6, 0.0, 0.5, 0.0, 1.0], atol=1e-5)
    np.testing.assert_allclose(fall(mdp, gate, x=1.1), [1.1, 0.0, 0.5, 0.0, 1.0], atol=1e-5)


def test_a_mass_that_drifts_out_of_the_gate_crashes_at_its_side():
    """From (0.9, 0.5) at speed (2, -5) it meets x = 1 at y = 0.25."""
    crashed = fall(PointMassND(1), [0.0, 0.5, 1.0], x=0.7, y=1.0, vx=2.0)
    np.testing.assert_allclose(crashed, [1.0, 0.0, 0.25, 0.0, 1.0], atol=1e-4)


def test_no_speed_tunnels_through_the_thick_wall():
    crashed = fall(PointMassND(1), [3.0, 0.25, 0.25], y=1.5, vy=-400.0, actions=1)
    np.testing.assert_allclose(crashed, [0.0, 0.0, 0.5, 0.0, 1.0], atol=1e-5)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    ends=st.tuples(*4 * [st.floats(-2, 2)]),
    gate=st.tuples(st.floats(-1, 1), st.floats(0.25, 1.5), st.floats(0.25, 1.5)),
)
def test_a_crash_is_where_a_fine_walk_along_the_path_meets_the_wall(ends, gate):
    x0, y0, x1, y1 = (float(np.float32(value)) for value in ends)
    left, right = gate[0] - gate[1], gate[0] + gate[2]
    shares = np.linspace(0, 1, 20_001)
    x, y = x0 + shares * (x1 - x0), y0 + shares * (y1 - y0)
    inside, near = ((np.abs(y) <= 0.5 + e) & ((x < left + e) | (x > right - e)) for e in (-1e-4, 1e-4))
    hit, x_hit, y_hit = walled(jnp.array([x0, x1]), jnp.array([y0, y1]), left, right)
    if inside.any():
        assert hit
        first = near.argmax()
        length = np.hypot(x1 - x0, y1 - y0)
        assert np.hypot(x_hit - x0, y_hit - y0) >= shares[first] * length - 1e-3
        assert np.hypot(x_hit - x0, y_hit - y0) <= shares[inside.argmax()] * length + 1e-3
    elif not near.any():
        assert not hit


@pytest.mark.parametrize("name", ["PointMassBimodal", "PointMassND"])
def test_gymnasiums_check_passes_and_there_is_a_picture(name):
    env = gym.make(f"geodesic/{name}-v0", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env.unwrapped)
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (256, 256, 3)
    assert picture[128, 128].tolist() == [90, 90, 90]  # the target's gates are at the sides


def test_the_thick_wall_is_drawn_as_thick_as_it_is():
    env = gym.make("geodesic/PointMassND-v0", render_mode="rgb_array").unwrapped
    env.reset(seed=0, options={"context": [3.0, 0.0, 0.0, *6 * [0.5]]})
    wall = (env.render()[:, 128] == 90).all(axis=-1)
    assert wall.sum() == 32  # 1 of 8 on 256 pixels
    assert (env.render()[128, 128 + 96] == 255).all()
