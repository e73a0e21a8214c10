"""The trainer of the backends sb3 and sbx: Stable-Baselines3's own PPO and SAC, with the same hyperparameters as ours.

It is there so that our results can be checked against the learner that the paper used. Runs train one after the other,
segment by segment; what is random in a segment depends on the run's seed and the step alone. Episodes under way are
begun anew when a run is taken up again, so it differs from one that was not broken off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecNormalize

from geodesic.contexts import Arrays, Episodes, FloatArray, Particles
from geodesic.errors import InvalidInput, MissingExtra
from geodesic.integrations.sb3 import earlier
from geodesic.integrations.sb3.episodes import Heard
from geodesic.integrations.sb3.evaluation import Examiner
from geodesic.integrations.sb3.models import restore_model, save_model, shapes_of
from geodesic.records.archive import Headers
from geodesic.tasks import Task
from geodesic.training.trainer import Evaluation, Policy, Report

# our names of hyperparameters in theirs; what is not here is their policy's, or ours alone
NAMES = {
    "ppo": {
        "rollout": "n_steps", "batch_size": "batch_size", "epochs": "n_epochs", "learning_rate": "learning_rate",
        "gamma": "gamma", "gae_lambda": "gae_lambda", "clip": "clip_range", "entropy_coef": "ent_coef",
        "value_coef": "vf_coef", "max_grad_norm": "max_grad_norm",
    },
    "sac": {
        "rollout": "train_freq", "gradient_steps": "gradient_steps", "batch_size": "batch_size",
        "buffer_size": "buffer_size", "learning_starts": "learning_starts", "learning_rate": "learning_rate",
        "gamma": "gamma", "tau": "tau",
    },
}  # fmt: skip

# what their logger says of an update, in our words; their entropy is a loss
MEASURES = {
    "policy_gradient_loss": "policy_loss", "value_loss": "value_loss", "entropy_loss": "entropy", "approx_kl": "kl",
    "explained_variance": "explained_variance", "critic_loss": "critic_loss", "actor_loss": "actor_loss",
    "ent_coef": "entropy_coef",
}  # fmt: skip

Model = Any


def make_model(task: Task, learner: Any, library: str, seed: int) -> Model:
    """A model of theirs with the hyperparameters of ours, in environments that draw their contexts."""
    name = type(learner).__name__
    own = {theirs: getattr(learner, ours) for ours, theirs in NAMES[name.lower()].items()}
    policy: dict[str, Any] = {"net_arch": list(learner.net), "activation_fn": _activation(library, learner.activation)}
    if library == "sbx" and name == "PPO":
        policy["ortho_init"] = True  # as in Stable-Baselines3 itself
    env = make_vec_env(task.make, n_envs=learner.n_envs, seed=seed)
    if name == "PPO" and not learner.bootstrap:
        env = earlier.LimitsAsEnds(env)
    if name == "PPO" and learner.shared and learner.net:
        if library == "sbx":
            raise InvalidInput(
                "expected networks of their own for policy and value with sbx, which has no others, got shared=True; "
                "try --backend sb3, or --learner ppo:shared=false"
            )
        policy |= earlier.shared_policy(policy["net_arch"], policy["activation_fn"])
    if learner.normalize_observations:
        env = VecNormalize(env, norm_reward=False)
    try:
        model = getattr(import_module(_package(library)), name)(
            "MlpPolicy", env, policy_kwargs=policy, seed=seed, device="cpu", **own
        )
    except (AssertionError, ValueError, NotImplementedError) as error:
        said = " ".join(str(error).split())
        raise InvalidInput(
            f"expected a task that {library}'s {name} can take, got one of which it says: {said}"
        ) from error
    model.set_logger(Logger(None, []))
    return model


class SB3Trainer:
    """Runs of one task with Stable-Baselines3 or SBX (see `Trainer`)."""

    def __init__(
        self, task: Task, learner: Any, iterations: int, eval_episodes: int, eval_policy: str, library: str
    ) -> None:
        self.task = task
        self.learner = learner
        self.iterations = iterations
        self.library = library
        self.examiner = Examiner(task, eval_episodes, eval_policy)
        self._fresh = make_model(task, learner, library, 0)  # what does not fit is refused here
        self._models: list[Model] = []
        self._ears: list[Ear] = []

    @property
    def segment_steps(self) -> int:
        return int(self.iterations * self.learner.rollout * self.learner.n_envs)

    def prepare(self, runs: int) -> None:
        if self.library == "sb3":
            import torch

            torch.set_num_threads(1)  # networks this small gain nothing from more

    def begin(self, seeds: Sequence[int], distributions: Sequence[Particles]) -> None:
        self._models = [make_model(self.task, self.learner, self.library, seed) for seed in seeds]
        self._ears = [Ear(self.task, 0) for _ in seeds]
        for run, distribution in enumerate(distributions):
            self.enter(run, distribution, 0)

    def shapes(self) -> Headers:
        return shapes_of(self._fresh)

    open: str | None = None

    def restore(self, arrays: Sequence[Arrays], distributions: Sequence[Particles], stages: Sequence[int]) -> None:
        self._models = [make_model(self.task, self.learner, self.library, 0) for _ in arrays]
        for model, own in zip(self._models, arrays):
            restore_model(model, own)
        self._ears = [Ear(self.task, model.num_timesteps) for model in self._models]
        for run, (distribution, stage) in enumerate(zip(distributions, stages)):
            self.enter(run, distribution, stage)

    def save(self) -> list[Arrays]:
        return [save_model(model) for model in self._models]

    def enter(self, run: int, distribution: Particles, stage: int) -> None:
        self._models[run].env.env_method("set_distribution", distribution, stage)

    def start_segment(self) -> None:
        """Nothing: the segment runs in `finish_segment`."""

    def finish_segment(self, before: int) -> list[Report]:
        return [self._segment(run, before) for run in range(len(self._models))]

    def _segment(self, run: int, before: int) -> Report:
        model, ear = self._models[run], self._ears[run]
        state = np.random.SeedSequence([model.seed, before]).generate_state(1)[0]
        model.set_random_seed(int(state) >> 1)
        try:
            model.learn(self.segment_steps, callback=ear, reset_num_timesteps=False)
        except ValueError as error:
            if "nan" not in str(error).lower():  # which their distributions refuse
                raise
            return self._lost()
        report = ear.heard.report()
        finite = np.isfinite(report.returns).all() and np.isfinite(model.predict(model._last_obs)[0]).all()
        return replace(report, measures=measures_of(model)) if finite else self._lost()

    def _lost(self) -> Report:
        nothing, episodes = np.zeros(0, np.int64), Episodes.empty(self.task.space.dim)
        return Report(episodes, episodes.returns, nothing, nothing, 0, finite=False)

    def evaluate(self, seeds: Sequence[int], step: int) -> list[Evaluation]:
        return [self.examiner.evaluate(model, seed, step) for seed, model in zip(seeds, self._models)]

    def policy(self, arrays: Arrays, stochastic: bool = False, seed: int = 0) -> Policy:
        """The agent in a checkpoint of one run."""
        model = self._loaded(arrays, seed)
        normalizer = model.get_vec_normalize_env()

        def act(obs: Any) -> Any:
            seen = obs if normalizer is None else normalizer.normalize_obs(obs)
            return model.predict(seen, deterministic=not stochastic)[0]

        return act

    def score(self, arrays: Arrays, contexts: FloatArray, seed: int) -> Evaluation:
        """The same agent: an episode in each of the contexts (n, d)."""
        return self.examiner.examine(self._loaded(arrays, seed), contexts, np.random.default_rng(seed))

    def _loaded(self, arrays: Arrays, seed: int) -> Model:
        model = make_model(self.task, self.learner, self.library, seed)
        restore_model(model, arrays)
        model.set_random_seed(seed)
        return model


class Ear(BaseCallback):
    """Hears what ends."""

    def __init__(self, task: Task, step: int) -> None:
        super().__init__()
        self.task = task
        self.step = step
        self.heard: Heard

    def _init_callback(self) -> None:
        if not hasattr(self, "heard"):
            self.heard = Heard(self.task, self.training_env.num_envs, self.step)

    def _on_step(self) -> bool:
        self.heard.hear(self.num_timesteps, self.locals["rewards"], self.locals["dones"], self.locals["infos"])
        return True


def measures_of(model: Model) -> dict[str, float]:
    """What their logger has of the last update, by our names."""
    logged = model.logger.name_to_value
    named = {ours: logged.get(f"train/{theirs}") for theirs, ours in MEASURES.items()}
    found = {name: float(value) for name, value in named.items() if isinstance(value, (int, float, np.number))}
    return found if "entropy" not in found else {**found, "entropy": -found["entropy"]}


def _package(library: str) -> str:
    package = {"sb3": "stable_baselines3", "sbx": "sbx"}[library]
    try:
        import_module(package)
    except ImportError as error:
        raise MissingExtra({"sb3": "stable-baselines3", "sbx": "sbx-rl"}[library], library) from error
    return package


def _activation(library: str, name: str) -> Any:
    _package(library)
    if library == "sb3":
        return getattr(import_module("torch.nn"), {"tanh": "Tanh", "relu": "ReLU"}[name])
    return getattr(import_module("flax.linen"), name)
