"""Levels on a grid as contexts: where walls, start and goal are; which levels can be solved, and random ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import FloatArray, IntArray, as_count, as_rng, as_size
from geodesic.contexts.particles import Particles
from geodesic.contexts.space import ContextSpace
from geodesic.errors import InvalidInput

MARKS = 4  # values of a level before its walls: row and column of the start, and of the goal
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # north, south, west, east

Cell = tuple[int, int]
Grid = NDArray[np.bool_]  # (rows, columns): whether there is a wall


class LevelSpace(ContextSpace):
    """The space of levels: walls, start and goal on a square grid.

    A context is a vector of 4 + size^2 integers: the row and the column of the start, those of the goal, and for each
    cell, row by row, whether there is a wall (1) or not (0). A wall below the start or the goal does not count.

    `uniform` and `draw` give random levels as JaxUED's domain randomisation does: the number of walls is uniform in
    0 ... `most_walls`, their cells, the start and the goal are random and differ. Unlike there, levels without a
    solution are drawn again. Uniform values of each cell would be half full of walls, and hardly ever have a solution.

    Args:
        size: The number of rows, and of columns.
        most_walls: The most walls of a random level.

    Raises:
        InvalidInput: If there is no room for the walls, the start and the goal.

    Example:
        >>> import numpy as np
        >>> from geodesic.contexts.levels import LevelSpace
        >>> space = LevelSpace(5, most_walls=10)
        >>> levels = space.draw(100, np.random.default_rng(0))
        >>> levels.shape, bool(np.isfinite(space.solution_steps(levels)).all())
        ((100, 29), True)
    """

    size: int
    most_walls: int

    def __init__(self, size: int, most_walls: int) -> None:
        cells = as_count(size, "size") ** 2
        as_count(most_walls, "most_walls", cells - 2)  # the start and the goal need the others
        names = ["start_row", "start_column", "goal_row", "goal_column"]
        names += [f"wall_{row}_{column}" for row in range(size) for column in range(size)]
        values = [range(size)] * MARKS + [range(2)] * cells
        super().__init__(np.zeros(len(names)), np.ones(len(names)), names=names, values=values)
        vars(self).update(size=size, most_walls=most_walls)  # the class is frozen

    def uniform(
        self, n: int, rng: np.random.Generator, ranges: Mapping[str, Any] | None = None, name: str = "ranges"
    ) -> Particles:
        """Draw n random levels as particles; with ranges, as `ContextSpace.uniform`."""
        if ranges is not None:
            return super().uniform(n, rng, ranges, name)
        return Particles(self.draw(n, rng))

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw n random levels (n, d) that have a solution."""
        levels = self.random(as_size(n), as_rng(rng))
        while (lost := np.isinf(self.solution_steps(levels))).any():
            levels[lost] = self.random(int(lost.sum()), rng)
        return levels

    def random(self, n: int, rng: np.random.Generator, most_walls: int | None = None) -> FloatArray:
        """Draw random levels, which need not have a solution.

        Args:
            n: How many.
            rng: The generator.
            most_walls: The most walls (default: the space's).

        Returns:
            The levels (n, d).
        """
        most = self.most_walls if most_walls is None else most_walls
        cells = rng.permuted(np.tile(np.arange(self.size**2), (n, 1)), axis=1)
        walls = np.zeros_like(cells)
        np.put_along_axis(walls, cells, np.arange(self.size**2) < rng.integers(most + 1, size=(n, 1)), axis=1)
        marks = np.stack(np.unravel_index(cells[:, -2:], (self.size, self.size)), axis=2)
        return np.concatenate([marks.reshape(n, MARKS), walls], axis=1).astype(np.float64)

    def split(self, levels: FloatArray) -> tuple[Grid, IntArray, IntArray]:
        """Split levels (n, d) into walls (n, size, size), without those below start and goal, and both cells (n, 2)."""
        whole = np.rint(levels).astype(np.int64)
        walls = whole[:, MARKS:].reshape(-1, self.size, self.size) > 0
        start, goal = whole[:, :2], whole[:, 2:MARKS]
        for cell in (start, goal):
            walls[np.arange(len(walls)), *cell.T] = False
        return walls, start, goal

    def solution_steps(self, levels: FloatArray) -> FloatArray:
        """Count the steps (n,) of the shortest way from start to goal in levels (n, d); inf if there is none."""
        walls, start, goal = self.split(levels)
        rows, free = np.arange(len(walls)), ~walls
        reached = np.zeros((len(walls), self.size + 2, self.size + 2), dtype=np.bool_)  # with a border
        inside = reached[:, 1:-1, 1:-1]
        inside[rows, *start.T] = True
        steps = np.where((start == goal).all(axis=1), 0.0, np.inf)
        for step in range(1, self.size**2):
            around = reached[:, :-2, 1:-1] | reached[:, 2:, 1:-1] | reached[:, 1:-1, :-2] | reached[:, 1:-1, 2:]
            fresh = around & free & ~inside
            if not fresh.any():
                break
            inside |= fresh
            steps[fresh[rows, *goal.T]] = step
        return steps


def solution(walls: Grid, start: Cell, goal: Cell) -> list[Cell]:
    """Find the cells of a shortest way over free cells from start to goal, both included; empty if there is none."""
    before: dict[Cell, Cell] = {start: start}
    front = [start]
    size = len(walls)
    while front and goal not in before:
        beyond = []
        for row, column in front:
            for down, right in MOVES:
                cell = (row + down, column + right)
                inside = 0 <= cell[0] < size and 0 <= cell[1] < size
                if inside and cell not in before and (cell == goal or not walls[cell]):
                    before[cell] = (row, column)
                    beyond.append(cell)
        front = beyond
    if goal not in before:
        return []
    way = [goal]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


def parse_levels(text: str, space: LevelSpace) -> FloatArray:
    """Convert layouts to levels.

    Args:
        text: Blocks of lines of '#' (wall), '.' (free), one 'S' (start) and one 'G' (goal), with empty lines between.
        space: The space of the levels.

    Returns:
        The levels (n, d).

    Raises:
        InvalidInput: If a block has another form, or a level has no solution.
    """
    levels = []
    for number, block in enumerate(text.strip().split("\n\n"), 1):
        lines = block.split()
        symbols = "".join(lines)
        square = len(lines) == space.size and {len(line) for line in lines} == {space.size}
        if not square or set(symbols) - set("#.SG") or symbols.count("S") != 1 or symbols.count("G") != 1:
            raise InvalidInput(
                f"expected layouts of {space.size} lines of {space.size} of '#' and '.', one 'S' and one 'G', "
                f"got another one as level {number}"
            )
        marks = [place for mark in "SG" for place in divmod(symbols.index(mark), space.size)]
        levels.append([*marks, *(symbol == "#" for symbol in symbols)])
    found = np.array(levels, dtype=np.float64)
    if np.isinf(steps := space.solution_steps(found)).any():
        raise InvalidInput(f"expected levels with a way to the goal, got none in level {np.isinf(steps).argmax() + 1}")
    return found
