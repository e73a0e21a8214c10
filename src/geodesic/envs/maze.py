"""Mazes of cells. Maze, FourRooms: find the goal; context: the start. E-Maze: walls are heights; context: the goal."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from geodesic.contexts import ContextSpace, FloatArray, IntArray, Particles, Plot
from geodesic.envs import option_text
from geodesic.envs.cmdp import ContextualMDP
from geodesic.errors import InvalidInput
from geodesic.metrics import Graph, LearnedMetric, Matrix, Metric, TabularCMDP, contextual_distance

LAYOUT = """
###########
#.....#...#
###.#.#.#.#
#...#...#.#
#.#######.#
#.....G...#
###.#####.#
#...#.....#
#.###.#.###
#.........#
###########
"""

ROOMS = """
#############
#.....#.....#
#.....#.....#
#...........#
#.....#.....#
#.....#.....#
##.####.....#
#.....###.###
#.....#.....#
#.....#.....#
#...........#
#.....#....G#
#############
"""

FREE, WALL, AGENT, GOAL = 0, 1, 2, 3
STRICT = 0.1  # weight of the steps between starts in their contextual distance
MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])  # north, south, west, east

SIZE = 20  # cells along a side of E-Maze
HEIGHT = 200.0  # of a wall; the floor is at 0
SURE = 0.9  # factor of the chance of a move
STEEP = 5.0  # climb at which that chance is halved
DISCOUNT = 0.99


class Maze(ContextualMDP):
    """Find the goal of a maze; the context is the start cell (row, column).

    Every step costs 1, and a move into a wall has no effect. The episode ends at the goal or after 100 steps.
    Observations are the flattened cell values: 0 free, 1 wall, 2 agent, 3 goal. The state is the index of the agent's
    cell among the free cells.

    Differs from the paper: it does not print the layout, the reward or the time limit. This layout has loops and dead
    ends; its farthest starts are 13 or 14 steps from the goal and yet near it in a straight line, so that the Euclidean
    metric misleads.

    Args:
        layout: Lines of '#' (wall), '.' (free) and one 'G' (goal), or the path of a file that holds them.

    Raises:
        InvalidInput: If the layout is invalid.

    Attributes:
        grid: Cell values (rows, columns).
        goal: The goal's (row, column).
        cells: The free cells (n, 2), the goal among them.
        starts: The cells (n - 1, 2) to start in.
        next_cell: Index of the cell after each move (n, 4).
        distance: Steps to the goal from each cell (n,).
    """

    max_steps = 100
    context_space: ContextSpace

    def __init__(self, layout: str = LAYOUT) -> None:
        self.grid, self.goal = parse(layout)
        self.cells: IntArray = np.argwhere(self.grid != WALL)
        self.goal_index = int(np.flatnonzero((self.cells == self.goal).all(axis=1))[0])
        self.starts: IntArray = np.delete(self.cells, self.goal_index, axis=0)
        indices = np.arange(len(self.cells))
        index_of = np.full(self.grid.shape, -1)
        index_of[tuple(self.cells.T)] = indices
        reached = index_of[tuple((self.cells[:, None] + MOVES).transpose(2, 0, 1))]
        self.next_cell = np.where(reached < 0, indices[:, None], reached)
        steps = self._steps_from(self.goal_index)
        if np.isinf(steps).any():
            row, column = self.cells[np.isinf(steps)][0]
            raise InvalidInput(f"expected every free cell to reach the goal, got a cut-off cell at ({row}, {column})")
        self.distance = steps.astype(np.int64)
        self.context_space = ContextSpace.discrete(self.starts, ("row", "column"))
        self.observation_space = gym.spaces.Box(0, 3, (self.grid.size,), np.float32)
        self.action_space = gym.spaces.Discrete(4)
        self.worst_return = -float(self.max_steps)
        observations = np.tile(self.grid.ravel(), (len(self.cells), 1))
        observations[indices, np.ravel_multi_index(tuple(self.cells.T), self.grid.shape)] = AGENT
        self._next_cell = jnp.asarray(self.next_cell, jnp.int32)
        self._index_of = jnp.asarray(index_of, jnp.int32)
        self._observations = jnp.asarray(observations, jnp.float32)
        super().__init__()

    def initial(self, rng: Array, params: Array | None = None) -> Array:
        """Start in the context's cell."""
        row, column = jnp.round(jnp.asarray(params)).astype(jnp.int32)
        return self._index_of[row, column]

    def transition(self, state: Array, action: Array, rng: Array, params: Array | None = None) -> Array:
        """Move north, south, west or east, unless a wall is there."""
        return self._next_cell[state, action]

    def observation(self, state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return the flattened cell values."""
        return self._observations[state]

    def reward(self, state: Array, action: Array, next_state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return -1."""
        return jnp.full((), -1.0, jnp.float32)

    def terminal(self, state: Array, rng: Array, params: Array | None = None) -> Array:
        """Return whether the agent is at the goal."""
        return jnp.asarray(state == self.goal_index)

    def success(self, state: Array, context: Array) -> Array:
        """Return whether the agent is at the goal."""
        return jnp.asarray(state == self.goal_index)

    def source(self, rng: np.random.Generator) -> Particles:
        """Return the uniform distribution on the starts within 2 steps of the goal."""
        return self._uniform_on(self.start_distance <= 2)

    def target(self, rng: np.random.Generator) -> Particles:
        """Return the uniform distribution on the three farthest starts."""
        farthest = np.argsort(-self.start_distance, kind="stable")[:3]
        return self._uniform_on(np.isin(np.arange(len(self.starts)), farthest))

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """Return minus the steps to the goal."""
        return -self.start_distance[self.context_space.index(contexts)].astype(np.float64)

    @property
    def start_distance(self) -> IntArray:
        """Steps to the goal from each start (n - 1,)."""
        return np.delete(self.distance, self.goal_index)

    @cached_property
    def steps_between(self) -> Matrix:
        """Steps between starts. Where a path crosses the goal, which is no start, the skeleton has an edge of 2."""
        steps = self._steps_from(np.delete(np.arange(len(self.cells)), self.goal_index))
        return Matrix(np.delete(steps, self.goal_index, axis=1), self.starts)

    @cached_property
    def contextual(self) -> Matrix:
        """The optimal policy's contextual distance, made strict by the steps between the starts.

        Algorithm 3 with an undiscounted shortest-path policy gives |h(c) - h(c')|, h the steps to the goal: starts
        that are equally far collapse. Adding 0.1 times the steps between them keeps them apart.
        """
        cells = np.arange(len(self.cells))
        at_goal = cells == self.goal_index
        rewards = np.where(at_goal[:, None], 0.0, -np.ones(self.next_cell.shape))
        next_cell = np.where(at_goal[:, None], cells[:, None], self.next_cell)
        policy = self.distance[self.next_cell].argmin(axis=1)
        tables = TabularCMDP(rewards, next_cell, cells[~at_goal], self.starts)
        return contextual_distance(tables, policy, gamma=1.0, strict=STRICT, graph=self.steps_between)

    def metric(self, name: str = "contextual") -> Metric | None:
        """Return a distance between starts: "contextual", "graph" (steps) or "l2" (straight lines), or None."""
        if name == "l2":
            return Matrix(np.linalg.norm(self.starts[:, None] - self.starts, axis=2), self.starts)
        return {"contextual": self.contextual, "graph": self.steps_between}.get(name)

    def plot(self) -> Plot:
        """Describe how its contexts are drawn: as cells, ordered by their steps to the goal."""
        return Plot(
            cells=(self.grid == WALL).astype(np.int64),
            goals=(tuple(self.goal.tolist()),),
            order=self.start_distance.astype(np.float64),
            ordered_by="steps to the goal",
        )

    def image(self, state: Array, context: FloatArray) -> NDArray[np.uint8]:
        """Draw walls dark, the goal green and the agent red."""
        colours = np.array([(255, 255, 255), (45, 45, 55), (214, 69, 65), (38, 166, 91)], dtype=np.uint8)
        values = self.grid.copy()
        values[tuple(self.cells[int(state)])] = AGENT
        return np.kron(colours[values], np.ones((24, 24, 1), dtype=np.uint8))

    def _uniform_on(self, chosen: NDArray[np.bool_]) -> Particles:
        return Particles.categorical(chosen / chosen.sum(), self.starts)

    def _steps_from(self, starts: int | IntArray) -> FloatArray:
        """Steps from one cell (n,), or from each of several (m, n), to every cell, infinite where there is no path."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        n = len(self.cells)
        cells = np.repeat(np.arange(n), len(MOVES))
        moves = csr_array((np.ones(cells.size), (cells, self.next_cell.ravel())), shape=(n, n))
        return np.asarray(dijkstra(moves, unweighted=True, indices=starts))


class FourRooms(Maze):
    """The Maze with the four rooms of Sutton, Precup and Singh (1999) and the goal in a corner.

    The farthest starts are 19 or 20 steps away, in the opposite corner.
    """

    def __init__(self) -> None:
        super().__init__(ROOMS)


def parse(layout: str) -> tuple[IntArray, IntArray]:
    """Convert a layout ('#' wall, '.' free, 'G' goal), or its file, to cell values and the goal's (row, column)."""
    lines = option_text("layout", layout).strip().splitlines()
    if len({len(line) for line in lines}) != 1 or set("".join(lines)) - set("#.G"):
        raise InvalidInput("expected a layout of equally long lines of '#', '.' and one 'G'")
    symbols = np.array([list(line) for line in lines])
    grid = np.select([symbols == "#", symbols == "G"], [WALL, GOAL], FREE)
    if not np.array_equal(grid, np.pad(grid[1:-1, 1:-1], 1, constant_values=WALL)):
        raise InvalidInput("expected a layout with walls all around")
    if (grid == GOAL).sum() != 1 or (grid == FREE).sum() < 3:
        raise InvalidInput(f"expected one goal and at least 3 free cells, got {(grid == GOAL).sum()} goals")
    return grid, np.argwhere(grid == GOAL)[0]


class EMazeState(NamedTuple):
    """State of an episode.

    Args:
        cell: The agent's cell, counted row by row.
        ended: Whether an action was taken in the goal's cell.
    """

    cell: Array
    ended: Array


class EMaze(ContextualMDP):
    """Reach the goal's cell in a maze of heights; the context is that cell (row, column). CURROT's authors' benchmark.

    20 x 20 cells of height 0, but 200 in rows 0-15 of columns 4-7 and 12-15; the agent starts in row 0, column 0.
    Actions: north, south, west, east. A move succeeds with probability 0.9 / (1 + exp(climb - 5)), where climb is the
    absolute difference of the heights: 0.894 on the flat, 0 across the edge of a wall. Otherwise, and at the border,
    the agent stays. Any action in the goal's cell earns 1 and ends the episode; all others earn 0. Contexts include
    walls, which no agent reaches. Observations are the centres (x, y) of the goal's and the agent's cell in (-1, 1)^2.

    Attributes:
        heights: Height of each cell (20, 20).
        cells: All cells (400, 2), row by row.
        next_cell: Index of the cell that each move leads to if it succeeds (400, 4).
        chance: Probability that each move succeeds (400, 4).
    """

    max_steps = 150
    worst_return = 0.0
    context_space: ContextSpace
    observation_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def __init__(self) -> None:
        self.heights = np.zeros((SIZE, SIZE))
        self.heights[:16, 4:8] = self.heights[:16, 12:16] = HEIGHT
        self.cells: IntArray = np.argwhere(np.isfinite(self.heights))
        self.context_space = ContextSpace.discrete(self.cells, ("row", "column"))
        rows, columns = np.clip(self.cells[:, None] + MOVES, 0, SIZE - 1).transpose(2, 0, 1)
        self.next_cell: IntArray = rows * SIZE + columns
        heights = self.heights.ravel()
        climb = np.abs(heights[self.next_cell] - heights[:, None])
        self.chance: FloatArray = SURE / (1 + np.exp(climb - STEEP))
        centres = (2 * self.cells[:, ::-1] + 1) / SIZE - 1
        self._next_cell = jnp.asarray(self.next_cell, jnp.int32)
        self._chance = jnp.asarray(self.chance, jnp.float32)
        self._centres = jnp.asarray(centres, jnp.float32)
        super().__init__()

    def initial(self, rng: Array, params: Array | None = None) -> EMazeState:
        """Start in row 0, column 0."""
        return EMazeState(jnp.int32(0), jnp.bool_(False))

    def transition(self, state: EMazeState, action: Array, rng: Array, params: Array | None = None) -> EMazeState:
        """Move with the chance of the move; an action in the goal's cell ends the episode."""
        arrived = state.cell == self._goal(params)
        moves = (jax.random.uniform(rng) < self._chance[state.cell, action]) & ~arrived
        cell = jnp.where(moves, self._next_cell[state.cell, action], state.cell)
        return EMazeState(cell, state.ended | arrived)

    def observation(self, state: EMazeState, rng: Array, params: Array | None = None) -> Array:
        """Return the centres of the goal's and the agent's cell."""
        return jnp.concatenate([self._centres[self._goal(params)], self._centres[state.cell]])

    def reward(
        self, state: EMazeState, action: Array, next_state: EMazeState, rng: Array, params: Array | None = None
    ) -> Array:
        """Return 1 for an action in the goal's cell, else 0."""
        return (next_state.ended & ~state.ended).astype(jnp.float32)

    def terminal(self, state: EMazeState, rng: Array, params: Array | None = None) -> Array:
        """Return whether an action was taken in the goal's cell."""
        return state.ended

    def success(self, state: EMazeState, context: Array) -> Array:
        """Return whether an action was taken in the goal's cell."""
        return state.ended

    def source(self, rng: np.random.Generator) -> Particles:
        """Return the uniform distribution on the nine cells in the corner of the start."""
        return self._block(0)

    def target(self, rng: np.random.Generator) -> Particles:
        """Return the uniform distribution on nine cells at the closed end of the middle corridor."""
        return self._block(9)

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """Return 1 where the goal can be reached, else 0; undiscounted."""
        return self.is_feasible(contexts).astype(np.float64)

    def is_feasible(self, contexts: FloatArray) -> NDArray[np.bool_]:
        """Return whether each goal lies on the floor."""
        return np.asarray(self.heights.ravel()[self.context_space.index(contexts)] == 0)

    @cached_property
    def optimal_returns(self) -> FloatArray:
        """The best discounted return (400,) for each goal, exact by value iteration over the steps of an episode.

        V_0 = 0;  V_k(goal) = 1,  V_k(s) = gamma max_a (p V_k-1(s') + (1 - p) V_k-1(s)),  gamma = 0.99.
        """
        cells = np.arange(len(self.cells))
        values = np.zeros((len(cells), len(cells)))  # of each cell (rows) for each goal (columns)
        for _ in range(self.max_steps):
            by_move = [
                p[:, None] * values[s] + (1 - p[:, None]) * values for p, s in zip(self.chance.T, self.next_cell.T)
            ]
            values = DISCOUNT * np.max(by_move, axis=0)
            values[cells, cells] = 1.0
        return np.asarray(values[0])

    @cached_property
    def positions(self) -> FloatArray:
        """(x, y, height) of each cell (400, 3) in the benchmark's units: x and y from -1 to 1."""
        return np.column_stack([2 * self.cells[:, ::-1] / (SIZE - 1) - 1, self.heights.ravel()])

    @cached_property
    def shortest_paths(self) -> Graph:
        """Shortest paths with edges |dx| + |dy| + |dheight|: around a wall is shorter than over it."""
        start = np.repeat(np.arange(len(self.cells)), len(MOVES))
        edges = np.stack([start, self.next_cell.ravel()], axis=1)
        edges = edges[edges[:, 0] < edges[:, 1]]
        lengths = np.abs(self.positions[edges[:, 0]] - self.positions[edges[:, 1]]).sum(axis=1)
        return Graph(self.cells, edges, lengths)

    def metric(self, name: str) -> Metric | LearnedMetric | None:
        """Return one of the benchmark's four distances, or None.

        "graph": shortest paths on (x, y, height); "l2": straight lines; "optimal-returns": difference of the best
        discounted returns, 0 between goals that are equally far from the start; "policy-returns": difference of the
        agent's returns, fitted to its latest episodes (the benchmark evaluates the policy exactly).
        """
        if name == "l2":
            return Matrix(np.linalg.norm(self.positions[:, None] - self.positions, axis=2), self.cells)
        if name == "optimal-returns":
            return Matrix(np.abs(self.optimal_returns[:, None] - self.optimal_returns), self.cells)
        if name == "policy-returns":
            from geodesic.metrics.returns import ReturnGap

            return ReturnGap(self.context_space, self.worst_return)
        return self.shortest_paths if name == "graph" else None

    def plot(self) -> Plot:
        """Describe how its contexts are drawn: as cells, ordered by the path from the start."""
        return Plot(
            cells=(self.heights > 0).astype(np.int64),
            goals=((0.0, 0.0),),
            star="start",
            order=np.round(self.shortest_paths.distances[0], 3),
            ordered_by="length of the path from the start",
        )

    def image(self, state: EMazeState, context: FloatArray) -> NDArray[np.uint8]:
        """Draw walls dark, the goal green and the agent red."""
        picture = np.where(self.heights[:, :, None] > 0, (45, 45, 55), (255, 255, 255)).astype(np.uint8)
        for cell, colour in ((int(self._goal(context)), (38, 166, 91)), (int(state.cell), (214, 69, 65))):
            picture[tuple(self.cells[cell])] = colour
        return np.kron(picture, np.ones((12, 12, 1), dtype=np.uint8))

    def _goal(self, context: Array | FloatArray | None) -> Array:
        row, column = jnp.round(jnp.asarray(context)).astype(jnp.int32)
        return jnp.asarray(row * SIZE + column)

    def _block(self, left: int) -> Particles:
        inside = (self.cells[:, 0] < 3) & (self.cells[:, 1] >= left) & (self.cells[:, 1] < left + 3)
        return Particles.categorical(inside / inside.sum(), self.cells)
