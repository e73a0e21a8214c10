"""A curriculum beside Stable-Baselines3's own `learn`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from geodesic.checks import as_integer, as_nonnegative, as_path
from geodesic.curricula import State
from geodesic.errors import CheckpointError, InvalidInput, RunFailed
from geodesic.integrations.sb3.episodes import Heard
from geodesic.integrations.sb3.evaluation import Examiner
from geodesic.integrations.sb3.models import PREFIX, name_of, restore_model, save_model
from geodesic.records import RunConfig, RunFolder, begun, finished, read_config
from geodesic.tasks import Task, load
from geodesic.training.lesson import Lesson
from geodesic.training.teacher import own_config

EVALUATIONS = 20  # of a run, where nobody says
WRITE_EVERY = 1.0  # seconds
HERE = uuid.uuid4().hex  # a later `learn` of this process may take over what one that failed has left

VecEnv = Any


class CurriculumCallback(BaseCallback):
    """A curriculum for any algorithm of Stable-Baselines3 or SBX.

        env = make_vec_env(task.make, n_envs=16, vec_env_cls=SubprocVecEnv)
        model = PPO("MlpPolicy", env)
        model.learn(500_000, callback=gd.sb3.CurriculumCallback(task, "gradient", out="runs/mine"))

    It collects the episodes that end, moves the environments to a new distribution when the curriculum does, evaluates
    on the target every `eval_freq` steps (default: 20 times; 0: never) and keeps a run folder, in which, every
    `save_every` seconds, the model, its replay buffer, its VecNormalize and the curriculum are saved as one file. A
    script that was killed and is started again goes on from there, to as many steps in all; its episodes under way
    begin anew. Replay buffer and VecNormalize are kept when a stage ends: old transitions still say what the
    environment does in their contexts, which observations carry, and running moments follow of themselves.
    """

    def __init__(
        self,
        task: Task | str,
        method: str = "gradient",
        out: str | Path | None = None,
        seed: int = 0,
        eval_freq: int | None = None,
        save_every: float = 20.0,
        metric: str | None = None,
        threshold: float | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self.task = load(task)
        self.out = None if out is None else as_path(out)
        self.eval_freq = None if eval_freq is None else as_integer(eval_freq, "eval_freq (0: never)")
        self.save_every = as_nonnegative(save_every, "save_every")
        self._own = own_config(self.task, method, seed, None, metric, threshold)
        self._lesson: Lesson | None = None
        self._examiner = Examiner(self.task, self.task.eval_episodes, self.task.eval_policy)
        self._of_stage = 0  # episodes
        self._evaluated = -1  # the step of the last evaluation
        self._left_off = 0  # the step at which `learn` last ended
        self._saved = self._written = 0.0

    @property
    def lesson(self) -> Lesson:
        if self._lesson is None:
            raise InvalidInput("expected model.learn(..., callback=this) before asking where its curriculum stands")
        return self._lesson

    @property
    def state(self) -> State:
        """Where the curriculum stands."""
        return self.lesson.state

    @property
    def stage(self) -> int:
        return self.state.stage

    @property
    def alpha(self) -> float:
        return self.state.alpha

    # --- what Stable-Baselines3 calls ---------------------------------------------------------------------------------

    def _on_training_start(self) -> None:
        _check_environments(self.training_env, self.task)
        _guard(self.training_env, self._death)
        if self._lesson is None:
            self._begin()
        else:
            self._go_on()
        self._heard = Heard(self.task, self.training_env.num_envs, self.model.num_timesteps)
        self._started = time.monotonic()

    def _on_step(self) -> bool:
        if self._heard.hear(self.num_timesteps, self._rewards(), self.locals["dones"], self.locals["infos"]):
            report = self._heard.report()
            new = self.lesson.take(report, self.num_timesteps)
            self._of_stage = 0 if new else self._of_stage + int((report.episodes.stages == self.stage).sum())
            if new:
                self._enter()
        if self._every and self.num_timesteps >= (max(self._evaluated, 0) // self._every + 1) * self._every:
            self._evaluate()
        if time.monotonic() - self._written > WRITE_EVERY:
            self.lesson.write()
            self._written = time.monotonic()
        return True

    def _on_rollout_start(self) -> None:
        """Everything collected has been learned from: what is saved now loses nothing."""
        if time.monotonic() - self._saved >= self.save_every:
            self._save()

    def _on_rollout_end(self) -> None:
        self.logger.record("curriculum/stage", self.stage)
        self.logger.record("curriculum/alpha", self.alpha)
        self.logger.record("curriculum/distance", self.lesson.distance)
        self.logger.record("curriculum/episodes", self._of_stage)

    def _on_training_end(self) -> None:
        lesson, done = self.lesson, self.num_timesteps >= self.lesson.config.steps
        self._left_off = self.num_timesteps
        if not (self.out is not None and finished(self.out)):
            if done and self._every:
                self._evaluate()
            self._save()
            if done:
                lesson.finish(self.num_timesteps, seconds=time.monotonic() - self._started, runs_at_once=1)
        lesson.release()

    # ------------------------------------------------------------------------------------------------------------------

    @property
    def _every(self) -> int:
        steps = self.lesson.config.steps
        return max(1, steps // EVALUATIONS) if self.eval_freq is None else self.eval_freq

    def _begin(self) -> None:
        """A new run, or one that was broken off."""
        config = self._described()
        folder = None if self.out is None else RunFolder(self.out, config, HERE)
        self._lesson = Lesson(config, self.task, folder)
        try:
            self._lesson.claim()
            if folder is not None and begun(folder.path):
                self._restore(folder)
            else:
                self._lesson.begin()
            self._enter()
            self._reset()
            if self._evaluated < 0 and self._every:
                self._evaluate()
            if not (folder is not None and finished(folder.path)):
                self._save()
        except BaseException:
            self._lesson.release()
            self._lesson = None
            raise

    def _described(self) -> RunConfig:
        library = type(self.model).__module__.split(".")[0]
        backend = "sbx" if library == "sbx" else "sb3"
        own = {"algorithm": name_of(self.model)}
        return self._own.replace(steps=int(self.model._total_timesteps), backend=backend, learner_options=own)

    def _restore(self, folder: RunFolder) -> None:
        earlier = read_config(folder.path)
        if earlier.replace(steps=folder.config.steps).to_json() != folder.config.to_json():
            raise InvalidInput(f"{folder.path} holds another run (see its config.json); try another out=")
        kept = self.lesson.restore({}, free=PREFIX)
        restore_model(self.model, kept.arrays)
        if self.model.num_timesteps != kept.count("step"):
            raise CheckpointError(f"{kept.path} is of another version: its model is at step {self.model.num_timesteps}")
        self.num_timesteps = self.model._num_timesteps_at_start = self.model.num_timesteps
        self._evaluated, self._of_stage = kept.count("evaluated") - 1, kept.count("of_stage")
        self.lesson.take_up()
        self._reopen(folder, earlier)

    def _go_on(self) -> None:
        """`learn` was called once more."""
        if self.model.num_timesteps < self._left_off:
            raise InvalidInput(
                "expected learn(..., reset_num_timesteps=False) where training goes on in the same run, got a new count"
            )
        self.lesson.claim()
        folder = self.lesson.folder
        earlier, self.lesson.config = self.lesson.config, self._described()
        if folder is not None:
            folder.config = self.lesson.config
            self._reopen(folder, earlier)

    def _reopen(self, folder: RunFolder, earlier: RunConfig) -> None:
        """A run that is asked for more steps is not finished any more, and says so."""
        if self.model.num_timesteps < folder.config.steps:
            folder.reopen()
            if earlier.steps != folder.config.steps:
                folder.describe()

    def _enter(self) -> None:
        """Episodes that begin from now on are of the curriculum's stage."""
        self.training_env.env_method("set_distribution", self.state.distribution, self.stage)

    def _reset(self) -> None:
        """`learn` has reset the environments before it called us: again, from the right distribution and seed."""
        seed = int(np.random.SeedSequence([self._own.seed, self.model.num_timesteps]).generate_state(1)[0]) >> 1
        if self.model.seed is not None and self.model.num_timesteps > 0:
            self.model.set_random_seed(seed)
        self.training_env.seed(seed)
        self.model._last_obs = self.training_env.reset()
        self.model._last_episode_starts = np.ones(self.training_env.num_envs, np.bool_)
        normalizer = self.model.get_vec_normalize_env()
        if normalizer is not None:
            self.model._last_original_obs = normalizer.get_original_obs()

    def _rewards(self) -> Any:
        """As the environments gave them."""
        normalizer = self.model.get_vec_normalize_env()
        return self.locals["rewards"] if normalizer is None else normalizer.get_original_reward()

    def _evaluate(self) -> None:
        if self.num_timesteps == self._evaluated:
            return
        found = self._examiner.evaluate(self.model, self._own.seed, self.num_timesteps)
        self._evaluated = self.num_timesteps
        self.lesson.evaluated(self.num_timesteps, found)
        self.logger.record("curriculum/target", self.lesson.target_score)

    def _save(self) -> None:
        agent = {} if self.lesson.folder is None else save_model(self.model)
        counts = {"step": self.num_timesteps, "evaluated": self._evaluated + 1, "of_stage": self._of_stage}
        self.lesson.save(agent, **counts)
        self._saved = time.monotonic()

    def _death(self, env: VecEnv) -> RunFailed:
        workers = getattr(env, "processes", ())
        wait([worker.sentinel for worker in workers], timeout=5.0)  # its pipe ends before it does
        codes = {place: worker.exitcode for place, worker in enumerate(workers) if worker.exitcode is not None}
        who = ", ".join(f"{place} (exit code {code})" for place, code in codes.items()) or "of another process"
        kept = "nothing was kept, since no out= was given"
        if self.out is not None:
            kept = f"the last checkpoint is in {self.out}; start the script again to go on from there"
        return RunFailed(f"environment {who} died after step {self.num_timesteps}; {kept}")


def _check_environments(env: VecEnv, task: Task) -> None:
    if not (env.has_attr("set_distribution") and env.has_attr("context_space")):
        raise InvalidInput(
            "expected environments that take contexts, got others; try make_vec_env(task.make, n_envs=8), or "
            "gd.ContextWrapper(env, contexts, apply) around each"
        )
    for space in env.get_attr("context_space"):
        if space.names != task.space.names:
            raise InvalidInput(
                f"expected environments with the task's contexts {', '.join(task.space.names)}, "
                f"got {', '.join(space.names)}; try make_vec_env(task.make)"
            )


def _guard(env: VecEnv, death: Callable[[VecEnv], RunFailed]) -> None:
    """A worker process that dies is an error of ours, not the end of a pipe."""
    base = env.unwrapped
    for name in ("step_async", "step_wait"):
        inner = getattr(type(base), name)

        def guarded(*actions: Any, inner: Callable[..., Any] = inner) -> Any:
            try:
                return inner(base, *actions)
            except (EOFError, ConnectionError) as error:
                raise death(base) from error

        setattr(base, name, guarded)
