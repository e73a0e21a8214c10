"""PointMass with other contexts: a target of two modes, and gates of many dimensions (CURROT's authors' benchmark)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from geodesic.checks import as_count
from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.envs.point_mass import Crash, PointMass

MODE = 3.0  # the two gates of a target lie at MODE and -MODE
HALF_WALL = 0.5  # y of the thick wall's faces
NARROW = 0.26  # half-widths of the target's gates
N_PARTICLES = 100


class BimodalPointMass(PointMass):
    """PointMass whose target is half N((3, 0.5), 0.01^2 I), half N((-3, 0.5), 0.01^2 I), from a uniform source.

    Samples are clipped to the context space. Methods that know Gaussians only get the moments of the two halves
    together, N((0, 0.5), (3, 0.01)^2), which lies where no target does, and PointMass's source.
    """

    target_moments = (np.array([0.0, 0.5]), np.diag(np.square([MODE, 0.01])))

    def source(self, rng: np.random.Generator) -> Particles:
        return self.context_space.uniform(N_PARTICLES, rng)

    def target(self, rng: np.random.Generator) -> Particles:
        return two_modes(np.array([MODE, 0.5]), np.array([-MODE, 0.5]), 0.01, self.context_space, rng)


class PointMassND(PointMass):
    """PointMass with contexts of 3 k values: k gate positions, k left and k right half-widths.

    The gate in force is at the position of largest magnitude, as wide on each side as the narrowest there: it is what
    observations show, beside half the state. The wall is thick, |y| <= 0.5: touching it anywhere outside the gate ends
    the episode there. The target has all positions at 3, or all at -3, and half-widths of 0.26, standard deviations
    0.001; the source is uniform, its gates the narrower the more dimensions there are.
    """

    half_wall = HALF_WALL

    def __init__(self, k: int = 3) -> None:
        self.k = as_count(k, "k", 1000)
        names = [f"{part}_{i + 1}" for part in ("position", "left", "right") for i in range(self.k)]
        sides = np.repeat([(-4.0, 4.0), (0.25, 4.0), (0.25, 4.0)], self.k, axis=0)
        self.context_space = ContextSpace(sides[:, 0], sides[:, 1], names=names)
        self.mode = np.repeat([MODE, NARROW, NARROW], self.k)
        self.source_moments = (sides.mean(axis=1), np.diag((sides[:, 1] - sides[:, 0]) ** 2 / 12))
        middle, along = np.repeat([0.0, NARROW, NARROW], self.k), np.repeat([MODE, 0.0, 0.0], self.k)
        self.target_moments = (middle, np.outer(along, along) + 1e-6 * np.eye(3 * self.k))
        super().__init__()

    def seen_bounds(self) -> tuple[FloatArray, FloatArray]:
        low, high = super().seen_bounds()
        kept = np.array([0, 1, 2, 3, 4, 4 + self.k, 4 + 2 * self.k])
        half = np.array([0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0])
        return half * low[kept], half * high[kept]

    def observation(self, state: jax.Array, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return jnp.concatenate([state[:4] / 2, self.in_force(jnp.asarray(params, jnp.float32))])

    def in_force(self, context: jax.Array) -> jax.Array:
        """Position, left and right half-width (3,) of the gate that there is."""
        positions, left, right = context.reshape(3, self.k)
        return jnp.stack([positions[jnp.argmax(jnp.abs(positions))], left.min(), right.min()])

    def first_crash(self, x: jax.Array, y: jax.Array, context: jax.Array) -> Crash:
        position, left, right = self.in_force(context)
        return into_the_wall(x, y, position - left, position + right)

    def gate(self, context: FloatArray) -> tuple[float, float]:
        position, left, right = np.asarray(self.in_force(jnp.asarray(context)))
        return float(position - left), float(position + right)

    def source(self, rng: np.random.Generator) -> Particles:
        return self.context_space.uniform(N_PARTICLES, rng)

    def target(self, rng: np.random.Generator) -> Particles:
        mirrored = np.concatenate([-self.mode[: self.k], self.mode[self.k :]])
        return two_modes(self.mode, mirrored, 1e-3, self.context_space, rng)


def two_modes(
    one: FloatArray, other: FloatArray, std: float, space: ContextSpace, rng: np.random.Generator
) -> Particles:
    """Half of the particles around each of two means (d,)."""
    halves = [Particles.gaussian(mean, std, N_PARTICLES // 2, rng, space.low, space.high) for mean in (one, other)]
    return Particles(np.concatenate([half.points for half in halves]))


def into_the_wall(x: jax.Array, y: jax.Array, left: jax.Array, right: jax.Array) -> Crash:
    """Whether the path (k + 1 points) touches the thick wall off the gate (left, right), and where it does so first.

    Of each part of the path, the stretch between the wall's faces is looked at: from share `enter` to share `leave`.
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
    share = jnp.where(inside, jnp.clip((edge - x[:-1]) / wide, enter, leave), enter)
    crashes = between & (~inside | (ends < left) | (ends > right))
    first = jnp.argmax(crashes)
    return crashes.any(), (x[:-1] + share * run)[first], (y[:-1] + share * rise)[first]
