"""Evaluating a Stable-Baselines3 model on the target, in separate environments."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.envs.gymnasium import success_of
from geodesic.errors import InvalidInput, format_error
from geodesic.tasks import Task
from geodesic.training.trainer import Evaluation

AT_ONCE = 10  # environments on the host
_EVALUATION = 0x6576616C  # sets the generators of evaluations apart

Model = Any
Stepped = tuple[Any, FloatArray, NDArray[np.bool_], FloatArray]  # observations, rewards, whether over, successes


class Evaluator:
    """Plays episodes on the target with a model's `predict`; its VecNormalize is applied and not updated."""

    def __init__(self, task: Task, episodes: int, policy: str) -> None:
        self.task = task
        self.episodes = episodes
        self.deterministic = policy == "deterministic"

    @cached_property
    def _rows(self) -> OnHost | InJax:
        return InJax(self.task, self.episodes) if self.task.in_jax else OnHost(self.task, self.episodes)

    def evaluate(self, model: Model, seed: int, step: int) -> Evaluation:
        """The same contexts for the same seed and step, whatever the model."""
        rng = np.random.default_rng([seed, _EVALUATION, step])
        return self.play(model, self.task.evaluation_particles.sample(rng, self.episodes), rng)

    def play(self, model: Model, contexts: FloatArray, rng: np.random.Generator) -> Evaluation:
        """Play an episode in each of the contexts (n, d)."""
        parts = range(0, len(contexts), self._rows.size)
        played = [self._play(model, contexts[i : i + self._rows.size], int(rng.integers(2**30))) for i in parts]
        return Evaluation(*(np.concatenate(each) for each in zip(*played)))

    def _play(self, model: Model, contexts: FloatArray, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Play one episode in each context: returns, successes and discounted returns."""
        rows, n = self._rows, len(contexts)
        returns, discounted, successes = np.zeros(n), np.zeros(n), np.full(n, np.nan)
        running, starts, weight, state = np.ones(n, np.bool_), np.ones(n, np.bool_), 1.0, None
        obs = rows.reset(contexts, seed)
        normalizer = model.get_vec_normalize_env()
        while running.any():
            seen = obs if normalizer is None else normalizer.normalize_obs(obs)
            try:
                actions, state = model.predict(seen, state, starts, self.deterministic)
            except ValueError as error:
                raise InvalidInput(
                    f"expected a model for the observations that task.make() gives, got {format_error(error)}; "
                    "try eval_freq=0, and evaluations of your own"
                ) from error
            obs, rewards, over, succeeded = rows.step(actions, running)
            returns += np.where(running, rewards, 0.0)
            discounted += np.where(running, weight * rewards, 0.0)
            successes = np.where(running & over, succeeded, successes)
            running, starts, weight = running & ~over, np.zeros(n, np.bool_), weight * self.task.discount
        return returns, successes, discounted


class OnHost:
    """A few environments on the host, stepped one after the other; the model acts in all of them at once."""

    def __init__(self, task: Task, most: int) -> None:
        self.size = min(most, AT_ONCE)
        self.envs = [task.make() for _ in range(self.size)]
        self._obs: list[Any] = []

    def reset(self, contexts: FloatArray, seed: int) -> Any:
        """Start an episode in each of the contexts (n, d)."""
        pairs = enumerate(zip(self.envs, contexts))
        self._obs = [env.reset(seed=seed + i, options={"context": context})[0] for i, (env, context) in pairs]
        return self._stacked()

    def step(self, actions: Any, running: NDArray[np.bool_]) -> Stepped:
        """Take a step in the running episodes."""
        n = len(self._obs)
        rewards, over, successes = np.zeros(n), np.ones(n, np.bool_), np.full(n, np.nan)
        for i in np.flatnonzero(running):
            self._obs[i], reward, terminated, truncated, info = self.envs[i].step(actions[i])
            rewards[i], over[i] = float(reward), terminated or truncated
            successes[i] = success_of(info)
        return self._stacked(), rewards, over, successes

    def _stacked(self) -> Any:
        space: gym.Space[Any] = self.envs[0].observation_space
        into: Any = create_empty_array(space, len(self._obs))
        return concatenate(space, self._obs, into)


class InJax:
    """All episodes in one compiled program."""

    def __init__(self, task: Task, size: int) -> None:
        from geodesic.envs.cmdp import VectorContextualEnv

        self.size = size
        self._places = np.arange(size)  # episodes; the last again where fewer are asked for
        self.envs = VectorContextualEnv(task.env, task.space, task.target_particles, size, "Disabled")

    def reset(self, contexts: FloatArray, seed: int) -> Any:
        """Start an episode in each of the contexts (n, d)."""
        self._places = np.minimum(np.arange(self.size), len(contexts) - 1)
        return self.envs.reset(seed=seed, options={"context": contexts[self._places]})[0][: len(contexts)]

    def step(self, actions: Any, running: NDArray[np.bool_]) -> Stepped:
        """Take a step in the running episodes."""
        obs, rewards, terminated, truncated, info = self.envs.step(np.asarray(actions)[self._places])
        flags = np.asarray(info.get("is_success", np.full(self.size, np.nan)), np.float64)
        n = len(running)
        return obs[:n], rewards[:n], (terminated | truncated)[:n], flags[:n]
