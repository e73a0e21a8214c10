"""Mountain car: an engine too weak for the hill. The context is the strength of gravity."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import Array
from numpy.typing import NDArray

from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.envs.plane import PlanarMDP

FORCE = 0.001  # of the engine, per step
TOP_SPEED = 0.07
LEFT, RIGHT = -1.2, 0.6  # ends of the track
FLAG = 0.5
STARTS = (-0.6, -0.4)
N_PARTICLES = 200  # of source and target


class MountainCar(PlanarMDP):
    """Drive a car up a hill; the context is gravity. Gymnasium's MountainCar-v0, where gravity is 0.0025.

    Actions: push left, nothing, push right. Every step costs 1. The episode ends at the flag or after 200 steps. In
    weak gravity the car drives straight up; in that of the target it has to swing first. Observations are position,
    velocity and the context.
    """

    max_steps = 200
    worst_return = -200.0
    context_space = ContextSpace([0.0], [0.003], names=("gravity",))
    observation_space = spaces.Box(
        np.array([LEFT, -TOP_SPEED, 0.0], np.float32), np.array([RIGHT, TOP_SPEED, 0.003], np.float32)
    )
    action_space = spaces.Discrete(3)

    def initial(self, rng: Array, params: Array | None = None) -> Array:
        """Start at rest in the valley."""
        return jnp.stack([jax.random.uniform(rng, minval=STARTS[0], maxval=STARTS[1]), jnp.float32(0)])

    def transition(self, state: Array, action: Array, rng: Array, params: Array | None = None) -> Array:
        """Move the car; it stops at the left end of the track."""
        position, velocity = state
        gravity = jnp.asarray(params, jnp.float32)[0]
        velocity = velocity + FORCE * (action - 1) - gravity * jnp.cos(3 * position)
        velocity = jnp.clip(velocity, -TOP_SPEED, TOP_SPEED)
        position = jnp.clip(position + velocity, LEFT, RIGHT)
        return jnp.stack([position, jnp.where((position <= LEFT) & (velocity < 0), 0.0, velocity)])

    def observation(self, state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return position, velocity and gravity."""
        return jnp.concatenate([state, jnp.asarray(params, jnp.float32)])

    def reward(self, state: Array, action: Array, next_state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return -1."""
        return jnp.full((), -1.0, jnp.float32)

    def success(self, state: Array, context: Array) -> Array:
        """Return whether the car is at the flag."""
        return state[0] >= FLAG

    def source(self, rng: np.random.Generator) -> Particles:
        """Return particles uniform in weak gravity, 0.0003 to 0.0008."""
        return Particles(rng.uniform(0.0003, 0.0008, (N_PARTICLES, 1)))

    def target(self, rng: np.random.Generator) -> Particles:
        """Return particles uniform around Gymnasium's gravity, 0.0024 to 0.0026."""
        return Particles(rng.uniform(0.0024, 0.0026, (N_PARTICLES, 1)))

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """Return the bound -n: in fewer than n steps not even engine and gravity together cover the way to the flag.

        After n steps from rest with acceleration a the car is n (n + 1) a / 2 away.
        """
        ratio = 2 * (FLAG - STARTS[1]) / (FORCE + contexts[:, 0])
        return -np.ceil((np.sqrt(1 + 4 * ratio) - 1) / 2 - 1e-6)

    def image(self, state: Array, context: FloatArray) -> NDArray[np.uint8]:
        """Draw the hill grey, the flag green and the car red."""
        x, y, picture = self.canvas(-1.3, 0.7, 200)
        ground = 0.45 * np.sin(3 * x) - 0.3
        picture[y < ground] = 90
        picture[(np.abs(x - FLAG) < 0.01) & (y >= ground) & (y < ground + 0.25)] = (60, 170, 90)
        position = float(state[0])
        height = 0.45 * np.sin(3 * position) - 0.3
        picture[np.hypot(x - position, y - height - 0.04) < 0.05] = (200, 60, 50)
        return picture
