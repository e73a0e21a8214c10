"""U-Maze: a point with a heading in a U-shaped corridor. The context is the goal's position."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import Array
from numpy.typing import NDArray

from geodesic.checks import as_nonnegative
from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.envs.plane import PlanarMDP, path_length_around

RADIUS = 0.4  # of the point; walls are inflated by it, so that only the point's centre needs a test
REACH = 0.6  # of the goal
BOUNCE = 0.8
LOW, HIGH = -2.0, 10.0  # the arena
BLOCK = (6.0, 2.0, 6.0)  # right end, lower and upper edge of the wall inside, which is attached to the left side

_IN, _OUT = LOW + RADIUS, HIGH - RADIUS
_RIGHT, _LOWER, _UPPER = BLOCK[0] + RADIUS, BLOCK[1] - RADIUS, BLOCK[2] + RADIUS
# One inflated wall a row: the axis it is perpendicular to, position on that axis, free side, ends on the other axis.
_WALLS = np.array(
    [
        (0, _IN, +1, _IN, _OUT),
        (0, _OUT, -1, _IN, _OUT),
        (1, _IN, +1, _IN, _OUT),
        (1, _OUT, -1, _IN, _OUT),
        (1, _LOWER, -1, _IN, _RIGHT),
        (0, _RIGHT, +1, _LOWER, _UPPER),
        (1, _UPPER, +1, _IN, _RIGHT),
    ]
)
_AXIS = _WALLS[:, 0].astype(np.int32)
_PLACE, _SIDE, _FROM, _TO = (column.astype(np.float32) for column in _WALLS[:, 1:].T)
# The free space of the point's centre as a union of boxes (low x, low y, high x, high y).
_CORRIDORS = np.array([(_IN, _IN, _OUT, _LOWER), (_RIGHT, _IN, _OUT, _OUT), (_IN, _UPPER, _OUT, _OUT)])


class UMazeState(NamedTuple):
    """State of an episode: the six values of the original simulator in its order, steps, and the goal's noise.

    Args:
        x: Position along x.
        y: Position along y.
        heading: Heading in (-pi, pi].
        vx: 0, as an action sets the position directly.
        vy: 0.
        omega: 0.
        t: Steps taken.
        offset: Offset (2,) of the goal from its context, empty without goal noise.
    """

    x: Array
    y: Array
    heading: Array
    vx: Array
    vy: Array
    omega: Array
    t: Array
    offset: Any = ()


class UMaze(PlanarMDP):
    """Drive a point through a U-shaped corridor; the context is the goal's position.

    The arena is [-2, 10]^2 with a wall x < 6, 2 < y < 6; the start is (0, 0), heading along x. An action (forward,
    turn) turns, then moves along the heading. A move that crosses a wall is reflected at it with coefficient 0.8; if
    the reflected move crosses a wall again, the point stays. Reward 1 within 0.6 of the goal, which ends the episode,
    otherwise -0.01. Observation: the six state values, time / 1000, the goal.

    Args:
        goal_noise: Standard deviation of each episode's goal around its context. The goal is observed where it is. The
            authors' is 0.1.

    Raises:
        InvalidInput: If `goal_noise` is negative.
    """

    max_steps = 100
    context_space = ContextSpace([LOW, LOW], [HIGH, HIGH], names=("goal_x", "goal_y"))
    worst_return = -1.0
    observation_space = spaces.Box(
        np.array([LOW, LOW, -4, -1, -1, -1, 0, LOW, LOW], np.float32),
        np.array([HIGH, HIGH, 4, 1, 1, 1, 1, HIGH, HIGH], np.float32),
    )
    walls = ((LOW, BLOCK[1], BLOCK[0], BLOCK[2]),)  # no goal should lie in it
    action_space = spaces.Box(np.array([-1, -0.25], np.float32), np.array([1, 0.25], np.float32))

    def __init__(self, goal_noise: float = 0.0) -> None:
        super().__init__()
        self.goal_noise = as_nonnegative(goal_noise, "goal_noise")

    def initial(self, rng: Array, params: Array | None = None) -> UMazeState:
        """Start at (0, 0), heading along x."""
        zero = jnp.zeros((), jnp.float32)
        offset = self.goal_noise * jax.random.normal(rng, (2,)) if self.goal_noise else ()
        return UMazeState(zero, zero, zero, zero, zero, zero, jnp.zeros((), jnp.int32), offset)

    def goal(self, state: UMazeState, context: Any) -> Any:
        """Return the position (2,) of this episode's goal."""
        return context + state.offset if self.goal_noise else context

    def transition(self, state: UMazeState, action: Array, rng: Array, params: Array | None = None) -> UMazeState:
        """Turn, then move along the heading."""
        limited = jnp.clip(action, self.action_space.low, self.action_space.high)
        heading = state.heading + limited[1]
        heading = heading - 2 * jnp.pi * jnp.round(heading / (2 * jnp.pi))
        start = jnp.stack([state.x, state.y])
        end = move(start, start + limited[0] * jnp.stack([jnp.cos(heading), jnp.sin(heading)]))
        return state._replace(x=end[0], y=end[1], heading=heading, t=state.t + 1)

    def observation(self, state: UMazeState, rng: Array, params: Array | None = None) -> Array:
        """Return the six state values, time / 1000 and the goal."""
        goal = self.goal(state, jnp.asarray(params))
        return jnp.concatenate([jnp.stack(state[:6]), state.t[None] / 1000, goal]).astype(jnp.float32)

    def reward(
        self, state: UMazeState, action: Array, next_state: UMazeState, rng: Array, params: Array | None = None
    ) -> Array:
        """Return 1 at the goal, else -0.01."""
        return jnp.where(self.success(next_state, jnp.asarray(params)), 1.0, -0.01)

    def success(self, state: UMazeState, context: Array) -> Array:
        """Return whether the point is within 0.6 of the goal."""
        x, y = self.goal(state, context)
        return jnp.hypot(state.x - x, state.y - y) <= REACH

    def source(self, rng: np.random.Generator) -> Particles:
        """Return 100 particles of N((0, 0), I)."""
        return self.gaussian([0, 0], 1.0, 100, rng)

    def target(self, rng: np.random.Generator) -> Particles:
        """Return 100 particles of N((0, 8), I)."""
        return self.gaussian([0, 8], 1.0, 100, rng)

    def is_feasible(self, contexts: FloatArray) -> NDArray[np.bool_]:
        """Return whether each goal can be reached from a free position; about 1.4 % of source and target cannot."""
        return np.asarray(np.linalg.norm(contexts - nearest_free(contexts), axis=1) < REACH)

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """Return the bound 1 - 0.01 (n - 1) with n = max(1, ceil(d - 0.6)): a step covers at most 1, turning is free.

        d is the length of the path around a wall thinner by 0.6, as the point may reach the goal across the wall's
        edge. Noise brings a goal nearer by up to 4 of its standard deviations, further in 3 of 10,000 episodes.
        """
        reach = REACH + 4 * self.goal_noise
        lengths = path_length(np.zeros_like(contexts), contexts, thinner=reach)
        feasible = self.is_feasible(contexts)
        steps = np.maximum(np.ceil(np.where(feasible, lengths, 0.0) - reach - 1e-4), 1)
        return np.where(feasible, 1.0 - 0.01 * (steps - 1), self.worst_return)

    def image(self, state: UMazeState, context: FloatArray) -> NDArray[np.uint8]:
        """Draw walls grey, the goal green, the point red with a dark line along its heading; y points up."""
        x, y, picture = self.canvas(LOW - 0.5, HIGH + 0.5, 240)
        picture[(x < LOW) | (x > HIGH) | (y < LOW) | (y > HIGH)] = 90
        goal = np.asarray(self.goal(state, context))
        picture[np.hypot(x - goal[0], y - goal[1]) <= REACH] = (60, 170, 90)
        dx, dy = x - float(state.x), y - float(state.y)
        cos, sin = np.cos(float(state.heading)), np.sin(float(state.heading))
        picture[np.hypot(dx, dy) <= RADIUS] = (200, 60, 50)
        ahead, aside = cos * dx + sin * dy, cos * dy - sin * dx
        picture[(ahead >= 0) & (ahead <= 2 * RADIUS) & (np.abs(aside) <= 0.08)] = 20
        return picture


def move(start: Array, end: Array) -> Array:
    """Return the position (2,) after a move from start (2,) towards end (2,), reflected at a wall."""
    at = _crossings(start, end)
    first = jnp.argmin(at)
    hits = jnp.isfinite(at[first])
    hit = start + jnp.where(hits, at[first], 0.0) * (end - start)
    mirrored = jnp.where(jnp.arange(2) == jnp.asarray(_AXIS)[first], 2 * jnp.asarray(_PLACE)[first] - end, end)
    bounced = hit + BOUNCE * (mirrored - hit)
    reached = jnp.where(hits, bounced, end)
    # Test the position too: rounding may hide a crossing exactly at a corner.
    stuck = (hits & jnp.isfinite(_crossings(start, bounced)).any()) | ~is_free(reached)
    return jnp.where(stuck, start, reached)


def _crossings(start: Array, end: Array) -> Array:
    """Fraction of the line at which it meets each inflated wall from its free side, infinite if it does not."""
    before, after = (_SIDE * (point[_AXIS] - _PLACE) for point in (start, end))
    crossing = (before >= 0) & (after <= 0)
    at = before / jnp.where(crossing & (before > after), before - after, 1.0)
    along = start[1 - _AXIS] + at * (end - start)[1 - _AXIS]
    return jnp.where(crossing & (along >= _FROM) & (along <= _TO), at, jnp.inf)


def is_free(point: Array) -> Array:
    """Return whether a position (2,) of the point's centre is strictly off every wall."""
    x, y = point
    inside = (x > _IN) & (x < _OUT) & (y > _IN) & (y < _OUT)
    return jnp.asarray(inside & ((x > _RIGHT) | (y < _LOWER) | (y > _UPPER)))


def nearest_free(points: FloatArray) -> FloatArray:
    """Return the nearest free positions (n, 2) of the point's centre."""
    candidates = np.stack([np.clip(points, box[:2], box[2:]) for box in _CORRIDORS])
    best = np.linalg.norm(candidates - points, axis=2).argmin(axis=0)
    return np.asarray(candidates[best, np.arange(len(points))])


def path_length(starts: FloatArray, ends: FloatArray, thinner: float = 0.0) -> FloatArray:
    """Return the lengths (n,) of the shortest paths around the inflated wall, infinite from or to its inside.

    Args:
        starts: Where the paths start (n, 2).
        ends: Where they end (n, 2).
        thinner: How much to take off each face of the wall.
    """
    right, lower, upper = _RIGHT - thinner, _LOWER + thinner, _UPPER - thinner
    corners = np.array([(right, lower), (right, upper)])
    return path_length_around(starts, ends, np.array([-np.inf, lower]), np.array([right, upper]), corners)
