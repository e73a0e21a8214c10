"""PointMass: the benchmark's physics, its wall, and its Gymnasium side."""

import warnings

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from geodesic.envs.point_mass import ARENA, GOAL, SUBSTEPS, PointMass, simulate

QUIET = jnp.zeros((SUBSTEPS, 2))
WIDE = jnp.array([0.0, 8.0])
quick = jax.jit(simulate)


def reference(state, force, noise, context):
    """The benchmark's step, written one substep at a time in numpy."""
    state = np.array(state, np.float64)
    for kick in np.asarray(noise, np.float64):
        position, velocity = state[[0, 2]], state[[1, 3]]
        moved = np.clip(position + 0.01 * velocity, -4.0, 4.0)
        velocity = velocity + 0.01 * (1.5 * np.asarray(force) + kick)
        (x0, y0), (x1, y1) = position, moved
        if y0 >= 0 > y1 or y0 <= 0 < y1:
            share = y0 / (y0 - y1)
            x_cross = (1 - share) * x0 + share * x1
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
        return  # on the edge of the gate, where single precision may decide otherwise
    moved = quick(state_of(x, vx, y, vy), jnp.array([fx, fy]), jnp.asarray(noise), jnp.array([gate, width]))
    np.testing.assert_allclose(moved, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("y", "vy"), [(0.05, -2.0), (-0.05, 2.0)])
def test_crossing_outside_the_gate_ends_at_the_wall(y, vy):
    state = quick(state_of(1.0, 1.0, y, vy), jnp.zeros(2), QUIET, jnp.array([-2.0, 1.0]))
    np.testing.assert_allclose(state, [1.025, 0.0, 0.0, 0.0, 1.0], atol=1e-6)
    assert PointMass().terminal(state, jax.random.key(0), WIDE)


@pytest.mark.parametrize(("y", "vy"), [(0.05, -2.0), (-0.05, 2.0)])
def test_crossing_inside_the_gate_goes_on(y, vy):
    state = quick(state_of(1.0, 1.0, y, vy), jnp.zeros(2), QUIET, jnp.array([1.2, 0.5]))
    np.testing.assert_allclose(state, [1.1, 1.0, y + 0.1 * vy, vy, 0.0], atol=1e-6)


def test_a_second_crossing_within_one_action_counts():
    """Down through the open gate and back up through the wall: it crashes on the way back."""
    state = state_of(0.0, 20.0, 0.05, -10.0)
    noise = QUIET.at[:3, 1].set(1000.0)  # turns the mass round
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
    """Step by step until it overshoots: no policy is nearer to the goal any earlier."""
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
