"""U-Maze: a point with a heading in a U-shaped corridor. The context is the goal's position."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from geodesic.contexts import ContextSpace, FloatArray, Particles, as_number
from geodesic.envs.around import way_around
from geodesic.envs.cmdp import ContextualMDP
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean, Metric

RADIUS = 0.4  # of the point: walls are inflated by it, so that the point's centre is all there is to test
REACH = 0.6  # of the goal
BOUNCE = 0.8
LOW, HIGH = -2.0, 10.0  # the arena
BLOCK = (6.0, 2.0, 6.0)  # right end, lower and upper edge of the wall of blocks, which is attached to the left side

_IN, _OUT = LOW + RADIUS, HIGH - RADIUS
_RIGHT, _LOWER, _UPPER = BLOCK[0] + RADIUS, BLOCK[1] - RADIUS, BLOCK[2] + RADIUS
# Inflated walls, one a row: axis it is perpendicular to, place on that axis, side that is free, ends on the other axis.
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
# The space that is free for the point's centre, as the union of three boxes (low x, low y, high x, high y).
_CORRIDORS = np.array([(_IN, _IN, _OUT, _LOWER), (_RIGHT, _IN, _OUT, _OUT), (_IN, _UPPER, _OUT, _OUT)])


class UMazeState(NamedTuple):
    """The six values of the original simulator, in its order, the steps taken, and with goal noise the goal's offset.

    Velocities stay 0: an action sets the position directly.
    """

    x: jax.Array
    y: jax.Array
    heading: jax.Array
    vx: jax.Array
    vy: jax.Array
    omega: jax.Array
    t: jax.Array
    offset: Any = ()


class UMaze(ContextualMDP):
    """Arena [-2, 10]^2 with a wall x < 6, 2 < y < 6; start (0, 0), heading along x.

    An action (forward, turn) turns, then moves along the heading. A move that crosses a wall is reflected at it with
    coefficient 0.8; if that move crosses a wall again, the point stays. Reward 1 within 0.6 of the goal, which ends
    the episode, otherwise -0.01. Observation: the six state values, time / 1000, the goal. With goal_noise, the goal of
    each episode lies N(0, goal_noise^2) off its context, and is seen there (the authors': 0.1).
    """

    max_steps = 100
    context_space: ContextSpace
    worst_return: float = -1.0
    observation_space = spaces.Box(
        np.array([LOW, LOW, -4, -1, -1, -1, 0, LOW, LOW], np.float32),
        np.array([HIGH, HIGH, 4, 1, 1, 1, 1, HIGH, HIGH], np.float32),
    )
    action_space = spaces.Box(np.array([-1, -0.25], np.float32), np.array([1, 0.25], np.float32))

    def __init__(self, goal_noise: float = 0.0) -> None:
        super().__init__()
        self.goal_noise = as_number(goal_noise, "goal_noise")
        if self.goal_noise < 0:
            raise InvalidInput(f"expected goal_noise to be non-negative, got {goal_noise!r}")
        self.context_space = ContextSpace([LOW, LOW], [HIGH, HIGH], names=("goal_x", "goal_y"))

    def initial(self, rng: jax.Array, params: jax.Array | None = None) -> UMazeState:
        zero = jnp.zeros((), jnp.float32)
        offset = self.goal_noise * jax.random.normal(rng, (2,)) if self.goal_noise else ()
        return UMazeState(zero, zero, zero, zero, zero, zero, jnp.zeros((), jnp.int32), offset)

    def goal(self, state: UMazeState, context: Any) -> Any:
        """Where this episode's goal is (2,)."""
        return context + state.offset if self.goal_noise else context

    def transition(
        self, state: UMazeState, action: jax.Array, rng: jax.Array, params: jax.Array | None = None
    ) -> UMazeState:
        limited = jnp.clip(action, self.action_space.low, self.action_space.high)
        heading = state.heading + limited[1]
        heading = heading - 2 * jnp.pi * jnp.round(heading / (2 * jnp.pi))
        start = jnp.stack([state.x, state.y])
        end = move(start, start + limited[0] * jnp.stack([jnp.cos(heading), jnp.sin(heading)]))
        return state._replace(x=end[0], y=end[1], heading=heading, t=state.t + 1)

    def observation(self, state: UMazeState, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        goal = self.goal(state, jnp.asarray(params))
        return jnp.concatenate([jnp.stack(state[:6]), state.t[None] / 1000, goal]).astype(jnp.float32)

    def reward(
        self,
        state: UMazeState,
        action: jax.Array,
        next_state: UMazeState,
        rng: jax.Array,
        params: jax.Array | None = None,
    ) -> jax.Array:
        return jnp.where(self.success(next_state, jnp.asarray(params)), 1.0, -0.01)

    def terminal(self, state: UMazeState, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return self.success(state, jnp.asarray(params))

    def success(self, state: UMazeState, context: jax.Array) -> jax.Array:
        x, y = self.goal(state, context)
        return jnp.hypot(state.x - x, state.y - y) <= REACH

    def source(self, rng: np.random.Generator) -> Particles:
        return Particles.gaussian([0, 0], 1.0, 100, rng, self.context_space.low, self.context_space.high)

    def target(self, rng: np.random.Generator) -> Particles:
        return Particles.gaussian([0, 8], 1.0, 100, rng, self.context_space.low, self.context_space.high)

    @property
    def walls(self) -> tuple[tuple[float, float, float, float], ...]:
        """Boxes (x0, y0, x1, y1) that no goal should lie in."""
        return ((LOW, BLOCK[1], BLOCK[0], BLOCK[2]),)

    def is_feasible(self, contexts: FloatArray) -> NDArray[np.bool_]:
        """Goals within reach of a free position: about 1.4 % of source and target lie too deep in the wall."""
        return np.asarray(np.linalg.norm(contexts - nearest_free(contexts), axis=1) < REACH)

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """1 - 0.01 (n - 1) with n = max(1, ceil(d - 0.6)): a step covers at most 1, turning is free in this bound.

        d is the way around a wall thinner by 0.6: the point may end beside the wall and reach the goal across its
        edge. Noise brings a goal nearer by up to 4 of its standard deviations, further in 3 of 10,000 episodes.
        """
        reach = REACH + 4 * self.goal_noise
        ways = path_length(np.zeros_like(contexts), contexts, thinner=reach)
        feasible = self.is_feasible(contexts)
        steps = np.maximum(np.ceil(np.where(feasible, ways, 0.0) - reach - 1e-4), 1)
        return np.where(feasible, 1.0 - 0.01 * (steps - 1), self.worst_return)

    def metric(self, name: str) -> Metric | None:
        """l2, in the units of the contexts; nothing else is this environment's own."""
        return Euclidean() if name == "l2" else None

    def image(self, state: UMazeState, context: FloatArray) -> NDArray[np.uint8]:
        """Walls grey, goal green, the point red with a dark line along its heading; y points up."""
        size = 240
        ticks = LOW - 0.5 + (np.arange(size) + 0.5) * (HIGH - LOW + 1) / size
        x, y = np.meshgrid(ticks, ticks[::-1])
        picture = np.full((size, size, 3), 255, np.uint8)
        picture[(x < LOW) | (x > HIGH) | (y < LOW) | (y > HIGH)] = 90
        picture[(x < BLOCK[0]) & (y > BLOCK[1]) & (y < BLOCK[2])] = 90
        goal = np.asarray(self.goal(state, context))
        picture[np.hypot(x - goal[0], y - goal[1]) <= REACH] = (60, 170, 90)
        dx, dy = x - float(state.x), y - float(state.y)
        cos, sin = np.cos(float(state.heading)), np.sin(float(state.heading))
        picture[np.hypot(dx, dy) <= RADIUS] = (200, 60, 50)
        ahead, aside = cos * dx + sin * dy, cos * dy - sin * dx
        picture[(ahead >= 0) & (ahead <= 2 * RADIUS) & (np.abs(aside) <= 0.08)] = 20
        return picture


def move(start: jax.Array, end: jax.Array) -> jax.Array:
    """Where a point that sets out from start (2,) towards end (2,) comes to rest."""
    at = _crossings(start, end)
    first = jnp.argmin(at)
    hits = jnp.isfinite(at[first])
    hit = start + jnp.where(hits, at[first], 0.0) * (end - start)
    mirrored = jnp.where(jnp.arange(2) == jnp.asarray(_AXIS)[first], 2 * jnp.asarray(_PLACE)[first] - end, end)
    bounced = hit + BOUNCE * (mirrored - hit)
    reached = jnp.where(hits, bounced, end)
    # The last word is whether the place is free: rounding may hide a crossing exactly at a corner.
    stuck = (hits & jnp.isfinite(_crossings(start, bounced)).any()) | ~is_free(reached)
    return jnp.where(stuck, start, reached)


def _crossings(start: jax.Array, end: jax.Array) -> jax.Array:
    """Share of the way at which the line meets each inflated wall from its free side, infinite where it does not."""
    before, after = (_SIDE * (point[_AXIS] - _PLACE) for point in (start, end))
    crossing = (before >= 0) & (after <= 0)
    at = before / jnp.where(crossing & (before > after), before - after, 1.0)
    along = start[1 - _AXIS] + at * (end - start)[1 - _AXIS]
    return jnp.where(crossing & (along >= _FROM) & (along <= _TO), at, jnp.inf)


def is_free(point: jax.Array) -> jax.Array:
    """Whether the point's centre (2,) is strictly off every wall."""
    x, y = point
    inside = (x > _IN) & (x < _OUT) & (y > _IN) & (y < _OUT)
    return jnp.asarray(inside & ((x > _RIGHT) | (y < _LOWER) | (y > _UPPER)))


def nearest_free(points: FloatArray) -> FloatArray:
    """The nearest place (n, 2) for the point's centre."""
    candidates = np.stack([np.clip(points, box[:2], box[2:]) for box in _CORRIDORS])
    best = np.linalg.norm(candidates - points, axis=2).argmin(axis=0)
    return np.asarray(candidates[best, np.arange(len(points))])


def path_length(starts: FloatArray, ends: FloatArray, thinner: float = 0.0) -> FloatArray:
    """Length (n,) of the shortest way around the inflated wall, infinite to or from a place inside it.

    `thinner` takes that much off each of its faces.
    """
    right, lower, upper = _RIGHT - thinner, _LOWER + thinner, _UPPER - thinner
    corners = np.array([(right, lower), (right, upper)])
    return way_around(starts, ends, np.array([-np.inf, lower]), np.array([right, upper]), corners)
