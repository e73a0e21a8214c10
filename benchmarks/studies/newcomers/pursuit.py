"""A hunter in a square yard after a prey that runs away from it; the prey's speed and the yard's size are the context.

The only reward is 1 for catching it. A fast prey is caught only in a corner.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

SPEED, REACH = 0.1, 0.15  # of the hunter


class Pursuit(gd.ContextualMDP):
    """State: the positions of the hunter and of the prey."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    max_steps = 80

    def initial(self, rng, context):
        return jnp.stack([jnp.zeros(2), jax.random.uniform(rng, (2,), minval=-1.0, maxval=1.0) * context[1]])

    def transition(self, state, action, rng, context):
        hunter, prey = state
        away = (prey - hunter) / jnp.maximum(jnp.linalg.norm(prey - hunter), 1e-3)
        swerve = 0.5 * jax.random.normal(rng, (2,))
        moved = jnp.stack([hunter + SPEED * jnp.clip(action, -1, 1), prey + SPEED * context[0] * (away + swerve)])
        return jnp.clip(moved, -context[1], context[1])

    def observation(self, state, rng, context):
        return jnp.concatenate([state[0], state[1], state[1] - state[0], context])

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(self.success(next_state, context))

    def terminal(self, state, rng, context):
        return self.success(state, context)

    def success(self, state, context):
        return jnp.linalg.norm(state[1] - state[0]) < REACH


task = gd.Task(
    env=Pursuit(),
    contexts={"speed": (0.0, 1.2), "size": (0.5, 3.0, "m")},
    source={"speed": (0.0, 0.2), "size": (0.5, 0.8)},
    target={"speed": (0.8, 1.0), "size": (2.0, 2.5)},
    threshold=0.8,
    score="success",
    training=gd.TrainingSettings(steps=100_000),
    name="pursuit",
)
