"""Levels: find the goal in a maze. The context is the whole layout: walls, start and goal."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from geodesic.contexts import FloatArray, Particles, Plot
from geodesic.contexts.levels import MARKS, MOVES, LevelSpace, parse_levels
from geodesic.envs import option_text
from geodesic.envs.cmdp import ContextualMDP
from geodesic.metrics import EditDistance, Metric

SIZE = 13  # cells along a side
VIEW = 5  # cells along a side of what the agent sees, itself in the middle
MOST_WALLS = 60  # of a random level
EASY_WALLS = 10  # of a level of the source
EASY_STEPS = 3  # to its goal, at most
N_SOURCE = 100
SLOW = 0.9  # of the reward is lost if the goal is reached in the last step
PIXELS = 16  # along a side of a cell in a picture

# The target. Five regular ones (a spiral, combs, sixteen rooms, rings, a snake), and three mazes with many dead ends.
LAYOUTS = """
S............
############.
...........#.
.#########.#.
.#.......#.#.
.#.#####.#.#.
.#.#G..#.#.#.
.#.###.#.#.#.
.#.....#.#.#.
.#######.#.#.
.........#.#.
##########.#.
.............

S..#.........
##.#.#######.
...#.#.....#.
.###.#.###.#.
...#.#.#G#.#.
##.#.#.#.#.#.
...#.#.#.#.#.
.###.#.#.#.#.
...#.#.#...#.
##.#.#.#####.
...#.#.......
.###.########
.............

S..#..#..#...
...#.....#...
......#......
##.####.####.
..#...#..#...
...........#.
..#...#..#...
#.####.####.#
...#..#..#...
......#..#...
...#.......#.
.####.####.##
...#..#..#..G

...........S.
.##########..
.#........#.#
.#.######.#..
.#.#....#.##.
.#.#.##.#.#..
.#.#.#G.#.#.#
.#.#.####.#..
.#.#......##.
.#.########..
.#..........#
.##########..
.............

S#...#...#...
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
...#...#...#G

S..#.....#...
##.#.###.###.
.#.#...#.#...
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.#.#.#.#.#.
.#.###.#.#.#.
...#...#...#.
.###.#######.
...#.#.....#.
##.#.#.#####.
.....#......G

............G
############.
.......#.#...
.#.###.#.#.##
.#...#.#.#.#.
####.#.#.#.#.
...#.#...#.#.
.#.#.###.#.#.
.#...#...#.#.
.###.#####.#.
...#.#.....#.
S#.###.#####.
.#...........

S#...........
.###.#######.
...#.....#.#.
##.#.###.#.#.
.#.#.#.#.#...
.#.#.#.#.#.##
...#...#.#.#.
.#####.#.#.#.
...#...#.#...
##.#####.###.
.#.....#...#.
.#####.###.#.
...........#G
"""


class LevelState(NamedTuple):
    """The state of an episode.

    Args:
        cell: The agent's row and column (2,).
        visits: How often the agent has been in each cell (13, 13).
        time: Steps since the start.
    """

    cell: Array
    visits: Array
    time: Array


class Levels(ContextualMDP):
    """Find the goal in a maze; the context is the layout (a `LevelSpace`): start, goal and walls on 13 x 13 cells.

    Actions: north, south, west, east. A move into a wall or across the border has no effect. The episode ends at the
    goal, with reward 1 - 0.9 t / 200 after t steps, or after 200 steps; other rewards are 0.

    Observation: for the 5 x 5 cells around the agent, first whether there is a wall or border (1) or not (0), then
    n / (1 + n), where n is the number of visits to the cell in this episode; finally, the offset to the goal, (rows,
    columns), in units of 12 cells.

    The source has up to 10 walls and a goal within 3 steps. The target is a fixed set of mazes of this library's own
    design, in the style of the named test levels in work on unsupervised environment design. `uniform` draws random
    levels with up to 60 walls that have a solution.

    Differs from JaxUED's maze: there the agent turns and moves forward, sees 5 x 5 cells ahead, does not know where the
    goal is unless it sees it, and has a recurrent network. Networks here have no memory. Instead, the agent observes
    its visits as a form of memory.

    Args:
        layout: The levels of the target, as `parse_levels` reads them, or the path of a file that holds them.

    Raises:
        InvalidInput: If a layout is invalid.
    """

    max_steps = 200
    worst_return = 0.0
    action_space = gym.spaces.Discrete(4)
    observation_space = gym.spaces.Box(-1.0, 1.0, (2 * VIEW**2 + 2,), np.float32)

    def __init__(self, layout: str = LAYOUTS) -> None:
        self.context_space = LevelSpace(SIZE, MOST_WALLS)
        self.layouts = parse_levels(option_text("layout", layout), self.context_space)
        super().__init__()

    def initial(self, rng: Array, params: Array | None = None) -> LevelState:
        """Start in the context's cell."""
        cell = self._marks(params)[0]
        return LevelState(cell, jnp.zeros((SIZE, SIZE), jnp.float32).at[tuple(cell)].set(1.0), jnp.int32(0))

    def transition(self, state: LevelState, action: Array, rng: Array, params: Array | None = None) -> LevelState:
        """Move north, south, west or east, unless a wall or the border is there."""
        ahead = state.cell + jnp.asarray(MOVES)[action]
        inside = jnp.clip(ahead, 0, SIZE - 1)
        blocked = (inside != ahead).any() | self._walls(params)[tuple(inside)]
        cell = jnp.where(blocked, state.cell, ahead)
        return LevelState(cell, state.visits.at[tuple(cell)].add(1.0), state.time + 1)

    def observation(self, state: LevelState, rng: Array, params: Array | None = None) -> Array:
        """Return the walls and the visits around the agent, and the offset to the goal."""
        walls = self._walls(params).astype(jnp.float32)
        visits = state.visits / (1 + state.visits)
        views = (_around(walls, state.cell, 1.0), _around(visits, state.cell, 0.0))
        return jnp.concatenate([*views, (self._marks(params)[1] - state.cell) / (SIZE - 1)])

    def reward(
        self, state: LevelState, action: Array, next_state: LevelState, rng: Array, params: Array | None = None
    ) -> Array:
        """Return 1 - 0.9 t / 200 at the goal, else 0."""
        return jnp.where(self.terminal(next_state, rng, params), 1.0 - SLOW * next_state.time / self.max_steps, 0.0)

    def terminal(self, state: LevelState, rng: Array, params: Array | None = None) -> Array:
        """Return whether the agent is at the goal."""
        return (state.cell == self._marks(params)[1]).all()

    def success(self, state: LevelState, context: Array) -> Array:
        """Return whether the agent is at the goal."""
        return (state.cell == self._marks(context)[1]).all()

    def source(self, rng: np.random.Generator) -> Particles:
        """Return random levels with up to 10 walls and a goal within 3 steps."""
        levels = self.context_space.random(100 * N_SOURCE, rng, EASY_WALLS)
        near = self.context_space.solution_steps(levels) <= EASY_STEPS
        return Particles(levels[near][:N_SOURCE])

    def target(self, rng: np.random.Generator) -> Particles:
        """Return the uniform distribution on the hard levels."""
        return Particles(self.layouts)

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """Return what the shortest way to the goal earns; 0 if there is none."""
        steps = np.maximum(self.context_space.solution_steps(contexts), 1.0)
        return np.where(steps <= self.max_steps, 1.0 - SLOW * np.minimum(steps, self.max_steps) / self.max_steps, 0.0)

    def is_feasible(self, contexts: FloatArray) -> NDArray[np.bool_]:
        """Return whether each level has a solution."""
        return np.isfinite(self.context_space.solution_steps(contexts))

    def metric(self, name: str) -> Metric | None:
        """Return the edit distance ("edit"), or None."""
        return EditDistance(self.context_space) if name == "edit" else None

    def plot(self) -> Plot:
        """Describe how its contexts are drawn: by the goal's cell, and as pictures."""
        return Plot(axes=("goal_column", "goal_row"), picture=self.picture)

    def picture(self, context: FloatArray) -> NDArray[np.uint8]:
        """Draw a level: walls dark, the start red and the goal green."""
        return self._draw(context, np.rint(context[:2]))

    def image(self, state: LevelState, context: FloatArray) -> NDArray[np.uint8]:
        """Draw walls dark, the goal green and the agent red."""
        return self._draw(context, np.asarray(state.cell))

    def _draw(self, context: FloatArray, agent: FloatArray) -> NDArray[np.uint8]:
        (walls,), _, (goal,) = self.context_space.split(np.asarray(context)[None])
        picture = np.where(walls[:, :, None], (45, 45, 55), (255, 255, 255)).astype(np.uint8)
        for (row, column), colour in ((goal, (38, 166, 91)), (agent.astype(int), (214, 69, 65))):
            picture[row, column] = colour
        return np.kron(picture, np.ones((PIXELS, PIXELS, 1), dtype=np.uint8))

    def _marks(self, context: Array | None) -> tuple[Array, Array]:
        marks = jnp.round(jnp.asarray(context)[:MARKS]).astype(jnp.int32)
        return marks[:2], marks[2:]

    def _walls(self, context: Array | None) -> Array:
        """Whether there is a wall in each cell (13, 13); there is none below the start and the goal."""
        walls = jnp.asarray(context)[MARKS:].reshape(SIZE, SIZE) > 0.5
        start, goal = self._marks(context)
        return walls.at[tuple(start)].set(False).at[tuple(goal)].set(False)


def _around(grid: Array, cell: Array, beyond: float) -> Array:
    """The values (25,) of the cells around one, with a constant beyond the border."""
    padded = jnp.pad(grid, VIEW // 2, constant_values=beyond)
    return jax.lax.dynamic_slice(padded, tuple(cell), (VIEW, VIEW)).ravel()
