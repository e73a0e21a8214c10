"""A robot with lidar among round obstacles; how many there are and how far the goal is are the context.

The obstacles lie elsewhere in each episode. Coming closer is rewarded; a collision ends the episode.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

MOST, RAYS, RANGE, SPEED, RADIUS = 12, 16, 4.0, 0.25, 0.6
ANGLES = np.linspace(0.0, 2 * np.pi, RAYS, endpoint=False)
DIRECTIONS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


class Lidar(gd.ContextualMDP):
    """State: position, goal, the obstacles' centres (absent ones are far away)."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2 + RAYS,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    max_steps = 100

    def initial(self, rng, context):
        where, turn = jax.random.split(rng)
        angle = jax.random.uniform(turn, maxval=2 * jnp.pi)
        goal = context[1] * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        centres = goal / 2 + jax.random.uniform(where, (MOST, 2), minval=-1.0, maxval=1.0) * (context[1] / 2 + 1.5)
        clear = jnp.minimum(jnp.linalg.norm(centres, axis=1), jnp.linalg.norm(centres - goal, axis=1)) > 2 * RADIUS
        present = clear & (jnp.arange(MOST) < jnp.round(context[0]))
        return jnp.concatenate([jnp.zeros((1, 2)), goal[None], jnp.where(present[:, None], centres, 1e3)])

    def transition(self, state, action, rng, context):
        return state.at[0].add(SPEED * jnp.clip(action, -1, 1))

    def observation(self, state, rng, context):
        to_centre = state[2:] - state[0]
        along = to_centre @ jnp.asarray(DIRECTIONS, jnp.float32).T
        across = jnp.square(to_centre).sum(axis=1, keepdims=True) - jnp.square(along)
        hit = (along > 0) & (across < RADIUS**2)
        ahead = jnp.where(hit, along - jnp.sqrt(jnp.maximum(RADIUS**2 - across, 0.0)), RANGE)
        return jnp.concatenate([state[1] - state[0], jnp.clip(ahead.min(axis=0), 0.0, RANGE)])

    def reward(self, state, action, next_state, rng, context):
        progress = self.away(state) - self.away(next_state)
        return progress + 5.0 * self.success(next_state, context) - 5.0 * self.collides(next_state)

    def terminal(self, state, rng, context):
        return self.success(state, context) | self.collides(state)

    def success(self, state, context):
        return self.away(state) < 0.4

    def away(self, state):
        return jnp.linalg.norm(state[1] - state[0])

    def collides(self, state):
        return jnp.linalg.norm(state[2:] - state[0], axis=1).min() < RADIUS


task = gd.Task(
    env=Lidar(),
    contexts={"obstacles": (0.0, 12.0), "distance": (1.0, 8.0, "m")},
    source={"obstacles": (0.0, 1.0), "distance": (1.0, 2.0)},
    target={"obstacles": (10.0, 12.0), "distance": (6.0, 8.0)},
    threshold=0.7,
    score="success",
    training=gd.TrainingSettings(steps=300_000),
    name="lidar",
)
