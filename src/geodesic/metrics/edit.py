"""The edit distance between levels on a grid, and paths of solvable levels between them."""

from __future__ import annotations

import numpy as np

from geodesic.checks import FloatArray, IntArray, as_points, check_instance
from geodesic.contexts.levels import MARKS, Cell, Grid, LevelSpace, solution
from geodesic.metrics.base import Metric, check_endpoints


class EditDistance(Metric):
    """The fewest edits between two levels; an edit adds or removes a wall, or moves the start or the goal by one cell.

        d(x, y) = |walls(x) symmetric difference walls(y)| + |start(x) - start(y)|_1 + |goal(x) - goal(y)|_1

    A level moves along a sequence of edits; between two of them its mass is split, as under `Graph`, so geodesics are
    those of W1. If both ends are solvable, the order of the edits keeps every level in between solvable:

    1. Remove the walls that the end lacks.
    2. Move the start and the goal, each along a shortest route over cells without a wall, so that they stay connected.
    3. Add the walls that the start lacks, in an order that lengthens the solution as evenly as possible. Any subset of
       the end's walls leaves the end's route open.

    If walls that both levels have block all shortest routes of a move, the route with the fewest such walls is used:
    they are removed before the move and put back after it. Each of them adds two edits to the sequence, so the path is
    that much longer than the distance.

    Args:
        space: The space of the levels.

    Raises:
        InvalidInput: If `space` is not a space of levels.

    Example:
        >>> from geodesic.contexts.levels import LevelSpace, parse_levels
        >>> from geodesic.metrics.edit import EditDistance
        >>> space = LevelSpace(3, most_walls=3)
        >>> first = parse_levels("S.. ... ..G", space)
        >>> second = parse_levels("S.. .#. .G.", space)
        >>> EditDistance(space).pairwise(first, second)
        array([[2.]])
    """

    def __init__(self, space: LevelSpace) -> None:
        self.space = check_instance(LevelSpace, space, "space")
        self._paths: dict[bytes, FloatArray] = {}
        self._orders: dict[bytes, list[int]] = {}

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the distances (n, m) between levels x (n, d) and y (m, d)."""
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(self._levels(x), self._levels(y), "cityblock"))

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the distances themselves, as in W1."""
        return self.pairwise(x, y)

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        """Find the two levels (n, 2, d) around the mass at t on each path, and its fractions (n, 2) at them."""
        x, y, t = check_endpoints(self._levels(x), y, t)
        points, fractions = np.zeros((len(x), 2, x.shape[1])), np.zeros((len(x), 2))
        for row, (start, end) in enumerate(zip(x, y)):
            levels = self.path(start, end)
            place = t * (len(levels) - 1)
            before = min(int(place), max(len(levels) - 2, 0))
            points[row] = levels[[before, min(before + 1, len(levels) - 1)]]
            fractions[row] = (1 - (place - before), place - before)
        return points, fractions

    def length(self, distances: FloatArray, mass: FloatArray) -> float:
        """Compute W1, the mean number of edits."""
        return float(mass @ distances)

    def path(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Find the levels between two.

        Args:
            x: A level (d,).
            y: Another one.

        Returns:
            The levels (k + 1, d) from x to y, one edit between any two in a row.
        """
        key = np.concatenate([x, y]).tobytes()
        if key not in self._paths:
            self._paths[key] = self._find_path(np.rint(x).astype(np.int64), np.rint(y).astype(np.int64))
        return self._paths[key]

    def _find_path(self, x: IntArray, y: IntArray) -> FloatArray:
        level, levels = x.copy(), [x.copy()]

        def edit(place: int, value: int) -> None:
            if level[place] != value:
                level[place] = value
                levels.append(level.copy())

        common = self._walls(x) & self._walls(y)
        routes = [cheapest_route(common, x[mark : mark + 2], y[mark : mark + 2]) for mark in (0, 2)]
        for row, column in (cell for route in routes for cell in route):
            common[row, column] = False
        for wall in np.flatnonzero(self._walls(x) & ~common).tolist():
            edit(MARKS + wall, 0)
        for step in range(1, max(len(route) for route in routes)):
            for mark, route in zip((0, 2), routes):
                for axis, value in enumerate(route[min(step, len(route) - 1)]):
                    edit(mark + axis, value)
        for wall in self._closing_order(y):
            edit(MARKS + wall, 1)
        return np.array(levels, np.float64)

    def _closing_order(self, level: IntArray) -> list[int]:
        """The cells of a level's walls, in an order in which the solution becomes longer as evenly as it can."""
        key = level.tobytes()
        if key not in self._orders:
            self._orders[key] = closing_order(self._walls(level), tuple(level[:2]), tuple(level[2:4]))
        return self._orders[key]

    def _walls(self, level: IntArray) -> Grid:
        return level[MARKS:].reshape(self.space.size, self.space.size) > 0

    def _levels(self, x: FloatArray) -> FloatArray:
        return as_points(x, "levels", self.space.dim)


def cheapest_route(walls: Grid, start: IntArray, end: IntArray) -> list[Cell]:
    """Find the cells of a shortest route on the grid, from start to end; the one with the fewest walls."""
    down, right = (1 if b >= a else -1 for a, b in zip(start, end))
    rows = range(int(start[0]), int(end[0]) + down, down)
    columns = range(int(start[1]), int(end[1]) + right, right)
    best: dict[Cell, tuple[int, list[Cell]]] = {}
    for row in rows:
        for column in columns:
            ways = [best[cell] for cell in ((row - down, column), (row, column - right)) if cell in best]
            crossed, route = min(ways, key=lambda way: way[0], default=(0, []))
            best[row, column] = (crossed + int(walls[row, column]), [*route, (row, column)])
    return best[rows[-1], columns[-1]][1]


def closing_order(walls: Grid, start: Cell, goal: Cell) -> list[int]:
    """Order the walls of a level, so that adding them one by one makes the solution longer as evenly as it can.

    A wall off the current solution does not change its length. One on it is added when the solution is shorter than
    its even share: the one after which it comes nearest to that.

    Args:
        walls: The walls of the finished level.
        start: Its start.
        goal: Its goal.

    Returns:
        The cells, counted row by row.
    """
    now, order = np.zeros_like(walls), []
    way = solution(now, start, goal)
    number, first, last = int(walls.sum()), len(way), len(solution(walls, start, goal))
    for k in range(1, number + 1):
        even = first + (last - first) * k / number
        crossed = [cell for cell in way if walls[cell]]
        aside = walls & ~now & ~_at(way, walls.shape)
        if crossed and (len(way) < even or not aside.any()):
            ways = [solution(now | _at([cell], walls.shape), start, goal) for cell in crossed]
            chosen, way = min(zip(crossed, ways), key=lambda pair: abs(len(pair[1]) - even))
        else:
            chosen = tuple(np.argwhere(aside)[0])
        now[chosen] = True
        order.append(int(np.ravel_multi_index(chosen, walls.shape)))
    return order


def _at(cells: list[Cell], shape: tuple[int, ...]) -> Grid:
    grid = np.zeros(shape, dtype=np.bool_)
    for cell in cells:
        grid[cell] = True
    return grid
