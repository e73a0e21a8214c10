"""A ball on a beam that tilts; gravity and the speed of the ball at the start are the context.

A step earns up to 1, in the middle of the beam; the episode ends when the ball falls off. The source teaches little:
in weak gravity and nearly at rest, the ball stays on the beam whatever the agent does.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

DT, STEEPEST, TURN = 0.05, 0.3, 0.06  # a step turns the beam by at most TURN


class Beam(gd.ContextualMDP):
    """State: position and velocity of the ball, angle of the beam."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    max_steps = 100

    def initial(self, rng, context):
        return jnp.stack([0.0, jnp.where(jax.random.bernoulli(rng), 1.0, -1.0) * context[1], 0.0])

    def transition(self, state, action, rng, context):
        position, velocity, angle = state
        angle = jnp.clip(angle + TURN * jnp.clip(action[0], -1, 1), -STEEPEST, STEEPEST)
        velocity = velocity + DT * 5 / 7 * context[0] * jnp.sin(angle)
        return jnp.stack([position + DT * velocity, velocity, angle])

    def observation(self, state, rng, context):
        return jnp.concatenate([state, context])

    def reward(self, state, action, next_state, rng, context):
        return 1.0 - jnp.minimum(jnp.abs(next_state[0]), 1.0)

    def terminal(self, state, rng, context):
        return jnp.abs(state[0]) > 1.0


task = gd.Task(
    env=Beam(),
    contexts={"gravity": (0.5, 20.0, "m/s²"), "speed": (0.0, 1.5, "m/s")},
    source={"gravity": (0.5, 1.0), "speed": (0.0, 0.05)},
    target={"gravity": (9.0, 11.0), "speed": (0.8, 1.0)},
    threshold=80.0,
    worst_return=0.0,
    training=gd.TrainingSettings(steps=100_000),
    name="beam",
)
