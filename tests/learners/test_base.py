"""Learners of your own: a thin subclass of PPO, and REINFORCE written from scratch."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from geodesic.learners.base import Learner, Transitions
from geodesic.learners.ppo import PPO
from geodesic.learners.sac import SAC

OBS = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
ACT = gym.spaces.Discrete(2)


@dataclass(frozen=True)
class RegularisedPPO(PPO):
    """PPO with a penalty on large outputs of the policy network."""

    penalty: float = 1e-3

    def loss(self, params, batch):
        loss, metrics = super().loss(params, batch)
        size = jnp.square(self._actor(params, batch.obs)).mean()
        return loss + self.penalty * size, {**metrics, "output_size": size}


@dataclass(frozen=True)
class Reinforce:
    """Williams' policy gradient with a linear softmax policy and the mean return as baseline."""

    n_envs: int = 8
    rollout: int = 16
    learning_rate: float = 0.1
    gamma: float = 0.99

    @property
    def optimiser(self):
        return optax.adam(self.learning_rate)

    def init(self, key, observation_space, action_space):
        params = {"kernel": jnp.zeros((observation_space.shape[0], action_space.n)), "bias": jnp.zeros(action_space.n)}
        return params, self.optimiser.init(params)

    def act(self, state, obs, key):
        action = jax.random.categorical(key, self.logits(state[0], obs))
        return action, action

    def update(self, state, transitions, key):
        def step_back(later, now):
            total = now[0] + self.gamma * jnp.where(now[1], 0.0, later)
            return total, total

        ended = transitions.terminated | transitions.truncated
        _, returns = jax.lax.scan(step_back, jnp.zeros(self.n_envs), (transitions.reward, ended), reverse=True)

        def loss(params):
            log_probs = jax.nn.log_softmax(self.logits(params, transitions.obs))
            chosen = jnp.take_along_axis(log_probs, transitions.action[..., None], axis=-1)[..., 0]
            return -(chosen * (returns - returns.mean())).mean()

        params, optimiser = state
        value, gradient = jax.value_and_grad(loss)(params)
        updates, optimiser = self.optimiser.update(gradient, optimiser)
        return (optax.apply_updates(params, updates), optimiser), {"policy_loss": value}

    def params(self, state):
        return state[0]

    def policy(self, state, obs):
        return self.logits(state[0], obs).argmax(axis=-1)

    def logits(self, params, obs):
        return obs @ params["kernel"] + params["bias"]


def train_bandit(learner: Learner, iterations: int) -> tuple[Any, dict[str, jax.Array]]:
    """Episodes of one step: action 1 is rewarded where the observation is positive, action 0 elsewhere."""

    def step(state, key):
        look, act = jax.random.split(key)
        obs = jax.random.uniform(look, (learner.n_envs, 1), minval=-1, maxval=1)
        action, stored = learner.act(state, obs, act)
        reward = jnp.where((action == 1) == (obs[:, 0] > 0), 1.0, 0.0)
        ended = jnp.ones(learner.n_envs, bool)
        return state, Transitions(obs, stored, reward, obs, ended, ~ended)

    def iteration(state, key):
        walk, update = jax.random.split(key)
        state, seen = jax.lax.scan(step, state, jax.random.split(walk, learner.rollout))
        return learner.update(state, seen, update)

    first, rest = jax.random.split(jax.random.key(0))
    state = learner.init(first, OBS, ACT)
    return jax.jit(lambda s: jax.lax.scan(iteration, s, jax.random.split(rest, iterations)))(state)


@pytest.mark.parametrize(
    ("learner", "metric"),
    [
        (RegularisedPPO(n_envs=8, rollout=16, learning_rate=1e-2, net=(8,)), "output_size"),
        (Reinforce(), "policy_loss"),
    ],
    ids=["subclass", "from scratch"],
)
def test_your_own_learner_learns(learner, metric):
    assert isinstance(learner, Learner)
    state, metrics = train_bandit(learner, 60)
    assert metrics[metric].shape == (60,)
    assert np.isfinite(metrics[metric]).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(learner.params(state)))
    grid = jnp.array([[-0.9], [-0.3], [0.3], [0.9]])
    assert learner.policy(state, grid).tolist() == [0, 0, 1, 1]


def test_the_built_in_learners_follow_the_protocol():
    assert isinstance(PPO(), Learner)
    assert isinstance(SAC(), Learner)
    assert not isinstance(object(), Learner)
