"""Episodes out of Stable-Baselines3's `infos`, in the order in which they began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from geodesic.contexts import Episodes, FloatArray
from geodesic.errors import InvalidInput
from geodesic.integrations.scores import score_of
from geodesic.tasks import Task
from geodesic.training.trainer import Report

Info = Mapping[str, Any]


class Heard:
    """What ended since the last report. Steps are those of the run, over all its environments."""

    def __init__(self, task: Task, n_envs: int, step: int) -> None:
        self.task = task
        self._began = np.full(n_envs, step)  # of the episodes under way
        self._discounted, self._weight = np.zeros(n_envs), np.ones(n_envs)
        self._rows: list[tuple[Any, ...]] = []

    def hear(self, step: int, rewards: FloatArray, dones: Sequence[bool], infos: Sequence[Info]) -> bool:
        """One step of all environments, the run's last; whether an episode ended."""
        self._discounted += self._weight * rewards
        self._weight *= self.task.discount
        ended = np.flatnonzero(dones)
        for place in ended.tolist():
            when = step - len(infos) + place + 1  # environments are stepped one after the other
            self._rows.append((when, self._began[place], *self._facts(infos[place], float(self._discounted[place]))))
            self._began[place], self._discounted[place], self._weight[place] = step, 0.0, 1.0
        return len(ended) > 0

    def report(self) -> Report:
        """Everything that was heard, once."""
        rows, self._rows = self._rows, []
        if not rows:
            nothing, empty = np.zeros(0, np.int64), Episodes.empty(self.task.space.dim)
            return Report(empty, empty.returns, nothing, nothing, int(self._began.min()))
        ended, began, contexts, returns, lengths, stages, successes, scores = (np.array(each) for each in zip(*rows))
        episodes = Episodes(contexts, scores, lengths, stages, successes)
        return Report(episodes, returns.astype(np.float64), ended, began, int(self._began.min()))

    def _facts(self, info: Info, discounted: float) -> tuple[Any, ...]:
        """Context, return, length, stage, success and score of an episode, from its last info."""
        if "context" not in info or "stage" not in info:
            raise InvalidInput(
                "expected the context of an episode in info, got none; try environments made by task.make"
            )
        if "episode" not in info:
            raise InvalidInput(
                "expected info['episode'] at an episode's end, got none; try make_vec_env(task.make), "
                "or Monitor(env) around each environment"
            )
        earned, length = float(info["episode"]["r"]), int(info["episode"]["l"])
        success = float(info.get("is_success", np.nan))
        score = score_of(self.task, earned, success, discounted)
        return np.asarray(info["context"], np.float64), earned, length, int(info["stage"]), success, score
