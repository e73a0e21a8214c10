"""Train PPO in rooms with walls: which metrics find the way to goals behind them?

    python -m benchmarks.studies.rooms --seeds 5 --out runs/rooms       # trains what is missing, then prints the table
    python -m benchmarks.studies.rooms --rooms door --methods practice oracle l2 --seeds 1 --figure beliefs.png

A context is a goal in the square [-5, 5]^2. A point starts in a corner, moves by up to 0.4 in each direction and has 80
steps; success within 0.4 of the goal ends an episode. `oracle` is the true shortest path, `l2` the straight line. Both
move each particle separately (pace=particles), as `practice` does.

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
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

import geodesic as gd
from geodesic.contexts import ContextSpace, FloatArray, Particles
from geodesic.envs.plane import PlanarMDP
from geodesic.metrics import Graph, LearnedMetric, Metric
from geodesic.records import RunResult
from geodesic.report.style import WALL, new_figure, save, short_steps, styled
from geodesic.transport.geodesic import Trajectories

REACH = 0.4  # of the goal
SPACING = 0.25  # of the grid on which the oracle finds shortest paths
SPEED = 0.4  # of a step, in each direction
STEPS = 80  # of an episode
THRESHOLD = 0.6
PLACES = 100  # particles of source and target
SOLVED = 0.6  # success on the target
LAST = 3  # evaluations, whose mean is the final success
MOMENTS = (0.15, 0.45, 1.0)  # of a run, that the figure shows,
WAYS = 25  # particles whose ways it draws,
LATEST = 60  # and episodes before each moment
SPACE = ContextSpace([-5.0, -5.0], [5.0, 5.0], names=("goal_x", "goal_y"))
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

    def inside(self, points: FloatArray) -> NDArray[np.bool_]:
        """Which points (n, 2) are in a wall."""
        x, y = points[:, 0], points[:, 1]
        return np.asarray(np.any([(x > a) & (x < c) & (y > b) & (y < d) for a, b, c, d in self.walls], axis=0))

    def ends(self, rng: np.random.Generator) -> tuple[Particles, Particles]:
        """Source and target."""
        (a, b), (c, d) = (np.split(np.array(box), 2) for box in (self.source, self.target))
        return Particles.uniform(a, b, PLACES, rng), Particles.uniform(c, d, PLACES, rng)

    @cached_property
    def places(self) -> FloatArray:
        """A grid (n, 2) over what is free and can be reached from the start."""
        return self._grid[0]

    @cached_property
    def oracle(self) -> Graph:
        """True shortest paths."""
        return Graph(*self._grid)

    @cached_property
    def _grid(self) -> tuple[FloatArray, NDArray[np.intp], FloatArray]:
        ticks = np.arange(-5.0, 5.01, SPACING)
        points = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
        edges = cKDTree(points).query_pairs(1.5 * SPACING, output_type="ndarray")  # diagonal ones included
        a, b = points[edges[:, 0]], points[edges[:, 1]]
        edges = edges[~np.any([self.inside(a + t * (b - a)) for t in np.linspace(0, 1, 9)], axis=0)]
        lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
        table = csr_array((lengths, tuple(edges.T)), shape=(len(points),) * 2)
        first = np.linalg.norm(points - self.start, axis=1).argmin()
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
    "closed": Room(((-0.3, -9, 0.3, 9),)),
}  # fmt: skip


class RoomState(NamedTuple):
    """Where the point is, and the steps taken."""

    place: Array
    t: Array


class RoomEnv(PlanarMDP):
    """A point in a room; the context is its goal."""

    max_steps = STEPS
    context_space = SPACE
    worst_return = 0.0
    observation_space = spaces.Box(-2.0, 2.0, (4,), np.float32)
    action_space = spaces.Box(-np.ones(2, np.float32), np.ones(2, np.float32))

    def __init__(self, name: str) -> None:
        super().__init__()
        self.room = ROOMS[name]
        self.walls = tuple(tuple(np.clip(wall, -5, 5)) for wall in self.room.walls)  # type: ignore[assignment]

    def initial(self, rng: Array, params: Array | None = None) -> RoomState:
        """Start near the corner."""
        place = jnp.asarray(self.room.start) + 0.2 * jax.random.normal(rng, (2,))
        return RoomState(jnp.clip(place, -5, 5).astype(jnp.float32), jnp.zeros((), jnp.int32))

    def transition(self, state: RoomState, action: Array, rng: Array, params: Array | None = None) -> RoomState:
        """Move, and slide along walls."""
        move = SPEED * jnp.clip(action, -1, 1)
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
        return jnp.concatenate([state.place, jnp.asarray(params)]).astype(jnp.float32) / 5

    def reward(self, state: RoomState, action: Array, next_state: RoomState, rng: Array, params: Any = None) -> Array:
        """Return 1 at the goal, else 0."""
        return self.success(next_state, jnp.asarray(params)).astype(jnp.float32)

    def success(self, state: RoomState, context: Array) -> Array:
        """Return whether the point is at its goal."""
        return jnp.linalg.norm(state.place - context) <= REACH

    def source(self, rng: np.random.Generator) -> Particles:
        """Return the source."""
        return self.room.ends(rng)[0]

    def target(self, rng: np.random.Generator) -> Particles:
        """Return the target."""
        return self.room.ends(rng)[1]

    def is_feasible(self, contexts: FloatArray) -> NDArray[np.bool_]:
        """Return whether a free place that can be reached is near each goal."""
        gaps = cKDTree(self.room.places).query(contexts)[0]
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
    return f"{room:10} {method:14} {solved:3}/{len(runs)}  {when:>9}  {np.mean(final):5.2f}  {alpha:5.2f}  {hop:11.2f}"


@styled
def beliefs(room: str, results: dict[str, gd.Result], path: Path) -> Path:
    """Draw the ways that metrics believe in at three moments of a run, and the goals practised then.

    A learned metric is fitted to the episodes up to then that the run has recorded.
    """
    figure = new_figure(2.6 * len(MOMENTS), 2.7 * len(results))
    grid = figure.subplots(len(results), len(MOMENTS), squeeze=False, sharex=True, sharey=True)
    for axes, (method, result) in zip(grid, results.items()):
        for panel, moment in zip(axes, MOMENTS):
            _draw_belief(panel, room, method, result, moment)
        axes[0].set_ylabel(method)
    handles, _ = grid[0, 0].get_legend_handles_labels()
    handles += [Line2D([], [], color="#0072b2", label="ways to the target"), Patch(color="#67000d", label="in vain")]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return save(figure, path)


def _draw_belief(panel: Axes, room: str, method: str, result: gd.Result, moment: float) -> None:
    task, (run, *_) = task_of(room), result.runs
    metric, step = task.make_metric(METHODS[method].split("metric=")[1].split(":")[0]), moment * run.config.steps
    seen = run.episodes.steps <= step
    contexts, won = run.episodes.contexts[seen], run.episodes.successes[seen]
    if isinstance(metric, LearnedMetric):
        lengths = run.episodes.lengths[seen]
        batch = gd.EpisodeBatch(contexts, run.episodes.returns[seen], lengths, lengths * 0, successes=won)
        metric = metric.fit(batch, np.random.default_rng(0), task.target_particles.points)
        side = np.linspace(-5, 5, 65)
        heat = metric.returns(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)).reshape(65, 65)
        panel.pcolormesh(side, side, heat, cmap="Reds_r", vmin=0, vmax=1, rasterized=True)
    source, target = (Particles(each.points[:WAYS]) for each in (task.source_particles, task.target_particles))
    trajectories = Trajectories.of(gd.Geodesic(source, target, metric), 64)
    most = trajectories.fractions.argmax(axis=2)[..., None, None]
    ways = np.take_along_axis(trajectories.points, most, axis=2)[:, :, 0]
    panel.plot(ways[..., 0], ways[..., 1], color="#0072b2", alpha=0.3, linewidth=1)
    for a, b, c, d in np.clip(ROOMS[room].walls, -5, 5):
        panel.add_patch(Rectangle((a, b), c - a, d - b, color=WALL))
    latest = slice(-LATEST, None)
    good = won[latest] > 0
    for name, chosen, marker, colour in (("reached", good, "o", "#009e73"), ("not reached", ~good, "x", "#d55e00")):
        x, y = contexts[latest][chosen].T
        panel.scatter(x, y, s=10, marker=marker, color=colour, linewidths=1, label=f"latest goals, {name}", zorder=3)
    panel.scatter(*target.points.T, s=10, marker="*", color="#f0e442", edgecolors="#222222", linewidths=0.3,
                  label="target", zorder=2)  # fmt: skip
    panel.set(title=f"{short_steps(step)} steps", xlim=(-5, 5), ylim=(-5, 5), xticks=[], yticks=[], aspect="equal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["practice", "oracle", "l2", "uniform"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--out", type=Path, default=Path("runs/rooms"))
    parser.add_argument("--figure", type=Path, help="draw what the metrics believed in the first room and seed")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    print("room       method         solved  median step  final  alpha  largest hop")
    drawn = {}
    for method in options.methods:
        for room in options.rooms:
            if method == "oracle" and room == "closed":
                continue
            out = options.out / room.replace(" ", "-") / method
            result = gd.train(task_of(room), METHODS[method], steps=options.steps, seeds=seeds, out=out)
            print(row_of(room, method, result.runs), flush=True)
            if room == options.rooms[0] and "metric=" in METHODS[method]:
                drawn[method] = result
    if options.figure is not None:
        print(f"wrote {beliefs(options.rooms[0], drawn, options.figure)}")


if __name__ == "__main__":
    main()
