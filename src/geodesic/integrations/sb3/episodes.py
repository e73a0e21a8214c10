"""Episodes from Stable-Baselines3's `infos`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geodesic.contexts import EpisodeBatch, FloatArray
from geodesic.envs.gymnasium import success_of
from geodesic.errors import InvalidInput
from geodesic.tasks import Task
from geodesic.training.collector import EpisodeCollector, ErrorSums

Info = Mapping[str, Any]


def refuse_without_advantages(model: Any) -> None:
    """Refuse an algorithm that does not compute the advantage of each step."""
    if not hasattr(getattr(model, "rollout_buffer", None), "advantages"):
        raise InvalidInput(
            f"expected an on-policy algorithm for this method, which needs advantages, got {type(model).__name__}; "
            "try PPO or A2C, or the backend jax"
        )


class InfoCollector(EpisodeCollector):
    """Collects episodes from the infos of a vector environment; steps are those of the run, over all environments."""

    def __init__(self, task: Task, n_envs: int, step: int, value_errors: bool = False) -> None:
        super().__init__(task.space.dim)
        self._sums = ErrorSums(n_envs) if value_errors else None  # of the advantages
        self._dones: list[NDArray[np.bool_]] = []  # of the steps since the last rollout
        self._ended: list[FloatArray] = []  # sums of episodes that ended in a finished rollout
        self.discount = task.discount
        self._started = np.full(n_envs, step)  # of the running episodes
        self._discounted, self._weight = np.zeros(n_envs), np.ones(n_envs)

    @property
    def earliest_running(self) -> int:
        """The earliest start among the running episodes."""
        return int(self._started.min())

    def step(self, step: int, rewards: FloatArray, dones: Sequence[bool], infos: Sequence[Info]) -> bool:
        """Add one step of all environments, the run's last; return whether an episode ended."""
        self._discounted += self._weight * rewards
        self._weight *= self.discount
        over = np.flatnonzero(dones)
        if self._sums is not None:
            self._dones.append(np.array(dones, np.bool_))
        for place in over.tolist():
            ended = step - len(infos) + place + 1  # environments are stepped one after the other
            self._add(infos[place], float(self._discounted[place]), int(self._started[place]), ended)
            self._started[place], self._discounted[place], self._weight[place] = step, 0.0, 1.0
        return len(over) > 0

    def end_rollout(self, model: Any) -> None:
        """Add the advantages of a rollout, which the model has just computed, to those of the episodes in it."""
        if self._sums is not None:
            self._ended.append(self._sums.add(model.rollout_buffer.advantages, np.array(self._dones)))
            self._dones = []

    def batch(self) -> EpisodeBatch | None:
        """The episodes, with value losses if they are kept: those are known at the end of a rollout."""
        episodes = super().batch()
        if not self._ended or episodes is None:
            return episodes
        sums, self._ended = np.concatenate(self._ended), []
        return episodes.with_value_errors(sums)

    def _add(self, info: Info, discounted: float, started: int, ended: int) -> None:
        """Add the episode that this info is the last of."""
        missing = [name for name in ("context", "stage", "episode") if name not in info]
        if missing:
            raise InvalidInput(
                f"expected info[{missing[0]!r}] at an episode's end, got none; try make_vec_env(task.make), "
                "or Monitor(env) around each environment"
            )
        total, length = float(info["episode"]["r"]), int(info["episode"]["l"])
        stage = int(info["stage"])
        self.add(info["context"], total, length, stage, discounted, success_of(info), started, ended)
