"""A walk whose contexts have a number, a category and an integer, which several test files share."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

import geodesic as gd

CONTEXTS = {"place": (-8.0, 8.0), "steering": ["straight", "mirrored", "slow"], "cost": range(4)}


class MixedWalk(gd.ContextualMDP):
    """Where to walk on a line, how actions act, and what a step costs."""

    observation_space = gym.spaces.Box(-10.0, 10.0, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)
    max_steps = 20

    def initial(self, rng, context):
        return jnp.float32(0)

    def transition(self, state, action, rng, context):
        step = 2.0 * action - 1.0
        return jnp.clip(state + jnp.stack([step, -step, step / 2])[context[1].astype(int)], -9.0, 9.0)

    def observation(self, state, rng, context):
        return jnp.concatenate([state[None], context])

    def reward(self, state, action, next_state, rng, context):
        return -jnp.abs(next_state - context[0]) * (1.0 + context[2])

    def terminal(self, state, rng, context):
        return jnp.abs(state - context[0]) < 1.0


def mixed_walk(**options):
    given = {
        "env": MixedWalk(),
        "contexts": CONTEXTS,
        "source": {"place": (-2.0, 2.0), "steering": "straight", "cost": 0},
        "target": {"place": (6.0, 8.0), "steering": ["mirrored", "slow"], "cost": (2, 3)},
        "threshold": -40.0,
        "worst_return": -700.0,
    }
    return gd.Task(**{**given, **options})
