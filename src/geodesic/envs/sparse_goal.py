"""Sparse goal reaching: a point in a corridor around a square. The context is the goal and how near counts as there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.envs.around import way_around
from geodesic.envs.cmdp import ContextualMDP
from geodesic.metrics import Euclidean, Metric

ARENA = 7.0  # positions lie in [-ARENA, ARENA]^2
HOLE = 5.0  # and not in (-HOLE, HOLE)^2
MOVE = 0.3  # the longest step
STRICT = 0.05  # the target's tolerance
CUT = MOVE / (2 * np.sqrt(2))  # a step from one side of the square to another may cut its corner so deep
N_PARTICLES = 2000  # of source and target: any goal is to be hit, not only those that were trained on
N_EVALUATED = 500


class SparseGoal(ContextualMDP):
    """State: the position (2,); context: (goal x, goal y, tolerance); an action a in [-1, 1]^2 is a move.

    It is 0.3 a / max(1, |a|) long. Positions are clipped to [-7, 7]; a step that ends in the square (-5, 5)^2 has each
    coordinate with which it entered put back to 5 or -5. Start uniform in [-7, -5]^2. Reward 0 once the goal is nearer
    than the tolerance, which ends the episode; else -1. Of CURROT's authors' benchmark.

    Goals are anywhere in [-9, 9]^2. At the target's tolerance of 0.05, 29.6 % of them lie where the point can stand;
    another 1.5 % lie less than the tolerance beside that. Evaluations are on the former.
    """

    max_steps = 200
    worst_return = -200.0
    context_space = ContextSpace([-9.0, -9.0, STRICT], [9.0, 9.0, 18.0], names=("goal_x", "goal_y", "tolerance"))
    observation_space = spaces.Box(
        np.array([-ARENA, -ARENA, *context_space.low], np.float32),
        np.array([ARENA, ARENA, *context_space.high], np.float32),
    )
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def initial(self, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return jax.random.uniform(rng, (2,), minval=-ARENA, maxval=-HOLE)

    def transition(
        self, state: jax.Array, action: jax.Array, rng: jax.Array, params: jax.Array | None = None
    ) -> jax.Array:
        limited = jnp.clip(action, -1.0, 1.0)
        return put_back(state, state + MOVE * limited / jnp.maximum(1.0, jnp.hypot(limited[0], limited[1])))

    def observation(self, state: jax.Array, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return jnp.concatenate([state, jnp.asarray(params, jnp.float32)])

    def reward(
        self,
        state: jax.Array,
        action: jax.Array,
        next_state: jax.Array,
        rng: jax.Array,
        params: jax.Array | None = None,
    ) -> jax.Array:
        return jnp.where(self.success(next_state, jnp.asarray(params)), 0.0, -1.0)

    def terminal(self, state: jax.Array, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return self.success(state, jnp.asarray(params))

    def success(self, state: jax.Array, context: jax.Array) -> jax.Array:
        return jnp.hypot(state[0] - context[0], state[1] - context[1]) < context[2]

    def source(self, rng: np.random.Generator) -> Particles:
        """Uniform on the whole context space."""
        return self.context_space.uniform(N_PARTICLES, rng)

    def target(self, rng: np.random.Generator) -> Particles:
        """Goals uniform on [-9, 9]^2, to be reached within 0.05."""
        return Particles(self._strict(N_PARTICLES, rng))

    def evaluation(self, rng: np.random.Generator) -> Particles:
        """The target without goals where the point cannot stand."""
        goals = self._strict(10 * N_EVALUATED, rng)
        return Particles(goals[stands(goals)][:N_EVALUATED])

    def is_feasible(self, contexts: FloatArray) -> NDArray[np.bool_]:
        """Goals nearer than their tolerance to a place where the point can stand."""
        return np.asarray(np.linalg.norm(contexts[:, :2] - nearest_place(contexts), axis=1) < contexts[:, 2])

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """-(n - 1) with n the steps of 0.3 from the start nearest to the goal to the edge of its tolerance.

        The way is the one around a square thinner by the tolerance, as the point may stop across its edge, and by the
        corner that a step can cut off.
        """
        goals, tolerance = contexts[:, :2], contexts[:, 2]
        starts = np.clip(goals, -ARENA, -HOLE)
        halves = HOLE - tolerance - CUT
        ways = np.zeros(len(goals))
        for half in np.unique(halves):
            ways[halves == half] = _lengths(starts[halves == half], goals[halves == half], half)
        feasible = self.is_feasible(contexts)
        steps = np.maximum(np.ceil((np.where(feasible, ways, 0.0) - tolerance) / MOVE - 1e-4), 1)
        return np.where(feasible, np.maximum(1 - steps, self.worst_return), self.worst_return)

    def metric(self, name: str) -> Metric | None:
        """l2, in the units of the contexts; nothing else is this environment's own."""
        return Euclidean() if name == "l2" else None

    @property
    def walls(self) -> tuple[tuple[float, float, float, float], ...]:
        """Boxes (x0, y0, x1, y1) where no goal can be stood on: the square and the rim."""
        out, (low, high) = ARENA, (self.context_space.low[0], self.context_space.high[0])
        rim = ((low, low, -out, high), (out, low, high, high), (-out, low, out, -out), (-out, out, out, high))
        return ((-HOLE, -HOLE, HOLE, HOLE), *rim)

    def image(self, state: jax.Array, context: FloatArray) -> NDArray[np.uint8]:
        """Walls grey, the goal's disc green, at least a pixel or two wide, the point red; y points up."""
        size, edge = 252, float(self.context_space.high[0])
        ticks = (np.arange(size) + 0.5) / size * 2 * edge - edge
        x, y = np.meshgrid(ticks, ticks[::-1])
        picture = np.full((size, size, 3), 255, np.uint8)
        for x0, y0, x1, y1 in self.walls:
            picture[(x > x0) & (x < x1) & (y > y0) & (y < y1)] = 90
        away = np.hypot(x - context[0], y - context[1])
        picture[away < 0.1] = (60, 170, 90)
        picture[np.abs(away - context[2]) < 0.06] = (60, 170, 90)
        picture[np.hypot(x - float(state[0]), y - float(state[1])) < 0.25] = (200, 60, 50)
        return picture

    def _strict(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Contexts (n, 3) of the target."""
        low, high = self.context_space.low, self.context_space.high
        return rng.uniform(low, [*high[:2], STRICT], (n, 3))


def put_back(before: jax.Array, after: jax.Array) -> jax.Array:
    """Where a point that steps from `before` to `after` (2,) comes to stand."""
    after = jnp.clip(after, -ARENA, ARENA)
    inside = (jnp.abs(after) < HOLE).all()
    entered = inside & (jnp.abs(before) >= HOLE)
    return jnp.where(entered, jnp.sign(before) * HOLE, after)


def stands(contexts: FloatArray) -> NDArray[np.bool_]:
    """Which goals (n, 2 or more) lie where the point can stand."""
    far = np.abs(contexts[:, :2]).max(axis=1)
    return np.asarray((far >= HOLE) & (far <= ARENA))


def nearest_place(contexts: FloatArray) -> FloatArray:
    """The nearest place (n, 2) where the point can stand: out of the square by the nearest side, into the arena."""
    places = np.clip(contexts[:, :2], -ARENA, ARENA)
    rows, axis = np.arange(len(places)), np.abs(places).argmax(axis=1)
    nearest = places[rows, axis]
    places[rows, axis] = np.where(np.abs(nearest) < HOLE, np.where(nearest < 0, -HOLE, HOLE), nearest)
    return places


def _lengths(starts: FloatArray, goals: FloatArray, half: float) -> FloatArray:
    """Of the shortest ways (n,) around a square of this half-width; straight where there is none left."""
    if half <= 0:
        return np.asarray(np.linalg.norm(goals - starts, axis=1))
    corners = half * np.array([(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)])
    return way_around(starts, goals, corners[0], corners[-1], corners)
