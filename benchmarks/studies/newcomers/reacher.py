"""A two-joint arm that reaches a point and stays there; distance and angle of the goal are the context.

The reward is that of Gymnasium's Reacher, minus the distance and a little for the torques. An episode is a success if
the tip is at the goal when it ends.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

DT, DAMPING, TORQUE, TOLERANCE = 0.1, 1.0, 4.0, 0.1


class Reacher(gd.ContextualMDP):
    """State: the angles of the two joints and their velocities; both links have length 1."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (10,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    max_steps = 60

    def initial(self, rng, context):
        return jnp.concatenate([jax.random.uniform(rng, (2,), minval=-0.1, maxval=0.1), jnp.zeros(2)])

    def transition(self, state, action, rng, context):
        velocity = state[2:] + DT * (TORQUE * jnp.clip(action, -1, 1) - DAMPING * state[2:])
        return jnp.concatenate([state[:2] + DT * velocity, velocity])

    def observation(self, state, rng, context):
        goal = self.goal(context)
        return jnp.concatenate([jnp.cos(state[:2]), jnp.sin(state[:2]), state[2:], goal, self.tip(state) - goal])

    def reward(self, state, action, next_state, rng, context):
        return -self.distance(next_state, context) - 0.01 * jnp.square(action).sum()

    def terminal(self, state, rng, context):
        return jnp.bool_(False)

    def success(self, state, context):
        return self.distance(state, context) < TOLERANCE

    def distance(self, state, context):
        return jnp.linalg.norm(self.tip(state) - self.goal(context))

    def tip(self, state):
        first, second = state[0], state[0] + state[1]
        return jnp.stack([jnp.cos(first) + jnp.cos(second), jnp.sin(first) + jnp.sin(second)])

    def goal(self, context):
        return context[0] * jnp.stack([jnp.cos(context[1]), jnp.sin(context[1])])


task = gd.Task(
    env=Reacher(),
    contexts={"distance": (0.1, 2.0), "angle": (-3.1, 3.1, "rad")},
    source={"distance": (1.6, 1.9), "angle": (-0.5, 0.5)},  # near the outstretched arm
    target={"distance": (0.4, 1.0), "angle": (2.0, 3.0)},  # behind it
    threshold=0.7,
    score="success",
    training=gd.TrainingSettings(steps=200_000),
    name="reacher",
)
