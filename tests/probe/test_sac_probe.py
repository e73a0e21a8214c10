"""SAC on environments with known solutions."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geodesic.learners.base import Transitions
from geodesic.learners.sac import SAC

OBS = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
ACT = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
FAST = {
    "rollout": 4,
    "gradient_steps": 4,
    "batch_size": 64,
    "buffer_size": 4000,
    "learning_rate": 3e-3,
    "net": (32, 32),
}


def train(sac, step, start, iterations, seed=0):
    """A loop over `step(obs, action, key) -> next_obs, reward, terminated, truncated`, with resets to start(key)."""

    def step_env(carry, key):
        state, obs = carry
        act, env, reset = jax.random.split(key, 3)
        action, stored = sac.act(state, obs[None], act)
        next_obs, reward, terminated, truncated = step(obs, action[0], env)
        seen = Transitions(obs[None], stored, reward[None], next_obs[None], terminated[None], truncated[None])
        return (state, jnp.where(terminated | truncated, start(reset), next_obs)), seen

    def iteration(carry, key):
        state, obs = carry
        walk, update = jax.random.split(key)
        (_, obs), seen = jax.lax.scan(step_env, (state, obs), jax.random.split(walk, sac.rollout))
        return (sac.update(state, seen, update)[0], obs), None

    init, first, rest = jax.random.split(jax.random.key(seed), 3)
    state = sac.init(init, OBS, ACT)
    run = jax.jit(lambda c: jax.lax.scan(iteration, c, jax.random.split(rest, iterations))[0])
    return run((state, start(first)))[0]


def value(sac, state, obs):
    """The smaller critic's value of the deterministic action."""
    obs = jnp.array([[obs]], jnp.float32)
    scaled = jnp.tanh(sac._gaussian(state.agent.actor, obs)[0])
    return float(sac._critics(state.agent.critic, obs, scaled).min())


@pytest.mark.slow
def test_one_step_with_a_known_best_action():
    """Reward -(a - 0.5)^2: the policy's mean becomes 0.5 and the entropy coefficient falls."""

    def step(obs, action, key):
        return obs, -((action[0] - 0.5) ** 2), jnp.bool_(True), jnp.bool_(False)

    sac = SAC(**FAST, learning_starts=100)
    state = train(sac, step, lambda key: jnp.zeros(1), 1500)
    assert float(sac.policy(state, jnp.zeros((1, 1)))[0, 0]) == pytest.approx(0.5, abs=0.15)
    assert float(state.agent.log_alpha) < -1


def test_the_action_follows_the_observation():
    """Reward -(a - s)^2 with s uniform: the policy is the identity."""

    def step(obs, action, key):
        return obs, -((action[0] - obs[0]) ** 2), jnp.bool_(True), jnp.bool_(False)

    sac = SAC(**FAST, learning_starts=100)
    state = train(sac, step, lambda key: jax.random.uniform(key, (1,), minval=-1, maxval=1), 2000)
    grid = jnp.linspace(-0.8, 0.8, 9)[:, None]
    np.testing.assert_allclose(sac.policy(state, grid), grid, atol=0.2)


def two_steps(reward, cut):
    """Observation 0 then 1, the given reward at the second step, where the episode ends, or is only cut."""

    def step(obs, action, key):
        second = obs[0] > 0.5
        return jnp.ones(1), jnp.where(second, reward, 0.0), second & (not cut), second & cut

    return step


@pytest.mark.slow
def test_two_steps_are_discounted():
    """Q(1) = 1 and Q(0) = gamma, once the entropy bonus has vanished."""
    sac = SAC(**FAST, learning_starts=100, gamma=0.5)
    state = train(sac, two_steps(1.0, cut=False), lambda key: jnp.zeros(1), 2000)
    assert value(sac, state, 1.0) == pytest.approx(1.0, abs=0.1)
    assert value(sac, state, 0.0) == pytest.approx(0.5, abs=0.1)


def test_a_time_limit_bootstraps():
    """Cut, not ended, after the second step into the same observation: Q(1) = 1 / (1 - gamma)."""
    sac = SAC(**FAST, learning_starts=100, gamma=0.5)
    state = train(sac, two_steps(1.0, cut=True), lambda key: jnp.zeros(1), 2000)
    assert value(sac, state, 1.0) == pytest.approx(2.0, abs=0.2)
    assert value(sac, state, 0.0) == pytest.approx(1.0, abs=0.2)
