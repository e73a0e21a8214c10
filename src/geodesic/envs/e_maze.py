"""E-Maze: cells of a grid whose walls are heights, in the shape of an E. The context is the goal's cell."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.envs.cmdp import ContextualMDP
from geodesic.envs.maze import MOVES, IntArray
from geodesic.metrics import Graph, Matrix, Metric, Recipe

SIZE = 20
WALL = 200.0  # height of a wall; the floor lies at 0
SURE = 0.9  # chance of a move without any climb
STEEP = 5.0  # climb at which a move succeeds half as often
DISCOUNT = 0.99


class EMazeState(NamedTuple):
    """The cell, row by row, and whether an action was taken in the goal's."""

    cell: jax.Array
    ended: jax.Array


class EMaze(ContextualMDP):
    """20 x 20 cells, heights 0, but 200 in rows 0-15 of columns 4-7 and 12-15; start in row 0, column 0.

    Actions: north, south, west, east. A move succeeds with probability 0.9 / (1 + exp(climb - 5)), climb being the
    difference of the heights, either way: 0.894 on the flat, 0 across the edge of a wall; otherwise, and at the border,
    the agent stays. Any action in the goal's cell earns 1 and ends the episode; all others earn 0. Contexts are (row,
    column), walls included, which no agent reaches; observations are the centres (x, y) of the goal's and of the
    agent's cell, each in (-1, 1)^2. Of CURROT's authors' benchmark.
    """

    max_steps = 150
    worst_return = 0.0
    context_space: ContextSpace
    observation_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def __init__(self) -> None:
        self.heights = np.zeros((SIZE, SIZE))
        self.heights[:16, 4:8] = self.heights[:16, 12:16] = WALL
        self.cells: IntArray = np.argwhere(np.isfinite(self.heights))
        self.context_space = ContextSpace.discrete(self.cells, ("row", "column"))
        self.next_cell = self._next_cell()
        self.chance = self._chance()
        centres = (2 * self.cells[:, ::-1] + 1) / SIZE - 1
        self._tables = {
            "next": jnp.asarray(self.next_cell, jnp.int32),
            "chance": jnp.asarray(self.chance, jnp.float32),
            "centre": jnp.asarray(centres, jnp.float32),
        }
        super().__init__()

    def initial(self, rng: jax.Array, params: jax.Array | None = None) -> EMazeState:
        return EMazeState(jnp.int32(0), jnp.bool_(False))

    def transition(
        self, state: EMazeState, action: jax.Array, rng: jax.Array, params: jax.Array | None = None
    ) -> EMazeState:
        arrived = state.cell == self._goal(params)
        moves = (jax.random.uniform(rng) < self._tables["chance"][state.cell, action]) & ~arrived
        cell = jnp.where(moves, self._tables["next"][state.cell, action], state.cell)
        return EMazeState(cell, state.ended | arrived)

    def observation(self, state: EMazeState, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return jnp.concatenate([self._tables["centre"][self._goal(params)], self._tables["centre"][state.cell]])

    def reward(
        self,
        state: EMazeState,
        action: jax.Array,
        next_state: EMazeState,
        rng: jax.Array,
        params: jax.Array | None = None,
    ) -> jax.Array:
        return (next_state.ended & ~state.ended).astype(jnp.float32)

    def terminal(self, state: EMazeState, rng: jax.Array, params: jax.Array | None = None) -> jax.Array:
        return state.ended

    def success(self, state: EMazeState, context: jax.Array) -> jax.Array:
        return state.ended

    def source(self, rng: np.random.Generator) -> Particles:
        """Uniform on the nine cells in the corner of the start."""
        return self._block(0)

    def target(self, rng: np.random.Generator) -> Particles:
        """Uniform on nine cells at the closed end of the middle corridor."""
        return self._block(9)

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """Undiscounted: 1 where the goal can be reached."""
        return self.is_feasible(contexts).astype(np.float64)

    def is_feasible(self, contexts: FloatArray) -> NDArray[np.bool_]:
        return np.asarray(self.heights.ravel()[self.context_space.index(contexts)] == 0)

    @cached_property
    def optimal_returns(self) -> FloatArray:
        """The best discounted return (400,) for each goal, exact: value iteration over the steps of an episode.

        V_0 = 0;  V_k(goal) = 1,  V_k(s) = gamma max_a (p V_k-1(s') + (1 - p) V_k-1(s)),  0.99 for gamma.
        """
        cells = np.arange(len(self.cells))
        values = np.zeros((len(cells), len(cells)))  # of each cell (rows) for each goal (columns)
        for _ in range(self.max_steps):
            onward = [
                p[:, None] * values[s] + (1 - p[:, None]) * values for p, s in zip(self.chance.T, self.next_cell.T)
            ]
            values = DISCOUNT * np.max(onward, axis=0)
            values[cells, cells] = 1.0
        return np.asarray(values[0])

    @cached_property
    def positions(self) -> FloatArray:
        """(x, y, height) of each cell (400, 3), x and y from -1 to 1: the benchmark's units."""
        return np.column_stack([2 * self.cells[:, ::-1] / (SIZE - 1) - 1, self.heights.ravel()])

    @cached_property
    def shortest_paths(self) -> Graph:
        """Between neighbouring cells |dx| + |dy| + |dheight|: the way around a wall is shorter than the one over it."""
        start = np.repeat(np.arange(len(self.cells)), len(MOVES))
        edges = np.stack([start, self.next_cell.ravel()], axis=1)
        edges = edges[edges[:, 0] < edges[:, 1]]
        lengths = np.abs(self.positions[edges[:, 0]] - self.positions[edges[:, 1]]).sum(axis=1)
        return Graph(self.cells, edges, lengths)

    def metric(self, name: str) -> Metric | Recipe | None:
        """The benchmark's four distances.

        graph: shortest paths on (x, y, height); l2: straight lines on it; optimal-returns: difference of the best
        discounted returns, in which goals that are equally far from the start are one; policy-returns: the same of the
        agent's, from its latest episodes (the benchmark evaluates the policy exactly).
        """
        if name == "l2":
            return Matrix(np.linalg.norm(self.positions[:, None] - self.positions, axis=2), self.cells)
        if name == "optimal-returns":
            return Matrix(np.abs(self.optimal_returns[:, None] - self.optimal_returns), self.cells)
        if name == "policy-returns":
            from geodesic.metrics.returns import ReturnGap

            return ReturnGap(self.context_space, self.worst_return)
        return self.shortest_paths if name == "graph" else None

    def image(self, state: EMazeState, context: FloatArray) -> NDArray[np.uint8]:
        """Walls dark, the goal green, the agent red."""
        picture = np.where(self.heights[:, :, None] > 0, (45, 45, 55), (255, 255, 255)).astype(np.uint8)
        for cell, colour in ((int(self._goal(context)), (38, 166, 91)), (int(state.cell), (214, 69, 65))):
            picture[tuple(self.cells[cell])] = colour
        return np.kron(picture, np.ones((12, 12, 1), dtype=np.uint8))

    def _goal(self, context: jax.Array | FloatArray | None) -> jax.Array:
        row, column = jnp.round(jnp.asarray(context)).astype(jnp.int32)
        return jnp.asarray(row * SIZE + column)

    def _block(self, left: int) -> Particles:
        inside = (self.cells[:, 0] < 3) & (self.cells[:, 1] >= left) & (self.cells[:, 1] < left + 3)
        return Particles.categorical(inside / inside.sum(), self.cells)

    def _next_cell(self) -> IntArray:
        """The cell that each move leads to if it succeeds (400, 4)."""
        rows, columns = np.clip(self.cells[:, None] + MOVES, 0, SIZE - 1).transpose(2, 0, 1)
        return np.asarray(rows * SIZE + columns)

    def _chance(self) -> FloatArray:
        """That each move succeeds (400, 4)."""
        heights = self.heights.ravel()
        climb = np.abs(heights[self.next_cell] - heights[:, None])
        return np.asarray(SURE / (1 + np.exp(climb - STEEP)))
