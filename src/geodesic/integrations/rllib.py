"""Curricula for RLlib's new API stack: `geodesic.rllib.with_curriculum`."""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from geodesic.checks import as_path
from geodesic.contexts import Episodes, Particles
from geodesic.curricula import State
from geodesic.errors import InvalidInput, MissingExtra, shown
from geodesic.integrations.scores import score_of
from geodesic.records import RunConfig, RunFolder, begun, finished, read_config
from geodesic.tasks import Task, load
from geodesic.training.lesson import Lesson
from geodesic.training.teacher import own_config
from geodesic.training.trainer import Evaluation, Report

try:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.callbacks.callbacks import RLlibCallback
    from ray.tune.registry import register_env
except ImportError as error:
    raise MissingExtra("RLlib", "rllib") from error

HERE = uuid.uuid4().hex  # an algorithm that is built later in this process may take over what one before has left

Runners = Any  # a group of RLlib's environment runners
Row = tuple[Any, ...]  # began, context, stage, return, length, success, discounted return


def with_curriculum(
    config: Any,
    task: Task | str,
    method: str = "gradient",
    out: str | Path | None = None,
    seed: int = 0,
    steps: int | None = None,
    metric: str | None = None,
    threshold: float | None = None,
) -> Any:
    """An algorithm's configuration with the task as its environment and a curriculum beside it.

        config = gd.rllib.with_curriculum(PPOConfig().env_runners(num_env_runners=4), task, "gradient", out="runs/mine")
        algorithm = config.build_algo()
        for _ in range(100):
            algorithm.train()

    After every `train` the episodes that have ended go to the curriculum, in the order in which they began, and a new
    distribution goes to all environments, which draw from it at their next reset. What `config.evaluation(...)` plays
    is played on the target, and recorded. The folder is complete after `steps` (default: the task's) in episodes that
    have ended. It keeps the curriculum alone: with the algorithm restored by RLlib's own checkpoint, the same folder
    goes on at its stage.
    """
    if not isinstance(config, AlgorithmConfig):
        raise InvalidInput(f"expected the configuration of an algorithm, such as PPOConfig(), got {shown(config)}")
    if not config.enable_env_runner_and_connector_v2:
        raise InvalidInput("expected RLlib's new API stack, got the old one; try config.api_stack()")
    found = load(task)
    own = own_config(found, method, seed, steps, metric, threshold)
    settings = {
        "task": found,
        "config": own.replace(backend="rllib"),
        "out": None if out is None else as_path(out, "out"),
    }
    callbacks = type("Curriculum", (CurriculumCallback,), settings)  # RLlib makes one in each of its processes
    name = f"geodesic-{found.name}-{uuid.uuid4().hex}"
    register_env(name, partial(_make, found))
    return config.environment(env=name).callbacks(callbacks_class=callbacks)


class CurriculumCallback(RLlibCallback):
    """What `with_curriculum` puts beside an algorithm. Only the one in the algorithm's own process has a lesson."""

    task: Task
    config: RunConfig
    out: Path | None
    lesson: Lesson | None = None
    step = 0  # in episodes that have ended
    clock = 0  # of the environments; see `Heard`

    @property
    def state(self) -> State:
        """Where the curriculum stands."""
        if self.lesson is None:
            raise InvalidInput("expected an algorithm that has been built before asking where its curriculum stands")
        return self.lesson.state

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        folder = None if self.out is None else RunFolder(self.out, self.config, HERE)
        lesson = Lesson(self.config, self.task, folder)
        lesson.claim()
        try:
            if folder is not None and begun(folder.path):
                self.step, self.clock = _go_on(lesson, folder)
            else:
                lesson.begin()
                lesson.save({}, step=0, clock=0)
        except BaseException:
            lesson.release()
            raise
        self.lesson = lesson
        self._push(algorithm.env_runner_group)

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        heard = _each(algorithm.env_runner_group, "hear")
        lesson = self.lesson
        if lesson is None:
            return
        rows = sorted((row for own, _ in heard for row in own), key=lambda row: row[0] + row[4])  # as they ended
        if self.step < self.config.steps:  # a folder that is complete stays as it is
            if rows:
                report = _report(self.task, rows, self.step, min(began for _, began in heard))
                self.step = int(report.ended[-1])
                lesson.take(report, self.step)
            self._push(algorithm.env_runner_group)
            lesson.save({}, step=self.step, clock=self.clock)
            if self.step >= self.config.steps:
                lesson.finish(self.step)
                lesson.release()
        result["curriculum"] = {"stage": self.state.stage, "alpha": self.state.alpha, "distance": lesson.distance}

    def on_evaluate_end(self, *, algorithm: Any, **kwargs: Any) -> None:
        rows = [row for own, _ in _each(algorithm.eval_env_runner_group, "hear") for row in own]
        if self.lesson is not None and rows and self.step < self.config.steps:
            report = _report(self.task, rows, 0, 0)
            played = report.episodes
            self.lesson.evaluated(self.step, Evaluation(report.returns, played.successes, played.returns))

    def on_env_runners_recreated(self, *, env_runner_group: Any, is_evaluation: bool, **kwargs: Any) -> None:
        if not is_evaluation:
            self._push(env_runner_group)

    def _push(self, runners: Runners) -> None:
        """Episodes that begin from now on are of the curriculum's stage, and clocks of new environments go on."""
        self.clock = max(self.clock, *_each(runners, "clock"))
        _each(runners, "enter", self.state.distribution, self.state.stage, self.clock)


class Heard(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps the episodes that ended until they are asked for.

    The clock of an environment counts its steps and resets, as RLlib's vectors do both in one step: so those that run
    side by side agree on what began first.
    """

    def __init__(self, env: gym.Env[Any, Any], discount: float) -> None:
        super().__init__(env)
        self.discount = discount
        self.time = self.began = 0
        self._rows: list[Row] = []
        self._total = self._discounted = 0.0
        self._length = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.time += 1
        self.began, self._total, self._discounted, self._length = self.time, 0.0, 0.0, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.time += 1
        self._discounted += self.discount**self._length * float(reward)
        self._total, self._length = self._total + float(reward), self._length + 1
        if terminated or truncated:
            success = float(info.get("is_success", np.nan))
            facts = self._total, self._length, success, self._discounted
            self._rows.append((self.began, np.asarray(info["context"], np.float64), int(info["stage"]), *facts))
            self.began = self.time + 1  # of the next one
        return obs, reward, terminated, truncated, info

    def hear(self) -> tuple[list[Row], int]:
        """The episodes that ended, once, and when the one under way began."""
        rows, self._rows = self._rows, []
        return rows, self.began

    def clock(self) -> int:
        return self.time

    def enter(self, distribution: Particles, stage: int, clock: int) -> None:
        """Draw from here from the next reset on; an environment that was made late takes the others' time."""
        if not self.time:
            self.time = self.began = clock
        self.env.get_wrapper_attr("set_distribution")(distribution, stage)


def _make(task: Task, context: Any = None) -> Heard:
    return Heard(task.make(), task.discount)


def _each(runners: Runners, method: str, *arguments: Any) -> list[Any]:
    """What a method of `Heard` gives in every environment of every runner that has some."""

    def call(runner: Any) -> list[Any]:
        return [] if runner.env is None else list(runner.env.unwrapped.call(method, *arguments))

    return [given for own in runners.foreach_env_runner(call) for given in own]


def _report(task: Task, rows: list[Row], before: int, under_way: int) -> Report:
    began, contexts, stages, returns, lengths, successes, discounted = (np.array(each) for each in zip(*rows))
    scores = np.array([score_of(task, *each) for each in zip(returns, successes, discounted)])
    episodes = Episodes(contexts, scores, lengths, stages, successes)
    return Report(episodes, returns, before + np.cumsum(lengths), began, under_way)


def _go_on(lesson: Lesson, folder: RunFolder) -> tuple[int, int]:
    """The curriculum as the folder has it; the step and the time it stands at."""
    if read_config(folder.path).to_json() != folder.config.to_json():
        raise InvalidInput(f"{folder.path} holds another run (see its config.json); try another out=")
    if finished(folder.path):
        raise InvalidInput(f"the run in {folder.path} is finished; try another out=")
    kept = lesson.restore({})
    lesson.take_up()
    return kept.count("step"), kept.count("clock")
