"""A combination lock; how many keys have to be pressed in the right order is the context.

The only reward is 1 for opening it. A wrong key ends the episode, so that random keys open a long lock hardly ever.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

CODE = np.array([2, 0, 3, 3, 1, 2, 0, 1, 3, 2, 1, 0])


class Lock(gd.ContextualMDP):
    """State: how many keys have been right so far, how many are missing, and whether the last one was right."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (len(CODE) + 2,), np.float32)
    action_space = gym.spaces.Discrete(4)
    max_steps = len(CODE)

    def initial(self, rng, context):
        return jnp.stack([0, jnp.round(context[0]).astype(jnp.int32), 1])

    def transition(self, state, action, rng, context):
        right = (jnp.asarray(CODE)[state[0]] == action).astype(jnp.int32)
        return jnp.stack([state[0] + right, state[1] - right, right])

    def observation(self, state, rng, context):
        return jnp.concatenate([jax.nn.one_hot(state[0], len(CODE) + 1), context / len(CODE)])

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(self.success(next_state, context))

    def terminal(self, state, rng, context):
        return self.success(state, context) | (state[2] == 0)

    def success(self, state, context):
        return state[1] <= 0


task = gd.Task(
    env=Lock(),
    contexts={"keys": (1.0, float(len(CODE)))},
    source={"keys": (1.0, 2.0)},
    target={"keys": (8.0, 10.0)},
    threshold=0.8,
    score="success",
    training=gd.TrainingSettings(steps=100_000),
    name="lock",
)
