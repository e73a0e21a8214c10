"""A Stable-Baselines3 model on the target, in environments of its own."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.errors import InvalidInput
from geodesic.integrations.scores import score_of
from geodesic.tasks import Task
from geodesic.training.trainer import Evaluation

AT_ONCE = 10  # environments on the host
_EVALUATION = 0x6576616C  # sets the generators of evaluations apart

Model = Any
Stepped = tuple[Any, FloatArray, NDArray[np.bool_], FloatArray]  # observations, rewards, whether over, successes


class Examiner:
    """Plays episodes on the target with a model's own `predict`; its VecNormalize is honoured and left as it is."""

    def __init__(self, task: Task, episodes: int, policy: str) -> None:
        self.task = task
        self.episodes = episodes
        self.deterministic = policy == "deterministic"
        self._rows: OnHost | InJax | None = None

    def evaluate(self, model: Model, seed: int, step: int) -> Evaluation:
        """The same contexts for the same seed and step, whatever the model."""
        rng = np.random.default_rng([seed, _EVALUATION, step])
        return self.examine(model, self.task.evaluation_particles.sample(rng, self.episodes), rng)

    def examine(self, model: Model, contexts: FloatArray, rng: np.random.Generator) -> Evaluation:
        """An episode in each of the contexts (n, d)."""
        if self._rows is None:
            self._rows = InJax(self.task, self.episodes) if self.task.in_jax else OnHost(self.task, self.episodes)
        parts = range(0, len(contexts), self._rows.size)
        played = [self._play(model, contexts[i : i + self._rows.size], int(rng.integers(2**30))) for i in parts]
        returns, successes, discounted = (np.concatenate(each) for each in zip(*played))
        scores = [score_of(self.task, *each) for each in zip(returns, successes, discounted)]
        return Evaluation(returns, successes, np.array(scores))

    def _play(self, model: Model, contexts: FloatArray, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """One episode in each context: returns, successes and discounted returns."""
        rows, n = self._rows, len(contexts)
        if rows is None:
            raise InvalidInput("expected environments to play in, got none")
        returns, discounted, successes = np.zeros(n), np.zeros(n), np.full(n, np.nan)
        going, starts, weight, state = np.ones(n, np.bool_), np.ones(n, np.bool_), 1.0, None
        obs = rows.reset(contexts, seed)
        normalizer = model.get_vec_normalize_env()
        while going.any():
            seen = obs if normalizer is None else normalizer.normalize_obs(obs)
            try:
                actions, state = model.predict(seen, state, starts, self.deterministic)
            except ValueError as error:
                raise InvalidInput(
                    f"expected a model of the observations that task.make() gives, got {' '.join(str(error).split())}; "
                    "try eval_freq=0, and evaluations of your own"
                ) from error
            obs, rewards, over, told = rows.step(actions, going)
            returns += np.where(going, rewards, 0.0)
            discounted += np.where(going, weight * rewards, 0.0)
            successes = np.where(going & over, told, successes)
            going, starts, weight = going & ~over, np.zeros(n, np.bool_), weight * self.task.discount
        return returns, successes, discounted


class OnHost:
    """A few environments of the host, stepped one after the other; the model looks at all of them at once."""

    def __init__(self, task: Task, most: int) -> None:
        self.size = min(most, AT_ONCE)
        self.envs = [task.make() for _ in range(self.size)]
        self._obs: list[Any] = []

    def reset(self, contexts: FloatArray, seed: int) -> Any:
        pairs = enumerate(zip(self.envs, contexts))
        self._obs = [env.reset(seed=seed + i, options={"context": context})[0] for i, (env, context) in pairs]
        return self._stacked()

    def step(self, actions: Any, going: NDArray[np.bool_]) -> Stepped:
        n = len(self._obs)
        rewards, over, successes = np.zeros(n), np.ones(n, np.bool_), np.full(n, np.nan)
        for i in np.flatnonzero(going):
            self._obs[i], reward, terminated, truncated, info = self.envs[i].step(actions[i])
            rewards[i], over[i] = float(reward), terminated or truncated
            successes[i] = float(info.get("is_success", np.nan))
        return self._stacked(), rewards, over, successes

    def _stacked(self) -> Any:
        space: gym.Space[Any] = self.envs[0].observation_space
        into: Any = create_empty_array(space, len(self._obs))
        return concatenate(space, self._obs, into)


class InJax:
    """All episodes in one compiled program."""

    def __init__(self, task: Task, size: int) -> None:
        from geodesic.envs.vector import VectorContextualEnv

        self.size = size
        self._places = np.arange(size)  # episodes; the last again where fewer are asked for
        self.envs = VectorContextualEnv(task.env, task.space, task.target_particles, size, "Disabled")

    def reset(self, contexts: FloatArray, seed: int) -> Any:
        self._places = np.minimum(np.arange(self.size), len(contexts) - 1)
        return self.envs.reset(seed=seed, options={"context": contexts[self._places]})[0][: len(contexts)]

    def step(self, actions: Any, going: NDArray[np.bool_]) -> Stepped:
        obs, rewards, terminated, truncated, info = self.envs.step(np.asarray(actions)[self._places])
        told = np.asarray(info.get("is_success", np.full(self.size, np.nan)), np.float64)
        n = len(going)
        return obs[:n], rewards[:n], (terminated | truncated)[:n], told[:n]
