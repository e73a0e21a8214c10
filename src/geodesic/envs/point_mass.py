"""PointMass: a mass steered by forces through a gate in a wall to a goal on the other side (the SPDL benchmark)."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.envs.cmdp import ContextualMDP
from geodesic.metrics import Euclidean, Metric

DT = 0.01
SUBSTEPS = 10
GAIN = 1.5  # acceleration per unit of force
NOISE = 0.05  # standard deviation of the acceleration's noise
MAX_FORCE = 10.0
ARENA = 4.0  # positions lie in [-ARENA, ARENA]
DECAY = 0.6  # of the reward with the distance to the goal
SUCCESS_RADIUS = 0.25
START = (0.0, 3.0)
GOAL = (0.0, -3.0)
N_PARTICLES = 500

Moments = tuple[FloatArray, FloatArray]  # mean (d,), covariance (d, d)
Crash = tuple[jax.Array, jax.Array, jax.Array]  # whether there is one, and its x and y


class PointMass(ContextualMDP):
    """State (x, vx, y, vy, crashed); context (gate position, gate width); action: the force, clipped to [-10, 10]^2.

    One step is ten explicit Euler steps of 0.01 with p' = v, v' = 1.5 * force + N(0, 0.05^2), positions clipped to
    [-4, 4]. A substep that crosses y = 0 in either direction where |x - position| > width / 2 puts the mass at rest at
    the wall (y = 0, x interpolated at the crossing) and ends the episode. Reward exp(-0.6 * distance to the goal).

    The paper lists the spreads of source and target as variances; in the benchmark they are standard deviations, and
    they are here. Samples are clipped to the context space; `source_moments` and `target_moments` are the Gaussians
    before clipping, for methods that know Gaussians only. Success is the benchmark's: the mass within 0.25 of the goal.
    """

    max_steps = 100
    worst_return = 0.0
    context_space = ContextSpace([-4.0, 0.5], [4.0, 8.0], names=("gate_position", "gate_width"))
    action_space = gym.spaces.Box(-MAX_FORCE, MAX_FORCE, (2,), np.float32)
    source_moments: Moments = (np.array([0.0, 4.25]), np.diag(np.square([2.0, 1.875])))
    target_moments: Moments = (np.array([2.5, 0.5]), np.diag(np.square([0.004, 0.00375])))
    half_wall = 0.06  # as it is drawn; it has no thickness

    def __init__(self) -> None:
        super().__init__()
        low, high = self.seen_bounds()
        self.observation_space = gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def seen_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Of observations."""
        # An episode at full force reaches 150; the noise adds 0.016 (standard deviation) to it.
        speed = 1.0 + GAIN * MAX_FORCE * DT * SUBSTEPS * self.max_steps
        most = np.array([ARENA, speed, ARENA, speed])
        return np.append(-most, self.context_space.low), np.append(most, self.context_space.high)

    def initial(self, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return jnp.array([START[0], 0.0, START[1], 0.0, 0.0], jnp.float32)

    def transition(
        self, state: jax.Array, action: jax.Array, rng: jax.Array, params: jax.Array | None = None
    ) -> jax.Array:
        noise = NOISE * jax.random.normal(rng, (SUBSTEPS, 2))
        return simulate(state, jnp.clip(action, -MAX_FORCE, MAX_FORCE), noise, jnp.asarray(params), self.first_crash)

    def observation(self, state: jax.Array, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return jnp.concatenate([state[:4], jnp.asarray(params, jnp.float32)])

    def reward(
        self,
        state: jax.Array,
        action: jax.Array,
        next_state: jax.Array,
        rng: jax.Array,
        params: jax.Array | None = None,
    ) -> jax.Array:
        return jnp.exp(-DECAY * distance_to_goal(next_state))

    def terminal(self, state: jax.Array, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return state[4] > 0

    def success(self, state: jax.Array, context: jax.Array) -> jax.Array:
        return distance_to_goal(state) < SUCCESS_RADIUS

    def first_crash(self, x: jax.Array, y: jax.Array, context: jax.Array) -> Crash:
        return through_the_wall(x, y, context)

    def gate(self, context: FloatArray) -> tuple[float, float]:
        """Its left and its right end."""
        return float(context[0] - context[1] / 2), float(context[0] + context[1] / 2)

    def source(self, rng: np.random.Generator) -> Particles:
        return self._particles(self.source_moments, rng)

    def target(self, rng: np.random.Generator) -> Particles:
        return self._particles(self.target_moments, rng)

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """The return of a mass that falls at full force, noise at six standard deviations with it, and then stays."""
        acceleration = GAIN * MAX_FORCE + 6 * NOISE
        times = DT * SUBSTEPS * np.arange(1, self.max_steps + 1)
        distances = np.maximum(0.0, START[1] - GOAL[1] - 0.5 * acceleration * times**2)
        return np.full(len(contexts), np.exp(-DECAY * distances).sum())

    def metric(self, name: str) -> Metric | None:
        """l2, in the units of the contexts; nothing else is this environment's own."""
        return Euclidean() if name == "l2" else None

    def image(self, state: jax.Array, context: FloatArray) -> NDArray[np.uint8]:
        """Wall grey, gate open, goal a green ring of the success radius, mass blue, or red after a crash."""
        size = 256
        ticks = (np.arange(size) + 0.5) / size * 2 * ARENA - ARENA
        x, y = np.meshgrid(ticks, -ticks)
        canvas = np.full((size, size, 3), 255, np.uint8)
        left, right = self.gate(context)
        canvas[(np.abs(y) < self.half_wall) & ((x < left) | (x > right))] = 90
        ring = np.hypot(x - GOAL[0], y - GOAL[1])
        canvas[(ring < SUCCESS_RADIUS + 0.04) & (ring > SUCCESS_RADIUS - 0.04)] = (30, 150, 60)
        body = np.asarray(state)
        canvas[np.hypot(x - body[0], y - body[2]) < 0.14] = (200, 40, 40) if body[4] > 0 else (30, 80, 200)
        return canvas

    def _particles(self, moments: Moments, rng: np.random.Generator) -> Particles:
        mean, cov = moments
        return Particles.gaussian(mean, cov, N_PARTICLES, rng, self.context_space.low, self.context_space.high)


def through_the_wall(x: jax.Array, y: jax.Array, context: jax.Array) -> Crash:
    """Whether the path (k + 1 points) crosses y = 0 outside the gate, and where (x, y) it does so first."""
    crosses = ((y[:-1] >= 0) & (y[1:] < 0)) | ((y[:-1] <= 0) & (y[1:] > 0))
    share = y[:-1] / jnp.where(crosses, y[:-1] - y[1:], 1.0)
    x_cross = x[:-1] + share * (x[1:] - x[:-1])
    outside = crosses & (jnp.abs(x_cross - context[0]) > context[1] / 2)
    return outside.any(), x_cross[jnp.argmax(outside)], jnp.zeros((), jnp.float32)


def simulate(
    state: jax.Array,
    force: jax.Array,
    noise: jax.Array,
    context: jax.Array,
    first_crash: Callable[[jax.Array, jax.Array, jax.Array], Crash] = through_the_wall,
) -> jax.Array:
    """The state (5,) after the substeps of one action, with acceleration noise (SUBSTEPS, 2).

    Velocities have a closed form; only the clipped positions need the substeps one by one, so the wall is looked for
    afterwards, in all substeps at once.
    """
    gained = DT * jnp.cumsum(GAIN * force + noise, axis=0)
    velocity = state[1:4:2] + gained
    positions = [state[0:4:2]]
    for before in (state[1:4:2], *velocity[:-1]):
        positions.append(jnp.clip(positions[-1] + DT * before, -ARENA, ARENA))
    x, y = jnp.stack(positions).T
    hit, x_hit, y_hit = first_crash(x, y, context)
    moved = jnp.stack([x[-1], velocity[-1, 0], y[-1], velocity[-1, 1], 0.0])
    crashed = jnp.stack([x_hit, 0.0, y_hit, 0.0, 1.0])
    return jnp.where(state[4] > 0, state, jnp.where(hit, crashed, moved))


def distance_to_goal(state: jax.Array) -> jax.Array:
    return jnp.hypot(state[0] - GOAL[0], state[2] - GOAL[1])
