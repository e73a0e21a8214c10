"""Maze: find the goal of an 11 x 11 maze; the context is the start cell."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from pathlib import Path

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.envs.cmdp import ContextualMDP
from geodesic.errors import InvalidInput
from geodesic.metrics import Matrix, Metric, TabularCMDP, contextual_distance

IntArray = NDArray[np.int64]

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

FREE, WALL, AGENT, GOAL = 0, 1, 2, 3
STRICT = 0.1  # share of the steps between starts in their contextual distance
MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])  # north, south, west, east


class Maze(ContextualMDP):
    """-1 a step, the episode ends at the goal or after 100 steps; a move into a wall stays.

    The paper does not print the layout, the reward or the time limit. This layout has loops and dead ends; its farthest
    starts are 13 or 14 steps from the goal and yet near it in straight line, so that the Euclidean metric misleads.
    Contexts are (row, column); observations are the flattened cell values 0 free, 1 wall, 2 agent, 3 goal. `layout` is
    a text, or the path of a file that holds one.

    The state is the index of the agent's cell among the free cells; everything else is a table.
    """

    max_steps = 100
    context_space: ContextSpace

    def __init__(self, layout: str = LAYOUT) -> None:
        self.grid, self.goal = parse(layout if "\n" in layout else _read(layout))
        self.cells: IntArray = np.argwhere(self.grid != WALL)
        self.goal_index = int(np.flatnonzero((self.cells == self.goal).all(axis=1))[0])
        self.starts: IntArray = np.delete(self.cells, self.goal_index, axis=0)
        self.next_cell = self._next_cell()
        self.distance = self._steps_from(self.goal_index)
        if (self.distance < 0).any():
            row, column = self.cells[self.distance < 0][0]
            raise InvalidInput(f"expected every free cell to reach the goal, got a cut-off cell at ({row}, {column})")
        self.context_space = ContextSpace.discrete(self.starts, ("row", "column"))
        self.observation_space = gym.spaces.Box(0, 3, (self.grid.size,), np.float32)
        self.action_space = gym.spaces.Discrete(4)
        self.worst_return = -float(self.max_steps)
        self._tables = {
            "next": jnp.asarray(self.next_cell, jnp.int32),
            "cell": jnp.asarray(self._cell_at(), jnp.int32),
            "obs": jnp.asarray(self._observations(), jnp.float32),
        }
        super().__init__()

    def initial(self, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        row, column = jnp.round(jnp.asarray(params)).astype(jnp.int32)
        return self._tables["cell"][row, column]

    def transition(
        self, state: jax.Array, action: jax.Array, rng: jax.Array, params: jax.Array | None = None
    ) -> jax.Array:
        return jnp.asarray(self._tables["next"][state, action])

    def observation(self, state: jax.Array, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return self._tables["obs"][state]

    def reward(
        self,
        state: jax.Array,
        action: jax.Array,
        next_state: jax.Array,
        rng: jax.Array,
        params: jax.Array | None = None,
    ) -> jax.Array:
        return jnp.full((), -1.0, jnp.float32)

    def terminal(self, state: jax.Array, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return jnp.asarray(state == self.goal_index)

    def success(self, state: jax.Array, context: jax.Array) -> jax.Array:
        return jnp.asarray(state == self.goal_index)

    def source(self, rng: np.random.Generator) -> Particles:
        """Uniform on the starts within 2 steps of the goal."""
        return self._uniform_on(self.start_distance <= 2)

    def target(self, rng: np.random.Generator) -> Particles:
        """Uniform on the three farthest starts."""
        farthest = np.argsort(-self.start_distance, kind="stable")[:3]
        return self._uniform_on(np.isin(np.arange(len(self.starts)), farthest))

    def best_return(self, contexts: FloatArray) -> FloatArray:
        return -self.start_distance[self.context_space.index(contexts)].astype(np.float64)

    @property
    def start_distance(self) -> IntArray:
        """Steps to the goal from each start (51,)."""
        return np.delete(self.distance, self.goal_index)

    @cached_property
    def steps_between(self) -> Matrix:
        """Steps between starts. The way may cross the goal, no context itself: there the skeleton has an edge of 2."""
        steps = np.stack([self._steps_from(i) for i in range(len(self.cells)) if i != self.goal_index])
        return Matrix(np.delete(steps, self.goal_index, axis=1), self.starts)

    @cached_property
    def contextual(self) -> Matrix:
        """The optimal policy's contextual distance, made strict by the steps between the starts.

        Algorithm 3 with an undiscounted shortest-path policy gives |h(c) - h(c')|, h the steps to the goal: starts
        that are equally far collapse. A share of the steps between them keeps them apart.
        """
        cells = np.arange(len(self.cells))
        at_goal = cells == self.goal_index
        rewards = np.where(at_goal[:, None], 0.0, np.full(self.next_cell.shape, -1.0))
        next_cell = np.where(at_goal[:, None], cells[:, None], self.next_cell)
        policy = self.distance[self.next_cell].argmin(axis=1)
        tables = TabularCMDP(rewards, next_cell, cells[~at_goal], self.starts)
        return contextual_distance(tables, policy, gamma=1.0, strict=STRICT, graph=self.steps_between)

    def metric(self, name: str = "contextual") -> Metric | None:
        """The named distance between starts: contextual, graph (steps between) or l2 (straight, from cell to cell)."""
        if name == "l2":
            return Matrix(np.linalg.norm(self.starts[:, None] - self.starts, axis=2), self.starts)
        return {"contextual": self.contextual, "graph": self.steps_between}.get(name)

    def image(self, state: jax.Array, context: FloatArray) -> NDArray[np.uint8]:
        colours = np.array([(255, 255, 255), (45, 45, 55), (214, 69, 65), (38, 166, 91)], dtype=np.uint8)
        values = np.where(self.grid == WALL, WALL, FREE)
        values[tuple(self.goal)] = GOAL
        values[tuple(self.cells[int(state)])] = AGENT
        return np.kron(colours[values], np.ones((24, 24, 1), dtype=np.uint8))

    def _uniform_on(self, chosen: NDArray[np.bool_]) -> Particles:
        return Particles.categorical(chosen / chosen.sum(), self.starts)

    def _cell_at(self) -> IntArray:
        table = np.full(self.grid.shape, -1)
        table[tuple(self.cells.T)] = np.arange(len(self.cells))
        return table

    def _next_cell(self) -> IntArray:
        """Cell after each move (52, 4); a move into a wall stays."""
        reached = self._cell_at()[tuple((self.cells[:, None] + MOVES).transpose(2, 0, 1))]
        return np.where(reached < 0, np.arange(len(self.cells))[:, None], reached)

    def _steps_from(self, start: int) -> IntArray:
        """Breadth-first steps from a cell to every cell, -1 where there is no way. Moves can be undone."""
        steps = np.full(len(self.cells), -1)
        steps[start] = 0
        queue = deque([start])
        while queue:
            cell = queue.popleft()
            for reached in self.next_cell[cell]:
                if steps[reached] < 0:
                    steps[reached] = steps[cell] + 1
                    queue.append(int(reached))
        return steps

    def _observations(self) -> NDArray[np.float32]:
        """The observation in every cell (52, 121)."""
        rows = np.tile((self.grid == WALL).astype(np.float32).ravel(), (len(self.cells), 1))
        flat = self.cells[:, 0] * self.grid.shape[1] + self.cells[:, 1]
        rows[:, flat[self.goal_index]] = GOAL
        rows[np.arange(len(self.cells)), flat] = AGENT
        return rows


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise InvalidInput(f"expected a layout in text, or a file that holds one, got {path!r}: {error}") from error


def parse(layout: str) -> tuple[IntArray, IntArray]:
    """A layout in text ('#' wall, '.' free, 'G' goal) as a grid of cell values and the goal's (row, column)."""
    lines = layout.strip().splitlines()
    if len({len(line) for line in lines}) != 1 or set("".join(lines)) - set("#.G"):
        raise InvalidInput("expected a layout of equally long lines of '#', '.' and one 'G'")
    symbols = np.array([list(line) for line in lines])
    grid = np.select([symbols == "#", symbols == "G"], [WALL, GOAL], FREE)
    edge = np.ones_like(grid, dtype=bool)
    edge[1:-1, 1:-1] = False
    if (grid[edge] != WALL).any():
        raise InvalidInput("expected a layout with walls all around")
    if (grid == GOAL).sum() != 1 or (grid == FREE).sum() < 3:
        raise InvalidInput(f"expected one goal and at least 3 free cells, got {(grid == GOAL).sum()} goals")
    return grid, np.argwhere(grid == GOAL)[0]
