"""PointMass: a mass steered by forces through a gate in a wall to a goal on the other side (the SPDL benchmark).

With it, two variants of CURROT's authors' benchmark: a target of two modes, and gates of many dimensions.
"""

from __future__ import annotations

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from geodesic.checks import as_count
from geodesic.contexts import ContextSpace, FloatArray, Moments, Particles
from geodesic.envs.plane import PlanarMDP

DT = 0.01
SUBSTEPS = 10
GAIN = 1.5  # acceleration per unit of force
NOISE = 0.05  # standard deviation of the acceleration's noise
MAX_FORCE = 10.0
ARENA = 4.0  # positions lie in [-ARENA, ARENA]
DECAY = 0.6  # of the reward per unit of distance to the goal
SUCCESS_RADIUS = 0.25
START = (0.0, 3.0)
GOAL = (0.0, -3.0)
N_PARTICLES = 500
MODE = 3.0  # the target of the variants has gates at MODE and -MODE
HALF_WALL = 0.5  # half the thickness of PointMassND's wall
NARROW = 0.26  # half-widths of its target's gates
N_VARIANT = 100  # particles of the variants

Crash = tuple[Array, Array, Array]  # whether the mass crashes, x and y of the place


class PointMass(PlanarMDP):
    """A mass steered through a gate in a wall; the context is (gate position, gate width).

    State: (x, vx, y, vy, crashed). Action: the force, clipped to [-10, 10]^2.

    One step is ten explicit Euler steps of 0.01 with p' = v, v' = 1.5 * force + N(0, 0.05^2), positions clipped to
    [-4, 4]. A substep that crosses y = 0 in either direction where |x - position| > width / 2 puts the mass at rest at
    the wall (y = 0, x interpolated at the crossing) and ends the episode. Reward exp(-0.6 * distance to the goal).

    Observations are x, vx, y, vy and the context, as in the benchmark's code; the paper's table lists the first four.

    The paper lists the spreads of source and target as variances; in the benchmark they are standard deviations, and
    they are here. Samples are clipped to the context space; `source_moments` and `target_moments` are the Gaussians
    before clipping, for methods that use Gaussians. Success is the benchmark's: the mass is within 0.25 of the goal.
    """

    max_steps = 100
    worst_return = 0.0
    context_space = ContextSpace([-4.0, 0.5], [4.0, 8.0], names=("gate_position", "gate_width"))
    action_space = gym.spaces.Box(-MAX_FORCE, MAX_FORCE, (2,), np.float32)
    source_moments: Moments = (np.array([0.0, 4.25]), np.diag(np.square([2.0, 1.875])))
    target_moments: Moments = (np.array([2.5, 0.5]), np.diag(np.square([0.004, 0.00375])))
    half_wall = 0.06  # in pictures; the wall has no thickness

    def __init__(self) -> None:
        super().__init__()
        low, high = self.observation_bounds()
        self.observation_space = gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def observation_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper bounds of observations."""
        # An episode at full force reaches a speed of 150; the noise adds 0.016 (standard deviation).
        speed = 1.0 + GAIN * MAX_FORCE * DT * SUBSTEPS * self.max_steps
        most = np.array([ARENA, speed, ARENA, speed])
        return np.append(-most, self.context_space.low), np.append(most, self.context_space.high)

    def initial(self, rng: Array, params: Array | None = None) -> Array:
        """Start at rest at (0, 3)."""
        return jnp.array([START[0], 0.0, START[1], 0.0, 0.0], jnp.float32)

    def transition(self, state: Array, action: Array, rng: Array, params: Array | None = None) -> Array:
        """Apply the force for ten substeps."""
        noise = NOISE * jax.random.normal(rng, (SUBSTEPS, 2))
        return self.simulate(state, jnp.clip(action, -MAX_FORCE, MAX_FORCE), noise, jnp.asarray(params))

    def simulate(self, state: Array, force: Array, noise: Array, context: Array) -> Array:
        """Return the state (5,) after the substeps of one action.

        Velocities have a closed form, and only the clipped positions need the substeps one by one. Crashes are
        therefore searched for afterwards, in all substeps at once.

        Args:
            state: The state (5,) before.
            force: The force (2,).
            noise: Noise of the acceleration (SUBSTEPS, 2).
            context: The context.

        Returns:
            The state after.
        """
        gained = DT * jnp.cumsum(GAIN * force + noise, axis=0)
        velocity = state[1:4:2] + gained
        positions = [state[0:4:2]]
        for before in (state[1:4:2], *velocity[:-1]):
            positions.append(jnp.clip(positions[-1] + DT * before, -ARENA, ARENA))
        x, y = jnp.stack(positions).T
        hit, x_hit, y_hit = self.first_crash(x, y, context)
        moved = jnp.stack([x[-1], velocity[-1, 0], y[-1], velocity[-1, 1], 0.0])
        crashed = jnp.stack([x_hit, 0.0, y_hit, 0.0, 1.0])
        return jnp.where(state[4] > 0, state, jnp.where(hit, crashed, moved))

    def observation(self, state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return (x, vx, y, vy) and the context."""
        return jnp.concatenate([state[:4], jnp.asarray(params, jnp.float32)])

    def reward(self, state: Array, action: Array, next_state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return exp(-0.6 * distance to the goal)."""
        return jnp.exp(-DECAY * distance_to_goal(next_state))

    def terminal(self, state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return whether the mass has crashed."""
        return state[4] > 0

    def success(self, state: Array, context: Array) -> Array:
        """Return whether the mass is within 0.25 of the goal."""
        return distance_to_goal(state) < SUCCESS_RADIUS

    def first_crash(self, x: Array, y: Array, context: Array) -> Crash:
        """Find where a path of k + 1 points first crosses y = 0 outside the gate."""
        crosses = ((y[:-1] >= 0) & (y[1:] < 0)) | ((y[:-1] <= 0) & (y[1:] > 0))
        fraction = y[:-1] / jnp.where(crosses, y[:-1] - y[1:], 1.0)
        x_cross = x[:-1] + fraction * (x[1:] - x[:-1])
        outside = crosses & (jnp.abs(x_cross - context[0]) > context[1] / 2)
        return outside.any(), x_cross[jnp.argmax(outside)], jnp.zeros((), jnp.float32)

    def gate(self, context: FloatArray) -> tuple[float, float]:
        """Return the left and the right end of the gate."""
        return float(context[0] - context[1] / 2), float(context[0] + context[1] / 2)

    def source(self, rng: np.random.Generator) -> Particles:
        """Return the benchmark's Gaussian: wide gates anywhere."""
        return self.gaussian(*self.source_moments, N_PARTICLES, rng)

    def target(self, rng: np.random.Generator) -> Particles:
        """Return the benchmark's Gaussian: narrow gates at 2.5."""
        return self.gaussian(*self.target_moments, N_PARTICLES, rng)

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """Return a bound: the mass falls at full force, helped by noise of six standard deviations, and stays."""
        acceleration = GAIN * MAX_FORCE + 6 * NOISE
        times = DT * SUBSTEPS * np.arange(1, self.max_steps + 1)
        distances = np.maximum(0.0, START[1] - GOAL[1] - 0.5 * acceleration * times**2)
        return np.full(len(contexts), np.exp(-DECAY * distances).sum())

    def image(self, state: Array, context: FloatArray) -> NDArray[np.uint8]:
        """Draw the wall grey, the success radius as a green ring, and the mass blue, or red after a crash."""
        x, y, canvas = self.canvas(-ARENA, ARENA, 256)
        left, right = self.gate(context)
        canvas[(np.abs(y) < self.half_wall) & ((x < left) | (x > right))] = 90
        ring = np.hypot(x - GOAL[0], y - GOAL[1])
        canvas[(ring < SUCCESS_RADIUS + 0.04) & (ring > SUCCESS_RADIUS - 0.04)] = (30, 150, 60)
        body = np.asarray(state)
        canvas[np.hypot(x - body[0], y - body[2]) < 0.14] = (200, 40, 40) if body[4] > 0 else (30, 80, 200)
        return canvas


class BimodalPointMass(PointMass):
    """PointMass with a target of two modes: half N((3, 0.5), 0.01^2 I), half N((-3, 0.5), 0.01^2 I).

    The source is uniform. Samples are clipped to the context space. Methods that use Gaussians get PointMass's source
    and the moments of the two halves together, N((0, 0.5), (3, 0.01)^2), which lies where no target does.
    """

    target_moments = (np.array([0.0, 0.5]), np.diag(np.square([MODE, 0.01])))
    modes: tuple[FloatArray, FloatArray] = (np.array([MODE, 0.5]), np.array([-MODE, 0.5]))
    spread = 0.01  # standard deviation around each

    def source(self, rng: np.random.Generator) -> Particles:
        """Return particles uniform on the context space."""
        return self.context_space.uniform(N_VARIANT, rng)

    def target(self, rng: np.random.Generator) -> Particles:
        """Return particles around the two modes."""
        halves = [self.gaussian(mode, self.spread, N_VARIANT // 2, rng) for mode in self.modes]
        return Particles(np.concatenate([half.points for half in halves]))


class PointMassND(BimodalPointMass):
    """BimodalPointMass with contexts of 3 k values: k gate positions, k left and k right half-widths.

    The effective gate is at the position of largest magnitude and has the smallest left and right half-width.
    Observations are half the state and this gate. The wall is thick, |y| <= 0.5: touching it outside the gate ends the
    episode. In the target all positions are at 3 or all at -3, and half-widths are 0.26, with standard deviations of
    0.001. The source is uniform; the more dimensions, the narrower its gates.

    Args:
        k: Number of gate positions.

    Raises:
        InvalidInput: If k is not a positive integer of at most 1000.
    """

    half_wall = HALF_WALL
    spread = 1e-3

    def __init__(self, k: int = 3) -> None:
        self.k = as_count(k, "k", 1000)
        names = [f"{part}_{i + 1}" for part in ("position", "left", "right") for i in range(self.k)]
        sides = np.repeat([(-4.0, 4.0), (0.25, 4.0), (0.25, 4.0)], self.k, axis=0)
        self.context_space = ContextSpace(sides[:, 0], sides[:, 1], names=names)
        one, other = (np.repeat([x, NARROW, NARROW], self.k) for x in (MODE, -MODE))
        self.modes = one, other
        self.source_moments = (sides.mean(axis=1), np.diag((sides[:, 1] - sides[:, 0]) ** 2 / 12))
        middle, along = np.repeat([0.0, NARROW, NARROW], self.k), np.repeat([MODE, 0.0, 0.0], self.k)
        self.target_moments = (middle, np.outer(along, along) + 1e-6 * np.eye(3 * self.k))
        super().__init__()

    def observation_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper bounds of observations."""
        low, high = super().observation_bounds()
        kept = np.array([0, 1, 2, 3, 4, 4 + self.k, 4 + 2 * self.k])
        half = np.array([0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0])
        return half * low[kept], half * high[kept]

    def observation(self, state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return half of (x, vx, y, vy), and the effective gate."""
        return jnp.concatenate([state[:4] / 2, self.effective_gate(jnp.asarray(params, jnp.float32))])

    def effective_gate(self, context: Array) -> Array:
        """Return position, left and right half-width (3,) of the effective gate."""
        positions, left, right = context.reshape(3, self.k)
        return jnp.stack([positions[jnp.argmax(jnp.abs(positions))], left.min(), right.min()])

    def first_crash(self, x: Array, y: Array, context: Array) -> Crash:
        """Find where a path of k + 1 points first touches the thick wall outside the gate."""
        position, left, right = self.effective_gate(context)
        return hit_thick_wall(x, y, position - left, position + right)

    def gate(self, context: FloatArray) -> tuple[float, float]:
        """Return the left and the right end of the effective gate."""
        position, left, right = np.asarray(self.effective_gate(jnp.asarray(context)))
        return float(position - left), float(position + right)


def distance_to_goal(state: Array) -> Array:
    """Return the distance from the mass to the goal."""
    return jnp.hypot(state[0] - GOAL[0], state[2] - GOAL[1])


def hit_thick_wall(x: Array, y: Array, left: Array, right: Array) -> Crash:
    """Find where a path of k + 1 points first touches the thick wall outside the gate (left, right).

    On each segment of the path it looks between the wall's faces: from fraction `enter` to fraction `leave`.
    """
    rise, run = jnp.diff(y), jnp.diff(x)
    slope = jnp.where(rise == 0, 1.0, rise)
    faces = jnp.sort(jnp.stack([(-HALF_WALL - y[:-1]) / slope, (HALF_WALL - y[:-1]) / slope]), axis=0)
    level = (rise == 0) & (jnp.abs(y[:-1]) <= HALF_WALL)
    enter = jnp.where(level, 0.0, jnp.clip(faces[0], 0.0, 1.0))
    leave = jnp.where(level, 1.0, jnp.clip(faces[1], 0.0, 1.0))
    between = (jnp.minimum(y[:-1], y[1:]) <= HALF_WALL) & (jnp.maximum(y[:-1], y[1:]) >= -HALF_WALL)
    begins, ends = x[:-1] + enter * run, x[:-1] + leave * run
    wide = jnp.where(run == 0, 1.0, run)
    edge = jnp.where(ends < left, left, right)
    inside = (begins >= left) & (begins <= right)
    fraction = jnp.where(inside, jnp.clip((edge - x[:-1]) / wide, enter, leave), enter)
    crashes = between & (~inside | (ends < left) | (ends > right))
    first = jnp.argmax(crashes)
    return crashes.any(), (x[:-1] + fraction * run)[first], (y[:-1] + fraction * rise)[first]
