"""Catch a ball that bounces between two walls; its speed and the width of the paddle are the context.

The only reward comes at the end: 1 for a catch, else 0.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

STEP = 0.06  # of the paddle


class Catch(gd.ContextualMDP):
    """State: position of the ball, its velocity sideways as a multiple of the fall, position of the paddle."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = gym.spaces.Discrete(3)
    max_steps = 60

    def initial(self, rng, context):
        place, slope = jax.random.uniform(rng, (2,))
        return jnp.stack([place, 1.0, 3.0 * slope - 1.5, 0.5])

    def transition(self, state, action, rng, context):
        x, y, slope, paddle = state
        x, y = x + slope * context[0], y - context[0]
        slope = jnp.where((x < 0) | (x > 1), -slope, slope)
        x = jnp.where(x < 0, -x, jnp.where(x > 1, 2 - x, x))
        return jnp.stack([x, y, slope, jnp.clip(paddle + STEP * (action - 1), 0, 1)])

    def observation(self, state, rng, context):
        return jnp.concatenate([state, context])

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(self.success(next_state, context))

    def terminal(self, state, rng, context):
        return state[1] <= 0

    def success(self, state, context):
        return (state[1] <= 0) & (jnp.abs(state[0] - state[3]) < context[1] / 2)


task = gd.Task(
    env=Catch(),
    contexts={"speed": (0.02, 0.12), "width": (0.08, 0.6)},
    source={"speed": (0.02, 0.04), "width": (0.4, 0.6)},
    target={"speed": (0.07, 0.09), "width": (0.08, 0.12)},
    threshold=0.8,
    score="success",
    training=gd.TrainingSettings(steps=100_000),
    name="catch",
)
