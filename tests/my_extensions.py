"""A curriculum, a pace, a metric and two learners as a user would write them; tests copy this file to `my.py`."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd


class Stepwise(gd.Curriculum):
    """Takes a step towards the target whenever a batch of episodes is good enough."""

    def __init__(self, source, target, threshold, parts=4):
        self.source, self.threshold, self.parts = source, threshold, parts
        self.path = gd.Geodesic(source, target)

    def init(self, rng):
        return gd.State(self.source)

    def update(self, state, episodes, rng):
        own = episodes.of_stage(state.stage)
        if state.done or not len(own) or own.scores(self.score).mean() <= self.threshold:
            return state
        stage, alpha = state.stage + 1, (state.stage + 1) / self.parts
        return gd.State(self.path(alpha), stage, alpha, done=stage == self.parts, event="good enough")


class Doubling(gd.Pace):
    """Doubles the distance from the source."""

    def __init__(self, first=0.25, window=5):
        self.first, self.window = first, window

    def stage_status(self, state):
        full = len(state.recent) == self.window
        return "mastered" if full and state.recent.mean() > self.required else ""

    def next_alpha(self, state, path):
        return max(2 * state.alpha, self.first)


class Manhattan(gd.metrics.Metric):
    """The sum of the differences."""

    def pairwise(self, x, y):
        return np.abs(x[:, None] - y).sum(axis=2)


@dataclass(frozen=True)
class ScaledPPO(gd.PPO):
    """PPO with scaled rewards and a small network."""

    n_envs: int = 2
    rollout: int = 25
    batch_size: int = 50
    net: Sequence[int] = (8,)
    scale: float = 0.1

    def update(self, state, transitions, key):
        return super().update(state, transitions._replace(reward=self.scale * transitions.reward), key)


@dataclass(frozen=True)
class Reinforce:
    """REINFORCE with a linear policy."""

    n_envs: int = 2
    rollout: int = 50
    learning_rate: float = 0.01
    gamma: float = 0.99

    def init(self, key, observation_space, action_space):
        return jnp.zeros((*observation_space.shape, action_space.n))

    def act(self, state, obs, key):
        action = jax.random.categorical(key, obs @ state)
        return action, action

    def update(self, state, transitions, key):
        def add(later, step):
            reward, ended = step
            total = reward + self.gamma * jnp.where(ended, 0.0, later)
            return total, total

        ended = transitions.terminated | transitions.truncated
        _, returns = jax.lax.scan(add, jnp.zeros(self.n_envs), (transitions.reward, ended), reverse=True)

        def loss(weights):
            log_probs = jax.nn.log_softmax(transitions.obs @ weights)
            chosen = jnp.take_along_axis(log_probs, transitions.action[..., None], axis=-1)[..., 0]
            return -(chosen * (returns - returns.mean())).mean()

        value, gradient = jax.value_and_grad(loss)(state)
        return state - self.learning_rate * gradient, {"policy_loss": value}

    def params(self, state):
        return state

    def policy(self, state, obs):
        return (obs @ state).argmax(axis=-1)
