"""A curriculum for Stable-Baselines3's own `learn`."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from geodesic.checks import as_integer, as_nonnegative, as_path
from geodesic.curricula.base import Threshold
from geodesic.errors import CheckpointError, InvalidInput, RunFailed
from geodesic.integrations.sb3.description import describe
from geodesic.integrations.sb3.episodes import InfoCollector, refuse_without_advantages
from geodesic.integrations.sb3.evaluation import Evaluator
from geodesic.integrations.sb3.models import PREFIX, name_of, restore_model, save_model, save_policy
from geodesic.metrics.standard import Maker
from geodesic.records import Checkpoint, RunConfig, finished, run_exists
from geodesic.tasks import Task, load
from geodesic.tasks.check import quick_check
from geodesic.tasks.methods import Method
from geodesic.training.configure import configure, evaluation_schedule, objects_of
from geodesic.training.session import CurriculumSession, CurriculumView, keep_schedule

WRITE_EVERY = 1.0  # seconds
OWNER = uuid.uuid4().hex  # a later `learn` of this process may take over the folder of one that failed

VecEnv = Any


class CurriculumCallback(CurriculumView, BaseCallback):
    """A curriculum for any algorithm of Stable-Baselines3 or SBX.

    The callback collects finished episodes, moves the environments to a new distribution when the curriculum does,
    evaluates on the target, and keeps a run folder in which the model, its replay buffer, its VecNormalize and the
    curriculum are saved as one file. A script that was killed resumes from there when you start it again, to as many
    steps in total; the episodes that were running start over. Replay buffer and VecNormalize are kept when a stage
    ends: old transitions are still valid in their contexts, which observations contain, and running moments adapt.

    Args:
        task: A `Task`, the name of a built-in task, or a reference.
        method: A name with options, a reference, a `Curriculum`, or a function `Problem -> Curriculum`.
        out: The run's folder (default: nothing is recorded).
        seed: The seed of everything random in the curriculum.
        eval_freq: Environment steps between two evaluations on the target; 0: never (default: 20 evaluations per run,
            fewer if they would cost more than a fifth of its steps; see `EvaluationSettings`).
        save_every: Seconds between two checkpoints.
        metric: The distance between contexts, by name or as an object (default: the task's).
        threshold: The score above which a stage is mastered (default: the task's).
        verbose: 1: print a line when a run is resumed; 0: print nothing.

    Raises:
        InvalidInput: If an argument is invalid.

    Example:
        A script that trains on a task::

            env = make_vec_env(task.make, n_envs=16, vec_env_cls=SubprocVecEnv)
            model = PPO("MlpPolicy", env)
            model.learn(500_000, callback=gd.sb3.CurriculumCallback(task, "gradient", out="runs/mine"))
    """

    def __init__(
        self,
        task: Task | str,
        method: Method = "auto",
        out: str | Path | None = None,
        seed: int = 0,
        eval_freq: int | None = None,
        save_every: float = 20.0,
        metric: str | Maker | None = None,
        threshold: Threshold | None = None,
        verbose: int = 1,
    ) -> None:
        super().__init__(verbose)
        self.task = load(task)
        self.out = None if out is None else as_path(out)
        self.eval_freq = None if eval_freq is None else as_integer(eval_freq, "eval_freq (0: never)")
        self.save_every = as_nonnegative(save_every, "save_every")
        self._config = configure(self.task, method, seed, None, metric, threshold, backend="own")
        self._objects = objects_of(self.task, method, metric)
        self._stage_episodes = 0
        self._evaluated = -1  # the step of the last evaluation
        self._stopped_at = 0  # the step at which `learn` last ended
        self._saved = self._written = 0.0

    # --- called by Stable-Baselines3 ----------------------------------------------------------------------------------

    def _on_training_start(self) -> None:
        _check_environments(self.training_env, self.task)
        _guard(self.training_env, self._death)
        if self._session is None:
            self._open()
        else:
            self._continue(self._session)
        waits = self._waits = self.session.curriculum.needs_value_losses  # for the rollout's end, to observe
        self._collector = InfoCollector(self.task, self.training_env.num_envs, self.model.num_timesteps, waits)
        self._started = time.monotonic()

    def _on_step(self) -> bool:
        ended = self._collector.step(self.num_timesteps, self._rewards(), self.locals["dones"], self.locals["infos"])
        if ended and not self._waits:
            self._observe()
        if self._every and self.num_timesteps >= (max(self._evaluated, 0) // self._every + 1) * self._every:
            self._evaluate()
        if time.monotonic() - self._written > WRITE_EVERY:
            self.session.write()
            self._written = time.monotonic()
        return True

    def _on_rollout_start(self) -> None:
        """Save here, where all collected transitions have been learned from, so that a checkpoint loses none."""
        if time.monotonic() - self._saved >= self.save_every:
            self._save()

    def _on_rollout_end(self) -> None:
        self._collector.end_rollout(self.model)
        if self._waits:
            self._observe()
        self.logger.record("curriculum/stage", self.stage)
        self.logger.record("curriculum/alpha", self.alpha)
        self.logger.record("curriculum/distance", self.session.distance)
        self.logger.record("curriculum/episodes", self._stage_episodes)

    def _on_training_end(self) -> None:
        session, done = self.session, self.num_timesteps >= self.session.config.steps
        self._stopped_at = self.num_timesteps
        if not (self.out is not None and finished(self.out)):
            if done and self._every:
                self._evaluate()
            self._save()
            if done:
                session.finish(self.num_timesteps, seconds=time.monotonic() - self._started, runs_at_once=1)
        session.close()

    # ------------------------------------------------------------------------------------------------------------------

    @property
    def _every(self) -> int:
        return self.session.config.eval_every if self.eval_freq is None else self.eval_freq

    def _open(self) -> None:
        """Start a new run, or resume the one in the folder."""
        config = self._described()
        if self.eval_freq != 0 and not (self.out is not None and run_exists(self.out)):
            quick_check(self.task)
        self._session = CurriculumSession.open(
            config,
            self.task,
            self.out,
            objects=self._objects,
            owner=OWNER,
            unchecked=PREFIX,
            restore=self._restore,
            extend=True,
        )
        try:
            if self._session.curriculum.needs_value_losses:
                refuse_without_advantages(self.model)
            if self._session.restored is not None:
                self._session.extend(config, self.model.num_timesteps)
                if self.verbose:
                    done = f"step {self.model.num_timesteps} of {config.steps}, stage {self.stage}"
                    sys.stdout.write(f"Resuming at {done} from {self.out}\n")
            self._evaluator = Evaluator(self.task, config.eval_episodes, config.eval_policy)
            self._enter()
            self._reset()
            if self._evaluated < 0 and self._every:
                self._evaluate()
            if not (self.out is not None and finished(self.out)):
                self._save()
        except BaseException:
            self._session.close()
            self._session = None
            raise

    def _described(self) -> RunConfig:
        library = type(self.model).__module__.split(".")[0]
        backend = "sbx" if library == "sbx" else "sb3"
        own, steps = {"algorithm": name_of(self.model)}, int(self.model._total_timesteps)
        every, episodes = (1, 1) if self.eval_freq == 0 else evaluation_schedule(self.task, steps, self.eval_freq)
        described = self._config.replace(
            steps=steps, backend=backend, learner_options=own, eval_every=every, eval_episodes=episodes
        )
        return described if self.out is None else keep_schedule(described, self.out, self.task)

    def _restore(self, kept: Checkpoint) -> None:
        """Restore the model before any file is changed."""
        restore_model(self.model, kept.arrays)
        if self.model.num_timesteps != kept.count("step"):
            raise CheckpointError(f"{kept.path} is of another version: its model is at step {self.model.num_timesteps}")
        self.num_timesteps = self.model._num_timesteps_at_start = self.model.num_timesteps
        self._evaluated = kept.count("evaluated") - 1
        self._stage_episodes = kept.count("stage_episodes")

    def _continue(self, session: CurriculumSession) -> None:
        """Train on after an earlier `learn` of this object."""
        if self.model.num_timesteps < self._stopped_at:
            raise InvalidInput(
                "expected learn(..., reset_num_timesteps=False) to continue the same run, got a new count of steps"
            )
        session.extend(self._described(), self.model.num_timesteps)

    def _observe(self) -> None:
        """Give the episodes that ended to the curriculum."""
        episodes = self._collector.batch()
        if episodes is None:
            raise RunFailed("expected finite returns, got NaN or infinite ones")
        new = self.session.observe(episodes, self.num_timesteps, self._collector.earliest_running)
        self._stage_episodes = 0 if new else self._stage_episodes + int((episodes.stages == self.stage).sum())
        if new:
            self._enter()

    def _enter(self) -> None:
        """Draw the contexts of the next episodes from the curriculum's stage."""
        self.training_env.env_method("set_distribution", self.state.distribution, self.stage)

    def _reset(self) -> None:
        """Reset the environments again: `learn` has reset them before it called us, from another distribution."""
        seed = int(np.random.SeedSequence([self._config.seed, self.model.num_timesteps]).generate_state(1)[0]) >> 1
        if self.model.seed is not None and self.model.num_timesteps > 0:
            self.model.set_random_seed(seed)
        self.training_env.seed(seed)
        self.model._last_obs = self.training_env.reset()
        self.model._last_episode_starts = np.ones(self.training_env.num_envs, np.bool_)
        normalizer = self.model.get_vec_normalize_env()
        if normalizer is not None:
            self.model._last_original_obs = normalizer.get_original_obs()

    def _rewards(self) -> Any:
        """The rewards that the environments gave, before normalisation."""
        normalizer = self.model.get_vec_normalize_env()
        return self.locals["rewards"] if normalizer is None else normalizer.get_original_reward()

    def _evaluate(self) -> None:
        if self.num_timesteps == self._evaluated:
            return
        evaluation = self._evaluator.evaluate(self.model, self._config.seed, self.num_timesteps)
        self._evaluated = self.num_timesteps
        policy = {} if self.out is None else save_policy(self.model)
        self.session.log_evaluation(self.num_timesteps, evaluation, policy)
        self.logger.record("curriculum/target", self.session.target_score)

    def _save(self) -> None:
        agent = {} if self.out is None else save_model(self.model)
        counts = {"step": self.num_timesteps, "evaluated": self._evaluated + 1, "stage_episodes": self._stage_episodes}
        self.session.checkpoint(agent, **counts, policy=describe(self.model))
        self._saved = time.monotonic()

    def _death(self, env: VecEnv) -> RunFailed:
        workers = getattr(env, "processes", ())
        wait([worker.sentinel for worker in workers], timeout=5.0)  # its pipe ends before it does
        codes = {place: worker.exitcode for place, worker in enumerate(workers) if worker.exitcode is not None}
        who = ", ".join(f"{place} (exit code {code})" for place, code in codes.items()) or "of another process"
        kept = "nothing was kept, since no out= was given"
        if self.out is not None:
            kept = f"the last checkpoint is in {self.out}; start the script again to resume from there"
        return RunFailed(f"environment {who} died after step {self.num_timesteps}; {kept}")


def _check_environments(env: VecEnv, task: Task) -> None:
    if not (env.has_attr("set_distribution") and env.has_attr("context_space")):
        raise InvalidInput(
            "expected environments that take contexts, got others; try make_vec_env(task.make, n_envs=8), or "
            "gd.ContextWrapper(env, contexts, set_context) around each"
        )
    for space in env.get_attr("context_space"):
        if (space.names, space.values) != (task.space.names, task.space.values):
            raise InvalidInput(
                f"expected environments with the task's contexts {', '.join(task.space.names)}, "
                f"got {', '.join(space.names)}; try make_vec_env(task.make)"
            )


def _guard(env: VecEnv, death: Callable[[VecEnv], RunFailed]) -> None:
    """Report a worker process that dies, instead of the end of its pipe."""
    base = env.unwrapped
    for name in ("step_async", "step_wait"):
        inner = getattr(type(base), name)

        def guarded(*actions: Any, inner: Callable[..., Any] = inner) -> Any:
            try:
                return inner(base, *actions)
            except (EOFError, ConnectionError) as error:
                raise death(base) from error

        setattr(base, name, guarded)
