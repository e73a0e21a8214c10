"""A lunar lander; gravity and the strength of the wind are the context.

The reward is that of Gymnasium's LunarLander: coming closer, slower and more upright pays, a soft landing earns 100, a
crash -100, and fuel costs a little. The contacts are simpler: an episode ends when the lander meets the ground.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd

DT, HALF_WIDTH, HEIGHT, PAD = 0.05, 10.0, 9.0, 2.0
MAIN, SIDE, SPIN, WIND = 18.0, 1.5, 2.5, 0.2  # accelerations of the engines, and of wind per unit


class Lander(gd.ContextualMDP):
    """State: position, velocity, angle, angular velocity, time of the wind, and whether it is down."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float32)
    action_space = gym.spaces.Discrete(4)  # nothing, left engine, main engine, right engine
    max_steps = 300

    def initial(self, rng, context):
        push, wind = jax.random.split(rng)
        velocity = jax.random.uniform(push, (2,), minval=-3.0, maxval=3.0)
        time = jax.random.uniform(wind, minval=0.0, maxval=1000.0)
        return jnp.array([0.0, HEIGHT, velocity[0], velocity[1], 0.0, 0.0, time, 0.0])

    def transition(self, state, action, rng, context):
        x, y, vx, vy, angle, spin, time, _ = state
        gravity, wind = context
        main, side = MAIN * (action == 2), (action == 1) * 1.0 - (action == 3)
        gust = WIND * wind * jnp.tanh(jnp.sin(0.04 * time) + jnp.sin(0.04 * jnp.pi * time))
        ax = -main * jnp.sin(angle) + SIDE * side * jnp.cos(angle) + gust
        ay = main * jnp.cos(angle) + SIDE * side * jnp.sin(angle) - gravity
        vx, vy, spin = vx + DT * ax, vy + DT * ay, spin - DT * SPIN * side
        x, y, angle = x + DT * vx, y + DT * vy, angle + DT * spin
        return jnp.stack([x, y, vx, vy, angle, spin, time + 1.0, 1.0 * (y <= 0.0)])

    def observation(self, state, rng, context):
        return jnp.concatenate([state[:6], context])

    def reward(self, state, action, next_state, rng, context):
        fuel = 0.3 * (action == 2) + 0.03 * ((action == 1) | (action == 3))
        ended = self.terminal(next_state, rng, context)
        end = jnp.where(ended, jnp.where(self.soft(next_state), 100.0, -100.0), 0.0)
        return self.shaping(next_state) - self.shaping(state) - fuel + end

    def terminal(self, state, rng, context):
        return (state[7] > 0) | (jnp.abs(state[0]) > HALF_WIDTH) | (state[1] > 1.5 * HEIGHT)

    def success(self, state, context):
        return self.soft(state) & (jnp.abs(state[0]) < PAD)

    def soft(self, state):
        return (state[7] > 0) & (jnp.abs(state[2]) < 1.0) & (state[3] > -2.0) & (jnp.abs(state[4]) < 0.3)

    def shaping(self, state):
        position = jnp.hypot(state[0] / HALF_WIDTH, state[1] / HEIGHT)
        return -100.0 * (position + jnp.hypot(state[2] / 5.0, state[3] / 7.5) + jnp.abs(state[4]))


task = gd.Task(
    env=Lander(),
    contexts={"gravity": (1.0, 12.0, "m/s²"), "wind": (0.0, 20.0)},
    source={"gravity": (1.5, 3.0), "wind": (0.0, 2.0)},
    target={"gravity": (9.0, 11.0), "wind": (12.0, 18.0)},
    threshold=150.0,
    training=gd.TrainingSettings(steps=400_000),
    name="lander",
)
