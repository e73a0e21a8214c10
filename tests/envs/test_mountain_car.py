"""Mountain car: Gymnasium's dynamics, its bound, and its Gymnasium side."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from geodesic.envs.mountain_car import MountainCar
from geodesic.tasks.catalogue import load

CAR = MountainCar()
GRAVITY = jnp.array([0.0025])


def steps_of(policy, gravity, start=-0.5):
    """The states of an episode under policy(velocity) -> action."""
    state, states = jnp.array([start, 0.0]), []
    for _ in range(CAR.max_steps):
        state = CAR.transition(state, policy(float(state[1])), None, jnp.array([gravity]))
        states.append(state)
        if CAR.success(state, None):
            break
    return states


def test_the_dynamics_are_gymnasiums():
    env, rng = gym.make("MountainCar-v0").unwrapped, np.random.default_rng(0)
    env.reset(seed=0)
    for position, velocity in [*rng.uniform((-1.2, -0.07), (0.4, 0.07), (50, 2)), (-1.19, -0.06), (0.49, 0.07)]:
        for action in range(3):
            env.state = (position, velocity)
            _, reward, terminated, *_ = env.step(action)
            state = CAR.transition(jnp.array([position, velocity]), action, None, GRAVITY)
            np.testing.assert_allclose(state, env.state, atol=1e-6)
            assert bool(CAR.terminal(state, None, GRAVITY)) == terminated
            assert float(CAR.reward(None, action, state, None)) == reward == -1.0


def test_weak_gravity_is_driven_up_and_strong_gravity_needs_a_swing():
    assert len(steps_of(lambda velocity: 2, 0.0003)) < 60
    assert len(steps_of(lambda velocity: 2, 0.0025)) == CAR.max_steps
    assert len(steps_of(lambda velocity: 2 if velocity >= 0 else 0, 0.0025)) < 140


@pytest.mark.parametrize("gravity", [0.0, 0.0005, 0.0025, 0.003])
def test_no_episode_is_better_than_the_bound(gravity):
    best = -CAR.best_return(np.array([[gravity]]))[0]
    for start in (-0.6, -0.5, -0.4):
        assert len(steps_of(lambda velocity: 2 if velocity >= 0 else 0, gravity, start)) >= best
    assert best >= 0.9 / 0.07  # at full speed from the start


def test_episodes_start_at_rest_in_the_valley():
    starts = jax.vmap(CAR.initial)(jax.random.split(jax.random.key(0), 100))
    assert (starts[:, 0] >= -0.6).all()
    assert (starts[:, 0] <= -0.4).all()
    assert (starts[:, 1] == 0).all()


def test_source_and_target():
    task = load("mountain-car")
    assert task.source_particles.points.max() < 0.001 < 0.0023 < task.target_particles.points.min()
    assert task.space.names == ("gravity",)


def test_gymnasium_accepts_it_and_it_is_drawn():
    check_env(gym.make("geodesic/MountainCar-v0").unwrapped, skip_render_check=True)
    env = gym.make("geodesic/MountainCar-v0", render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (200, 200, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) == 4  # sky, hill, flag and car
