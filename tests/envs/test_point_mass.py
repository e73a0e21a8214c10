"""PointMass: the benchmark's physics, its wall, its Gymnasium side, and its variants with other contexts."""

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
from geodesic.envs.point_mass import (
    ARENA,
    GOAL,
    SUBSTEPS,
    BimodalPointMass,
    PointMass,
    PointMassND,
    hit_thick_wall,
)
from geodesic.tasks import catalogue

QUIET = jnp.zeros((SUBSTEPS, 2))
WIDE = jnp.array([0.0, 8.0])
quick = jax.jit(PointMass().simulate)
KEY = jax.random.key(0)
hit_wall = jax.jit(hit_thick_wall)


def reference(state, force, noise, context):
    """The benchmark's step, written one substep at a time in numpy."""
    state = np.array(state, np.float64)
    for kick in np.asarray(noise, np.float64):
        position, velocity = state[[0, 2]], state[[1, 3]]
        moved = np.clip(position + 0.01 * velocity, -4.0, 4.0)
        velocity = velocity + 0.01 * (1.5 * np.asarray(force) + kick)
        (x0, y0), (x1, y1) = position, moved
        if y0 >= 0 > y1 or y0 <= 0 < y1:
            fraction = y0 / (y0 - y1)
            x_cross = (1 - fraction) * x0 + fraction * x1
            if abs(x_cross - context[0]) > context[1] / 2:
                return np.array([x_cross, 0.0, 0.0, 0.0, 1.0])
        state = np.array([x1, velocity[0], y1, velocity[1], 0.0])
    return state


def state_of(x=0.0, vx=0.0, y=3.0, vy=0.0):
    return jnp.array([x, vx, y, vy, 0.0])


def test_without_noise_the_motion_has_a_closed_form():
    state = PointMass().initial(jax.random.key(0), WIDE)
    for _ in range(3):
        state = quick(state, jnp.array([2.0, -1.0]), QUIET, WIDE)
    n, a = 30, 1.5 * np.array([2.0, -1.0])
    position = np.array([0.0, 3.0]) + 0.01**2 * a * n * (n - 1) / 2
    velocity = 0.01 * a * n
    np.testing.assert_allclose(state, [position[0], velocity[0], position[1], velocity[1], 0.0], rtol=1e-5)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    x=st.floats(-4, 4),
    y=st.floats(-1.5, 1.5),
    vx=st.floats(-30, 30),
    vy=st.floats(-60, 60),
    fx=st.floats(-10, 10),
    fy=st.floats(-10, 10),
    gate=st.floats(-4, 4),
    width=st.floats(0.5, 8),
    seed=st.integers(0, 1000),
)
def test_a_step_equals_the_benchmarks_substeps(x, y, vx, vy, fx, fy, gate, width, seed):
    x, y, vx, vy, fx, fy, gate, width = (float(np.float32(v)) for v in (x, y, vx, vy, fx, fy, gate, width))
    noise = (0.05 * np.random.default_rng(seed).standard_normal((SUBSTEPS, 2))).astype(np.float32)
    expected = reference([x, vx, y, vy, 0.0], [fx, fy], noise, [gate, width])
    nudged = [reference([x, vx, y, vy, 0.0], [fx, fy], noise, [gate, width + e]) for e in (-1e-3, 1e-3)]
    nudged += [reference([x, vx, y + e, vy, 0.0], [fx, fy], noise, [gate, width]) for e in (-1e-4, 1e-4)]
    if len({n[4] for n in [*nudged, expected]}) > 1:
        return  # on the edge of the gate, where single precision may differ
    moved = quick(state_of(x, vx, y, vy), jnp.array([fx, fy]), jnp.asarray(noise), jnp.array([gate, width]))
    np.testing.assert_allclose(moved, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("y", "vy"), [(0.05, -2.0), (-0.05, 2.0)])
def test_crossing_outside_the_gate_ends_at_the_wall(y, vy):
    state = quick(state_of(1.0, 1.0, y, vy), jnp.zeros(2), QUIET, jnp.array([-2.0, 1.0]))
    np.testing.assert_allclose(state, [1.025, 0.0, 0.0, 0.0, 1.0], atol=1e-6)
    assert PointMass().terminal(state, jax.random.key(0), WIDE)


@pytest.mark.parametrize(("y", "vy"), [(0.05, -2.0), (-0.05, 2.0)])
def test_crossing_inside_the_gate_continues(y, vy):
    state = quick(state_of(1.0, 1.0, y, vy), jnp.zeros(2), QUIET, jnp.array([1.2, 0.5]))
    np.testing.assert_allclose(state, [1.1, 1.0, y + 0.1 * vy, vy, 0.0], atol=1e-6)


def test_a_second_crossing_within_one_action_counts():
    """Down through the open gate and back up through the wall: it crashes on the way back."""
    state = state_of(0.0, 20.0, 0.05, -10.0)
    noise = QUIET.at[:3, 1].set(1000.0)  # turns the mass around
    context = jnp.array([0.0, 0.5])
    crashed = quick(state, jnp.zeros(2), noise, context)
    np.testing.assert_allclose(crashed, reference(state, [0.0, 0.0], noise, [0.0, 0.5]), atol=1e-5)
    assert crashed[4] == 1
    assert crashed[0] > 0.25


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), gate=st.floats(-4, 4), speed=st.floats(10, 2000))
def test_never_tunnels(seed, gate, speed):
    """Whatever the speed, a mass that ends up on the other side passed the gate, and a crash is on the wall."""
    rng = np.random.default_rng(seed)
    x, context = float(rng.uniform(-4, 4)), jnp.array([gate, 0.5])
    state = quick(state_of(x, 0.0, 0.5, -speed), jnp.zeros(2), QUIET, context)
    if abs(x - gate) > 0.26:
        np.testing.assert_allclose(state, [x, 0, 0, 0, 1], atol=1e-6)
    elif abs(x - gate) < 0.24:
        assert state[4] == 0
        assert state[2] < 0


def test_a_crash_is_final():
    crashed = jnp.array([1.0, 0.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(quick(crashed, jnp.ones(2), QUIET, WIDE), crashed)


def test_positions_and_forces_are_clipped():
    mdp, key = PointMass(), jax.random.key(1)
    state = quick(state_of(3.9, 50.0, 3.9, 50.0), jnp.zeros(2), QUIET, WIDE)
    assert state[0] == state[2] == ARENA
    start = mdp.initial(key, WIDE)
    pushed = mdp.transition(start, jnp.array([1e6, -1e6]), key, WIDE)
    np.testing.assert_array_equal(pushed, mdp.transition(start, jnp.array([10.0, -10.0]), key, WIDE))


def test_noise_enters_the_acceleration_with_the_documented_spread():
    mdp = PointMass()
    keys = jax.random.split(jax.random.key(0), 4000)
    states = jax.vmap(mdp.transition, (None, None, 0, None))(mdp.initial(keys[0], WIDE), jnp.zeros(2), keys, WIDE)
    expected = 0.05 * 0.01 * np.sqrt(SUBSTEPS)
    np.testing.assert_allclose(np.std(states[:, 1:4:2], axis=0), [expected, expected], rtol=0.05)


def test_reward_and_success_follow_the_distance_to_the_goal():
    mdp, key = PointMass(), jax.random.key(0)
    at_goal, away = state_of(GOAL[0], 0.0, GOAL[1], 0.0), state_of(0.0, 0.0, 3.0, 0.0)
    assert mdp.reward(away, jnp.zeros(2), at_goal, key, WIDE) == 1.0
    np.testing.assert_allclose(mdp.reward(at_goal, jnp.zeros(2), away, key, WIDE), np.exp(-3.6), rtol=1e-6)
    assert mdp.success(at_goal, WIDE)
    assert not mdp.success(away, WIDE)
    assert mdp.success(state_of(0.2, 0.0, -3.1, 0.0), WIDE)
    assert not mdp.success(state_of(0.2, 0.0, -3.2, 0.0), WIDE)


def test_source_and_target_are_the_benchmarks():
    mdp = PointMass()
    rng = np.random.default_rng(0)
    source, target = mdp.source(rng), mdp.target(rng)
    assert len(source) == len(target) == 500
    for particles in (source, target):
        assert mdp.context_space.contains(particles.points).all()
    np.testing.assert_allclose(source.mean(), [0.0, 4.25], atol=0.25)
    np.testing.assert_allclose(np.sqrt(np.diag(source.cov())), [1.9, 1.8], atol=0.2)
    np.testing.assert_allclose(target.mean(), [2.5, 0.5], atol=0.003)
    np.testing.assert_allclose(mdp.target_moments[1], np.diag([1.6e-5, 1.40625e-5]))


def test_a_fall_at_full_force_stays_under_the_best_return():
    """Step by step until it overshoots: no policy is nearer to the goal earlier."""
    mdp = PointMass()
    bound = mdp.best_return(np.zeros((3, 2)))
    assert bound.shape == (3,)
    assert 90 < bound[0] < 95
    state, rewards = mdp.initial(jax.random.key(0), WIDE), []
    while state[2] > GOAL[1]:
        state = quick(state, jnp.array([0.0, -10.0]), QUIET, WIDE)
        rewards.append(float(mdp.reward(state, None, state, None, WIDE)))
    rewards = rewards[:-1]
    assert sum(rewards) + 100 - len(rewards) > bound[0] - 2
    assert sum(rewards) + 100 - len(rewards) - 1 < bound[0]


def test_gymnasium_accepts_it_and_it_renders():
    env = gym.make("geodesic/PointMass-v0", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*recommend using a symmetric and normalized space")
        check_env(env.unwrapped)
    obs, info = env.reset(seed=0, options={"context": [1.0, 2.0]})
    np.testing.assert_array_equal(obs, [0, 0, 3, 0, 1, 2])
    np.testing.assert_array_equal(info["context"], [1.0, 2.0])
    pixels = env.render()
    assert pixels.shape == (256, 256, 3)
    wall_row = pixels[128, :, 0]
    x = (np.arange(256) + 0.5) / 32 - 4
    np.testing.assert_array_equal(wall_row == 90, np.abs(x - 1.0) > 1.0)


def test_an_episode_is_cut_at_the_limit():
    env = gym.make("geodesic/PointMass-v0")
    env.reset(seed=0, options={"context": [0.0, 8.0]})
    outcomes = [env.step(np.zeros(2, np.float32))[2:4] for _ in range(100)]
    assert outcomes[-1] == (False, True)
    assert not any(done or cut for done, cut in outcomes[:-1])


def fall(mdp, context, x=0.0, y=1.0, vx=0.0, vy=-5.0, actions=5):
    """The state after some actions without force."""
    state = jnp.array([x, vx, y, vy, 0.0])
    for _ in range(actions):
        state = mdp.simulate(state, jnp.zeros(2), QUIET, jnp.asarray(context, jnp.float32))
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


def test_the_effective_gate_is_the_farthest_one_at_its_narrowest():
    mdp = PointMassND(3)
    context = jnp.array([1.0, -2.0, 0.5, 3.0, 1.0, 2.0, 0.5, 0.75, 4.0])
    np.testing.assert_allclose(mdp.effective_gate(context), [-2.0, 1.0, 0.5])
    assert mdp.gate(np.asarray(context)) == (-3.0, -1.5)
    seen = mdp.observation(jnp.array([1.0, 2.0, 3.0, 4.0, 0.0]), KEY, context)
    np.testing.assert_allclose(seen, [0.5, 1.0, 1.5, 2.0, -2.0, 1.0, 0.5])


@pytest.mark.parametrize("k", [0, -1, 1.5, "three"])
def test_an_invalid_number_of_gates_is_refused(k):
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
def test_a_crash_is_where_a_fine_sampling_of_the_path_meets_the_wall(ends, gate):
    x0, y0, x1, y1 = (float(np.float32(value)) for value in ends)
    left, right = gate[0] - gate[1], gate[0] + gate[2]
    fractions = np.linspace(0, 1, 20_001)
    x, y = x0 + fractions * (x1 - x0), y0 + fractions * (y1 - y0)
    inside, near = ((np.abs(y) <= 0.5 + e) & ((x < left + e) | (x > right - e)) for e in (-1e-4, 1e-4))
    hit, x_hit, y_hit = hit_wall(jnp.array([x0, x1]), jnp.array([y0, y1]), left, right)
    if inside.any():
        assert hit
        first = near.argmax()
        length = np.hypot(x1 - x0, y1 - y0)
        assert np.hypot(x_hit - x0, y_hit - y0) >= fractions[first] * length - 1e-3
        assert np.hypot(x_hit - x0, y_hit - y0) <= fractions[inside.argmax()] * length + 1e-3
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


def test_the_thick_wall_is_drawn_to_scale():
    env = gym.make("geodesic/PointMassND-v0", render_mode="rgb_array").unwrapped
    env.reset(seed=0, options={"context": [3.0, 0.0, 0.0, *6 * [0.5]]})
    wall = (env.render()[:, 128] == 90).all(axis=-1)
    assert wall.sum() == 32  # 1 of 8 on 256 pixels
    assert (env.render()[128, 128 + 96] == 255).all()
