"""A runner that jumps across a gap; its width and the height of the far side are the context.

The only reward is 1 on the far side. On the level no jump leads farther than four metres, and none leads higher than
1.25, so that most of the box cannot be solved. The task does not say which part.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

DT, ACCELERATION, FASTEST, LEAP, GRAVITY = 0.05, 8.0, 4.0, 5.0, 10.0


class Jumper(gd.ContextualMDP):
    """State: position and velocity of the feet; the near side ends at 0 and has height 0."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = gym.spaces.Discrete(3)  # roll, run, jump
    max_steps = 100

    def initial(self, rng, context):
        return jnp.stack([jax.random.uniform(rng, minval=-4.0, maxval=-3.0), 0.0, 0.0, 0.0])

    def transition(self, state, action, rng, context):
        x, y, vx, vy = state
        grounded = self.grounded(state)
        vx = jnp.where(grounded & (action == 1), jnp.minimum(vx + DT * ACCELERATION, FASTEST), vx)
        vy = jnp.where(grounded, jnp.where(action == 2, LEAP, 0.0), vy - DT * GRAVITY)
        moved, height = x + DT * vx, y + DT * vy
        gap, far = context
        blocked = (x < gap) & (moved >= gap) & (height < far)  # by the wall of the far side
        moved = jnp.where(blocked, gap - 1e-3, moved)
        floor = jnp.where(moved <= 0, 0.0, jnp.where(moved >= gap, far, -1e3))
        landed = (height <= floor) & (y >= floor - 1e-4)
        return jnp.stack([moved, jnp.where(landed, floor, height), jnp.where(blocked, 0.0, vx), vy * ~landed])

    def observation(self, state, rng, context):
        return jnp.concatenate([state, context])

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(self.success(next_state, context))

    def terminal(self, state, rng, context):
        return self.success(state, context) | (state[1] < -6.0)

    def success(self, state, context):
        return (state[0] >= context[0]) & (jnp.abs(state[1] - context[1]) < 1e-4)

    def grounded(self, state):
        return (state[0] <= 0) & (state[1] <= 1e-4)


task = gd.Task(
    env=Jumper(),
    contexts={"gap": (0.2, 10.0, "m"), "height": (-3.0, 5.0, "m")},
    source={"gap": (0.2, 0.8), "height": (-1.0, 0.0)},
    target={"gap": (2.3, 2.8), "height": (0.3, 0.6)},
    threshold=0.8,
    score="success",
    training=gd.TrainingSettings(steps=200_000),
    name="jumper",
)
