"""A drone in the plane that flies to a point and stays there; nine numbers about its world are the context.

The reward of a step is exp(-distance), so that an episode of 100 steps earns less than 100.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

DT, FORCE = 0.1, 30.0


class Drone(gd.ContextualMDP):
    """State: position, velocity and the force of the rotors, which follows the action with a lag."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (15,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    max_steps = 100

    def initial(self, rng, context):
        return jnp.concatenate([jnp.zeros(4), jnp.stack([0.0, context[0] * context[2]])])

    def transition(self, state, action, rng, context):
        mass, drag, gravity, wind_x, wind_y, gusts, lag = context[:7]
        force = lag * state[4:] + (1 - lag) * FORCE * jnp.clip(action, -1, 1)
        wind = jnp.stack([wind_x, wind_y]) + gusts * jax.random.normal(rng, (2,))
        pull = (force + wind - drag * state[2:4]) / mass - jnp.stack([0.0, gravity])
        velocity = jnp.clip(state[2:4] + DT * pull, -20.0, 20.0)
        return jnp.concatenate([jnp.clip(state[:2] + DT * velocity, -20.0, 20.0), velocity, force])

    def observation(self, state, rng, context):
        return jnp.concatenate([state, context])

    def reward(self, state, action, next_state, rng, context):
        return jnp.exp(-jnp.linalg.norm(next_state[:2] - context[7:]))

    def terminal(self, state, rng, context):
        return jnp.bool_(False)


task = gd.Task(
    env=Drone(),
    contexts={
        "mass": (0.5, 3.0, "kg"), "drag": (0.0, 2.0), "gravity": (0.0, 10.0, "m/s²"), "wind_x": (-6.0, 6.0),
        "wind_y": (-6.0, 6.0), "gusts": (0.0, 3.0), "lag": (0.0, 0.9), "goal_x": (-5.0, 5.0), "goal_y": (-5.0, 5.0),
    },
    source={
        "mass": (0.9, 1.1), "drag": (0.9, 1.1), "gravity": (0.0, 1.0), "wind_x": (-0.5, 0.5),
        "wind_y": (-0.5, 0.5), "gusts": (0.0, 0.2), "lag": (0.0, 0.2), "goal_x": (-1.0, 1.0), "goal_y": (-1.0, 1.0),
    },
    target={
        "mass": (1.8, 2.2), "drag": (0.0, 0.2), "gravity": (8.0, 10.0), "wind_x": (3.0, 5.0),
        "wind_y": (-5.0, -3.0), "gusts": (1.5, 2.5), "lag": (0.6, 0.8), "goal_x": (3.0, 4.0), "goal_y": (3.0, 4.0),
    },
    threshold=60.0,
    worst_return=0.0,
    training=gd.TrainingSettings(steps=300_000),
    name="drone",
)  # fmt: skip
