"""Small problems that several test files share."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

import geodesic as gd

CART_POLE = {"gravity": (5.0, 15.0, "m/s²"), "length": (0.25, 1.25, "m")}


def set_context(env, gravity, length):
    env.gravity = gravity
    env.length = length
    env.polemass_length = env.masspole * length


def cart_pole(**options):
    """CartPole with gravity and length as context, from long poles to short ones."""
    given = {
        "env": "CartPole-v1",
        "contexts": CART_POLE,
        "source": {"gravity": (9.0, 10.0), "length": (1.0, 1.25)},
        "target": {"gravity": 9.8, "length": (0.25, 0.5)},
        "threshold": 100.0,
        "set_context": set_context,
    }
    return gd.Task(**{**given, **options})


class Walk(gd.ContextualMDP):
    """A walk on a line to the place in the context; the reward is minus the distance to it."""

    observation_space = gym.spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    max_steps = 20

    def initial(self, rng, context):
        return jnp.float32(0)

    def transition(self, state, action, rng, context):
        return jnp.clip(state + 2.0 * action - 1.0, -9.0, 9.0)

    def observation(self, state, rng, context):
        return jnp.stack([state, context[0]])

    def reward(self, state, action, next_state, rng, context):
        return -jnp.abs(next_state - context[0])

    def terminal(self, state, rng, context):
        return jnp.abs(state - context[0]) < 1.0


def walk(env=None, **options):
    given = {
        "env": Walk() if env is None else env,
        "contexts": {"place": (-8.0, 8.0)},
        "source": {"place": (-2.0, 2.0)},
        "target": {"place": (6.0, 8.0)},
        "threshold": -40.0,
    }
    return gd.Task(**{**given, **options})
