"""Environments on the host: one of them with its current episode, and many of them stepped in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from geodesic.checks import MOST
from geodesic.contexts import Arrays, FloatArray, Particles
from geodesic.envs import snapshots
from geodesic.envs.gymnasium import Env, success_of
from geodesic.errors import InvalidInput
from geodesic.tasks import Task
from geodesic.training.collector import EpisodeCollector

LIMIT = 1_000_000  # steps after which an episode counts as endless
COUNTS = ("total", "discounted", "length", "stage", "episode")


class Step(NamedTuple):
    """What one step gave."""

    obs: NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool


class EnvRunner:
    """One environment and its current episode.

    An episode's context and all its randomness come from `entropy` and its number alone: a run can be resumed without
    its generators, and does not depend on what runs beside it.
    """

    def __init__(self, task: Task, entropy: Sequence[int], collector: EpisodeCollector) -> None:
        self.env = as_vector_env(task.make())
        self.discount = task.discount
        self.entropy = list(entropy)
        self.collector = collector
        self.episode = -1
        self.context: FloatArray = np.zeros(0)

    def begin(self, distribution: Particles, stage: int) -> NDArray[np.float32]:
        """Start the next episode and return its first observation."""
        self.episode += 1
        rng = np.random.default_rng([*self.entropy, self.episode])
        self.context, self.stage = distribution.sample(rng, 1)[0], stage
        self.total, self.discounted, self.length = 0.0, 0.0, 0
        return self._reset(int(rng.integers(2**31)))

    def _reset(self, seed: int) -> NDArray[np.float32]:
        obs, _ = self.env.reset(seed=seed, options={"context": self.context})
        return np.asarray(obs, np.float32)

    def step(self, action: Any, time: int, ended: int) -> Step:
        """Take one step at this time of the environment; an episode that ends is collected, and `begin` must follow.

        ended: what the collector is told in that case, the step of the whole run.
        """
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.total += float(reward)
        self.discounted += self.discount**self.length * float(reward)
        self.length += 1
        if terminated or truncated:
            facts = self.total, self.length, self.stage, self.discounted, success_of(info)
            self.collector.add(self.context, *facts, time + 1 - self.length, ended)
        elif self.length >= LIMIT:
            raise InvalidInput(f"expected episodes to end, got one of {LIMIT} steps; try gymnasium's TimeLimit")
        return Step(np.asarray(obs, np.float32), float(reward), bool(terminated), bool(truncated) and not terminated)

    def save(self) -> Arrays:
        """The current episode: its counters, and the environment's state where the environment can be saved."""
        counts = np.array([getattr(self, name) for name in COUNTS], np.float64)
        inside = snapshots.save(self.env) or {}
        return {"counts": counts, "context": self.context, **{f"env/{name}": a for name, a in inside.items()}}

    def restore(self, arrays: Arrays) -> bool:
        """Continue the saved episode; False if the environment's state was not saved, so that a new one must begin."""
        for name, value in zip(COUNTS, arrays["counts"]):
            setattr(self, name, float(value) if name in ("total", "discounted") else int(value))
        if not 0 <= self.episode <= MOST:
            raise ValueError(f"episode {self.episode}")
        self.context = arrays["context"]
        inside = {name.removeprefix("env/"): a for name, a in arrays.items() if name.startswith("env/")}
        if not inside:
            return False
        self._reset(0)
        snapshots.restore(self.env, inside)
        return True


class EnvThreads:
    """Steps many environments at once; simulators that release the interpreter lock run in parallel."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def start(self, work: Callable[[int], None], places: Sequence[int]) -> list[Future[None]]:
        """Call work(place) for all places: in this thread if there is only one, else in the pool."""
        if self._pool is None:
            _all(work, places)
            return []
        chunks = [places[first :: self.count] for first in range(min(self.count, len(places)))]
        return [self._pool.submit(_all, work, chunk) for chunk in chunks]


def _all(work: Callable[[int], None], places: Sequence[int]) -> None:
    for place in places:
        work(place)


def as_vector_env(env: Env) -> Env:
    """The environment with observations as one vector of numbers."""
    space = env.observation_space
    if isinstance(space, gym.spaces.Box) and len(space.shape) == 1:
        return env
    try:
        return gym.wrappers.FlattenObservation(env)
    except Exception as error:
        raise InvalidInput(f"expected observations that can be made one vector, got {space}") from error
