"""Train PPO in rooms with walls: which metrics find the way to goals behind them?

    python -m benchmarks.studies.rooms --seeds 5 --out runs/rooms       # trains what is missing, then prints the table
    python -m benchmarks.studies.rooms --rooms door --methods practice oracle l2 --seeds 1 --figure beliefs.png

A context is a goal in the square [-5, 5]^2. A point starts in a corner, moves by up to 0.4 in each direction and has 80
steps; success within 0.4 of the goal ends an episode. In the room `3-D` a third number of the context scales the moves:
the source has fast points, the target slow ones. `oracle` is the true shortest path, `l2` the straight line; both move
each particle separately (pace=particles), as `practice` does.

The settings of `practice` were chosen on the rooms door and u, with seeds below 100.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import Array
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

import geodesic as gd
from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.envs.plane import PlanarMDP
from geodesic.metrics import Graph, Metric
from geodesic.records import RunResult

REACH = 0.4  # of the goal
SPEED = 0.4  # of a step, in each direction
STEPS = 80  # of an episode
THRESHOLD = 0.6
PLACES = 100  # particles of source and target
SOLVED = 0.6  # success on the target
LAST = 3  # evaluations, whose mean is the final success
SPACE = ContextSpace([-5.0, -5.0], [5.0, 5.0], names=("goal_x", "goal_y"))
SPACE_3D = ContextSpace([-5.0, -5.0, 0.5], [5.0, 5.0, 1.0], names=("goal_x", "goal_y", "speed"))
METHODS = {
    "practice": "gradient:metric=practice",
    "oracle": "gradient:metric=oracle:pace=particles",
    "l2": "gradient:metric=l2:pace=particles",
    "embedding": "gradient:metric=embedding:pace=particles",
    "return-lift": "gradient:metric=return-lift:pace=particles",
    "auto": "auto",
    "auto-practice": "auto:metric=practice",
    "currot": "currot",
    "uniform": "uniform",
    "target-only": "target-only",
}

Box = tuple[float, ...]  # lower, then upper corner


@dataclass(frozen=True)
class Room:
    """Walls, and where source, target and start are. Beyond the square, walls have no end."""

    walls: tuple[Box, ...]
    source: Box = (-4.5, -4.5, -3.0, -3.0)
    target: Box = (2.0, -4.5, 4.5, -2.0)
    start: tuple[float, float] = (-4.0, -4.0)
    speeds: bool = False

    @property
    def space(self) -> ContextSpace:
        """Of the contexts."""
        return SPACE_3D if self.speeds else SPACE

    def inside(self, points: FloatArray) -> NDArray[np.bool_]:
        """Which points (n, d) are in a wall."""
        x, y = points[:, 0], points[:, 1]
        return np.asarray(np.any([(x > a) & (x < c) & (y > b) & (y < d) for a, b, c, d in self.walls], axis=0))

    def ends(self, rng: np.random.Generator) -> tuple[Particles, Particles]:
        """Source and target."""
        (a, b), (c, d) = (np.split(np.array(box), 2) for box in (self.source, self.target))
        if self.speeds:
            (a, b), (c, d) = ([*a, 0.9], [*b, 1.0]), ([*c, 0.5], [*d, 0.6])
        return Particles.uniform(a, b, PLACES, rng), Particles.uniform(c, d, PLACES, rng)

    @cached_property
    def places(self) -> FloatArray:
        """A grid (n, d) over what is free and can be reached from the start."""
        return self._grid[0]

    @cached_property
    def oracle(self) -> Graph:
        """True shortest paths."""
        return Graph(*self._grid)

    @cached_property
    def _grid(self) -> tuple[FloatArray, NDArray[np.intp], FloatArray]:
        ticks = [np.arange(-5.0, 5.01, 0.5 if self.speeds else 0.25)] * 2
        ticks += [np.linspace(0.5, 1.0, 5)] * self.speeds
        points = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, len(ticks))
        scaled, cells = points / self.space.sides, np.indices([len(each) for each in ticks]).reshape(len(ticks), -1).T
        edges = cKDTree(cells).query_pairs(1.8, output_type="ndarray")  # neighbours, diagonal ones included
        a, b = points[edges[:, 0]], points[edges[:, 1]]
        edges = edges[~np.any([self.inside(a + t * (b - a)) for t in np.linspace(0, 1, 9)], axis=0)]
        lengths = np.linalg.norm(scaled[edges[:, 0]] - scaled[edges[:, 1]], axis=1)
        table = csr_array((lengths, tuple(edges.T)), shape=(len(points),) * 2)
        first = np.linalg.norm(points[:, :2] - self.start, axis=1).argmin()
        found = np.isfinite(dijkstra(table, directed=False, indices=first))
        kept = found[edges].all(axis=1)
        return points[found], (np.cumsum(found) - 1)[edges[kept]], lengths[kept]


ROOMS = {
    "door": Room(((-0.3, -9, 0.3, 3.5),)),
    "u": Room(((-9, -0.3, 3.5, 0.3),), target=(-4.5, 2.0, -2.0, 4.5)),
    "spiral": Room(
        ((-3, -9, -2.4, 3), (-2.4, 2.4, 3, 3), (2.4, -3, 3, 3), (-0.5, -3, 3, -2.4)),
        (-4.7, -4.5, -3.5, -3.0), (-1.5, -1.0, 1.5, 1.5), (-4.2, -4.0),
    ),
    "middle": Room(((-0.3, -9, 0.3, 0.0), (-0.3, 1.2, 0.3, 9))),
    "below": Room(((-0.3, -3.2, 0.3, 9),), (-4.5, 2.5, -3.0, 4.5), (2.0, 2.5, 4.5, 4.5), (-4.0, 4.0)),
    "two doors": Room(((-0.3, -9, 0.3, 1.0), (-0.3, 2.0, 0.3, 3.8))),
    "corridor": Room(((-2, -9, 2, 1.9), (-2, 2.9, 2, 9))),
    "3-D": Room(((-0.6, -9, 0.6, 2.5),), speeds=True),
    "closed": Room(((-0.3, -9, 0.3, 9),)),
}  # fmt: skip


class RoomState(NamedTuple):
    """Where the point is, and the steps taken."""

    place: Array
    t: Array


class RoomEnv(PlanarMDP):
    """A point in a room; the context is its goal."""

    max_steps = STEPS
    worst_return = 0.0
    action_space = spaces.Box(-np.ones(2, np.float32), np.ones(2, np.float32))

    def __init__(self, name: str) -> None:
        super().__init__()
        self.room = ROOMS[name]
        self.context_space = self.room.space
        self.observation_space = spaces.Box(-2.0, 2.0, (2 + self.context_space.dim,), np.float32)
        self.walls = tuple(tuple(np.clip(wall, -5, 5)) for wall in self.room.walls)  # type: ignore[assignment]

    def initial(self, rng: Array, params: Array | None = None) -> RoomState:
        """Start near the corner."""
        place = jnp.asarray(self.room.start) + 0.2 * jax.random.normal(rng, (2,))
        return RoomState(jnp.clip(place, -5, 5).astype(jnp.float32), jnp.zeros((), jnp.int32))

    def transition(self, state: RoomState, action: Array, rng: Array, params: Array | None = None) -> RoomState:
        """Move, and slide along walls."""
        speed = jnp.asarray(params)[2] if self.room.speeds else 1.0
        move = SPEED * speed * jnp.clip(action, -1, 1)
        place = state.place
        for part in (jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])):
            moved = jnp.clip(place + part * move, -5, 5)
            place = jnp.where(self._blocked(moved), place, moved)
        return RoomState(place, state.t + 1)

    def _blocked(self, place: Array) -> Array:
        x, y = place
        hits = [(x > a) & (x < c) & (y > b) & (y < d) for a, b, c, d in self.room.walls]
        return jnp.any(jnp.stack(hits))

    def observation(self, state: RoomState, rng: Array, params: Array | None = None) -> Array:
        """Return the place and the context, scaled."""
        context = jnp.asarray(params)
        return jnp.concatenate([state.place / 5, context[:2] / 5, context[2:]]).astype(jnp.float32)

    def reward(self, state: RoomState, action: Array, next_state: RoomState, rng: Array, params: Any = None) -> Array:
        """Return 1 at the goal, else 0."""
        return self.success(next_state, jnp.asarray(params)).astype(jnp.float32)

    def success(self, state: RoomState, context: Array) -> Array:
        """Return whether the point is at its goal."""
        return jnp.linalg.norm(state.place - context[:2]) <= REACH

    def source(self, rng: np.random.Generator) -> Particles:
        """Return the source."""
        return self.room.ends(rng)[0]

    def target(self, rng: np.random.Generator) -> Particles:
        """Return the target."""
        return self.room.ends(rng)[1]

    def is_feasible(self, contexts: FloatArray) -> NDArray[np.bool_]:
        """Return whether a free place that can be reached is near each goal."""
        gaps = cKDTree(self.room.places[:, :2]).query(contexts[:, :2])[0]
        return np.asarray(gaps <= REACH)

    def metric(self, name: str) -> Metric | None:
        """Return the true shortest paths, "oracle", straight lines, "l2", or None."""
        return self.room.oracle if name == "oracle" else super().metric(name)


def task_of(name: str) -> gd.Task:
    """The task of a room."""
    learner = gd.PPO(n_envs=32, rollout=64, batch_size=512, epochs=8, entropy_coef=0.005, net=(64, 64))
    return gd.Task(
        RoomEnv(name),
        threshold=THRESHOLD,
        score="success",
        metric="l2",
        available_metrics=["l2", "oracle", "practice", "return-lift", "embedding"],
        training=gd.TrainingSettings(learner=learner),
        evaluation=gd.EvaluationSettings(episodes=50, every=8),
        name=f"room-{name.replace(' ', '-')}",
    )


def row_of(room: str, method: str, runs: Sequence[RunResult]) -> str:
    """A row of the table: how many seeds were solved, and the median step at which they were."""
    first = [next(iter(run.evaluations.steps[run.evaluations.scores > SOLVED]), math.inf) for run in runs]
    final = [run.evaluations.scores[-LAST:].mean() for run in runs]
    solved, step = sum(score > SOLVED for score in final), float(np.median(first))
    alpha = np.mean([run.stages.alphas[-1] for run in runs])
    hop = max(np.nanmax(run.stages.numbers().get("hop", [0.0])) for run in runs)
    when = f"{step:,.0f}" if math.isfinite(step) else "-"
    return (
        f"{room:10} {method:14} {solved:3}/{len(runs)}  {when:>9}  {np.mean(final):5.2f}  {alpha:5.2f}  {hop:11.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["practice", "oracle", "l2", "uniform"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--out", type=Path, default=Path("runs/rooms"))
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    print("room       method         solved  median step  final  alpha  largest hop")
    for method in options.methods:
        for room in options.rooms:
            if method == "oracle" and room == "closed":
                continue
            out = options.out / room.replace(" ", "-") / method
            result = gd.train(task_of(room), METHODS[method], steps=options.steps, seeds=seeds, out=out)
            print(row_of(room, method, result.runs), flush=True)


if __name__ == "__main__":
    main()
