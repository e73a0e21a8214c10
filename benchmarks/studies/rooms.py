"""Test which metrics find the way through rooms with walls, with a simulated agent or with PPO.

    python -m benchmarks.studies.rooms                                         # all rooms, simulated, 5 seeds: minutes
    python -m benchmarks.studies.rooms --agent ppo --rooms door --methods practice --seeds 2 --steps 800000

A context is a goal in the square [-5, 5]^2. A point starts in a corner, moves by up to 0.4 in each direction and has 80
steps; success within 0.4 of the goal ends an episode. GRADIENT moves each particle separately (pace=particles).
`oracle` is the true shortest path, `l2` the straight line.

The simulated agent learns in seconds what PPO learns in minutes. It has a skill at each free place. A success raises
the skill there; the chance of success at a context is that of the most skilled place near it, and falls with the
distance around walls, exp(-(d / 0.7)^2). It is 0 where no free place is within 0.4. So an agent gets no further by
jumping, and a wall cannot be learned through.

The settings of `practice` were chosen on the rooms door and spiral, with the simulated agent and seeds 0 to 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
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
from geodesic.contexts import ContextSpace, EpisodeBatch, FloatArray, Particles
from geodesic.curricula import Problem, build
from geodesic.curricula.gradient.staged import StagedState
from geodesic.envs.plane import PlanarMDP
from geodesic.metrics import Euclidean, Graph, LearnedMetric, Metric, Practice, ReturnLift

import os
ACHIEVED = os.environ.get("ACHIEVED", "1") == "1"
REACH = 0.4  # of the goal
SPEED = 0.4  # of a step, in each direction
STEPS = 80  # of an episode
THRESHOLD = 0.6
PLACES = 100  # particles of source and target
SOLVED = 0.6  # mean success on the target
EPISODES = 20_000  # of a simulated run
BATCH = 20  # episodes between two updates
SPACE = ContextSpace([-5.0, -5.0], [5.0, 5.0], names=("goal_x", "goal_y"))

Box = tuple[float, ...]  # lower, then upper corner


@dataclass(frozen=True)
class Room:
    """Walls, and where source, target and start are. Beyond the square, walls have no end."""

    walls: tuple[Box, ...]
    source: Box = (-4.5, -4.5, -3.0, -3.0)
    target: Box = (2.0, -4.5, 4.5, -2.0)
    start: tuple[float, float] = (-4.0, -4.0)
    solvable: bool = True

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
        """True shortest paths, in units of the square."""
        return Graph(*self._grid)

    @cached_property
    def _grid(self) -> tuple[FloatArray, NDArray[np.intp], FloatArray]:
        ticks = np.arange(-5.0, 5.01, 0.25)
        n = len(ticks)
        points = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
        index = np.arange(n * n).reshape(n, n)
        pairs = [(index[:-1], index[1:]), (index[:, :-1], index[:, 1:])]
        pairs += [(index[:-1, :-1], index[1:, 1:]), (index[:-1, 1:], index[1:, :-1])]
        edges = np.concatenate([np.stack([one.ravel(), other.ravel()], axis=1) for one, other in pairs])
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
    "spiral": Room(
        ((-3, -9, -2.4, 3), (-2.4, 2.4, 3, 3), (2.4, -3, 3, 3), (-0.5, -3, 3, -2.4)),
        (-4.7, -4.5, -3.5, -3.0), (-1.5, -1.0, 1.5, 1.5), (-4.2, -4.0),
    ),
    "middle": Room(((-0.3, -9, 0.3, 0.0), (-0.3, 1.2, 0.3, 9))),
    "below": Room(((-0.3, -3.2, 0.3, 9),), (-4.5, 2.5, -3.0, 4.5), (2.0, 2.5, 4.5, 4.5), (-4.0, 4.0)),
    "two doors": Room(((-0.3, -9, 0.3, 1.0), (-0.3, 2.0, 0.3, 3.8))),
    "u": Room(((-9, -0.3, 3.5, 0.3),), target=(-4.5, 2.0, -2.0, 4.5)),
    "corridor": Room(((-2, -9, 2, 1.9), (-2, 2.9, 2, 9))),
    "closed": Room(((-0.3, -9, 0.3, 9),), solvable=False),
}  # fmt: skip


class SimulatedAgent:
    """An agent that succeeds where it has practised, and a little beyond."""

    def __init__(self, room: Room, rng: np.random.Generator) -> None:
        self.room, self.rng = room, rng
        distances = room.oracle.distances
        first = np.linalg.norm(room.places - room.start, axis=1).argmin()
        self.practice = 3 * np.exp(-(distances[first] ** 2))
        self.spread = np.exp(-((distances / 0.5) ** 2)).astype(np.float32)
        self.beyond = np.exp(-((distances / 0.7) ** 2)).astype(np.float32)
        self.tree = cKDTree(room.places)

    def chances(self, contexts: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
        """The chance (n,) of success in contexts (n, 2), and the best free place (n,) near each; -1: none."""
        skill = (1 - np.exp(-self.practice)).astype(np.float32)
        reached = (self.beyond * skill).max(axis=1)
        near = self.tree.query_ball_point(contexts, REACH)
        found = [max(places, key=lambda place: reached[place], default=-1) for places in near]
        rows = np.array(found, dtype=np.intp)
        return np.where(rows < 0, 0.0, 0.97 * reached[rows]), rows

    def play(self, contexts: FloatArray) -> FloatArray:
        """Episodes in contexts (n, 2): whether each succeeded (n,)."""
        chances, rows = self.chances(contexts)
        won = self.rng.random(len(contexts)) < chances
        self.practice += 0.015 * self.spread[rows[won]].sum(axis=0)
        self.practice *= 1 - 5e-4
        return won.astype(np.float64)


def metric_of(name: str, room: Room) -> Metric | LearnedMetric:
    """A metric by name."""
    known: dict[str, Any] = {
        "oracle": lambda: room.oracle,
        "l2": lambda: Euclidean(SPACE.sides),
        "practice": lambda: Practice(SPACE, THRESHOLD, score="success"),
        "return-lift": lambda: ReturnLift(SPACE, 0.0, THRESHOLD, score="success"),
    }
    return known[name]()


class Outcome(NamedTuple):
    """A simulated run: when the target was solved (NaN: never), and what was at the end."""

    solved: float
    final: float
    alpha: float
    hop: float
    blocked: float
    seconds: float


def simulate(room: Room, name: str, seed: int, episodes: int = EPISODES) -> Outcome:
    """Train a simulated agent under a metric."""
    rng = np.random.default_rng(seed)
    source, target = room.ends(rng)
    problem = Problem(source, target, SPACE, THRESHOLD, metric_of(name, room), score="success")
    curriculum = build("gradient", problem, pace="particles")
    agent, solved, hop, seconds = SimulatedAgent(room, rng), np.nan, 0.0, 0.0
    state: StagedState = curriculum.init(rng)
    for count in range(0, episodes, BATCH):
        contexts = state.distribution.sample(rng, BATCH)
        won = agent.play(contexts)
        stages, lengths = np.full(BATCH, state.stage), np.where(won > 0, 30, STEPS)
        began = perf_counter()
        state = curriculum.update(state, EpisodeBatch(contexts, won, lengths, stages, successes=won), rng)
        seconds += perf_counter() - began
        hop = max(hop, state.hop)
        if np.isnan(solved) and count % 200 == 0 and agent.chances(target.points)[0].mean() > SOLVED:
            solved = count
    return Outcome(solved, agent.chances(target.points)[0].mean(), state.alpha, hop, state.blocked, seconds)


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

    def achieved_goal(self, state: RoomState) -> Array:
        """Return the goal at the point."""
        return state.place if ACHIEVED else None

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
    """The task of a room, for PPO."""
    offered = ["l2", "oracle", "practice", "return-lift", "embedding"]
    learner = gd.PPO(n_envs=32, rollout=64, batch_size=512, epochs=8, entropy_coef=0.005, net=(64, 64))
    return gd.Task(
        RoomEnv(name),
        threshold=THRESHOLD,
        score="success",
        metric="l2",
        available_metrics=offered,
        training=gd.TrainingSettings(learner=learner),
        evaluation=gd.EvaluationSettings(episodes=50, every=5),
        name=f"room-{name.replace(' ', '-')}",
    )


def train(name: str, methods: Sequence[str], seeds: range, steps: int, out: Path) -> None:
    """Train PPO with each method on a room, and print how each seed ended."""
    own = {"uniform": "uniform", "target-only": "target-only"}
    for method in methods:
        label = own.get(method, f"gradient:metric={method}:pace=particles" if ":" not in method else method)
        folder = out / name.replace(" ", "-") / method.replace(":", "_")
        result = gd.train(task_of(name), label, steps=steps, seeds=seeds, out=folder)
        for run in result.runs:
            above = run.evaluations.steps[run.evaluations.scores > SOLVED]
            first = f"{above[0]:,}" if len(above) else "-"
            numbers = run.stages.numbers()
            print(
                f"{name:10} {method:12} seed {run.seed}: first above {SOLVED:g} at {first}, final success "
                f"{run.evaluations.scores[-3:].mean():.2f}, alpha {run.stages.alphas[-1]:.2f}, largest hop "
                f"{np.nanmax(numbers.get('hop', [np.nan])):.2f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", choices=("simulated", "ppo"), default="simulated")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS))
    parser.add_argument("--methods", nargs="+", default=["oracle", "practice", "l2"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=800_000)
    parser.add_argument("--out", type=Path, default=Path("runs/rooms"))
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.agent == "simulated":
        print("room       metric       solved  episodes  final  alpha  largest hop  blocked  s per run")
    for name in options.rooms:
        if options.agent == "ppo":
            train(name, options.methods, seeds, options.steps, options.out)
            continue
        for method in options.methods:
            if method == "oracle" and not ROOMS[name].solvable:
                continue
            runs = [simulate(ROOMS[name], method, seed) for seed in seeds]
            solved = [run.solved for run in runs if np.isfinite(run.solved)]
            means = np.array(runs)[:, 1:].mean(axis=0)
            when = f"{np.median(solved):,.0f}" if solved else "-"
            print(
                f"{name:10} {method:12} {len(solved):3}/{len(runs)}  {when:>8}  {means[0]:5.2f}  {means[1]:5.2f}  "
                f"{max(run.hop for run in runs):11.2f}  {means[3]:7.2f}  {means[4]:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
