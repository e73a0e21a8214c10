"""Gymnasium's FrozenLake 8x8, slippery; the start cell is the context.

The only reward is 1 at the goal. The distance between two cells is the number of moves around the holes.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

MAP = ["SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"]
SIZE = len(MAP)
HOLES = np.array([[letter == "H" for letter in row] for row in MAP])
MOVES = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)])  # left, down, right, up
GOAL = SIZE - 1
CELLS = np.array([cell for cell in np.ndindex(SIZE, SIZE) if not HOLES[cell] and cell != (GOAL, GOAL)])
EDGES = np.argwhere(np.triu(np.abs(CELLS[:, None] - CELLS).sum(axis=2) == 1))


class FrozenLake(gd.ContextualMDP):
    """State: the cell. A third of the moves go where they should, a third each to the two sides."""

    observation_space = gym.spaces.Box(0.0, 1.0, (SIZE * SIZE,), np.float32)
    action_space = gym.spaces.Discrete(4)
    max_steps = 200

    def initial(self, rng, context):
        return jnp.round(context).astype(jnp.int32)

    def transition(self, state, action, rng, context):
        slip = jax.random.randint(rng, (), -1, 2)
        return jnp.clip(state + jnp.asarray(MOVES)[(action + slip) % 4], 0, SIZE - 1)

    def observation(self, state, rng, context):
        return jax.nn.one_hot(SIZE * state[0] + state[1], SIZE * SIZE)

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(self.success(next_state, context))

    def terminal(self, state, rng, context):
        return self.success(state, context) | jnp.asarray(HOLES)[state[0], state[1]]

    def success(self, state, context):
        return (state == GOAL).all()


def near_goal(moves):
    """Start cells at most this many moves from the goal, as the crow flies."""
    return gd.Particles(CELLS[np.abs(CELLS - GOAL).sum(axis=1) <= moves].astype(float))


task = gd.Task(
    env=FrozenLake(),
    contexts=gd.ContextSpace.discrete(CELLS.astype(float), names=["row", "column"]),
    source=near_goal(3),
    target=gd.Particles([[0.0, 0.0]]),
    threshold=0.5,
    score="success",
    metrics={"moves": gd.metrics.Graph(CELLS.astype(float), EDGES)},
    training=gd.TrainingSettings(steps=200_000),
    name="frozen-lake",
)
