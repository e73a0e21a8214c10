"""Sparse goal reaching: a point in a corridor around a square. The context is the goal and its tolerance."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import Array
from numpy.typing import NDArray

from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.envs.plane import PlanarMDP, path_length_around

ARENA = 7.0  # positions lie in [-ARENA, ARENA]^2
HOLE = 5.0  # but not in (-HOLE, HOLE)^2
EDGE = 9.0  # goals lie in [-EDGE, EDGE]^2
MAX_MOVE = 0.3  # in one step
STRICT = 0.05  # the target's tolerance
CUT = MAX_MOVE / (2 * np.sqrt(2))  # how deep a step may cut a corner of the square
RIM = (
    (-EDGE, -EDGE, -ARENA, EDGE),
    (ARENA, -EDGE, EDGE, EDGE),
    (-ARENA, -EDGE, ARENA, -ARENA),
    (-ARENA, ARENA, ARENA, EDGE),
)
N_PARTICLES = 2000  # of source and target; many, so that agents learn to reach any goal
N_EVALUATED = 500


class SparseGoal(PlanarMDP):
    """Reach a goal without shaped rewards; the context is (goal x, goal y, tolerance). CURROT's authors' benchmark.

    State: the position (2,). An action a in [-1, 1]^2 moves the point by 0.3 a / max(1, |a|). Positions are clipped to
    [-7, 7]; if a step ends in the square (-5, 5)^2, each coordinate that entered it is set back to 5 or -5. The start
    is uniform in [-7, -5]^2. Reward 0 once the goal is nearer than the tolerance, which ends the episode; else -1.

    Goals are anywhere in [-9, 9]^2. At the target's tolerance of 0.05, 29.6 % of them lie in the corridor, and another
    1.5 % lie less than the tolerance outside it. Evaluations use goals in the corridor.
    """

    max_steps = 200
    worst_return = -200.0
    context_space = ContextSpace([-EDGE, -EDGE, STRICT], [EDGE, EDGE, 18.0], names=("goal_x", "goal_y", "tolerance"))
    observation_space = spaces.Box(
        np.array([-ARENA, -ARENA, *context_space.low], np.float32),
        np.array([ARENA, ARENA, *context_space.high], np.float32),
    )
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    walls = ((-HOLE, -HOLE, HOLE, HOLE), *RIM)

    def initial(self, rng: Array, params: Array | None = None) -> Array:
        """Start uniformly in [-7, -5]^2."""
        return jax.random.uniform(rng, (2,), minval=-ARENA, maxval=-HOLE)

    def transition(self, state: Array, action: Array, rng: Array, params: Array | None = None) -> Array:
        """Move the point."""
        limited = jnp.clip(action, -1.0, 1.0)
        return keep_in_corridor(state, state + MAX_MOVE * limited / jnp.maximum(1.0, jnp.hypot(limited[0], limited[1])))

    def observation(self, state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return the position and the context."""
        return jnp.concatenate([state, jnp.asarray(params, jnp.float32)])

    def reward(self, state: Array, action: Array, next_state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return 0 at the goal, else -1."""
        return jnp.where(self.success(next_state, jnp.asarray(params)), 0.0, -1.0)

    def success(self, state: Array, context: Array) -> Array:
        """Return whether the goal is nearer than the tolerance."""
        return jnp.hypot(state[0] - context[0], state[1] - context[1]) < context[2]

    def source(self, rng: np.random.Generator) -> Particles:
        """Return particles uniform on the context space."""
        return self.context_space.uniform(N_PARTICLES, rng)

    def target(self, rng: np.random.Generator) -> Particles:
        """Return goals uniform on [-9, 9]^2 with a tolerance of 0.05."""
        return Particles(self._strict(N_PARTICLES, rng))

    def evaluation(self, rng: np.random.Generator) -> Particles:
        """Return the target without goals outside the corridor."""
        goals = self._strict(10 * N_EVALUATED, rng)
        return Particles(goals[in_corridor(goals)][:N_EVALUATED])

    def is_feasible(self, contexts: FloatArray) -> NDArray[np.bool_]:
        """Return whether each goal is nearer than its tolerance to the corridor."""
        return np.asarray(np.linalg.norm(contexts[:, :2] - nearest_in_corridor(contexts), axis=1) < contexts[:, 2])

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """Return the bound -(n - 1), n the steps of 0.3 from the start nearest to the goal to within its tolerance.

        The path leads around a square thinner by the tolerance, as the point may reach the goal across the square's
        edge, and by the corner that a step can cut off.
        """
        goals, tolerance = contexts[:, :2], contexts[:, 2]
        starts = np.clip(goals, -ARENA, -HOLE)
        halves = HOLE - tolerance - CUT
        lengths = np.zeros(len(goals))
        for half in np.unique(halves):
            lengths[halves == half] = _path_lengths(starts[halves == half], goals[halves == half], half)
        feasible = self.is_feasible(contexts)
        steps = np.maximum(np.ceil((np.where(feasible, lengths, 0.0) - tolerance) / MAX_MOVE - 1e-4), 1)
        return np.where(feasible, np.maximum(1 - steps, self.worst_return), self.worst_return)

    def image(self, state: Array, context: FloatArray) -> NDArray[np.uint8]:
        """Draw walls grey, the goal and its tolerance green, the point red; y points up."""
        x, y, picture = self.canvas(-EDGE, EDGE, 252)
        away = np.hypot(x - context[0], y - context[1])
        picture[away < 0.1] = (60, 170, 90)
        picture[np.abs(away - context[2]) < 0.06] = (60, 170, 90)
        picture[np.hypot(x - float(state[0]), y - float(state[1])) < 0.25] = (200, 60, 50)
        return picture

    def _strict(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw contexts (n, 3) of the target."""
        low, high = self.context_space.low, self.context_space.high
        return rng.uniform(low, [*high[:2], STRICT], (n, 3))


def keep_in_corridor(before: Array, after: Array) -> Array:
    """Return the position after a step from `before` to `after` (2,), moved back into the corridor."""
    after = jnp.clip(after, -ARENA, ARENA)
    inside = (jnp.abs(after) < HOLE).all()
    entered = inside & (jnp.abs(before) >= HOLE)
    return jnp.where(entered, jnp.sign(before) * HOLE, after)


def in_corridor(contexts: FloatArray) -> NDArray[np.bool_]:
    """Return which goals (n, 2 or more) lie in the corridor."""
    far = np.abs(contexts[:, :2]).max(axis=1)
    return np.asarray((far >= HOLE) & (far <= ARENA))


def nearest_in_corridor(contexts: FloatArray) -> FloatArray:
    """Return the nearest positions (n, 2) in the corridor."""
    points = np.clip(contexts[:, :2], -ARENA, ARENA)
    rows, axis = np.arange(len(points)), np.abs(points).argmax(axis=1)
    nearest = points[rows, axis]
    points[rows, axis] = np.where(np.abs(nearest) < HOLE, np.where(nearest < 0, -HOLE, HOLE), nearest)
    return points


def _path_lengths(starts: FloatArray, goals: FloatArray, half: float) -> FloatArray:
    """Lengths (n,) of the shortest paths around a square of this half-width, straight if none of it is left."""
    if half <= 0:
        return np.asarray(np.linalg.norm(goals - starts, axis=1))
    corners = half * np.array([(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)])
    return path_length_around(starts, goals, corners[0], corners[-1], corners)
