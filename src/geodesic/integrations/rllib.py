"""Curricula for RLlib's new API stack: `geodesic.rllib.with_curriculum`."""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from geodesic.checks import as_path
from geodesic.contexts import EpisodeBatch, Particles
from geodesic.curricula.base import Threshold
from geodesic.envs.gymnasium import success_of
from geodesic.errors import InvalidInput, MissingExtra, RunFailed, short_repr
from geodesic.metrics.standard import Maker
from geodesic.records import Checkpoint, RunConfig
from geodesic.tasks import Task, load
from geodesic.tasks.methods import Method
from geodesic.training.collector import EpisodeCollector
from geodesic.training.configure import configure, objects_of
from geodesic.training.objects import Objects
from geodesic.training.session import CurriculumSession, CurriculumView
from geodesic.training.trainer import Evaluation

try:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.callbacks.callbacks import RLlibCallback
    from ray.tune.registry import register_env
except ImportError as error:
    raise MissingExtra("RLlib", "rllib") from error

OWNER = uuid.uuid4().hex  # an algorithm built later in this process may take over the folder of an earlier one

Runners = Any  # a group of RLlib's environment runners


def with_curriculum(
    config: Any,
    task: Task | str,
    method: Method = "auto",
    out: str | Path | None = None,
    seed: int = 0,
    steps: int | None = None,
    metric: str | Maker | None = None,
    threshold: Threshold | None = None,
) -> Any:
    """Add a task and its curriculum to an algorithm's configuration.

    After every `train`, the finished episodes are given to the curriculum in the order in which they began, and a new
    distribution is sent to all environments, which draw from it at their next reset. Episodes that
    `config.evaluation(...)` plays are played on the target and recorded. The folder keeps the curriculum only: restore
    the algorithm from RLlib's own checkpoint, and the same folder resumes at its stage.

    Args:
        config: The configuration of an algorithm, such as `PPOConfig()`.
        task: A `Task`, the name of a built-in task, or a reference.
        method: A name with options, a reference, a `Curriculum`, or a function `Problem -> Curriculum`.
        out: The run's folder (default: nothing is recorded).
        seed: The seed of everything random in the curriculum.
        steps: The budget in environment steps of finished episodes, after which the folder is complete (default: the
            task's).
        metric: The distance between contexts, by name or as an object (default: the task's).
        threshold: The score above which a stage is mastered (default: the task's).

    Returns:
        The configuration.

    Raises:
        InvalidInput: If an argument is invalid, or the configuration uses RLlib's old API stack.

    Example:
        An algorithm with a curriculum::

            config = PPOConfig().env_runners(num_env_runners=4)
            config = gd.rllib.with_curriculum(config, task, "gradient", out="runs/mine")
            algorithm = config.build_algo()
            for _ in range(100):
                algorithm.train()
    """
    if not isinstance(config, AlgorithmConfig):
        raise InvalidInput(f"expected the configuration of an algorithm, such as PPOConfig(), got {short_repr(config)}")
    if not config.enable_env_runner_and_connector_v2:
        raise InvalidInput("expected RLlib's new API stack, got the old one; try config.api_stack()")
    found = load(task)
    settings = {
        "task": found,
        "config": configure(found, method, seed, steps, metric, threshold, backend="rllib"),
        "objects": objects_of(found, method, metric),
        "out": None if out is None else as_path(out, "out"),
    }
    callbacks = type("Curriculum", (CurriculumCallback,), settings)  # RLlib makes one in each of its processes
    name = f"geodesic-{found.name}-{uuid.uuid4().hex}"
    register_env(name, partial(_make, found))
    return config.environment(env=name).callbacks(callbacks_class=callbacks)


class CurriculumCallback(CurriculumView, RLlibCallback):
    """The callback that `with_curriculum` adds. Only the one in the algorithm's own process has a session."""

    task: Task
    config: RunConfig
    objects: Objects
    out: Path | None
    step = 0  # in finished episodes
    clock = 0  # of the environments; see `EpisodeRecorder`

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Start a run, or resume the one in the folder."""
        session = CurriculumSession.open(
            self.config, self.task, self.out, objects=self.objects, owner=OWNER, restore=self._restore
        )
        if session.restored is None:
            session.checkpoint({}, step=0, clock=0)
        self._session = session
        self._push(algorithm.env_runner_group)

    def _restore(self, kept: Checkpoint) -> None:
        """Continue from a checkpoint, before any file is changed."""
        self.step, self.clock = kept.count("step"), kept.count("clock")

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """Give finished episodes to the curriculum, and its distribution to the environments."""
        recorded = _call_all(algorithm.env_runner_group, "take_episodes")
        session = self._session
        if session is None:
            return
        if self.step < self.config.steps:  # a complete folder is not changed
            episodes = _merge(self.task, [batch for batch, _ in recorded])
            if len(episodes):
                in_order = episodes[np.argsort(episodes.ended, kind="stable")]
                ended = self.step + np.cumsum(in_order.lengths)
                self.step = int(ended[-1])
                session.observe(replace(in_order, ended=ended), self.step, min(started for _, started in recorded))
            self._push(algorithm.env_runner_group)
            session.checkpoint({}, step=self.step, clock=self.clock)
            if self.step >= self.config.steps:
                session.finish(self.step)
                session.close()
        result["curriculum"] = {"stage": self.stage, "alpha": self.alpha, "distance": session.distance}

    def on_evaluate_end(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Record an evaluation on the target."""
        played = _merge(self.task, [batch for batch, _ in _call_all(algorithm.eval_env_runner_group, "take_episodes")])
        if self._session is not None and len(played) and self.step < self.config.steps:
            self._session.log_evaluation(self.step, Evaluation(played.returns, played.successes, played.discounted))

    def on_env_runners_recreated(self, *, env_runner_group: Any, is_evaluation: bool, **kwargs: Any) -> None:
        """Send the distribution to environments that replace lost ones."""
        if not is_evaluation:
            self._push(env_runner_group)

    def _push(self, runners: Runners) -> None:
        """Send the curriculum's stage to all environments; clocks of new environments continue from the others'."""
        self.clock = max(self.clock, *_call_all(runners, "clock"))
        _call_all(runners, "enter", self.distribution, self.stage, self.clock)


class EpisodeRecorder(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps finished episodes until they are collected.

    The clock of an environment counts its steps and resets, as RLlib's vectors do both in one step, so that
    environments that run in parallel agree on which episode began first.
    """

    def __init__(self, env: gym.Env[Any, Any], dim: int, discount: float) -> None:
        super().__init__(env)
        self.discount = discount
        self.time = self.started = 0
        self._collector = EpisodeCollector(dim)
        self._total = self._discounted = 0.0
        self._length = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self.time += 1
        self.started, self._total, self._discounted, self._length = self.time, 0.0, 0.0, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.time += 1
        self._discounted += self.discount**self._length * float(reward)
        self._total, self._length = self._total + float(reward), self._length + 1
        if terminated or truncated:
            facts = self._total, self._length, int(info["stage"]), self._discounted, success_of(info)
            self._collector.add(info["context"], *facts, self.started, self.started + self._length)
            self.started = self.time + 1  # of the next episode
        return obs, reward, terminated, truncated, info

    def take_episodes(self) -> tuple[EpisodeBatch | None, int]:
        """The finished episodes, each once, and when the running one began."""
        return self._collector.batch(), self.started

    def clock(self) -> int:
        """The time of this environment."""
        return self.time

    def enter(self, distribution: Particles, stage: int, clock: int) -> None:
        """Draw from this distribution from the next reset on; an environment made late takes the others' time."""
        if not self.time:
            self.time = self.started = clock
        self.env.get_wrapper_attr("set_distribution")(distribution, stage)


def _make(task: Task, context: Any = None) -> EpisodeRecorder:
    return EpisodeRecorder(task.make(), task.space.dim, task.discount)


def _call_all(runners: Runners, method: str, *arguments: Any) -> list[Any]:
    """Call a method of `EpisodeRecorder` in every environment of every runner that has some."""

    def call(runner: Any) -> list[Any]:
        return [] if runner.env is None else list(runner.env.unwrapped.call(method, *arguments))

    return [given for own in runners.foreach_env_runner(call) for given in own]


def _merge(task: Task, batches: list[EpisodeBatch | None]) -> EpisodeBatch:
    """All episodes; returns that are not finite end the run."""
    merged = EpisodeBatch.empty(task.space.dim)
    for batch in batches:
        if batch is None:
            raise RunFailed("expected finite returns, got NaN or infinite ones")
        merged = merged.concatenate(batch)
    return merged
