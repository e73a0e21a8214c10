"""UnlockPickup: fetch the key, open the door, pick up the box. The context is where an episode starts."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import Array
from numpy.typing import NDArray

from geodesic.checks import as_name, as_points
from geodesic.contexts import ContextSpace, FloatArray, IntArray, Particles
from geodesic.envs.cmdp import ContextualMDP
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean, Metric
from geodesic.metrics.base import check_endpoints

WIDTH, HEIGHT = 11, 6  # of the grid, walls included
PARTITION = 5  # column of the wall between the rooms, which has the door
VIEW = 7  # cells along a side of what the agent sees
MOVES = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])  # right, down, left, up

# MiniGrid's codes
UNSEEN, EMPTY, WALL, DOOR, KEY, BOX = 0, 1, 2, 4, 5, 7
GREY, COLOURS = 5, 6
OPEN, CLOSED, LOCKED = 0, 1, 2
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
ABSENT = 3  # state of a door whose place the key took
KINDS = 8  # of cells: unseen, empty, wall, the door in three states, key, box

NAMES = ("agent_x", "agent_y", "key_x", "key_y", "box_x", "box_y", "door_y", "door_open")
INCOMPARABLE = 255.0  # distance between contexts with different doors
CHUNK = 256  # paths that are followed at once
PLACEMENTS = 32  # of agent and key, for each door and box of the target
TILE = 24  # pixels of a cell

RGB = np.array([(214, 69, 65), (38, 166, 91), (63, 81, 181), (112, 39, 195), (230, 180, 30), (120, 120, 120)], np.uint8)


def _spread_table() -> IntArray:
    """How far one sees along a row of the view: table (2^7, 2^7, 2) of bits, by column.

    Given the cells of a row that are lit from below and those that can be seen through: the cells that are seen, and
    the cells of the next row that they light.
    """
    lit, clear = np.meshgrid(*2 * [np.arange(1 << VIEW)], indexing="ij")
    above = np.zeros_like(lit)
    for columns, step in ((range(VIEW - 1), 1), (range(VIEW - 1, 0, -1), -1)):
        for column in columns:
            passes = (lit >> column) & (clear >> column) & 1
            lit |= passes << (column + step)
            above |= (passes << (column + step)) | (passes << column)
    return np.stack([lit, above], axis=-1)


SPREAD = _spread_table()


class UnlockPickupState(NamedTuple):
    """The state of an episode.

    Args:
        agent: Column and row (2,) of the agent.
        direction: Where the agent faces: right, down, left or up.
        key: Column and row (2,) of the key; its last place if it is being carried.
        carrying: Whether the agent carries the key.
        door: Whether the door is open, closed, locked or absent.
        box: Whether the box exists: opening it destroys it.
        done: Whether the box was picked up.
        colours: The colour of door and key, and that of the box, (2,).
    """

    agent: Array
    direction: Array
    key: Array
    carrying: Array
    door: Array
    box: Array
    done: Array
    colours: Array


class UnlockPickup(ContextualMDP):
    """Fetch the key, unlock the door and pick up the box behind it; the context is where an episode starts.

    MiniGrid's UnlockPickup with the contexts of CURROT's authors' benchmark. Two rooms of 4 x 4 cells lie side by side;
    a door in the wall between them is at the row `door_y`. A context states where the agent, key, box and door are, and
    whether the door is open. The key is carried if it is where the agent is. Every episode draws the agent's direction
    and the colours. The 81,920 contexts are those of the benchmark: the box is in the right room; if the door is
    locked, the agent and the key are in the left room; neither shares a cell with the box.

    Actions are MiniGrid's: turn left, turn right, move forward, pick up, drop, toggle, done (no effect). The agent can
    carry only one thing, so the key has to be dropped before the box is picked up, which earns 1 and ends the episode.
    All other rewards are 0. MiniGrid lowers the reward with time; the benchmark does not.

    The agent sees 7 x 7 cells in front of it, as far as walls and closed doors let it. With `observation="codes"` an
    observation is MiniGrid's image, flattened: kind, colour and state of each cell, the benchmark's observation. With
    `"one-hot"` (default) it encodes which of eight kinds each cell is: unseen, empty, wall, door (open, closed or
    locked), key, box. Multilayer perceptrons learn more easily from this encoding. It leaves out the colours, which do
    not matter.

    Args:
        observation: "one-hot" or "codes".

    Raises:
        InvalidInput: If `observation` is neither of these.
    """

    max_steps = 288
    worst_return = 0.0
    action_space = spaces.Discrete(7)

    def __init__(self, observation: Literal["one-hot", "codes"] = "one-hot") -> None:
        self.one_hot = as_name(observation, "observation", ("one-hot", "codes")) == "one-hot"
        shape, most = ((VIEW * VIEW * KINDS,), 1.0) if self.one_hot else ((VIEW * VIEW * 3,), 10.0)
        self.observation_space = spaces.Box(0.0, most, shape, np.float32)
        self._moves = jnp.asarray(MOVES, jnp.int32)
        self._spread = jnp.asarray(SPREAD, jnp.int32)
        super().__init__()

    @cached_property
    def context_space(self) -> ContextSpace:
        """The contexts of the benchmark, ordered by door, box and whether the door is open."""
        return ContextSpace.discrete(_contexts().astype(np.float64), NAMES)

    def initial(self, rng: Array, params: Array | None = None) -> UnlockPickupState:
        """Start in the context's situation, with a random direction and random colours."""
        turn, paint = jax.random.split(rng)
        whole = jnp.round(jnp.asarray(params)).astype(jnp.int32)
        agent, key, door_open = whole[:2], whole[2:4], whole[7] > 0
        carrying = (agent == key).all()
        covered = ~carrying & (key[0] == PARTITION)
        return UnlockPickupState(
            agent=agent,
            direction=jax.random.randint(turn, (), 0, len(MOVES)),
            key=key,
            carrying=carrying,
            door=jnp.where(covered, ABSENT, jnp.where(door_open, OPEN, LOCKED)),
            box=jnp.bool_(True),
            done=jnp.bool_(False),
            colours=jax.random.randint(paint, (2,), 0, COLOURS),
        )

    def transition(
        self, state: UnlockPickupState, action: Array, rng: Array, params: Array | None = None
    ) -> UnlockPickupState:
        """Turn, move, or act on the cell in front of the agent."""
        front = state.agent + self._moves[state.direction]
        kind = self._kinds(state, front, params)
        free = (kind == EMPTY) | ((kind == DOOR) & (state.door == OPEN))
        takes, drops = (action == PICKUP) & ~state.carrying, (action == DROP) & state.carrying & (kind == EMPTY)
        toggles = action == TOGGLE
        turned = (state.direction + (action == RIGHT) - (action == LEFT)) % len(MOVES)
        unlocked = jnp.where(state.carrying, OPEN, LOCKED)
        toggled = jnp.where(state.door == LOCKED, unlocked, jnp.where(state.door == OPEN, CLOSED, OPEN))
        return UnlockPickupState(
            agent=jnp.where((action == FORWARD) & free, front, state.agent),
            direction=turned.astype(jnp.int32),
            key=jnp.where(drops, front, state.key),
            carrying=(state.carrying | (takes & (kind == KEY))) & ~drops,
            door=jnp.where(toggles & (kind == DOOR), toggled, state.door),
            box=state.box & ~((kind == BOX) & (toggles | takes)),
            done=state.done | (takes & (kind == BOX)),
            colours=state.colours,
        )

    def observation(self, state: UnlockPickupState, rng: Array, params: Array | None = None) -> Array:
        """Return what the agent sees."""
        ahead, right = self._moves[state.direction], self._moves[(state.direction + 1) % len(MOVES)]
        column, row = jnp.meshgrid(jnp.arange(VIEW), jnp.arange(VIEW), indexing="ij")
        places = state.agent + ahead * (VIEW - 1 - row)[..., None] + right * (column - VIEW // 2)[..., None]
        kinds = self._kinds(state, places, params)
        seen = self._visible((kinds != WALL) & ~((kinds == DOOR) & (state.door != OPEN)))
        own = (column == VIEW // 2) & (row == VIEW - 1)
        kinds = jnp.where(own, jnp.where(state.carrying, KEY, EMPTY), kinds)
        kinds = jnp.where(seen, kinds, UNSEEN)
        status = jnp.where(kinds == DOOR, state.door, 0)
        if self.one_hot:
            order = jnp.select([kinds == WALL, kinds == DOOR, kinds == KEY, kinds == BOX], [2, 3 + status, 6, 7], kinds)
            return jax.nn.one_hot(order.ravel(), KINDS).ravel()
        own_colour = jnp.select([kinds == WALL, (kinds == DOOR) | (kinds == KEY)], [GREY, state.colours[0]], 0)
        colour = jnp.where(kinds == BOX, state.colours[1], own_colour)
        return jnp.stack([kinds, colour, status], axis=-1).astype(jnp.float32).ravel()

    def reward(
        self,
        state: UnlockPickupState,
        action: Array,
        next_state: UnlockPickupState,
        rng: Array,
        params: Array | None = None,
    ) -> Array:
        """Return 1 for picking up the box, else 0."""
        return (next_state.done & ~state.done).astype(jnp.float32)

    def terminal(self, state: UnlockPickupState, rng: Array, params: Array | None = None) -> Array:
        """Return whether the box was picked up."""
        return state.done

    def success(self, state: UnlockPickupState, context: Array) -> Array:
        """Return whether the box was picked up."""
        return state.done

    def source(self, rng: np.random.Generator) -> Particles:
        """Return the benchmark's 64 initial contexts, one for each door and box: it is open, and the agent at the box.

        The agent is next to the box on the side of the door, and the key next to the agent.
        """
        return Particles(np.array([_easy(door, box) for door in range(1, 5) for box in _cells(6)], np.float64))

    def target(self, rng: np.random.Generator) -> Particles:
        """Return 2,048 contexts with a locked door and the key out of hand, 32 for each door and box."""
        every = self.evaluation(rng).points.reshape(64, -1, len(NAMES))
        return Particles(np.concatenate([each[rng.permutation(len(each))[:PLACEMENTS]] for each in every]))

    def evaluation(self, rng: np.random.Generator) -> Particles:
        """Return the uniform distribution on all 15,360 such contexts, the benchmark's target."""
        contexts = _contexts().astype(np.float64)
        carried = (contexts[:, :2] == contexts[:, 2:4]).all(axis=1)
        return Particles(contexts[(contexts[:, 7] == 0) & ~carried])

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """Return 1: every context can be solved."""
        return np.ones(len(contexts))

    @cached_property
    def steps_between(self) -> StepsBetween:
        """The benchmark's distance between contexts."""
        return StepsBetween()

    def metric(self, name: str) -> Metric | None:
        """Return "graph", the benchmark's distance, "l2", straight lines from context to context, or None."""
        if name == "l2":
            return _Straight(self.context_space)
        return self.steps_between if name == "graph" else None

    def image(self, state: UnlockPickupState, context: FloatArray) -> NDArray[np.uint8]:
        """Draw walls dark, door, key and box in their colours, and the agent as a red triangle."""
        y, x = np.mgrid[:TILE, :TILE] / (TILE - 1) * 2 - 1
        edge = np.maximum(np.abs(x), np.abs(y))
        ahead = MOVES[int(state.direction)]
        along, across = x * ahead[0] + y * ahead[1], x * ahead[1] - y * ahead[0]
        key = (np.hypot(x, y + 0.5) < 0.35) | ((np.abs(x) < 0.1) & (np.abs(y - 0.15) < 0.65))
        shapes = {
            WALL: edge >= 0,
            DOOR: (edge > 0.8, (edge > 0.8) | (np.hypot(x - 0.4, y) < 0.2), edge >= 0, edge < 0)[int(state.door)],
            KEY: key,
            BOX: (edge < 0.75) & (np.abs(y) > 0.1),
        }
        locks, box = RGB[np.asarray(state.colours)]
        colours = {WALL: (45, 45, 55), DOOR: locks, KEY: locks, BOX: box}
        places = np.stack(np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT)), axis=-1)
        kinds = np.asarray(self._kinds(state, jnp.asarray(places), context))
        picture = np.full((HEIGHT, TILE, WIDTH, TILE, 3), 255, np.uint8)
        for row, column in np.argwhere(kinds != EMPTY):
            kind = int(kinds[row, column])
            picture[row, :, column][shapes[kind]] = colours[kind]
        column, row = np.asarray(state.agent)
        picture[row, :, column][(along > -0.7) & (np.abs(across) < 0.5 * (0.7 - along))] = (214, 69, 65)
        if bool(state.carrying):
            picture[row, :, column][key & (np.abs(x) < 0.5)] = locks
        return picture.reshape(HEIGHT * TILE, WIDTH * TILE, 3)

    def _kinds(self, state: UnlockPickupState, places: Array, params: Any) -> Array:
        """The kind (...) of the thing in each cell (..., 2)."""
        context = jnp.round(jnp.asarray(params)).astype(jnp.int32)
        x, y = places[..., 0], places[..., 1]
        doorway = (x == PARTITION) & (y == context[6])
        room = (x > 0) & (x < WIDTH - 1) & (y > 0) & (y < HEIGHT - 1) & (x != PARTITION)
        kinds = jnp.where(room | doorway, EMPTY, WALL)
        kinds = jnp.where(doorway & (state.door != ABSENT), DOOR, kinds)
        kinds = jnp.where(~state.carrying & (x == state.key[0]) & (y == state.key[1]), KEY, kinds)
        return jnp.where(state.box & (x == context[4]) & (y == context[5]), BOX, kinds)

    def _visible(self, clear: Array) -> Array:
        """Which cells (columns, rows) of the view are seen, given which of them can be seen through."""
        bits = (clear * (1 << jnp.arange(VIEW))[:, None]).sum(axis=0)
        here, rows = jnp.int32(1 << VIEW // 2), []
        for row in reversed(range(VIEW)):
            seen, here = self._spread[here, bits[row]]
            rows.append(seen)
        return (jnp.stack(rows[::-1]) >> jnp.arange(VIEW)[:, None]) & 1 > 0


class StepsBetween(Metric):
    """The distance between UnlockPickup's contexts in CURROT's authors' benchmark: steps from one to the other.

        d(c, c') = walk(a, a') if k = k', else walk(a, k) + walk(k, k') + walk(k', a'),   plus |box - box'|_1

    a is the place of the agent and k that of the key: the agent fetches the key, carries it to its new place and walks
    to its own. If the door is open in only one context, the agent has to open it on the way, with agent and key to the
    left of the door, and 1 is added. Walks are measured in cells and pass through the door from room to room. Contexts
    with different doors are 255 apart.

    Mass moves to the contexts between two others that minimise the weighted sum of squared distances, as in a
    barycenter: z(t) = argmin (1 - t) d(x, z)^2 + t d(z, y)^2. W2 grows evenly along such a path, up to one step.
    """

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the distances (n, m) between contexts x (n, 8) and y (m, 8)."""
        door, state, box = (code[:, None] for code in _codes(x))
        other_door, other_state, other_box = _codes(y)
        distances = _TABLES.between[door, state, other_state] + _TABLES.boxes[box, other_box]
        return np.where(door == other_door, distances, INCOMPARABLE).astype(np.float64)

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        """Find the context (n, 1, 8) at t on each path; on a path between two doors, the nearer end."""
        x, y, t = check_endpoints(x, y, t)
        (door, start, box), (other_door, end, other_box) = _codes(x), _codes(y)
        found = np.where(t < 0.5, x, y)
        for way in np.unique(np.stack([door, box, other_box], axis=1)[door == other_door], axis=0):
            rows = np.flatnonzero((door == way[0]) & (other_door == way[0]) & (box == way[1]) & (other_box == way[2]))
            for part in np.split(rows, range(CHUNK, len(rows), CHUNK)):
                found[part] = _between(way, start[part], end[part], t)
        return found[:, None], np.ones((len(x), 1))


class _Straight(Euclidean):
    """Straight lines from context to context of a discrete space."""

    def __init__(self, space: ContextSpace) -> None:
        super().__init__()
        self.space = space

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        """Find the context (n, 1, d) nearest to the point at t on each line."""
        points, fractions = super().interpolate(x, y, t)
        return self.space.clip(points[:, 0])[:, None], fractions


class _Tables:
    """Tabulated distances between the states of a door.

    A state says where the key and the agent are, and whether the door is open.

    Attributes:
        states: (open, key x, key y, agent x, agent y) of each state of each door, (4, 1345, 5).
        number: The number of a state, by door, open, key x, key y, agent x and agent y; -1 where there is none.
        between: The distances between the states of each door, (4, 1345, 1345).
        boxes: The distances between places of the box, (16, 16).
        valid: Which states leave each place free for the box, (4, 16, 1345).
    """

    def __init__(self) -> None:
        boxes = np.array(_cells(6))
        self.boxes = np.abs(boxes[:, None] - boxes).sum(axis=2).astype(np.float32)
        self.number = np.full((4, 2, WIDTH, HEIGHT, WIDTH, HEIGHT), -1)
        states, between, valid = [], [], []
        for door in range(1, 5):
            left, both = _cells(1), [*_cells(1), (PARTITION, door), *_cells(6)]
            own = [(0, *key, *agent) for key in left for agent in left]
            own += [(1, *key, *agent) for key in both for agent in both]
            rows = np.array(own)
            self.number[door - 1][tuple(rows.T)] = np.arange(len(rows))
            states.append(rows)
            between.append(_steps(rows, door))
            valid.append([~(rows[:, 1:3] == box).all(axis=1) & ~(rows[:, 3:] == box).all(axis=1) for box in boxes])
        self.states, self.between, self.valid = np.stack(states), np.stack(between), np.array(valid)


def _cells(left: int) -> list[tuple[int, int]]:
    """The cells of the room whose first column this is."""
    return list(product(range(left, left + 4), range(1, 5)))


def _steps(states: IntArray, door: int) -> NDArray[np.float32]:
    """The distances (n, n) between the states (n, 5) of a door; the box is in one place."""

    def walk(a: IntArray, b: IntArray) -> IntArray:
        same = (a[..., 0] < PARTITION) == (b[..., 0] < PARTITION)
        detour = np.abs(a[..., 1] - door) + np.abs(b[..., 1] - door)
        return np.asarray(np.abs(a[..., 0] - b[..., 0]) + np.where(same, np.abs(a[..., 1] - b[..., 1]), detour))

    door_open, key, agent = states[:, 0], states[:, 1:3], states[:, 3:]
    fetch, opening = walk(agent, key), np.array([PARTITION - 1, door])
    carry = fetch[:, None] + walk(key[:, None], key) + fetch
    to_opening = fetch + walk(key, opening)
    steps = np.where((key[:, None] == key).all(axis=2), walk(agent[:, None], agent), carry)
    opens = door_open[:, None] != door_open
    return np.where(opens, 1 + to_opening[:, None] + to_opening, steps).astype(np.float32)


def _contexts() -> IntArray:
    """All contexts (81920, 8)."""
    parts = []
    for door, (index, box) in product(range(1, 5), enumerate(_cells(6))):
        own = _TABLES.states[door - 1][_TABLES.valid[door - 1, index]]
        where = np.broadcast_to([*box, door], (len(own), 3))
        parts.append(np.column_stack([own[:, 3:], own[:, 1:3], where, own[:, 0]]))
    return np.concatenate(parts)


def _easy(door: int, box: tuple[int, int]) -> tuple[int, ...]:
    """The benchmark's initial context with this door and box."""
    x, y = box
    if (x, y) == (PARTITION + 1, door):
        agent, key = (PARTITION, door), (PARTITION - 1, door)
    elif y == door:
        agent = (x - 1, y)
        key = (x - 1, y + (1 if y < 4 else -1))
    else:
        agent = (x, y + (-1 if door < y else 1))
        key = (x + (1 if x < 9 else -1), agent[1])
    return (*agent, *key, x, y, door, 1)


def _codes(contexts: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """The door, the number of its state and the place of the box in each context (n,), all from 0."""
    whole = np.rint(as_points(contexts, "contexts", len(NAMES))).astype(np.int64)
    low, high = np.array([1, 1, 1, 1, 6, 1, 1, 0]), np.array([9, 4, 9, 4, 9, 4, 4, 1])
    inside = ((whole >= low) & (whole <= high)).all(axis=1)
    ax, ay, kx, ky, bx, by, door, opened = np.clip(whole, low, high).T
    state = np.where(inside, _TABLES.number[door - 1, opened, kx, ky, ax, ay], -1)
    if (state < 0).any():
        raise InvalidInput(f"expected contexts of UnlockPickup, got {whole[state < 0][0].tolist()}")
    return door - 1, state, (bx - 6) * 4 + by - 1


def _between(way: IntArray, start: IntArray, end: IntArray, t: float) -> FloatArray:
    """The contexts (n, 8) at t between the states (n,) of a door, while the box moves from one place to another."""
    door, here, there = way
    least, found = np.full(len(start), np.inf), np.zeros((len(start), len(NAMES)))
    behind, ahead = _TABLES.between[door, start], _TABLES.between[door, end]
    for index in [here] if here == there else range(len(_TABLES.boxes)):
        cost = (1 - t) * (behind + _TABLES.boxes[here, index]) ** 2 + t * (ahead + _TABLES.boxes[there, index]) ** 2
        cost[:, ~_TABLES.valid[door, index]] = np.inf
        nearest = cost.argmin(axis=1)
        own = cost[np.arange(len(cost)), nearest]
        better, states = own < least, _TABLES.states[door, nearest]
        where = np.broadcast_to([*_cells(6)[index], door + 1], (len(own), 3))
        found[better] = np.column_stack([states[:, 3:], states[:, 1:3], where, states[:, 0]])[better]
        least = np.minimum(least, own)
    return found


_TABLES = _Tables()
