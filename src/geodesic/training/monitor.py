"""Warnings about a run while it trains, and the same ones from its folder.

Everything is decided at evaluations, from numbers that the run's tables record. So a resumed run knows what the
interrupted one has noticed, and no result depends on any of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from geodesic.checks import FloatArray, IntArray
from geodesic.curricula import REGISTRY
from geodesic.curricula.hedged import Record
from geodesic.records.config import RunConfig
from geodesic.records.schema import EpisodeTable, EvaluationTable, StageTable

Kind = Literal["no progress", "target solved", "no success"]

PATIENCE = 0.25  # of the budget, after which a stage that does not improve is reported
MOVED = 0.01  # alpha has risen if it is so much higher
WINDOW = 20  # episodes in a mean score of training
LEAST = 60  # episodes of a stage before it is reported
QUIET = 5  # evaluations without progress, likewise
EVALUATIONS = 3  # in a mean score on the target
IN_A_ROW = 5  # evaluations above the level
HALFWAY = 0.5  # alpha is low below, and looks fine from there on
OFTEN = 0.5  # the fraction of contexts without a success that is reported
MEMORY = 500  # episodes among which a success is looked for
RECENT = 100  # episodes whose contexts count
NEAR = 20  # episodes that are near a context

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Notice:
    """Something that the user of a run should know while it trains.

    Args:
        kind: What it is about.
        step: The evaluation at which it was noticed.
        text: The warning, without the name of the run.
    """

    kind: Kind
    step: int
    text: str


class Monitor:
    """Watches a run and notices each kind of trouble once.

        no progress     no rise of alpha and no clear improvement, in training or on the target, for a quarter of the
                        budget and five evaluations (`Record` says what is clear)
        target solved   five evaluations in a row above the level that counts as solved, while alpha is low
        no success      near most of the contexts trained on last, none of the latest episodes succeeded, although alpha
                        looks fine

    Args:
        config: The configuration of the run.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.notices: list[Notice] = []
        self.farthest, self.began, self.since = -1.0, 0, 0  # the highest alpha: its first stage, and the step of that
        self.follows_path = follows_path(config.method)
        self.threshold = config.stated_threshold  # the last one in force
        self._categorical = [k for k, name in enumerate(config.contexts) if name in config.categories]
        self._stage, self._alpha = 0, 0.0
        self._contexts = np.zeros((0, len(config.contexts)))  # of the latest episodes
        self._results = np.zeros((0, 2))  # their scores and successes
        self._recent = np.zeros((0, 2))  # scores and returns since alpha rose
        self._episodes = 0  # since then
        self._training, self._target = Record(), Record()
        self._levels: list[float] = []
        self._quiet = 0  # evaluations without progress

    def enter(self, stage: int, step: int, alpha: float, threshold: float | None) -> None:
        """Note a new stage; threshold: the one in force, where it changes during training."""
        self._stage, self._alpha = stage, alpha
        self.follows_path |= 0.0 < alpha < 1.0
        if threshold is not None and math.isfinite(threshold):
            self.threshold = threshold
        if alpha > self.farthest + MOVED or alpha == 1.0 > self.farthest:
            self.farthest, self.began, self.since = alpha, stage, step
            self._episodes, self._recent, self._training, self._quiet = 0, self._recent[:0], Record(), 0

    def observe(
        self, stages: IntArray, scores: FloatArray, returns: FloatArray, successes: FloatArray, contexts: FloatArray
    ) -> None:
        """Note episodes (n,) that ended; only the latest ones are kept."""
        own = stages >= self.began
        self._episodes += int(own.sum())
        self._recent = np.concatenate([self._recent, np.stack([scores, returns], axis=1)[own]])[-WINDOW:]
        self._results = np.concatenate([self._results, np.stack([scores, successes], axis=1)])[-MEMORY:]
        self._contexts = np.concatenate([self._contexts, contexts])[-MEMORY:]

    def evaluate(self, step: int, score: float, mean_return: float) -> list[Notice]:
        """What an evaluation on the target adds to the notices."""
        self._training = self._training.observe(self._recent, WINDOW, step)
        self._target = self._target.observe(np.array([[score, mean_return]]), EVALUATIONS, step)
        self._levels = [*self._levels, score][-IN_A_ROW:]
        moves = step in (self.since, self._training.improved, self._target.improved)
        self._quiet = 0 if moves or not self._episodes else self._quiet + 1
        checks: dict[Kind, Callable[[], str]] = {
            "no progress": partial(self._no_progress, step),
            "target solved": self._target_solved,
            "no success": self._no_success,
        }
        for notice in self.notices:
            del checks[notice.kind]
        found = [Notice(kind, step, text) for kind, check in checks.items() if (text := check())]
        self.notices += found
        return found

    @property
    def _succeeded(self) -> Mask:
        """Which of the latest episodes succeeded: scored above the threshold, if the environment does not say."""
        scores, successes = self._results.T
        return scores > self.threshold if np.isnan(successes).any() else successes > 0

    def failing_fraction(self) -> float:
        """The fraction of the contexts trained on last near which no success was seen; NaN: unknown."""
        return failing_fraction(self._contexts, self._succeeded, self._categorical)

    def _no_progress(self, step: int) -> str:
        improved = max(self.since, self._training.improved, self._target.improved)
        waiting = self.follows_path and self.farthest < 1.0 and self._episodes >= LEAST and self._quiet >= QUIET
        if not waiting or step - improved < PATIENCE * self.config.steps:
            return ""
        required = f", its threshold is {self.threshold:.4g}" if math.isfinite(self.threshold) else ""
        return (
            f"stage {self._stage} (alpha {self._alpha:.2f}) has not improved for {step - improved:,.0f} steps: "
            f"its mean {self.config.score_name} is {self._training.score:.4g}{required}"
        )

    def _target_solved(self) -> str:
        level = self.config.solved
        above = level is not None and len(self._levels) == IN_A_ROW and min(self._levels) > level
        if not above or not self.follows_path or self._alpha >= HALFWAY:
            return ""
        return (
            f"the target is already solved at alpha {self._alpha:.2f} (mean {self.config.score_name} "
            f"{np.mean(self._levels):.4g}, above {level:g}); training on the target alone may be enough"
        )

    def _no_success(self) -> str:
        fine = self.follows_path and self._alpha >= HALFWAY
        seldom = self._succeeded[-RECENT:].sum() < OFTEN * RECENT  # else the fraction is lower
        fraction = self.failing_fraction() if fine and seldom else math.nan
        if not fraction >= OFTEN:
            return ""
        return (
            f"no success was seen near {fraction:.0%} of the contexts trained on last, although alpha is "
            f'{self._alpha:.2f}; a higher threshold or score="success" would wait for it'
        )


def replay(config: RunConfig, episodes: EpisodeTable, evaluations: EvaluationTable, stages: StageTable) -> Monitor:
    """The monitor of a run as it is after the last row of its tables."""
    monitor, entered, seen = Monitor(config), 0, 0
    contexts = episodes.contexts.reshape(len(episodes.steps), len(config.contexts))  # also if there is no file
    thresholds = stages.numbers().get("threshold", np.full(len(stages.steps), math.nan))

    def until(step: float) -> None:
        nonlocal entered, seen
        while entered < len(stages.steps) and stages.steps[entered] <= step:
            row = (int(stages.stages[entered]), int(stages.steps[entered]), float(stages.alphas[entered]))
            monitor.enter(*row, float(thresholds[entered]))
            entered += 1
        new = slice(seen, seen := int(np.searchsorted(episodes.steps, step, side="right")))
        scores, returns, successes = (each[new] for each in (episodes.scores, episodes.returns, episodes.successes))
        monitor.observe(episodes.stages[new], scores, returns, successes, contexts[new])

    with np.errstate(all="ignore"):  # a table may hold numbers that are not finite
        for step, score, mean_return in zip(evaluations.steps, evaluations.scores, evaluations.returns):
            until(step)
            monitor.evaluate(int(step), float(score), float(mean_return))
        until(math.inf)
    return monitor


def follows_path(method: str) -> bool:
    """Whether a registered method moves from a source to a target, so that its alpha says how far it has come."""
    known = [REGISTRY.known(name) for name in REGISTRY]
    found = REGISTRY.known(method) or next(
        (each for each in known if getattr(each, "__qualname__", "") == method), None
    )
    return is_dataclass(found) and {"source", "target"} <= {field.name for field in fields(found)}


def failing_fraction(contexts: FloatArray, succeeded: Mask, categorical: Sequence[int] = ()) -> float:
    """The fraction of the latest contexts near which no episode succeeded.

    Near a context are the 20 closest of the episodes, or more if several are equally close. The distance between
    contexts is the sum over their values, each in units of its range; different categories are one apart.

    Args:
        contexts: The contexts (n, d) of episodes, oldest first.
        succeeded: Which of them (n,) succeeded.
        categorical: The columns of the context values that are categories.

    Returns:
        The fraction of the last 100 contexts; NaN with fewer episodes.
    """
    if len(contexts) < RECENT:
        return math.nan
    spread = np.ptp(contexts, axis=0)
    gaps = np.abs(contexts[-RECENT:, None] - contexts) / np.where(spread > 0, spread, 1.0)
    for column in categorical:
        gaps[..., column] = gaps[..., column] > 0
    distances = gaps.sum(axis=2)
    near = distances <= np.partition(distances, NEAR - 1, axis=1)[:, NEAR - 1 : NEAR]
    return float(1.0 - (near & succeeded).any(axis=1).mean())
