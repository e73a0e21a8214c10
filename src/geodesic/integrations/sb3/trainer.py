"""The trainer of the backends sb3 and sbx: PPO and SAC of Stable-Baselines3 with the same hyperparameters as ours.

It lets you check our results against the learner that the paper used. Runs train one after the other, segment by
segment; randomness in a segment depends only on the run's seed and the step. Running episodes start over when a run is
resumed, so a resumed run differs from an uninterrupted one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecNormalize

from geodesic.contexts import Arrays, FloatArray, Particles
from geodesic.envs.gymnasium import is_image
from geodesic.errors import CheckpointError, InvalidInput, MissingExtra, format_error
from geodesic.integrations.sb3 import legacy
from geodesic.integrations.sb3.description import describe
from geodesic.integrations.sb3.episodes import InfoCollector, refuse_without_advantages
from geodesic.integrations.sb3.evaluation import Evaluator
from geodesic.integrations.sb3.models import PREFIX, restore_model, save_model, save_policy
from geodesic.records import RunConfig
from geodesic.records.archive import Headers
from geodesic.tasks import Task
from geodesic.training.trainer import Evaluation, Policy, SegmentResult, Trainer

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

# names of their logger's values in ours; their entropy is a loss
METRICS = {
    "policy_gradient_loss": "policy_loss", "value_loss": "value_loss", "entropy_loss": "entropy", "approx_kl": "kl",
    "explained_variance": "explained_variance", "critic_loss": "critic_loss", "actor_loss": "actor_loss",
    "ent_coef": "entropy_coef",
}  # fmt: skip

LIBRARIES = {"sb3": ("stable_baselines3", "stable-baselines3"), "sbx": ("sbx", "sbx-rl")}  # module and project

Model = Any


def make_model(task: Task, learner: Any, library: str, seed: int) -> Model:
    """Create their model with our hyperparameters, in environments that draw their contexts."""
    name = type(learner).__name__
    if type(learner).__module__ != f"geodesic.learners.{name.lower()}":
        raise InvalidInput(f"expected PPO or SAC with the backend {library}, got {name}; try --backend jax")
    own = {theirs: getattr(learner, ours) for ours, theirs in NAMES[name.lower()].items()}
    policy: dict[str, Any] = {"net_arch": list(learner.net), "activation_fn": _activation(library, learner.activation)}
    if library == "sbx" and name == "PPO":
        policy["ortho_init"] = True  # as in Stable-Baselines3 itself
    env = make_vec_env(task.make, n_envs=learner.n_envs, seed=seed)
    if name == "PPO" and not learner.bootstrap:
        env = legacy.LimitsAsEnds(env)
    if name == "PPO" and learner.shared and learner.net:
        if library == "sbx":
            raise InvalidInput(
                "expected separate networks for policy and value with sbx, which cannot share them, got shared=True; "
                "try --backend sb3, or --learner ppo:shared=false"
            )
        policy |= legacy.shared_policy(policy["net_arch"], policy["activation_fn"])
    named = isinstance(env.observation_space, spaces.Dict)
    vectors = [key for key, space in env.observation_space.items() if not is_image(space)] if named else None
    if learner.normalize_observations and not is_image(env.observation_space) and vectors != []:
        env = VecNormalize(env, norm_reward=False, norm_obs_keys=vectors)
    kind = "MultiInputPolicy" if named else "CnnPolicy" if is_image(env.observation_space) else "MlpPolicy"
    try:
        with warnings.catch_warnings():
            # the task sets both sizes, and a shorter last batch is no error
            warnings.filterwarnings("ignore", "You have specified a mini-batch size")
            model = getattr(_imported(library), name)(kind, env, policy_kwargs=policy, seed=seed, device="cpu", **own)
    except (AssertionError, ValueError, NotImplementedError) as error:
        said = format_error(error)
        raise InvalidInput(f"expected a task that {library}'s {name} can take, got {said}") from error
    model.set_logger(Logger(None, []))
    return model


class SB3Trainer(Trainer):
    """Runs of one task with Stable-Baselines3 or SBX (see `Trainer`)."""

    unchecked = PREFIX

    def __init__(self, task: Task, learner: Any, config: RunConfig, value_errors: bool = False) -> None:
        self.task = task
        self.value_errors = value_errors
        self.learner = learner
        self.library = config.backend
        self.segment_steps = config.segment * learner.rollout * learner.n_envs
        self.evaluator = Evaluator(task, config.eval_episodes, config.eval_policy)
        model = make_model(task, learner, self.library, 0)  # refuses a learner that does not fit
        if value_errors:
            refuse_without_advantages(model)
        self.description = describe(model)

    def prepare(self, runs: int) -> None:
        """Start slow preparations for this many runs in the background."""
        if self.library == "sb3":
            import torch

            torch.set_num_threads(1)  # networks this small gain nothing from more

    def begin(self, seeds: Sequence[int], distributions: Sequence[Particles]) -> None:
        """Create fresh agents, on the first stages."""
        models = [make_model(self.task, self.learner, self.library, seed) for seed in seeds]
        self._train_on(models, distributions, [0] * len(models))

    def shapes(self) -> Headers:
        """Nothing: what `save` gives is checked when it is restored."""
        return {}

    def restore(
        self, arrays: Sequence[Arrays], distributions: Sequence[Particles], stages: Sequence[int], step: int
    ) -> None:
        """Restore agents and environments from what `save` gave."""
        models = [self.model(own, 0) for own in arrays]
        for model in models:
            if model.num_timesteps != step:
                raise CheckpointError(f"damaged checkpoint: expected a model at step {step}, got {model.num_timesteps}")
        self._train_on(models, distributions, stages)

    def _train_on(self, models: list[Model], distributions: Sequence[Particles], stages: Sequence[int]) -> None:
        self._models = models
        kept = self.value_errors
        self._collectors = [InfoCollector(self.task, model.n_envs, model.num_timesteps, kept) for model in models]
        for run, (distribution, stage) in enumerate(zip(distributions, stages)):
            self.enter(run, distribution, stage)

    def save(self) -> list[Arrays]:
        """Everything that decides the rest of each run, as named arrays."""
        return [save_model(model) for model in self._models]

    def save_policies(self) -> list[Arrays]:
        """Those of the arrays of `save` that the actions of each run depend on."""
        return [save_policy(model) for model in self._models]

    def enter(self, run: int, distribution: Particles, stage: int) -> None:
        """Draw the contexts of this run's next episodes from here."""
        self._models[run].env.env_method("set_distribution", distribution, stage)

    def finish_segment(self, before: int) -> list[SegmentResult | None]:
        """Wait for the segment; None for a run that diverged."""
        return [self._segment(run, before) for run in range(len(self._models))]

    def _segment(self, run: int, before: int) -> SegmentResult | None:
        model, collector = self._models[run], self._collectors[run]
        state = np.random.SeedSequence([model.seed, before]).generate_state(1)[0]
        model.set_random_seed(int(state) >> 1)

        try:
            model.learn(self.segment_steps, callback=Collecting(collector), reset_num_timesteps=False)
        except ValueError as error:
            if "nan" not in str(error).lower():  # which their distributions refuse
                raise
            return None
        episodes = collector.batch()
        if episodes is None or not np.isfinite(model.predict(model._last_obs)[0]).all():
            return None
        return SegmentResult(episodes, collector.earliest_running, metrics_of(model))

    def evaluate(self, seeds: Sequence[int], step: int) -> list[Evaluation]:
        """Evaluate each run's policy on the target."""
        return [self.evaluator.evaluate(model, seed, step) for seed, model in zip(seeds, self._models)]

    def policy(self, arrays: Arrays, stochastic: bool = False, seed: int = 0) -> Policy:
        """The agent in a checkpoint of one run."""
        model = self.model(arrays, seed)
        model.set_random_seed(seed)
        normalizer = model.get_vec_normalize_env()

        def act(obs: Any) -> Any:
            seen = obs if normalizer is None else normalizer.normalize_obs(obs)
            return model.predict(seen, deterministic=not stochastic)[0]

        return act

    def evaluate_contexts(self, arrays: Arrays, contexts: FloatArray, seed: int) -> Evaluation:
        """Play that agent for one episode in each of the contexts (n, d)."""
        model = self.model(arrays, seed)
        model.set_random_seed(seed)
        return self.evaluator.play(model, contexts, np.random.default_rng(seed))

    def model(self, arrays: Arrays, seed: int) -> Model:
        """The model in a checkpoint of one run."""
        model = make_model(self.task, self.learner, self.library, seed)
        restore_model(model, arrays)
        return model


class Collecting(BaseCallback):
    """Gives every step, and the end of every rollout, to a collector."""

    def __init__(self, collector: InfoCollector) -> None:
        super().__init__()
        self.collector = collector

    def _on_step(self) -> bool:
        given = self.locals["rewards"], self.locals["dones"], self.locals["infos"]
        self.collector.step(self.num_timesteps, *given)
        return True

    def _on_rollout_end(self) -> None:
        self.collector.end_rollout(self.model)


def metrics_of(model: Model) -> dict[str, float]:
    """Their logger's values of the last update, by our names."""
    logged = model.logger.name_to_value
    named = {ours: logged.get(f"train/{theirs}") for theirs, ours in METRICS.items()}
    found = {name: float(value) for name, value in named.items() if isinstance(value, (int, float, np.number))}
    return found if "entropy" not in found else {**found, "entropy": -found["entropy"]}


def _imported(library: str) -> Any:
    module, project = LIBRARIES[library]
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(project, library) from error


def _activation(library: str, name: str) -> Any:
    if library == "sb3":
        return getattr(import_module("torch.nn"), {"tanh": "Tanh", "relu": "ReLU"}[name])
    return getattr(import_module("flax.linen"), name)
