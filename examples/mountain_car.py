"""A custom environment in JAX: mountain car with gravity as the context.

    python examples/mountain_car.py                                   # train 4 seeds and print the table
    geodesic compare examples/mountain_car.py:task                    # compare with training on the target

In weak gravity the car drives straight up the hill. In strong gravity it has to swing first, which random actions
hardly ever discover. The curriculum raises gravity step by step.
"""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import geodesic as gd


class MountainCar(gd.ContextualMDP):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Discrete(3)
    max_steps = 200

    def initial(self, rng, context):
        return jnp.stack([jax.random.uniform(rng, minval=-0.6, maxval=-0.4), 0.0])

    def transition(self, state, action, rng, context):
        position, velocity = state
        velocity = velocity + 0.001 * (action - 1) - context[0] * jnp.cos(3 * position)
        velocity = jnp.clip(velocity, -0.07, 0.07)
        position = jnp.clip(position + velocity, -1.2, 0.6)
        return jnp.stack([position, jnp.where((position <= -1.2) & (velocity < 0), 0.0, velocity)])

    def observation(self, state, rng, context):
        return jnp.concatenate([state, context])

    def reward(self, state, action, next_state, rng, context):
        return jnp.float32(-1.0)

    def terminal(self, state, rng, context):
        return state[0] >= 0.5

    def success(self, state, context):
        return state[0] >= 0.5


task = gd.Task(
    env=MountainCar(),
    contexts={"gravity": (0.0, 0.003)},
    source={"gravity": (0.0003, 0.0008)},
    target={"gravity": (0.0024, 0.0026)},
    threshold=-160.0,
    solved=-140.0,
    worst_return=-200.0,
    training=gd.TrainingSettings(steps=400_000, compare=["gradient", "target-only"]),
)

if __name__ == "__main__":
    result = gd.train(task, "gradient:step=0.1", seeds=4, out="runs/mountain-car")
    print(result.table())
    print(*result.figures(), sep="\n")
