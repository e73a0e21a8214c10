"""PPO in the compiled loop, on environments with known solutions."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodesic as gd
from geodesic.envs.cmdp import ContextualMDP
from geodesic.learners.ppo import PPO
from geodesic.training.agents import stack
from geodesic.training.program import Program, as_sampler


class Probe(ContextualMDP):
    """The state is the step count and the context is observed; subclasses define the end and the reward."""

    max_steps = 10
    worst_return = 0.0
    context_space = gd.ContextSpace([-1.0], [1.0])
    observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    length = 1

    def initial(self, rng, params=None):
        return jnp.int32(0)

    def transition(self, state, action, rng, params=None):
        return state + 1

    def observation(self, state, rng, params=None):
        return jnp.array([state, params[0]], jnp.float32)

    def terminal(self, state, rng, params=None):
        return state >= self.length

    def success(self, state, context):
        return state >= self.length


class Bandit(Probe):
    """One step; action 1 is rewarded where the context is positive, action 0 elsewhere."""

    def reward(self, state, action, next_state, rng, params=None):
        return jnp.where((action == 1) == (params[0] > 0), 1.0, 0.0)


class Delayed(Probe):
    """Three steps; one unit at the last: V = gamma^2, gamma, 1."""

    length = 3

    def reward(self, state, action, next_state, rng, params=None):
        return jnp.where(next_state == 3, 1.0, 0.0)


class Endless(Probe):
    """Reward 1, truncated and never terminated: V = 1 / (1 - gamma) only if time limits bootstrap."""

    length = 1000
    max_steps = 5

    def reward(self, state, action, next_state, rng, params=None):
        return jnp.float32(1.0)

    def observation(self, state, rng, params=None):
        return jnp.array([0.0, 0.0], jnp.float32)


class Reach(Probe):
    """One step, continuous actions: the reward is -(action - context)^2."""

    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reward(self, state, action, next_state, rng, params=None):
        return -jnp.square(action[0] - params[0])


def train(mdp, segments, **options):
    learner = PPO(**{"rollout": 32, "n_envs": 4, "learning_rate": 3e-3, "gamma": 0.9, **options})
    program = Program(mdp, learner, iterations=10, eval_episodes=200, eval_policy="deterministic")
    contexts = gd.Particles(np.linspace(-1, 1, 41)[:, None])
    samplers = stack([as_sampler(contexts, 0)])
    state = program.init(np.array([[0, 1]], np.uint32), samplers)
    for _ in range(segments):
        state, *_ = program.segment(state, samplers)
    returns, *_ = program.evaluate(state, samplers, np.array([[0, 2]], np.uint32))
    params = jax.tree.map(lambda x: x[0], state.learner.params)
    return float(returns.mean()), lambda obs: float(learner._value(params, jnp.array(obs, jnp.float32)))


def test_it_learns_the_rewarded_action_of_each_context():
    assert train(Bandit(), 10)[0] > 0.97


@pytest.mark.slow
def test_values_are_discounted():
    _, value = train(Delayed(), 12)
    for step, expected in ((0, 0.81), (1, 0.9), (2, 1.0)):
        assert value([step, 0.0]) == pytest.approx(expected, abs=0.06)


def test_time_limits_bootstrap():
    _, value = train(Endless(), 40, learning_rate=1e-2, gamma=0.8)
    assert value([0.0, 0.0]) == pytest.approx(1 / (1 - 0.8), rel=0.1)


@pytest.mark.slow
def test_it_learns_continuous_actions():
    assert train(Reach(), 25)[0] > -0.02
