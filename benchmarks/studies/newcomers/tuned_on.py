"""Two tasks that the default method's settings were chosen on, with the Maze, PointMass, E-Maze and mountain car.

Its rules for a target that improves and for a path that leads nowhere were chosen on reacher, pendulum and drone.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd


class SwingUp(gd.ContextualMDP):
    """A pendulum that hangs down at first; with little torque and strong gravity it has to swing up, unrewarded."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    max_steps = 200

    def initial(self, rng, context):
        angle, speed = jax.random.uniform(rng, (2,), minval=-0.1, maxval=0.1)
        return jnp.stack([jnp.pi + angle, speed])

    def transition(self, state, action, rng, context):
        angle, speed = state
        torque = jnp.clip(action[0], -1, 1) * context[1]
        speed = jnp.clip(speed + (1.5 * context[0] * jnp.sin(angle) + 3 * torque) * 0.05, -10, 10)
        return jnp.stack([angle + speed * 0.05, speed])

    def observation(self, state, rng, context):
        return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1] / 5, context[0] / 12, context[1] / 6])

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(self.success(next_state, context))

    def terminal(self, state, rng, context):
        return self.success(state, context)

    def success(self, state, context):
        return (jnp.cos(state[0]) > 0.95) & (jnp.abs(state[1]) < 2.0)


class CartPole(gd.ContextualMDP):
    """CartPole-v1 with gravity as the context."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
    action_space = gym.spaces.Discrete(2)
    max_steps = 500

    def initial(self, rng, context):
        return jax.random.uniform(rng, (4,), minval=-0.05, maxval=0.05)

    def transition(self, state, action, rng, context):
        _, speed, angle, turn = state
        force = jnp.where(action == 1, 10.0, -10.0)
        push = (force + 0.05 * turn**2 * jnp.sin(angle)) / 1.1
        spin = (context[0] * jnp.sin(angle) - jnp.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * jnp.cos(angle) ** 2 / 1.1))
        return state + 0.02 * jnp.stack([speed, push - 0.05 * spin * jnp.cos(angle) / 1.1, turn, spin])

    def observation(self, state, rng, context):
        return jnp.concatenate([state, context / 30.0])

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(1.0)

    def terminal(self, state, rng, context):
        return (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 0.2095)


swing_up = gd.Task(
    env=SwingUp(),
    contexts={"gravity": (0.0, 12.0), "torque": (0.5, 6.0)},
    source={"gravity": (0.0, 2.0), "torque": (4.0, 6.0)},
    target={"gravity": (9.0, 11.0), "torque": (1.5, 2.0)},
    threshold=0.8,
    score="success",
    training=gd.TrainingSettings(
        steps=300_000, learner=gd.PPO(n_envs=16, rollout=64, batch_size=256, normalize_observations=True)
    ),
    name="swing-up",
)

cartpole = gd.Task(
    env=CartPole(),
    contexts={"gravity": (2.0, 60.0)},
    source={"gravity": (5.0, 10.0)},
    target={"gravity": (40.0, 50.0)},
    threshold=100.0,
    solved=200.0,
    training=gd.TrainingSettings(steps=40_000),
    name="cartpole",
)
