"""A treasure on a grid of two rooms; its cell is the context.

The only reward is 1 for reaching it. The straight line between contexts misleads: it crosses the wall between the rooms
where the treasure is right behind it, but the agent has to walk through the gate at the other end of the wall.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

SIZE, WALL, START = 11, 5, np.array([10, 2])  # the wall is a column with a gate in row 0
MOVES = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)])


class Treasure(gd.ContextualMDP):
    """State: the cell of the agent."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2 * SIZE + 2,), np.float32)
    action_space = gym.spaces.Discrete(4)
    max_steps = 60

    def initial(self, rng, context):
        return jnp.asarray(START)

    def transition(self, state, action, rng, context):
        moved = jnp.clip(state + jnp.asarray(MOVES)[action], 0, SIZE - 1)
        return jnp.where((moved[1] == WALL) & (moved[0] > 0), state, moved)

    def observation(self, state, rng, context):
        return jnp.concatenate([jax.nn.one_hot(state, SIZE).ravel(), context / SIZE])

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(self.success(next_state, context))

    def terminal(self, state, rng, context):
        return self.success(state, context)

    def success(self, state, context):
        return (state == jnp.round(context)).all()


task = gd.Task(
    env=Treasure(),
    contexts={"row": (0.0, SIZE - 1.0), "column": (0.0, SIZE - 1.0)},
    source={"row": (9.0, 10.0), "column": (1.0, 3.0)},  # beside the agent
    target={"row": (9.0, 10.0), "column": (6.0, 7.0)},
    threshold=0.8,
    score="success",
    training=gd.TrainingSettings(steps=100_000),
    name="treasure",
)
